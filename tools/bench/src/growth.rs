//! What more files and more threads do to the cost of a sync, and to the time of a snapshot.

use std::time::Duration;

use anyhow::Result;
use fsynctop::model::AttachMode;
use serde_json::json;

use crate::calls::{self, Effort, Measured, Shape, Who};
use crate::context::Context;
use crate::idle::IdleThreads;
use crate::load::{Call, Files, Round};
use crate::modes;
use crate::progress;
use crate::section::{Section, Table};
use crate::snapshots::{self, InFlight};
use crate::stats::Estimate;
use crate::tracer::Tracer;

const MOST_FILES: usize = 60_000;
const FILES: [usize; 5] = [1, 2, 100, 10_000, MOST_FILES];
/// Descriptors of one thread.
const MOST_OPEN: usize = 15_000;
const THREADS: [usize; 4] = [1, 2, 8, 64];
const SNAPSHOT_FILES: usize = 10_000;
const IDLE_THREADS: usize = 50_000;

pub fn section(context: &Context) -> Result<Section> {
    let mode = modes::own()?;
    let measured = cost(context, mode)?;
    let mut section = Section {
        title: "Growth".into(),
        about: vec![format!(
            "What fsynctop ({}) adds to an fdatasync on tmpfs, in nanoseconds, when more files take turns and when more \
             threads share the processors; {}, with nothing attached before and after. A sync of one of many files finds \
             neither the kernel's own structures nor fsynctop's row in the processor's caches, which is in both columns.",
            mode.name(),
            measured.effort()
        )],
        notes: least_note(&measured),
        values: calls_values(&measured),
        ..Section::default()
    };
    tabulate(&measured, &mut section);
    progress!("snapshots");
    snapshot_times(context, mode, &mut section)?;
    Ok(section)
}

fn cost(context: &Context, mode: AttachMode) -> Result<Measured> {
    let duration = Duration::from_millis(context.or_quick(80, 40));
    let round =
        |threads, cpus, files| Round { call: Call::Fdatasync, threads, cpus, files, duration, rate: None };
    let mut shapes = Vec::new();
    let mut shape = |name: String, round| shapes.push(Shape { name, who: Who::Server, round });
    for files in FILES {
        let name = if files == 1 { "1 file".into() } else { format!("{files} files in turn") };
        shape(format!("1 CPU, {name}"), of_files(round, files));
    }
    for threads in THREADS {
        let name = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        shape(format!("{name}, each its own file"), round(threads, context.cpus, Files::Own));
    }
    if context.cpus > 1 {
        shape("2 threads, the same file".into(), round(2, 2, Files::Shared(1)));
    }
    // At a rate at which each new file is given a row: one that finds none free is counted by other means.
    let all = of_files(round, MOST_FILES);
    let warm_up = Round { duration: Duration::from_secs(3), rate: Some(30_000.0), ..all };
    let effort = Effort { cycles: context.or_quick(8, 3), rounds: 2, warm_up: Some(warm_up) };
    let mut tracers = vec![Tracer::Fsynctop(mode)];
    if mode == AttachMode::Tracepoint {
        tracers.push(Tracer::Counts);
    }
    calls::measure(context, None, tracers, shapes, effort)
}

/// On one processor; by as many threads as are needed to have them open.
fn of_files(round: impl Fn(usize, usize, Files) -> Round, files: usize) -> Round {
    match files.div_ceil(MOST_OPEN) {
        1 => round(1, 1, Files::Shared(files)),
        threads => round(threads, 1, Files::Split(files)),
    }
}

/// What the last columns are.
fn least_note(measured: &Measured) -> Vec<String> {
    if !measured.tracers.contains(&Tracer::Counts) {
        return Vec::new();
    }
    vec![
        "For comparison, two programs that do the least that any tracer must: one counts each descriptor's calls in a \
         hash, both read the clock. With many files its count is out of the processor's caches as well. fsynctop reads \
         three places more that a call of fdatasync on tmpfs does not touch: the file's inode, its name (which tells of \
         a rename) and its histogram. So its cost is flat as long as those lines of some thousand files stay in the caches, and \
         rises beyond; where a sync does something, a filesystem has touched the inode by itself."
            .into(),
    ]
}

fn calls_values(measured: &Measured) -> serde_json::Value {
    crate::sync::values(measured, Call::Fdatasync)
}

fn tabulate(measured: &Measured, section: &mut Section) {
    let mut header = vec!["load", "the call, nothing attached", "added by fsynctop", "against one"];
    if measured.tracers.len() > 1 {
        header.extend(["added by a count in a hash", "against one"]);
    }
    let mut table = Table::new("Nanoseconds for each sync", &header);
    for (shape, column) in measured.of(Call::Fdatasync) {
        let is_of_files = shape.round.files != Files::Own && shape.round.cpus == 1;
        let one = &measured.columns[if is_of_files { 0 } else { FILES.len() }];
        let against_one = |tracer: usize| column.ratio(tracer, one, tracer);
        let nothing = column.nothing();
        let mut cells = vec![shape.name.clone(), format!("{nothing:.0}")];
        for tracer in 0..measured.tracers.len() {
            let ratio = format!("{:.2} x", against_one(tracer).median);
            cells.extend([column.added(tracer).show(0), ratio]);
        }
        table.row(cells);
    }
    section.tables.push(table);
}

fn snapshot_times(context: &Context, mode: AttachMode, section: &mut Section) -> Result<()> {
    let mut table = Table::new("Milliseconds for one snapshot", &["", "median of 20", "longest"]);
    let mut line = |name: &str, times: &[f64]| {
        let longest = times.iter().copied().fold(0.0, f64::max);
        table.row([name.to_owned(), Estimate::of(times).show(2), format!("{longest:.2}")]);
    };
    let files = snapshots::of_files(context, mode, SNAPSHOT_FILES)?;
    line("10,000 files, each synced since the last", &files.all_changed);
    line("10,000 files, none synced since the last", &files.none_changed);

    let mut in_flight = InFlight::begin(context, mode)?;
    let few = in_flight.snapshots()?;
    line("one sync in flight", &few);
    let idle = IdleThreads::start(IDLE_THREADS)?;
    let many = in_flight.snapshots()?;
    line("one sync in flight, 50,000 idle threads on the host", &many);
    drop(idle);
    in_flight.end()?;
    section.tables.push(table);
    section.about.push(
        "A snapshot is timed in the library, in a process of its own: `Sampler::snapshot()`, rows, names and all. The \
         sync in flight hangs on a file system made for it (tools/faultfs), and each snapshot shows it."
            .into(),
    );
    section.values["snapshot_ms"] = json!({
        "files_all_changed": files.all_changed,
        "files_none_changed": files.none_changed,
        "in_flight": few,
        "in_flight_many_threads": many,
    });
    Ok(())
}
