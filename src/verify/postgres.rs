//! What is traced of PostgreSQL, and what it counts itself. Its processes hand in what they have counted some
//! time after it happened, so a server that is at work is compared with a range.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::Edge;
use super::edge::Counts;
use super::row::{Bounds, Kind, Row, Verification};
use crate::model::{FileRow, Interval, Op, Role, Server, ServerId, Snapshot, durability};
use crate::server::asking::Counted;
use crate::server::postgres::status::counters::Between;
use crate::server::postgres::status::reading::{HANDED_IN_SECONDS, Reading};

/// The transactions that a busy server has open are as old as this at most, or its count is approximate.
const EARLY_SECONDS: u64 = 3;

impl Counts for Reading {
    /// Within that time a server that is idle has counted everything, and of one whose transactions are short
    /// it is known how much it may not have counted yet.
    const PATIENCE: Duration = Duration::from_secs(HANDED_IN_SECONDS + EARLY_SECONDS);
    const EARLY: Duration = Duration::from_secs(EARLY_SECONDS);
    const WAITS_FOR: Option<&str> = Some("its processes to report what they have counted");
    const PAUSE: Duration = Duration::from_millis(200);

    fn compare(server: &Server, first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
        compare(server, first, last)
    }

    fn with_settings_of(self, other: &Reading) -> Reading {
        Reading::with_settings_of(self, other)
    }

    fn moved(from: &Reading, to: &Reading) -> u64 {
        let between = Between { from, to };
        let all = [between.wal_syncs(), between.wal_writes(), between.relation_syncs()];
        all.into_iter().flatten().map(|counted| counted.count).fold(0, u64::saturating_add)
    }

    fn transactions(from: &Reading, to: &Reading) -> Option<Counted> {
        Between { from, to }.transactions()
    }

    fn is_reset(from: &Reading, to: &Reading) -> bool {
        Between { from, to }.interrupted().is_some()
    }

    /// It does not say.
    fn pending_syncs(&self) -> u64 {
        0
    }

    fn is_settled(&self) -> bool {
        Reading::is_settled(self)
    }
}

/// How the server makes its log durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// The call, and whether files that are made are synced by the same one.
    Syncs(Op),
    Writes,
}

impl Method {
    /// `wal_sync_method`. None: fsync=off, or it is not known, or was changed meanwhile.
    fn of(first: &Reading, last: &Reading) -> Option<Method> {
        let same = |name| last.setting(name).filter(|value| first.setting(name) == Some(value));
        if same("fsync")? != "on" {
            return None;
        }
        match same("wal_sync_method")? {
            "fdatasync" => Some(Method::Syncs(Op::Fdatasync)),
            "fsync" => Some(Method::Syncs(Op::Fsync)),
            "open_datasync" | "open_sync" => Some(Method::Writes),
            _ => None,
        }
    }
}

/// A file of the write-ahead log: by its name, since its directory may be a link to another filesystem, and
/// one that is being made.
fn is_wal(row: &FileRow) -> bool {
    let name = name(row);
    let is_segment = name.len() == 24 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    is_segment || name.starts_with(b"xlogtemp.")
}

/// The log's directory: a file of it was made, renamed or removed.
fn is_wal_directory(row: &FileRow) -> bool {
    row.info.role == Role::Directory && matches!(name(row), b"pg_wal" | b"pg_xlog")
}

/// Of tables and indexes, in the data directory or in a tablespace.
fn is_data(row: &FileRow) -> bool {
    row.info.role == Role::Data
}

fn name(row: &FileRow) -> &[u8] {
    row.info.path.as_deref().and_then(Path::file_name).map(OsStr::as_bytes).unwrap_or_default()
}

fn count<'a>(rows: impl IntoIterator<Item = &'a FileRow>, wanted: impl Fn(&FileRow) -> bool) -> u64 {
    rows.into_iter().filter(|row| wanted(row)).map(|row| row.stats.count).sum()
}

/// Compares one server's syncs between two edges.
fn compare(server: &Server, first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
    let mut measurement = Interval::between(&first.snapshot, &last.snapshot);
    measurement.files.retain(|row| row.server == server.id);
    let files = &measurement.files;
    let method = Method::of(&first.before, &last.after);
    let mut rows = vec![match method {
        Some(Method::Writes) => durable_writes(server.id, &measurement, first, last),
        Some(Method::Syncs(op)) => wal_syncs(op, server.id, &measurement, first, last),
        None => Row::not_compared(
            "write-ahead log, syncs and durable writes",
            count(files, is_wal),
            Some("fsync is off, or the way to sync the log was changed during the window"),
        ),
    }];
    let relations = count(files, |row| is_data(row) && !row.op.writes());
    rows.push(bounds(&|between| between.relation_syncs(), is_data, server.id, first, last).0.row(
        "tables and indexes",
        relations,
        Some("the counter only covers syncs by checkpoints and of tables being created"),
        Some("this version counts no syncs of its data files"),
    ));
    let other = files.iter().filter(|row| !row.op.writes() && !is_data(row));
    let wal_op = |row: &FileRow| is_wal(row) && Some(Method::Syncs(row.op)) == method;
    rows.push(Row::not_compared(
        "everything else",
        other.filter(|row| !wal_op(row)).map(|row| row.stats.count).sum(),
        Some("directories, commit status, control file, new WAL files: nothing counts them"),
    ));
    rows.retain(|row| {
        row.kind == Kind::Exact || row.traced > 0 || row.counted.is_some_and(|range| range.at_most > 0)
    });
    Verification {
        not_compared: not_compared(server, method),
        interrupted: Between { from: &first.before, to: &last.after }.interrupted().map(str::to_owned),
        ..Verification::of(server, &measurement, rows)
    }
}

const MADE: &str = "a WAL file was created or renamed during the window: the server syncs it with the same call, \
                    but does not count that sync";
const STANDBY: &str = "on a standby the walreceiver syncs the log, and reports its counts only when it ends (from 18 on, also when \
                       nothing arrives for a while)";
const OPEN: &str = "a transaction was open for longer than was traced, the role cannot see what other sessions do, or the \
                    server is older than 15: processes may hold counts that they have not reported";

/// By syncs. Files of the log are made with fsync(2), whatever the method is.
fn wal_syncs(
    op: Op,
    server: ServerId,
    measurement: &Interval,
    first: &Edge<Reading>,
    last: &Edge<Reading>,
) -> Row {
    let wanted = |row: &FileRow| is_wal(row) && row.op == op;
    let (mut bounds, mut why) = bounds(&|between| between.wal_syncs(), wanted, server, first, last);
    if op == Op::Fsync && count(&measurement.files, is_wal_directory) > 0 {
        bounds.outer = bounds.outer.map(|counted| Counted { exact: false, ..counted });
        why = Some(MADE);
    }
    let none = "this version does not count the syncs of its log";
    bounds.row("write-ahead log", count(&measurement.files, wanted), why, Some(none))
}

/// By its writes.
fn durable_writes(
    server: ServerId,
    measurement: &Interval,
    first: &Edge<Reading>,
    last: &Edge<Reading>,
) -> Row {
    let what = "write-ahead log, durable writes";
    if !measurement.setup.ops.contains(&Op::DsyncWrite) {
        return Row::not_compared(what, 0, Some("--writes off: they were not watched"));
    }
    let wanted = |row: &FileRow| is_wal(row) && row.op.writes();
    let (bounds, why) = bounds(&|between| between.wal_writes(), wanted, server, first, last);
    bounds.row(
        what,
        count(&measurement.files, wanted),
        why,
        Some("this version does not count the writes of its log"),
    )
}

/// What the server counted, and how much of it may belong to another time. `wanted`: the rows that it counts.
fn bounds(
    counter: &dyn Fn(&Between<'_>) -> Option<Counted>,
    wanted: impl Fn(&FileRow) -> bool,
    server: ServerId,
    first: &Edge<Reading>,
    last: &Edge<Reading>,
) -> (Bounds, Option<&'static str>) {
    let wanted = |row: &FileRow| row.server == server && wanted(row);
    let whole = Between { from: &first.before, to: &last.after };
    let outer = counter(&whole);
    let inner = counter(&Between { from: &first.after, to: &last.before });
    let in_flight = first.in_flight(server) + last.in_flight(server);
    match (not_handed_in(first, wanted), not_handed_in(last, wanted)) {
        _ if whole.is_of_standby() => {
            let outer = outer.map(|counted| Counted { exact: false, ..counted });
            (Bounds { outer, inner, before: in_flight, after: in_flight }, Some(STANDBY))
        }
        (Some(before), Some(after)) => {
            (Bounds { outer, inner, before: before + in_flight, after: after + in_flight }, None)
        }
        _ => {
            let outer = outer.map(|counted| Counted { exact: false, ..counted });
            (Bounds { outer, inner, before: in_flight, after: in_flight }, Some(OPEN))
        }
    }
}

/// How many calls at most were traced before an edge and not counted there yet. None: it is not known.
fn not_handed_in(edge: &Edge<Reading>, wanted: impl Fn(&FileRow) -> bool) -> Option<u64> {
    if edge.after.is_settled() {
        return Some(0);
    }
    let within = Duration::from_secs(edge.after.hands_in_within()?);
    let long_enough =
        |earlier: &&Snapshot| edge.snapshot.taken.saturating_duration_since(earlier.taken) >= within;
    let then = edge.earlier.iter().rfind(long_enough)?;
    Some(count(&edge.snapshot.files, &wanted).saturating_sub(count(&then.files, &wanted)))
}

/// A durable write is no sync.
fn not_compared(server: &Server, method: Option<Method>) -> Vec<String> {
    let is_unseen = durability::wal_is_durable_by_writes(server) && method != Some(Method::Writes);
    let text = "Each write of the write-ahead log is itself durable (its descriptors have O_DSYNC): the server counts no \
                sync for it, so what is compared here says nothing of it.";
    is_unseen.then(|| text.to_owned()).into_iter().collect()
}

#[cfg(test)]
#[path = "postgres_tests.rs"]
mod tests;
