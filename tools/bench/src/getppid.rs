//! What a tracer adds to each system call that is no sync.

use fsynctop::model::AttachMode;

use crate::calls::{Column, Measured, Shape};
use crate::load::Call;
use crate::section::{Bar, Section};
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
        section.bars.extend(bars_of(measured, shape, column));
    }
    section
}

fn bars_of(measured: &Measured, shape: &Shape, column: &Column) -> Vec<Bar> {
    let find = |tracer| measured.tracers.iter().position(|&other| other == tracer);
    let mut bars = Vec::new();
    if let (Some(own), Some(script)) =
        (find(Tracer::Fsynctop(AttachMode::Tracepoint)), find(Tracer::Bpftrace))
    {
        let (own, script) = (column.added(own), column.added(script));
        // The two put the call on the same path: no more means that their intervals meet.
        let met = own.median <= script.median || own.low <= script.high;
        let what = format!("getppid, {}: fsynctop (tracepoint) adds no more than bpftrace", shape.name);
        bars.push(Bar::new(what, format!("{} ns", script.show(0)), format!("{} ns", own.show(0)), met));
    }
    for mode in [AttachMode::Fentry, AttachMode::Kprobe] {
        let Some(own) = find(Tracer::Fsynctop(mode)) else { continue };
        let own = column.added(own);
        let base = column.nothing();
        // Nothing at all: within the noise, or too little to tell (1 % of the call).
        let met = own.low <= 0.0 || own.median <= base / 100.0;
        let what = format!("getppid, {}: fsynctop ({}) adds nothing", shape.name, mode.name());
        bars.push(Bar::new(what, "0 ns", format!("{} ns", own.show(1)), met));
    }
    bars
}
