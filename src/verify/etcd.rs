//! What is traced of etcd, and what it counts itself. It counts a sync when that has returned, and a commit
//! of its backend, which is two syncs, when that has.

use std::collections::BTreeSet;
use std::path::Path;

use super::Edge;
use super::edge::Counts;
use super::row::{Bounds, Kind, Row, Verification};
use crate::model::{FileRow, Interval, Op, Role, Server};
use crate::server::asking::Counted;
use crate::server::etcd::status::reading::{
    Between, COMMITS, DEFRAGMENTATIONS, Reading, SENT_SNAPSHOTS, SNAPSHOTS, WAL,
};

impl Counts for Reading {
    fn compare(server: &Server, first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
        compare(server, first, last)
    }

    /// It tells counters alone.
    fn with_settings_of(self, _: &Reading) -> Reading {
        self
    }

    fn moved(from: &Reading, to: &Reading) -> u64 {
        Between { from, to }.moved()
    }

    /// It does not say.
    fn pending_syncs(&self) -> u64 {
        0
    }
}

const LOG: &str = "write-ahead log";
const BACKEND: &str = "backend (bbolt)";

/// bbolt syncs the pages of a commit, then the page that leads to them (tx.go: write, writeMeta).
const SYNCS_OF_A_COMMIT: u64 = 2;
const COMMIT_SYNCS: &str = "2 * etcd_disk_backend_commit_duration_seconds_count";
const TWICE: &str = "each commit syncs its pages, then the page that leads to them";
const DEFRAGMENTED: &str = "the backend was rewritten during the window, and those syncs are not counted";
const UNSAFE: &str = "etcd commits, and syncs neither its log nor its backend: unsafe-no-fsync is set";
const BECOMES_THE_BACKEND: &str =
    "another member sent a snapshot during the window: its file has become the backend";

/// How it counts one kind of syncs.
struct Line {
    what: &'static str,
    traced: u64,
    counter: &'static str,
    /// What the line calls the counter.
    source: &'static str,
    /// Syncs that one of its steps stands for, the last of which may have been traced and not counted yet.
    each: u64,
    approximate: Option<&'static str>,
}

/// Compares one server's syncs between two edges.
fn compare(server: &Server, first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
    let mut measurement = Interval::between(&first.snapshot, &last.snapshot);
    measurement.files.retain(|row| row.server == server.id);
    let files: Vec<&FileRow> = measurement.files.iter().filter(|row| !row.op.writes()).collect();
    let count = |wanted: &dyn Fn(&FileRow) -> bool| {
        files.iter().filter(|row| wanted(row)).map(|row| row.stats.count).sum::<u64>()
    };
    let logs: BTreeSet<&Path> =
        files.iter().filter(|row| row.info.role == Role::Wal).filter_map(|row| path(row)?.parent()).collect();
    // Once a file of the log has its name, etcd syncs the directory, and counts that with the log.
    let is_log = |row: &FileRow| match row.info.role {
        Role::Directory => path(row).is_some_and(|path| logs.contains(path)),
        role => role == Role::Wal,
    };
    // Commits call fdatasync(2); where bbolt makes the file larger ahead of them, it calls fsync(2) (db.go:
    // grow), and counts that nowhere.
    let is_commit = |row: &FileRow| row.info.role == Role::Backend && row.op == Op::Fdatasync;
    let is_snapshot = |row: &FileRow| row.info.role == Role::Snapshot;
    let window = Between { from: &first.before, to: &last.after };
    let happened = |name| window.grown(name).is_some_and(|counted: Counted| counted.count > 0);
    let lines = [
        Line { what: LOG, traced: count(&is_log), counter: WAL, source: WAL, each: 1, approximate: None },
        Line {
            what: BACKEND,
            traced: count(&is_commit),
            counter: COMMITS,
            source: COMMIT_SYNCS,
            each: SYNCS_OF_A_COMMIT,
            approximate: happened(DEFRAGMENTATIONS).then_some(DEFRAGMENTED),
        },
        Line {
            what: "snapshots",
            traced: count(&is_snapshot),
            counter: SNAPSHOTS,
            source: SNAPSHOTS,
            each: 1,
            approximate: happened(SENT_SNAPSHOTS).then_some(BECOMES_THE_BACKEND),
        },
    ];
    let mut rows: Vec<Row> = lines.iter().map(|line| row(line, server, first, last)).collect();
    let logs_nothing = rows[0].counted.is_none_or(|range| range.at_most == 0);
    let backend = &mut rows[1];
    let is_unsafe = backend.traced == 0 && count(&|row| row.info.role == Role::Wal) == 0;
    if is_unsafe && logs_nothing && backend.counted.is_some_and(|range| range.at_least > 0) {
        *backend = Row::not_compared(BACKEND, 0, Some(UNSAFE));
    } else if backend.kind == Kind::Exact {
        backend.note = Some(TWICE.to_owned());
    }
    rows.push(Row::not_compared(
        "everything else",
        count(&|row| !is_log(row) && !is_commit(row) && !is_snapshot(row)),
        Some("other directories, and a backend grown ahead of commits: nothing counts them"),
    ));
    let is_worth_a_line = |row: &Row| row.traced > 0 || row.counted.is_some_and(|range| range.at_most > 0);
    rows.retain(|row| [LOG, BACKEND].contains(&row.what) || is_worth_a_line(row));
    Verification {
        interrupted: window.interrupted().map(str::to_owned),
        ..Verification::of(server, &measurement, rows)
    }
}

fn path(row: &FileRow) -> Option<&Path> {
    row.info.path.as_deref()
}

fn row(line: &Line, server: &Server, first: &Edge<Reading>, last: &Edge<Reading>) -> Row {
    let counter = |from: &Reading, to: &Reading| {
        let counted = Between { from, to }.grown(line.counter)?;
        Some(Counted {
            count: counted.count.saturating_mul(line.each),
            source: line.source,
            exact: line.approximate.is_none(),
        })
    };
    // Syncs in flight have not been counted, nor has one that has just returned.
    let uncounted =
        |edge: &Edge<Reading>| edge.in_flight(server.id) + if edge.is_quiet { 0 } else { line.each };
    let bounds = Bounds {
        outer: counter(&first.before, &last.after),
        inner: counter(&first.after, &last.before),
        before: uncounted(first),
        after: uncounted(last),
    };
    bounds.row(line.what, line.traced, line.approximate, Some("this version does not count them"))
}

#[cfg(test)]
#[path = "etcd_tests.rs"]
mod tests;
