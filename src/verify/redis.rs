//! What is traced of Redis and Valkey, and what these count themselves: not the syncs of the append-only
//! file, but the files that they save and the bases that they rewrite, each of which is synced once when it
//! is whole, and the bytes that they append.

use super::Edge;
use super::edge::Counts;
use super::row::{Bounds, Kind, Row, Verification};
use crate::model::{FileRow, Interval, Op, Role, Server};
use crate::server::asking::Counted;
use crate::server::redis::status::reading::{
    AOF_BYTES, Between, REWRITE_STATUS, REWRITES, REWRITING, Reading, SAVE_STATUS, SAVES, SAVING,
    WRITE_STATUS,
};

impl Counts for Reading {
    fn compare(server: &Server, first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
        compare(server, first, last)
    }

    fn with_settings_of(self, other: &Reading) -> Reading {
        Reading::with_settings_of(self, other)
    }

    fn moved(from: &Reading, to: &Reading) -> u64 {
        Between { from, to }.moved()
    }

    fn is_reset(from: &Reading, to: &Reading) -> bool {
        Between { from, to }.interrupted().is_some()
    }

    /// A child that writes syncs its file at the end.
    fn pending_syncs(&self) -> u64 {
        self.children()
    }

    /// What was begun has been synced, too.
    fn is_settled(&self) -> bool {
        self.children() == 0
    }
}

const SAVED: &str = "RDB files";
const BASES: &str = "append-only file, bases";
const BYTES: &str = "append-only file, bytes";

const OLD: &str = "this version does not count them (7.0 and later do)";
const FAILED: &str = "one of them failed, or the last one before did: it was counted, and maybe not synced";
const REPLICA: &str =
    "this is a replica: it also syncs the file that its primary sends it, which it does not count";
const UNCOUNTED: &str = "FLUSHALL, DEBUG, REPLICAOF, FAILOVER or CONFIG SET was called: these can write such a file without \
                         counting it, or end the child that would have synced it";
const TORN: &str = "a write failed: what was written of it is taken back";
const REWRITTEN: &str =
    "a new base was written during the window, so the size of the whole says nothing of what was appended";
const OFF: &str = "it is switched off, or its size is not told";
const NOT_COUNTED: &str = "it does not count them";
const BYTES_INSTEAD: &str = "it does not count them; with --writes all, bytes are compared";

/// Compares one server's syncs between two edges.
fn compare(server: &Server, first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
    let mut measurement = Interval::between(&first.snapshot, &last.snapshot);
    measurement.files.retain(|row| row.server == server.id);
    let files = &measurement.files;
    let count = |wanted: &dyn Fn(&FileRow) -> bool| {
        files.iter().filter(|row| wanted(row)).map(|row| row.stats.count).sum::<u64>()
    };
    // What is written so far is pushed to the disk every 4 MB, by sync_file_range where that is watched, and
    // synced at the end (src/rio.c, rdb.c, aof.c).
    let is_whole = |row: &FileRow| matches!(row.op, Op::Fsync | Op::Fdatasync);
    let is_saved = |row: &FileRow| row.info.role == Role::Rdb && is_whole(row);
    let is_base = |row: &FileRow| is_base(row) && is_whole(row);
    let is_appended = |row: &FileRow| row.info.role == Role::Aof && !self::is_base(row) && !row.op.writes();
    let window = Between { from: &first.before, to: &last.after };
    let readings = [&first.before, &first.after, &last.before, &last.after];
    let failed = |status: &str, wanted: &dyn Fn(&FileRow) -> bool| {
        readings.iter().any(|reading| reading.has_failed(status)) || has_errors(&measurement, server, wanted)
    };
    let uncounted = window.has_uncounted().then_some(UNCOUNTED);
    let is_replica = readings.iter().any(|reading| reading.is_replica());
    let save_failed = failed(SAVE_STATUS, &|row| row.info.role == Role::Rdb).then_some(FAILED);
    let why_saved = is_replica.then_some(REPLICA).or(uncounted).or(save_failed);
    let rewrite_failed = failed(REWRITE_STATUS, &self::is_base).then_some(FAILED);
    let mut rows = vec![
        children(SAVED, count(&is_saved), [SAVES, SAVING], why_saved, first, last),
        children(BASES, count(&is_base), [REWRITES, REWRITING], uncounted.or(rewrite_failed), first, last),
    ];
    if measurement.setup.ops.contains(&Op::Write) {
        let rewritten = window.is_rewritten().then_some(REWRITTEN);
        let torn = failed(WRITE_STATUS, &|row| row.info.role == Role::Aof).then_some(TORN);
        rows.push(bytes(&measurement, server, rewritten.or(torn).or(uncounted), first, last));
    }
    let why = if measurement.setup.ops.contains(&Op::Write) { NOT_COUNTED } else { BYTES_INSTEAD };
    rows.push(Row::not_compared("append-only file, syncs", count(&is_appended), Some(why)));
    rows.push(Row::not_compared(
        "everything else",
        count(&|row| !row.op.writes() && !is_saved(row) && !is_base(row) && !is_appended(row)),
        Some("the list of the append-only files, directories: nothing counts them"),
    ));
    rows.retain(|row| {
        row.kind == Kind::Exact || row.traced > 0 || row.counted.is_some_and(|range| range.at_most > 0)
    });
    Verification {
        interrupted: window.interrupted().map(str::to_owned),
        refused: last.after.refused().to_vec(),
        ..Verification::of(server, &measurement, rows)
    }
}

/// A sync or a write of such a file failed.
fn has_errors(measurement: &Interval, server: &Server, wanted: &dyn Fn(&FileRow) -> bool) -> bool {
    let all = measurement.files.iter().chain(&measurement.writes).chain(&measurement.failures);
    let of_it = all.filter(|row| row.server == server.id && wanted(row));
    of_it.map(|row| &row.stats.errors).any(|errors| !errors.is_empty())
}

/// As its child writes it, or by the name that it has afterwards.
fn is_base(row: &FileRow) -> bool {
    let name = row.info.path.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
    let is_named = || name.as_encoded_bytes().windows(6).any(|part| part == b".base.");
    match row.info.role {
        Role::Temporary => true,
        Role::Aof => is_named(),
        _ => false,
    }
}

/// A file that a child writes is counted when that begins, and synced when it is whole. `counter`: and what
/// says that one is being written.
fn children(
    what: &'static str,
    traced: u64,
    [counter, child]: [&'static str; 2],
    approximate: Option<&'static str>,
    first: &Edge<Reading>,
    last: &Edge<Reading>,
) -> Row {
    let counted = |from, to| {
        let counted = Between { from, to }.grown(counter)?;
        Some(Counted { exact: approximate.is_none(), ..counted })
    };
    let unfinished = |edge: &Edge<Reading>| edge.before.runs(child).max(edge.after.runs(child));
    let bounds = Bounds {
        outer: counted(&first.before, &last.after),
        inner: counted(&first.after, &last.before),
        // Counted, and not synced before the end.
        before: unfinished(last),
        // Synced in the window, and counted before it.
        after: unfinished(first),
    };
    bounds.row(what, traced, approximate, Some(OLD))
}

/// Its main thread writes, counts what it has written, and only then answers.
fn bytes(
    measurement: &Interval,
    server: &Server,
    approximate: Option<&'static str>,
    first: &Edge<Reading>,
    last: &Edge<Reading>,
) -> Row {
    let appended = |row: &&FileRow| {
        row.server == server.id && row.op.writes() && row.info.role == Role::Aof && !is_base(row)
    };
    let traced = measurement.all_writes().filter(appended).map(|row| row.stats.bytes).sum();
    let counted = |from, to| {
        let counted = Between { from, to }.grown(AOF_BYTES)?;
        Some(Counted { exact: approximate.is_none(), ..counted })
    };
    let bounds = Bounds {
        outer: counted(&first.before, &last.after),
        inner: counted(&first.after, &last.before),
        before: 0,
        after: 0,
    };
    bounds.row(BYTES, traced, approximate, Some(approximate.unwrap_or(OFF)))
}

#[cfg(test)]
#[path = "redis_tests.rs"]
mod tests;
