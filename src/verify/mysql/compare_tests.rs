use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::model::fixture::{self, MARIADB, MYSQL};
use crate::model::{Op, Snapshot, durability};
use crate::server::mysql::status::reading::Reading;
use crate::verify::render;
use crate::verify::row::{Range, Verdict};

fn compare(server: ServerId, first: &Edge, last: &Edge) -> Verification {
    super::compare(&fixture::server(server, "mysqld", "MySQL 9.7.4", 3306), first, last)
}

/// The traced syncs: redo log, a tablespace, the binary log, the server's own dictionary, a directory.
fn snapshot(seconds: u64, counts: [u64; 5]) -> Snapshot {
    let row = |inode, path: &str, role, count| {
        fixture::row(MYSQL, inode, path, role, Op::Fdatasync, fixture::stats(&[(count, 100_000)]))
    };
    let [redo, data, binlog, frm, directory] = counts;
    let setup = fixture::setup(&[Op::Fsync, Op::Fdatasync]);
    let other =
        fixture::row(MARIADB, 9, "/b/ib_logfile0", Role::Redo, Op::Fsync, fixture::stats(&[(77, 1_000)]));
    Snapshot {
        files: vec![
            row(1, "/d/ib_logfile0", Role::Redo, redo),
            row(2, "/d/t/a.ibd", Role::Tablespace, data),
            row(3, "/d/binlog.000001", Role::Binlog, binlog),
            row(4, "/d/t/a.frm", Role::Dictionary, frm),
            row(5, "/d", Role::Directory, directory),
            other,
        ],
        ..Snapshot::empty(Instant::now() + Duration::from_secs(seconds), SystemTime::now(), setup)
    }
}

fn mysql(innodb: u64, redo: u64, binlog: u64) -> Reading {
    let (innodb, redo) = (innodb.to_string(), redo.to_string());
    let status =
        [("Innodb_data_fsyncs", innodb.as_str()), ("Innodb_os_log_fsyncs", redo.as_str()), ("Uptime", "9")];
    Reading {
        binlog_files: Some([("/d/binlog.000001".to_owned(), binlog)].into()),
        ..Reading::from_pairs(status, [("log_bin", "ON")])
    }
}

fn edge(before: Reading, snapshot: Snapshot, after: Reading) -> Edge {
    Edge { before, snapshot, after, is_quiet: false, earlier: Vec::new() }
}

fn quiet(reading: &Reading, snapshot: Snapshot) -> Edge {
    Edge { is_quiet: true, ..edge(reading.clone(), snapshot, reading.clone()) }
}

fn verdicts(verification: &Verification) -> Vec<(&'static str, Kind, Verdict)> {
    verification.rows.iter().map(|row| (row.what, row.kind, row.verdict)).collect()
}

#[test]
fn equal_figures_agree_and_one_sync_more_or_less_differs() {
    let first = quiet(&mysql(100, 60, 10), snapshot(0, [60, 40, 10, 0, 1]));
    let last = |counts| quiet(&mysql(180, 120, 35), snapshot(10, counts));
    let same = compare(MYSQL, &first, &last([120, 60, 35, 0, 2]));
    assert!(same.succeeds(), "{same:?}");
    assert_eq!(
        verdicts(&same),
        [
            ("redo log", Kind::Exact, Verdict::Agrees),
            ("data files, doublewrite, undo", Kind::Exact, Verdict::Agrees),
            ("InnoDB together", Kind::Exact, Verdict::Agrees),
            ("binary log", Kind::Exact, Verdict::Agrees),
            ("everything else", Kind::NoCounter, Verdict::NotCompared),
        ]
    );
    assert_eq!(same.rows[0].counted, Some(Range { at_least: 60, at_most: 60 }));
    for wrong in [[121, 60, 35, 0, 2], [119, 60, 35, 0, 2], [120, 61, 35, 0, 2], [120, 60, 34, 0, 2]] {
        assert!(!compare(MYSQL, &first, &last(wrong)).succeeds(), "{wrong:?}");
    }
    // Only a role that no counter covers may have any value.
    assert!(compare(MYSQL, &first, &last([120, 60, 35, 0, 99])).succeeds());
}

#[test]
fn the_bytes_of_a_doublewrite_buffer_inside_of_a_tablespace_are_its_pages() {
    use crate::model::{Server, Stats};

    let reading = |pages: &str, bytes: &str, has_events: bool| {
        let status = [
            ("Innodb_dblwr_pages_written", pages),
            ("Innodb_page_size", "16384"),
            ("Innodb_data_written", bytes),
            ("Binlog_group_commits", "0"),
            ("Uptime", "9"),
        ];
        let events = || [("wait/io/file/innodb/innodb_data_file".to_owned(), bytes.parse().unwrap())].into();
        Reading { written: has_events.then(events), ..Reading::from_pairs(status, [("log_bin", "OFF")]) }
    };
    let server = |since| Server {
        doublewrite_apart_since: since,
        ..fixture::server(MYSQL, "mariadbd", "MariaDB 10.11.14", 3306)
    };
    let at = |since, seconds, doublewrite, pages| {
        let mut snapshot = snapshot(seconds, [0; 5]);
        let ops = [Op::Write, Op::IoUringWrite, Op::AioWrite];
        std::sync::Arc::make_mut(&mut snapshot.setup).ops.extend(ops);
        snapshot.monotonic = Duration::from_secs(100 + seconds);
        let row = |inode, path, role, bytes| {
            let stats = Stats { bytes, ..fixture::stats(&[(bytes / 16_384, 1_000)]) };
            fixture::row(MYSQL, inode, path, role, Op::Write, stats)
        };
        snapshot.writes = vec![
            row(1, "/d/ibdata1", Role::Doublewrite, doublewrite),
            row(2, "/d/t/a.ibd", Role::Tablespace, pages),
        ];
        snapshot.servers = vec![std::sync::Arc::new(server(since))];
        snapshot
    };
    let known = Duration::from_secs(99);
    let of = |since, has_events| {
        let first = quiet(&reading("2", "32768", has_events), at(since, 0, 0, 0));
        let last = quiet(&reading("6", "163840", has_events), at(since, 10, 4 * 16_384, 4 * 16_384));
        let verification = super::compare(&server(since), &first, &last);
        let rows = verification.rows.into_iter().filter(|row| row.what.ends_with("bytes") && row.traced > 0);
        rows.map(|row| (row.what, row.traced, row.verdict)).collect::<Vec<_>>()
    };
    let others = [
        ("data files, bytes", 65_536, Verdict::NotCompared),
        ("InnoDB without redo log, bytes", 131_072, Verdict::Agrees),
    ];
    let buffer = |verdict| ("doublewrite buffer, bytes", 65_536, verdict);
    assert_eq!(of(Some(known), false), [buffer(Verdict::Agrees), others[0], others[1]]);
    assert_eq!(of(None, false), [buffer(Verdict::NotCompared), others[0], others[1]]);
    // To performance_schema, it is of the data files.
    for since in [Some(known), None] {
        let rows = of(since, true);
        assert_eq!(rows[1..], [("data files, bytes", 131_072, Verdict::Agrees), others[1]]);
    }
}

/// A server under O_DSYNC: writes of the redo log counted by the server and traced, the last checkpoint.
fn by_writes(counted: (u64, u64), traced: u64, checkpoint: (&str, &str), files: u64) -> Verification {
    let reading = |writes: u64, checkpoint: &str| {
        let writes = writes.to_string();
        let status = [
            ("Innodb_data_fsyncs", "40"),
            ("Innodb_os_log_fsyncs", "0"),
            ("Innodb_log_writes", writes.as_str()),
            ("Innodb_redo_log_checkpoint_lsn", checkpoint),
            ("Uptime", "9"),
        ];
        Reading::from_pairs(status, [("log_bin", "OFF"), ("innodb_flush_method", "O_DSYNC")])
    };
    let at = |seconds, traced: u64| {
        let mut snapshot = snapshot(seconds, [0, 40, 0, 0, 0]);
        snapshot.files.retain(|row| row.server == MYSQL && row.stats.count > 0);
        std::sync::Arc::make_mut(&mut snapshot.setup).ops.push(Op::DsyncWrite);
        let row = |n| {
            let stats = fixture::stats(&[(traced / files, 100_000)]);
            fixture::row(MYSQL, 20 + n, "/d/#innodb_redo/#ib_redo1", Role::Redo, Op::DsyncWrite, stats)
        };
        snapshot.files.extend((0..files).map(row));
        snapshot
    };
    let first = quiet(&reading(counted.0, checkpoint.0), at(0, 0));
    compare(MYSQL, &first, &quiet(&reading(counted.1, checkpoint.1), at(10, traced)))
}

#[test]
fn durable_writes_of_the_redo_log_are_compared_with_its_writes() {
    let of = |verification: &Verification| {
        let row = verification.rows.iter().find(|row| row.what == "redo log, durable writes").unwrap();
        (row.kind, row.verdict, verification.succeeds())
    };
    let same = by_writes((7, 107), 100, ("900", "900"), 1);
    assert_eq!(of(&same), (Kind::Exact, Verdict::Agrees, true), "{same:?}");
    assert_eq!(same.not_compared, [""; 0]);
    for wrong in [99, 101, 0] {
        let differs = by_writes((7, 107), wrong, ("900", "900"), 1);
        assert_eq!(of(&differs), (Kind::Exact, Verdict::Differs, false), "{wrong}");
    }
    // A checkpoint is written, and so is the head of another file.
    for (checkpoint, files) in [(("900", "950"), 1), (("900", "900"), 2)] {
        let verification = by_writes((7, 107), 102, checkpoint, files);
        assert_eq!(of(&verification), (Kind::Approximate, Verdict::Differs, true));
        let table = render::table(&verification, "mysqld 7");
        assert!(
            table.contains("redo log, durable writes: the server does not count the writes of"),
            "{table}"
        );
    }
}

#[test]
fn a_redo_log_that_its_writes_make_durable_is_said_to_be_outside_of_the_comparison() {
    let with = |method: &'static str| {
        let reading = |innodb: u64, binlog: u64| {
            let variables = Reading::from_pairs([], [("log_bin", "ON"), ("innodb_flush_method", method)]);
            mysql(innodb, 60, binlog).with_variables_of(&variables)
        };
        let first = quiet(&reading(100, 10), snapshot(0, [60, 40, 10, 0, 0]));
        compare(MYSQL, &first, &quiet(&reading(120, 35), snapshot(10, [60, 60, 35, 0, 0])))
    };
    let verification = with("O_DSYNC");
    assert!(verification.succeeds(), "{verification:?}");
    let outside = "Each write of the redo log is itself durable (innodb_flush_method=O_DSYNC): the \
                   server counts no sync for it, so what is compared here says nothing of it.";
    let table = render::table(&verification, "mysqld 7");
    assert!(table.lines().any(|line| line == outside), "{table}");
    let json = render::json(&verification, serde_json::json!({}));
    assert_eq!(json["not_compared"], serde_json::json!([outside]));
    let synced = with("O_DIRECT");
    assert!(synced.not_compared.is_empty());
    assert!(!render::table(&synced, "mysqld 7").contains("durable"));
}

#[test]
fn syncs_that_never_reached_the_kernel_are_explained() {
    let first = quiet(&mysql(100, 60, 10), snapshot(0, [60, 40, 10, 0, 0]));
    let traced = |counts| quiet(&mysql(180, 120, 35), snapshot(10, counts));
    let (none, all, more) =
        (traced([60, 40, 10, 0, 0]), traced([120, 60, 35, 0, 0]), traced([121, 60, 35, 0, 0]));
    let possible = "The server counts more syncs than it was seen to ask the kernel for. Possible causes: a preloaded \
                    library such as libeatmydata, which turns them into nothing, or a way to sync that is not watched \
                    (io_uring, libaio, msync, sync_file_range, syncfs, sync).";
    let verification = compare(MYSQL, &first, &none);
    assert_eq!(verification.possible_causes, [possible]);
    let table = render::table(&verification, "mysqld 7");
    assert!(table.lines().any(|line| line == possible), "{table}");
    let json = render::json(&verification, serde_json::json!({}));
    assert_eq!(json["possible_causes"], serde_json::json!([possible]));
    // Where there is no such difference, nothing is to be explained.
    for last in [&all, &more] {
        assert_eq!(compare(MYSQL, &first, last).possible_causes, [""; 0]);
    }
    let notes = vec![durability::SYNCS_DO_NOTHING.to_owned()];
    let server = Server { notes, ..fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306) };
    assert_eq!(super::compare(&server, &first, &none).possible_causes, [durability::SYNCS_DO_NOTHING]);
}

#[test]
fn at_a_busy_edge_the_figures_must_lie_between() {
    let first = edge(mysql(100, 60, 10), snapshot(0, [61, 40, 10, 0, 0]), mysql(103, 63, 11));
    let last = |redo| edge(mysql(180, 120, 35), snapshot(10, [redo, 60, 35, 0, 0]), mysql(181, 121, 35));
    let row = |redo| compare(MYSQL, &first, &last(redo)).rows[0].clone();
    assert_eq!(row(120).counted, Some(Range { at_least: 57, at_most: 61 }));
    assert_eq!(row(118).verdict, Verdict::Agrees);
    assert_eq!(row(122).verdict, Verdict::Agrees);
    assert_eq!(row(117).verdict, Verdict::Differs);
    assert_eq!(row(123).verdict, Verdict::Differs);
}

#[test]
fn mariadb_counts_a_commit_group_after_its_sync_and_may_be_two_behind() {
    let reading = |groups: &str| {
        let status = [("Innodb_data_fsyncs", "100"), ("Binlog_group_commits", groups), ("Uptime", "9")];
        Reading::from_pairs(status, [("sync_binlog", "1"), ("log_bin", "ON")])
    };
    // Nothing moved while each edge was read; whether it moved afterwards reveals a load.
    let at = |seconds, groups, traced, is_quiet| {
        let edge = quiet(&reading(groups), snapshot(seconds, [0, 0, traced, 0, 0]));
        Edge { is_quiet, ..edge }
    };
    let range = |first_is_quiet, last_is_quiet| {
        let verification = compare(MYSQL, &at(0, "10", 10, first_is_quiet), &at(10, "35", 35, last_is_quiet));
        assert_eq!(verification.rows[0].counted, Some(Range { at_least: 0, at_most: 0 }), "only the groups");
        let binlog = verification.rows.iter().find(|row| row.what == "binary log").unwrap();
        let Range { at_least, at_most } = binlog.counted.unwrap();
        (at_least, at_most)
    };
    assert_eq!(range(true, true), (25, 25));
    // Groups synced before the window may be counted in it, and those synced in it after it.
    assert_eq!(range(false, true), (23, 25));
    assert_eq!(range(true, false), (25, 27));
    assert_eq!(range(false, false), (23, 27));
}

#[test]
fn what_a_server_does_not_count_is_not_compared_and_alone_is_no_success() {
    let nothing = Reading::from_pairs([("Uptime", "9")], []);
    let (first, last) = (snapshot(0, [0, 0, 0, 0, 0]), snapshot(10, [5, 5, 5, 0, 0]));
    let verification = compare(MYSQL, &quiet(&nothing, first), &quiet(&nothing, last));
    assert!(verification.rows.iter().all(|row| row.verdict == Verdict::NotCompared));
    assert!(!verification.succeeds());
}

#[test]
fn mariadb_has_the_sum_and_the_groups_and_its_own_dictionary_is_not_innodb() {
    let reading = |innodb: &str, groups: &str, file: &str| {
        let status = [
            ("Innodb_data_fsyncs", innodb),
            ("Binlog_group_commits", groups),
            ("Binlog_snapshot_file", file),
            ("Uptime", "9"),
        ];
        Reading::from_pairs(status, [("sync_binlog", "1"), ("log_bin", "ON")])
    };
    let first = quiet(&reading("100", "10", "b.1"), snapshot(0, [60, 40, 10, 0, 0]));
    let last = quiet(&reading("180", "35", "b.1"), snapshot(10, [120, 60, 35, 7, 0]));
    let same = compare(MYSQL, &first, &last);
    assert!(same.succeeds(), "{same:?}");
    assert_eq!(same.rows[0].kind, Kind::NoCounter);
    assert_eq!(same.rows.last().unwrap().traced, 7);
    // Another file: the syncs that start and end it are no commit groups.
    let rotated = quiet(&reading("180", "33", "b.2"), snapshot(10, [120, 60, 35, 7, 0]));
    let verification = compare(MYSQL, &first, &rotated);
    assert!(verification.succeeds(), "an approximate row decides nothing");
    assert!(verdicts(&verification).contains(&("binary log", Kind::Approximate, Verdict::Differs)));
}

#[test]
fn after_a_restart_nothing_is_said() {
    let first = quiet(&mysql(100, 60, 10), snapshot(0, [0; 5]));
    let restarted = Reading::from_pairs([("Uptime", "2")], [("log_bin", "ON")]);
    let verification = compare(MYSQL, &first, &quiet(&restarted, snapshot(10, [0; 5])));
    assert_eq!(verification.interrupted.as_deref(), Some("the server was restarted meanwhile"));
    assert!(!verification.succeeds());
}

/// Ten redo syncs counted as the log's and 36 as data, and these rows of files besides ten syncs of the
/// log.
fn with_redo_files(files: &[(u64, &str, Role, u64)]) -> (Edge, Edge) {
    let mut snapshot_after = snapshot(10, [60, 70, 0, 0, 0]);
    snapshot_after.files.extend(files.iter().map(|&(inode, path, role, count)| {
        fixture::row(MYSQL, inode, path, role, Op::Fdatasync, fixture::stats(&[(count, 100_000)]))
    }));
    let first = quiet(&mysql(100, 60, 0), snapshot(0, [50, 40, 0, 0, 0]));
    (first, quiet(&mysql(146, 70, 0), snapshot_after))
}

#[test]
fn the_sync_that_makes_a_redo_file_is_among_the_data() {
    let spare = |inode, path| (inode, path, Role::Redo, 1);
    let made: Vec<_> = [
        "/d/#innodb_redo/#ib_redo6_tmp",
        "/d/#innodb_redo/#ib_redo7_tmp",
        "/d/#innodb_redo/#ib_redo8_tmp",
        "/d/#innodb_redo/#ib_redo9_tmp",
        "/d/#innodb_redo/#ib_redo10_tmp",
        "/d/#innodb_redo/#ib_redo11_tmp",
    ]
    .into_iter()
    .zip(20..)
    .map(|(path, inode)| spare(inode, path))
    .collect();
    let with = |more: &[(u64, &'static str, Role, u64)]| {
        let (first, last) = with_redo_files(&[&made[..], more].concat());
        let verification = compare(MYSQL, &first, &last);
        let traced = (verification.rows[0].traced, verification.rows[1].traced);
        (verification.succeeds(), traced, verdicts(&verification)[..3].to_vec())
    };
    let all = |kind, verdict| {
        vec![
            ("redo log", kind, verdict),
            ("data files, doublewrite, undo", kind, verdict),
            ("InnoDB together", Kind::Exact, Verdict::Agrees),
        ]
    };
    let exact = all(Kind::Exact, Verdict::Agrees);
    assert_eq!(with(&[]), (true, (10, 36), exact.clone()));
    // If the directory was synced as often, no other file was created, and removing files creates none.
    let directory = |count| (30, "/d/#innodb_redo", Role::Directory, count);
    assert_eq!(with(&[directory(6)]), (true, (10, 36), exact.clone()));
    assert_eq!(with(&[directory(62)]), (true, (10, 36), exact));
    // A file that may have been created here: in use by now.
    let used = (31, "/d/#innodb_redo/#ib_redo12", Role::Redo, 3);
    let (_, _, with_one) = with(&[directory(6), used]);
    assert_eq!(with_one[0], ("redo log", Kind::Exact, Verdict::Differs));
    let (_, _, unknown) = with(&[directory(7), used]);
    assert_eq!(unknown[0].1, Kind::Approximate);
    assert_eq!(unknown[1].1, Kind::Approximate);
    assert_eq!(unknown[2], ("InnoDB together", Kind::Exact, Verdict::Differs));
}

#[test]
fn a_spare_redo_file_in_use_was_not_made_now() {
    // Ten under its old name and its new one: all of them the log's.
    let (mut first, mut last) = with_redo_files(&[(20, "/d/#innodb_redo/#ib_redo6", Role::Redo, 6)]);
    let data = |edge: &Edge, first: &Edge| compare(MYSQL, first, edge).rows[1].traced;
    assert_eq!(data(&last, &first), 30);
    // Nor a file that had been synced before, whatever its name is now.
    let spare = |count| {
        let stats = fixture::stats(&[(count, 100_000)]);
        fixture::row(MYSQL, 20, "/d/#innodb_redo/#ib_redo9_tmp", Role::Redo, Op::Fdatasync, stats)
    };
    *last.snapshot.files.last_mut().unwrap() = spare(5);
    first.snapshot.files.push(spare(4));
    assert_eq!(data(&last, &first), 30);
    first.snapshot.files.pop();
    *last.snapshot.files.last_mut().unwrap() = spare(1);
    assert_eq!(data(&last, &first), 31);
    // Under load it may be about to be used.
    assert_eq!(compare(MYSQL, &first, &last).rows[1].kind, Kind::Exact);
    last.is_quiet = false;
    assert_eq!(compare(MYSQL, &first, &last).rows[1].kind, Kind::Approximate);
}
