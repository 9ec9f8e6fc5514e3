//! Pure comparisons of readings and snapshots that were made up.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::model::Snapshot;
use crate::model::fixture::{self, MYSQL};
use crate::verify::row::{Range, Verdict};

static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The traced calls: fdatasync of what is appended, fsync of the base by the name that its child gives it,
/// fsync of the saved file, its parts pushed to the disk, fdatasync of the list.
fn snapshot(seconds: u64, counts: [u64; 5]) -> Snapshot {
    let row = |inode, path: &str, role, op, count| {
        fixture::row(MYSQL, inode, path, role, op, fixture::stats(&[(count, 100_000)]))
    };
    let [appended, bases, saved, pushed, list] = counts;
    Snapshot {
        files: vec![
            row(1, "/d/appendonlydir/appendonly.aof.1.incr.aof", Role::Aof, Op::Fdatasync, appended),
            row(2, "/d/temp-rewriteaof-bg-77.aof", Role::Temporary, Op::Fsync, bases),
            row(3, "/d/temp-78.rdb", Role::Rdb, Op::Fsync, saved),
            row(3, "/d/temp-78.rdb", Role::Rdb, Op::SyncFileRange, pushed),
            row(4, "/d/appendonlydir/appendonly.aof.manifest", Role::AofManifest, Op::Fdatasync, list),
        ],
        ..Snapshot::empty(
            *BEGIN + Duration::from_secs(seconds),
            SystemTime::now(),
            fixture::setup(&[Op::Fsync, Op::Fdatasync, Op::SyncFileRange]),
        )
    }
}

/// Counted: saved files, bases, and what else INFO says, or says otherwise.
fn reading(saves: u64, rewrites: u64, more: &str) -> Reading {
    let usual = format!(
        "run_id:a\nrdb_bgsave_in_progress:0\naof_rewrite_in_progress:0\nrdb_saves:{saves}\naof_rewrites:{rewrites}\n"
    );
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let otherwise: Vec<String> = more.lines().map(name).collect();
    let usual = usual.lines().filter(|line| !otherwise.contains(&name(line)));
    Reading::from_text(&usual.chain(more.lines()).collect::<Vec<_>>().join("\n"), &[])
}

fn edge(before: Reading, snapshot: Snapshot, after: Reading) -> Edge<Reading> {
    Edge { is_quiet: before == after, before, snapshot, after, earlier: Vec::new() }
}

fn quiet(reading: Reading, snapshot: Snapshot) -> Edge<Reading> {
    edge(reading.clone(), snapshot, reading)
}

fn compared(first: &Edge<Reading>, last: &Edge<Reading>) -> Verification {
    compare(&fixture::server(MYSQL, "redis-server", "Redis 7.0.15", 6379), first, last)
}

#[test]
fn each_file_that_a_child_writes_is_one_sync_and_the_rest_is_said_not_to_be_counted() {
    let first = quiet(reading(3, 1, ""), snapshot(0, [100, 1, 3, 9, 2]));
    let last = |counts| quiet(reading(5, 2, ""), snapshot(30, counts));
    let agrees = compared(&first, &last([150, 2, 5, 30, 5]));
    assert!(agrees.succeeds(), "{agrees:?}");
    let rows = [SAVED, BASES, "append-only file, syncs", "everything else"]
        .map(|what| (agrees.row(what).traced, agrees.row(what).counted.map(|range| range.at_most)));
    assert_eq!(rows, [(2, Some(2)), (1, Some(1)), (50, None), (24, None)]);
    for (what, counts) in
        [(SAVED, [150, 2, 6, 30, 5]), (SAVED, [150, 2, 4, 30, 5]), (BASES, [150, 1, 5, 30, 5])]
    {
        let differs = compared(&first, &last(counts));
        assert_eq!(differs.row(what).verdict, Verdict::Differs, "{differs:?}");
        assert!(!differs.succeeds());
    }
}

#[test]
fn a_base_is_known_by_either_name() {
    let first = quiet(reading(0, 1, ""), snapshot(0, [0; 5]));
    let mut traced = snapshot(30, [7, 0, 0, 0, 0]);
    traced.files.push(fixture::row(
        MYSQL,
        9,
        "/d/appendonlydir/appendonly.aof.2.base.rdb",
        Role::Aof,
        Op::Fsync,
        fixture::stats(&[(1, 5)]),
    ));
    let agrees = compared(&first, &quiet(reading(0, 2, ""), traced));
    assert_eq!(
        (agrees.row(BASES).traced, agrees.row("append-only file, syncs").traced),
        (1, 7),
        "{agrees:?}"
    );
    assert!(agrees.succeeds());
}

#[test]
fn a_child_at_an_end_of_the_window_makes_a_range() {
    let saving = |saves| reading(saves, 0, "rdb_bgsave_in_progress:1\n");
    let first = quiet(saving(3), snapshot(0, [0, 0, 2, 0, 0]));
    // Both were begun within the window, and of the second nothing is synced yet; but the one before was.
    let last = quiet(saving(5), snapshot(30, [0, 0, 4, 0, 0]));
    let range = compared(&first, &last);
    assert_eq!(range.row(SAVED).counted, Some(Range { at_least: 1, at_most: 3 }));
    assert_eq!(range.row(BASES).counted, Some(Range { at_least: 0, at_most: 0 }));
    assert!(range.succeeds());
    assert!(!first.after.is_settled() && quiet(reading(3, 0, ""), snapshot(0, [0; 5])).after.is_settled());
}

#[test]
fn what_a_counter_does_not_mean_is_not_held_to_it() {
    let first = quiet(reading(3, 1, ""), snapshot(0, [0; 5]));
    for (more, what, why) in [
        ("rdb_last_bgsave_status:err\n", SAVED, FAILED),
        ("aof_last_bgrewrite_status:err\n", BASES, FAILED),
        ("role:slave\n", SAVED, REPLICA),
    ] {
        let last = quiet(reading(4, 2, more), snapshot(30, [0; 5]));
        let row = compared(&first, &last).row(what).clone();
        assert_eq!((row.kind, row.note.as_deref()), (Kind::Approximate, Some(why)), "{more}");
    }
    // Such a failure may be followed by one that succeeds; and a command may make a file that is not counted.
    let mut torn = snapshot(30, [0, 0, 1, 0, 0]);
    torn.files[2].stats.errors = [(libc::ENOSPC, 1)].into();
    let row = compared(&first, &quiet(reading(5, 1, ""), torn)).row(SAVED).clone();
    assert_eq!((row.kind, row.note.as_deref()), (Kind::Approximate, Some(FAILED)));
    let called = |n: u64| format!("cmdstat_flushall:calls={n},usec=5\n");
    let flushed = compared(
        &quiet(reading(3, 1, &called(1)), snapshot(0, [0; 5])),
        &quiet(reading(3, 1, &called(2)), snapshot(30, [0, 0, 1, 0, 0])),
    );
    assert_eq!(
        (flushed.row(SAVED).kind, flushed.row(SAVED).note.as_deref()),
        (Kind::Approximate, Some(UNCOUNTED))
    );
    let old = |text: &str| Reading::from_text(&format!("run_id:a\n{text}"), &[]);
    let none = compared(&quiet(old(""), snapshot(0, [0; 5])), &quiet(old(""), snapshot(9, [1, 1, 1, 0, 0])));
    assert_eq!((none.row(SAVED).kind, none.row(SAVED).note.as_deref()), (Kind::NoCounter, Some(OLD)));
    assert!(!none.succeeds(), "nothing is compared");
}

#[test]
fn bytes_that_are_appended_are_those_by_which_the_file_grew() {
    let at = |seconds, bytes: u64, base: u64| {
        let mut snapshot = snapshot(seconds, [0; 5]);
        let written = |inode, path: &str, bytes| {
            let stats = crate::model::Stats { bytes, ..fixture::stats(&[(bytes / 10, 5)]) };
            fixture::row(MYSQL, inode, path, Role::Aof, Op::Write, stats)
        };
        std::sync::Arc::make_mut(&mut snapshot.setup).ops.push(Op::Write);
        snapshot.writes = vec![
            written(1, "/d/appendonlydir/appendonly.aof.1.incr.aof", bytes),
            written(5, "/d/appendonlydir/appendonly.aof.1.base.rdb", base),
        ];
        snapshot
    };
    let size =
        |bytes: u64, base: u64| reading(0, 0, &format!("aof_current_size:{bytes}\naof_base_size:{base}\n"));
    let first = quiet(size(1_000, 88), at(0, 500, 0));
    let agrees = compared(&first, &quiet(size(3_000, 88), at(30, 2_500, 0)));
    let row = agrees.row(BYTES);
    assert_eq!(
        (row.traced, row.counted.map(|range| range.at_most), row.verdict),
        (2_000, Some(2_000), Verdict::Agrees)
    );
    assert!(!compared(&first, &quiet(size(3_001, 88), at(30, 2_500, 0))).succeeds());
    // With another base, the size says nothing of what was appended.
    let rewritten = compared(&first, &quiet(size(3_000, 700), at(30, 2_500, 700)));
    assert_eq!((rewritten.row(BYTES).kind, rewritten.row(BYTES).traced), (Kind::Approximate, 2_000));
    // Off, or of a version that tells nothing.
    let off = compared(&quiet(reading(0, 0, ""), at(0, 0, 0)), &quiet(reading(0, 0, ""), at(9, 50, 0)));
    assert_eq!(off.row(BYTES).note.as_deref(), Some(OFF));
}

#[test]
fn after_a_restart_nothing_is_said() {
    let first = quiet(reading(3, 1, ""), snapshot(0, [0; 5]));
    let last = quiet(reading(3, 1, "run_id:b\n"), snapshot(30, [0; 5]));
    let restarted = compared(&first, &last);
    assert!(restarted.interrupted.as_deref().unwrap().contains("restarted"));
    assert!(!restarted.succeeds());
}
