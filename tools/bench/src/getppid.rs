//! What a tracer adds to each system call that is no sync.

use fsynctop::model::AttachMode;

use crate::calls::{Column, Measured, Shape};
use crate::load::Call;
use crate::section::{Goal, Section, Verdict};
use crate::sync::{table, values};
use crate::tracer::Tracer;

pub fn section(measured: &Measured) -> Section {
    let mut section = Section {
        title: "Added to each system call that is no sync".into(),
        about: vec![format!(
            "The same for `getppid`, which does next to nothing: {}. While any syscall tracepoint is in use, every \
             system call of every process takes the kernel's slow path; fentry touches only the calls it watches.",
            measured.effort()
        )],
        tables: vec![table(measured, Call::Getppid)],
        values: values(measured, Call::Getppid),
        ..Section::default()
    };
    for (shape, column) in measured.of(Call::Getppid) {
        section.goals.extend(goals_of(measured, shape, column));
    }
    section
}

fn goals_of(measured: &Measured, shape: &Shape, column: &Column) -> Vec<Goal> {
    let mut goals = Vec::new();
    for mode in [AttachMode::Fentry, AttachMode::Kprobe, AttachMode::Tracepoint] {
        let own = measured.at(Tracer::Fsynctop(mode)).map(|at| column.added(at));
        let empty = measured.at(Tracer::Empty(mode)).map(|at| column.added(at));
        let (Some(own), Some(empty)) = (own, empty) else { continue };
        // No more: the intervals overlap, or the difference is too little to tell (1 % of the call).
        let met = own.low <= empty.high || own.median <= empty.median + column.nothing() / 100.0;
        let what = format!(
            "getppid, {}: fsynctop ({mode}) against two empty programs, {mode}",
            shape.name,
            mode = mode.name()
        );
        let limit = format!("no more: {} ns", empty.show(1));
        goals.push(Goal::new(what, limit, format!("{} ns", own.show(1)), Verdict::of(met)));
    }
    goals
}
