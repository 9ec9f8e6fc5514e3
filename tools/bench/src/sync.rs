//! What a tracer adds to each fsync.

use fsynctop::model::AttachMode;
use serde_json::json;

use crate::calls::{Column, Measured, Shape};
use crate::load::Call;
use crate::section::{Goal, Section, Table, Verdict};
use crate::tracer::Tracer;

/// Of what two programs add that only read the clock, as every tracer of latencies must.
const MOST_OF_CLOCK: f64 = 1.5;

pub fn section(measured: &Measured) -> Section {
    let mut section = Section {
        title: "Added to each fsync".into(),
        about: vec![format!(
            "Nanoseconds that a call of `fsync` on tmpfs takes longer, where the call itself does nothing. The load is \
             one thread on each CPU with a file of its own, in a process called `mysqld` (traced) or otherwise (a \
             neighbour, which fsynctop counts by device and command and the script passes over). {}, in turns with blocks \
             with nothing attached. A virtual machine whose processors are shared runs at one speed for a second and at \
             another for the next, a seventh apart: what is compared is the lower quartile of the blocks, which is at the \
             faster speed; in brackets the interval that holds it with 95 % confidence. What each tracer had counted in \
             the end was compared with what the load had done.",
            measured.effort()
        )],
        tables: vec![table(measured, Call::Fsync)],
        values: values(measured, Call::Fsync),
        ..Section::default()
    };
    for mode in [AttachMode::Fentry, AttachMode::Kprobe, AttachMode::Tracepoint] {
        for (shape, column) in measured.of(Call::Fsync) {
            section.goals.extend(goals_of(measured, mode, shape, column));
        }
        let traced = measured.of(Call::Fsync).find(|(shape, _)| shape.who.is_traced());
        section.notes.extend(traced.and_then(|(_, column)| clock_note(measured, mode, column)));
    }
    if !measured.tracers.contains(&Tracer::Fsynctop(AttachMode::Fentry)) {
        section.notes.push("This kernel has no fentry; its figures come from a guest, below.".into());
    }
    section
}

/// What a latency costs at the least, and what fsynctop does beyond it.
fn clock_note(measured: &Measured, mode: AttachMode, column: &Column) -> Option<String> {
    let added = |tracer| Some(column.added(measured.at(tracer)?).median);
    let (empty, clock) = (added(Tracer::Empty(mode))?, added(Tracer::Clock(mode))?);
    let own = added(Tracer::Fsynctop(mode))?;
    Some(format!(
        "{}: a latency takes two readings of the clock, which cost {:.0} ns of the {clock:.0} ns that the hooks and they \
         take together. The other {:.0} ns find the thread's state, the file and its row, and add to the row.",
        mode.name(),
        clock - empty,
        own - clock,
    ))
}

fn goals_of(measured: &Measured, mode: AttachMode, shape: &Shape, column: &Column) -> Vec<Goal> {
    let Some(own) = measured.at(Tracer::Fsynctop(mode)) else { return Vec::new() };
    let compare = |other: Tracer, limit: &str, is_met: fn(f64) -> bool| {
        let ratio = column.ratio(own, column, measured.at(other)?);
        let what = format!("fsync, {}: fsynctop ({}) against {}", shape.name, mode.name(), other.name());
        Some(Goal::new(what, limit, ratio.show(2), Verdict::of(is_met(ratio.median))))
    };
    let goals = [
        compare(Tracer::Clock(mode), "1.5 x", |ratio| ratio <= MOST_OF_CLOCK),
        compare(Tracer::Bpftrace, "less", |ratio| ratio < 1.0),
    ];
    goals.into_iter().flatten().collect()
}

/// A row for each tracer, a column for each shape.
pub fn table(measured: &Measured, call: Call) -> Table {
    let shapes: Vec<_> = measured.of(call).map(|(shape, _)| shape.name.clone()).collect();
    let mut table = Table::new("Added nanoseconds for each call", &["attached"]);
    table.header.extend(shapes);
    let nothing = measured.of(call).map(|(_, column)| format!("{:.0} in all", column.nothing()));
    table.row(std::iter::once("nothing".to_owned()).chain(nothing));
    for (i, tracer) in measured.tracers.iter().enumerate() {
        let cells = measured.of(call).map(|(_, column)| column.added(i).show(0));
        table.row(std::iter::once(tracer.name()).chain(cells));
    }
    table
}

pub fn values(measured: &Measured, call: Call) -> serde_json::Value {
    let tracers: Vec<_> = measured.tracers.iter().map(|tracer| tracer.name()).collect();
    let columns: serde_json::Map<_, _> =
        measured.of(call).map(|(shape, column)| (shape.name.clone(), json!(column))).collect();
    json!({ "tracers": tracers, "nanoseconds": columns })
}
