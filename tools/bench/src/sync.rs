//! What a tracer adds to each fsync.

use fsynctop::model::AttachMode;
use serde_json::json;

use crate::calls::{Column, Measured, Shape};
use crate::load::Call;
use crate::section::{Bar, Section, Table};
use crate::tracer::Tracer;

const MOST_OF_FLOOR: f64 = 1.5;
const MOST_OF_BPFTRACE: f64 = 1.0 / 3.0;

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
            section.bars.extend(bars_of(measured, mode, shape, column));
        }
        let traced = measured.of(Call::Fsync).find(|(shape, _)| shape.traced);
        section.notes.extend(traced.and_then(|(_, column)| clock_note(measured, mode, column)));
    }
    if !measured.tracers.contains(&Tracer::Fsynctop(AttachMode::Fentry)) {
        section.notes.push("This kernel has no fentry; its figures come from a guest, below.".into());
    }
    section
}

/// Why the bar against the floor is where it is: how much of the distance is the clock.
fn clock_note(measured: &Measured, mode: AttachMode, column: &Column) -> Option<String> {
    let median = |tracer| {
        let at = measured.tracers.iter().position(|&other| other == tracer)?;
        Some(column.added(at).median)
    };
    let (floor, clock) = (median(Tracer::Floor(mode))?, median(Tracer::Clock(mode))?);
    let own = median(Tracer::Fsynctop(mode))?;
    Some(format!(
        "{}: no tracer that measures a latency can be below the row with the clock, for a latency takes two readings. \
         They alone make {:.2} x of the floor ({clock:.0} ns against {floor:.0}); finding the thread's state, the file \
         and its row, and adding to it, take the other {:.0} ns.",
        mode.name(),
        clock / floor,
        own - clock,
    ))
}

fn bars_of(measured: &Measured, mode: AttachMode, shape: &Shape, column: &Column) -> Vec<Bar> {
    let find = |tracer| measured.tracers.iter().position(|&other| other == tracer);
    let Some(own) = find(Tracer::Fsynctop(mode)) else { return Vec::new() };
    let mut bars = Vec::new();
    let mut compare = |other: Tracer, most: f64, limit: &str| {
        let Some(other_at) = find(other) else { return };
        let ratio = column.ratio(own, column, other_at);
        let what = format!("fsync, {}: fsynctop ({}) against {}", shape.name, mode.name(), other.name());
        bars.push(Bar::new(what, limit, ratio.show(2), ratio.median <= most));
    };
    compare(Tracer::Floor(mode), MOST_OF_FLOOR, "1.5 x");
    // For a neighbour the script only compares a name: a third of that is less than the floor.
    if shape.traced {
        compare(Tracer::Bpftrace, MOST_OF_BPFTRACE, "0.33 x");
    }
    bars
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
