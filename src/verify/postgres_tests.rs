//! Pure comparisons of readings and snapshots that were made up.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::model::fixture::{self, MYSQL};
use crate::verify::row::Verdict;

/// The traced calls: fdatasync and fsync of a segment, durable writes of it, fsync of its directory, of a
/// table and of the control file.
fn snapshot(seconds: u64, counts: [u64; 6]) -> Snapshot {
    let [datasyncs, syncs, writes, directory, table, control] = counts;
    let row = |inode, path: &str, op, count| {
        let role = match path {
            path if path.ends_with("pg_wal") => Role::Directory,
            path if path.contains("/base/") => Role::Data,
            _ => Role::Other,
        };
        fixture::row(MYSQL, inode, path, role, op, fixture::stats(&[(count, 100_000)]))
    };
    let setup = fixture::setup(&[Op::Fsync, Op::Fdatasync, Op::DsyncWrite]);
    let segment = "/d/pg_wal/000000010000000000000001";
    Snapshot {
        files: vec![
            row(1, segment, Op::Fdatasync, datasyncs),
            row(1, segment, Op::Fsync, syncs),
            row(1, segment, Op::DsyncWrite, writes),
            row(2, "/d/pg_wal", Op::Fsync, directory),
            row(3, "/d/base/5/16384", Op::Fsync, table),
            row(4, "/d/global/pg_control", Op::Fsync, control),
        ],
        ..Snapshot::empty(*BEGIN + Duration::from_secs(seconds), SystemTime::now(), setup)
    }
}

static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Counted: syncs and writes of the log. `at_work`: so many processes.
fn reading(method: &str, [syncs, writes]: [u64; 2], at_work: u64) -> Reading {
    let [syncs, writes, at_work] = [syncs, writes, at_work].map(|number| number.to_string());
    Reading::from_pairs(
        [
            ("pg_stat_wal.wal_sync", syncs.as_str()),
            ("pg_stat_wal.wal_write", &writes),
            ("started", "1.5"),
            ("at_work", &at_work),
            ("oldest_transaction", "0"),
        ],
        [("fsync", "on"), ("wal_sync_method", method), ("server_version_num", "150014")],
    )
}

fn quiet(method: &str, counted: [u64; 2], snapshot: Snapshot) -> Edge<Reading> {
    let reading = reading(method, counted, 0);
    Edge { before: reading.clone(), snapshot, after: reading, is_quiet: true, earlier: Vec::new() }
}

fn compared(first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
    compare(&fixture::server(MYSQL, "postgres", "PostgreSQL 15.14", 5432), first, last)
}

#[test]
fn syncs_of_all_processes_are_those_of_the_server() {
    let first = quiet("fdatasync", [100, 90], snapshot(0, [100, 0, 0, 0, 0, 0]));
    let last = |syncs| quiet("fdatasync", [syncs, 200], snapshot(30, [150, 7, 0, 3, 4, 2]));
    let agrees = compared(&first, &last(150));
    assert!(agrees.succeeds(), "{agrees:?}");
    assert_eq!((agrees.row("write-ahead log").traced, agrees.row("tables and indexes").traced), (50, 4));
    assert_eq!(agrees.row("everything else").traced, 7 + 3 + 2, "files of the log that are made");
    assert!(agrees.rows.iter().all(|row| row.what != "write-ahead log, durable writes"));
    for syncs in [149, 151] {
        let differs = compared(&first, &last(syncs));
        assert_eq!(differs.row("write-ahead log").verdict, Verdict::Differs);
        assert!(!differs.succeeds());
        assert_eq!(differs.possible_causes.len(), usize::from(syncs == 151));
    }
}

#[test]
fn where_writes_are_durable_they_are_compared_instead() {
    let first = quiet("open_datasync", [0, 90], snapshot(0, [0, 0, 90, 0, 0, 0]));
    let last = quiet("open_datasync", [0, 200], snapshot(30, [0, 0, 200, 0, 0, 0]));
    let agrees = compared(&first, &last);
    assert!(agrees.succeeds());
    assert_eq!(agrees.row("write-ahead log, durable writes").traced, 110);
    assert!(agrees.rows.iter().all(|row| row.what != "write-ahead log"));
    // Changed meanwhile, or with fsync=off, nothing is counted that could be compared.
    let changed = compared(&first, &quiet("fdatasync", [0, 200], snapshot(30, [9, 0, 200, 0, 0, 0])));
    let log = changed.row("write-ahead log, syncs and durable writes");
    assert_eq!((log.kind, log.traced), (Kind::NoCounter, 119));
    assert!(!changed.succeeds());
}

#[test]
fn with_fsync_a_file_that_is_made_cannot_be_told_from_a_commit() {
    let first = quiet("fsync", [10, 0], snapshot(0, [0, 10, 0, 0, 0, 0]));
    let plain = compared(&first, &quiet("fsync", [40, 0], snapshot(30, [0, 40, 0, 0, 0, 0])));
    assert_eq!(plain.row("write-ahead log").kind, Kind::Exact);
    let made = compared(&first, &quiet("fsync", [40, 0], snapshot(30, [0, 43, 0, 1, 0, 0])));
    assert_eq!(made.row("write-ahead log").kind, Kind::Approximate);
    assert_eq!(made.row("write-ahead log").note.as_deref(), Some(MADE));
}

#[test]
fn of_a_server_at_work_the_count_is_a_range_as_wide_as_what_may_not_be_handed_in() {
    let at_work = |counted, seconds: u64, traced: u64, earlier: &[(u64, u64)]| {
        let reading = reading("fdatasync", [counted, 0], 3);
        let earlier = earlier.iter().map(|&(at, count)| snapshot(at, [count, 0, 0, 0, 0, 0])).collect();
        let snapshot = snapshot(seconds, [traced, 0, 0, 0, 0, 0]);
        Edge { before: reading.clone(), snapshot, after: reading, is_quiet: false, earlier }
    };
    // Of the eleven seconds before each end, 20 and 30 syncs.
    let first = at_work(1000, 12, 120, &[(0, 90), (1, 100), (2, 105)]);
    let last = at_work(1400, 60, 530, &[(48, 490), (49, 500), (50, 520)]);
    let range = compared(&first, &last);
    let wal = range.row("write-ahead log");
    let counted = wal.counted.unwrap();
    assert_eq!((wal.kind, wal.traced, counted.at_least, counted.at_most), (Kind::Exact, 410, 380, 430));
    assert!(range.succeeds());
    // One end at which not enough was seen.
    let unknown = compared(&at_work(1000, 5, 120, &[(0, 90)]), &last);
    assert_eq!(unknown.row("write-ahead log").kind, Kind::Approximate);
    assert_eq!(unknown.row("write-ahead log").note.as_deref(), Some(OPEN));
}

#[test]
fn after_a_restart_nothing_is_said() {
    let first = quiet("fdatasync", [100, 0], snapshot(0, [100, 0, 0, 0, 0, 0]));
    let mut last = quiet("fdatasync", [7, 0], snapshot(30, [107, 0, 0, 0, 0, 0]));
    last.after = Reading::from_pairs([("started", "2.5"), ("at_work", "0")], []);
    let verification = compared(&first, &last);
    assert_eq!(verification.interrupted.as_deref(), Some("the server was restarted meanwhile"));
    assert!(!verification.succeeds());
}

#[test]
fn no_count_is_too_large_to_be_compared() {
    let first = quiet("fdatasync", [0, 0], snapshot(0, [0; 6]));
    let last = quiet("fdatasync", [u64::MAX, u64::MAX], snapshot(30, [9, 0, 0, 0, 0, 0]));
    assert_eq!(compared(&first, &last).row("write-ahead log").verdict, Verdict::Differs);
    assert_eq!(Reading::moved(&first.before, &last.after), u64::MAX);
    let mut busy = last.clone();
    busy.after = reading("fdatasync", [u64::MAX, u64::MAX], 1);
    busy.earlier = vec![snapshot(10, [1, 0, 0, 0, 0, 0])];
    assert!(!compared(&first, &busy).succeeds());
}

#[test]
fn a_standbys_log_is_approximate() {
    let of = |mut edge: Edge<Reading>| {
        for reading in [&mut edge.before, &mut edge.after] {
            *reading = Reading::from_pairs(
                [
                    ("pg_stat_wal.wal_sync", "0"),
                    ("started", "1.5"),
                    ("at_work", "0"),
                    ("in_recovery", "true"),
                ],
                [("fsync", "on"), ("wal_sync_method", "fdatasync"), ("server_version_num", "150014")],
            );
        }
        edge
    };
    let first = of(quiet("fdatasync", [0, 0], snapshot(0, [0; 6])));
    let last = of(quiet("fdatasync", [0, 0], snapshot(30, [19, 0, 0, 0, 0, 0])));
    let log = compared(&first, &last);
    let log = log.row("write-ahead log");
    assert_eq!((log.kind, log.note.as_deref(), log.traced), (Kind::Approximate, Some(STANDBY), 19));
}
