//! Pure comparisons of readings and snapshots that were made up.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::model::fixture::{self, MYSQL};
use crate::model::{InFlight, Snapshot};
use crate::verify::row::{Range, Verdict};

static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The traced calls: fdatasync of the log, fsync of its directory, fdatasync and fsync of the backend, fsync
/// of a snapshot and of the directory beside the log's.
fn snapshot(seconds: u64, counts: [u64; 6]) -> Snapshot {
    let [log, directory, commits, growth, snapshots, beside] = counts;
    let row = |inode, path: &str, role, op, count| {
        fixture::row(MYSQL, inode, path, role, op, fixture::stats(&[(count, 100_000)]))
    };
    let setup = fixture::setup(&[Op::Fsync, Op::Fdatasync]);
    Snapshot {
        files: vec![
            row(1, "/d/member/wal/0000000000000000-0000000000000000.wal", Role::Wal, Op::Fdatasync, log),
            row(2, "/d/member/wal", Role::Directory, Op::Fsync, directory),
            row(3, "/d/member/snap/db", Role::Backend, Op::Fdatasync, commits),
            row(3, "/d/member/snap/db", Role::Backend, Op::Fsync, growth),
            row(
                4,
                "/d/member/snap/0000000000000002-0000000000000066.snap",
                Role::Snapshot,
                Op::Fsync,
                snapshots,
            ),
            row(5, "/d/member/snap", Role::Directory, Op::Fsync, beside),
        ],
        ..Snapshot::empty(*BEGIN + Duration::from_secs(seconds), SystemTime::now(), setup)
    }
}

/// Counted: syncs of the log, commits, syncs of snapshots, defragmentations.
fn reading([log, commits, snapshots, defragmentations]: [u64; 4]) -> Reading {
    Reading::from_pairs([
        (WAL, log),
        (COMMITS, commits),
        (SNAPSHOTS, snapshots),
        (DEFRAGMENTATIONS, defragmentations),
        (SENT_SNAPSHOTS, 0),
    ])
}

fn edge(before: [u64; 4], snapshot: Snapshot, after: [u64; 4]) -> Edge<Reading> {
    let is_quiet = before == after;
    Edge { before: reading(before), snapshot, after: reading(after), is_quiet, earlier: Vec::new() }
}

fn quiet(counted: [u64; 4], snapshot: Snapshot) -> Edge<Reading> {
    edge(counted, snapshot, counted)
}

fn compared(first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
    compare(&fixture::server(MYSQL, "etcd", "etcd 3.5.21", 2379), first, last)
}

#[test]
fn each_commit_is_two_syncs_and_a_new_file_of_the_log_one_more() {
    let first = quiet([100, 10, 3, 0], snapshot(0, [98, 2, 20, 1, 3, 0]));
    let last = |counts| quiet([151, 17, 4, 0], snapshot(30, counts));
    let agrees = compared(&first, &last([148, 3, 34, 2, 4, 1]));
    assert!(agrees.succeeds(), "{agrees:?}");
    let traced = ["write-ahead log", "backend (bbolt)", "snapshots", "everything else"]
        .map(|what| (agrees.row(what).traced, agrees.row(what).counted.map(|range| range.at_most)));
    assert_eq!(traced, [(51, Some(51)), (14, Some(14)), (1, Some(1)), (2, None)]);
    assert!(agrees.row(BACKEND).note.as_deref().unwrap().contains("its pages, then"));
    // One more or less of each is not the same.
    for (what, counts) in [
        (LOG, [147, 3, 34, 2, 4, 1]),
        (LOG, [148, 4, 34, 2, 4, 1]),
        (BACKEND, [148, 3, 35, 2, 4, 1]),
        (BACKEND, [148, 3, 33, 2, 4, 1]),
        ("snapshots", [148, 3, 34, 2, 5, 1]),
    ] {
        let differs = compared(&first, &last(counts));
        assert_eq!(differs.row(what).verdict, Verdict::Differs, "{differs:?}");
        assert!(!differs.succeeds());
    }
}

#[test]
fn where_nothing_happens_both_logs_have_their_line_all_the_same() {
    let first = quiet([100, 10, 3, 0], snapshot(0, [98, 2, 20, 1, 3, 0]));
    let last = quiet([100, 10, 3, 0], snapshot(30, [98, 2, 20, 1, 3, 0]));
    let agrees = compared(&first, &last);
    assert!(agrees.succeeds());
    assert_eq!(agrees.rows.iter().map(|row| row.what).collect::<Vec<_>>(), [LOG, BACKEND]);
}

#[test]
fn at_work_a_sync_of_the_log_and_a_commit_may_be_under_way_at_each_end() {
    let first = edge([100, 10, 0, 0], snapshot(0, [100, 0, 20, 0, 0, 0]), [102, 10, 0, 0]);
    let mut busy = snapshot(30, [150, 0, 40, 0, 0, 0]);
    busy.in_flight = vec![InFlight { server: MYSQL, ..fixture::in_flight(Role::Wal, "/w", Duration::ZERO) }];
    let last = edge([150, 20, 0, 0], busy, [151, 20, 0, 0]);
    let range = compared(&first, &last);
    assert!(range.succeeds(), "{range:?}");
    assert_eq!(range.row(LOG).counted, Some(Range { at_least: 47, at_most: 53 }));
    assert_eq!(range.row(BACKEND).counted, Some(Range { at_least: 18, at_most: 23 }));
}

#[test]
fn what_becomes_another_file_is_not_held_to_a_counter() {
    let first = quiet([100, 10, 3, 0], snapshot(0, [98, 2, 20, 1, 3, 0]));
    let defragmented = compared(&first, &quiet([101, 11, 3, 1], snapshot(30, [99, 2, 29, 1, 3, 0])));
    let backend = defragmented.row(BACKEND);
    assert_eq!((backend.kind, backend.note.as_deref()), (Kind::Approximate, Some(DEFRAGMENTED)));
    assert!(defragmented.succeeds(), "the log decides");
    let mut last = quiet([100, 10, 3, 0], snapshot(30, [98, 2, 20, 1, 4, 0]));
    last.after = Reading::from_pairs([(WAL, 100), (COMMITS, 10), (SNAPSHOTS, 3), (SENT_SNAPSHOTS, 1)]);
    assert_eq!(compared(&first, &last).row("snapshots").kind, Kind::Approximate);
}

#[test]
fn a_server_that_syncs_nothing_is_said_to() {
    let first = quiet([5, 10, 0, 0], snapshot(0, [0; 6]));
    let nothing = compared(&first, &quiet([5, 17, 0, 0], snapshot(30, [0; 6])));
    let backend = nothing.row(BACKEND);
    assert_eq!((backend.kind, backend.note.as_deref()), (Kind::NoCounter, Some(UNSAFE)));
    // Where the log was synced, the backend was, too, or was not seen.
    let unseen = compared(&first, &quiet([9, 17, 0, 0], snapshot(30, [4, 0, 0, 0, 0, 0])));
    assert_eq!(unseen.row(BACKEND).verdict, Verdict::Differs);
    // Nor is a server that counts syncs of its log one that makes none: they were not seen.
    let blind = compared(&first, &quiet([9, 17, 0, 0], snapshot(30, [0; 6])));
    assert_eq!((blind.row(LOG).verdict, blind.row(BACKEND).verdict), (Verdict::Differs, Verdict::Differs));
}

#[test]
fn after_a_restart_nothing_is_said() {
    let first = quiet([100, 10, 3, 0], snapshot(0, [98, 2, 20, 1, 3, 0]));
    let restarted = compared(&first, &quiet([7, 1, 0, 0], snapshot(30, [105, 2, 22, 1, 3, 0])));
    assert!(restarted.interrupted.as_deref().unwrap().contains("restarted"));
    assert!(!restarted.succeeds());
}
