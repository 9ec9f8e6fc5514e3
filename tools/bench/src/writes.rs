//! What a tracer adds to each write, and to each request of io_uring and libaio.

use anyhow::Result;
use fsynctop::model::AttachMode;

use crate::calls::{self, Column, Effort, Measured, Shape, Who};
use crate::context::Context;
use crate::load::Call;
use crate::modes;
use crate::section::{Goal, Section, Table, Verdict};
use crate::tracer::Tracer;

/// Of what two programs add that only read the clock, for a durable write of a traced process.
const MOST_OF_CLOCK: f64 = 1.5;
/// Of what two empty programs add, for a write that is not followed.
const MOST_OF_EMPTY: f64 = 1.2;

const BOTH: &[Who] = &[Who::Server, Who::Neighbour];
/// What is called, how it is named, and by whom.
const CALLS: [(Call, &str, &[Who]); 6] = [
    (Call::DurableWrite, "O_DSYNC write", BOTH),
    (Call::Write, "write", BOTH),
    (Call::NullWrite, "write to /dev/null", BOTH),
    (Call::RingFsync, "io_uring fsync", BOTH),
    (Call::RingNop, "io_uring nop", &[Who::Server]),
    (Call::AioDurableWrite, "libaio O_DSYNC write", BOTH),
];

pub fn section(context: &Context) -> Result<Section> {
    let tracers = modes::all()
        .into_iter()
        .flat_map(|mode| {
            [Tracer::Empty(mode), Tracer::Clock(mode), Tracer::Fsynctop(mode), Tracer::AllWrites(mode)]
        })
        .collect();
    let shapes = CALLS
        .iter()
        .flat_map(|&(call, name, by)| by.iter().map(move |&who| calls::shape(context, call, who, 1, name)));
    let effort =
        Effort { cycles: context.or_quick(if context.guest { 5 } else { 24 }, 4), rounds: 3, warm_up: None };
    Ok(of(&calls::measure(context, None, tracers, shapes.collect(), effort)?))
}

fn of(measured: &Measured) -> Section {
    let mut section = Section {
        title: "Added to each write".into(),
        about: vec![format!(
            "The same for `pwrite64` of 4 KB to a file on tmpfs, through a descriptor with O_DSYNC (counted as a sync) and \
             without (looked at, and left); for `write` of a byte to /dev/null, which is left as a socket's or a pipe's; and \
             for requests of io_uring, 64 of them submitted by one system call, which is part of what is measured: an fsync, \
             which a worker of the kernel makes, and one that does nothing; and for such a durable write by libaio, one at \
             a time: `io_submit`, which writes, and `io_getevents`, with three programs on the two instead of two. With `--writes all`, a \
             write that is not durable is counted with its bytes and its latency, and what of it is not synced. {}.",
            measured.effort()
        )],
        tables: vec![table(measured)],
        values: values(measured),
        ..Section::default()
    };
    for mode in [AttachMode::Fentry, AttachMode::Kprobe, AttachMode::Tracepoint] {
        for (shape, column) in measured.shapes.iter().zip(&measured.columns) {
            for tracer in [Tracer::Fsynctop(mode), Tracer::AllWrites(mode)] {
                section.goals.extend(goal(measured, tracer, shape, column));
            }
        }
    }
    section
}

/// What is followed is held against the clock, what is not against the hooks alone.
fn goal(measured: &Measured, tracer: Tracer, shape: &Shape, column: &Column) -> Option<Goal> {
    let (mode, all_writes) = match tracer {
        Tracer::Fsynctop(mode) => (mode, false),
        Tracer::AllWrites(mode) => (mode, true),
        _ => return None,
    };
    let own = measured.at(tracer)?;
    let (call, traced) = (shape.round.call, shape.who.is_traced());
    let (other, most) = match (traced && (call.counts() || all_writes && call == Call::Write), traced) {
        // Others are the same with all writes, or nearly.
        _ if all_writes && call != Call::Write => return None,
        (true, _) => (Tracer::Clock(mode), MOST_OF_CLOCK),
        (false, false) => (Tracer::Empty(mode), MOST_OF_EMPTY),
        (false, true) => return None,
    };
    let ratio = column.ratio(own, column, measured.at(other)?);
    let option = if all_writes { " --writes all" } else { "" };
    let what = format!("{}: fsynctop{option} ({}) against {}", shape.name, mode.name(), other.name());
    let verdict = match (ratio.low <= most, ratio.high <= most) {
        (true, true) => Verdict::Met,
        (false, _) => Verdict::Missed,
        (true, false) => Verdict::Unresolved,
    };
    Some(Goal::new(what, format!("{most} x"), ratio.show(2), verdict))
}

/// A row for each call, a column for each tracer.
pub fn table(measured: &Measured) -> Table {
    let mut table = Table::new("Added nanoseconds for each call", &["call", "without, in all"]);
    table.header.extend(measured.tracers.iter().map(|tracer| tracer.name()));
    for (shape, column) in measured.shapes.iter().zip(&measured.columns) {
        let added = (0..measured.tracers.len()).map(|at| column.added(at).show(0));
        table.row([shape.name.clone(), format!("{:.0}", column.nothing())].into_iter().chain(added));
    }
    table
}

pub fn values(measured: &Measured) -> serde_json::Value {
    let tracers: Vec<_> = measured.tracers.iter().map(|tracer| tracer.name()).collect();
    let columns: serde_json::Map<_, _> = measured
        .shapes
        .iter()
        .zip(&measured.columns)
        .map(|(shape, column)| (shape.name.clone(), serde_json::json!(column)))
        .collect();
    serde_json::json!({ "tracers": tracers, "nanoseconds": columns })
}
