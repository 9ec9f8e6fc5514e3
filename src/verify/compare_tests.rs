use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::once::fixture::{self, MARIADB, MYSQL};
use crate::server_status::reading::Reading;
use crate::snapshot::{AttachMode, Op, Setup, Snapshot};

/// What was traced: syncs of the redo log, a tablespace, the binary log, the server's own dictionary, a directory.
fn snapshot(seconds: u64, counts: [u64; 5]) -> Snapshot {
    let row = |inode, path: &str, role, count| {
        fixture::row(MYSQL, inode, path, role, Op::Fdatasync, fixture::stats(&[(count, 100_000)]))
    };
    let [redo, data, binlog, frm, directory] = counts;
    let setup = Setup {
        mode: AttachMode::Tracepoint,
        not_chosen: Vec::new(),
        kernel: "6.12.0".into(),
        ops: vec![Op::Fsync, Op::Fdatasync],
        by_thread: false,
        note: None,
    };
    let other =
        fixture::row(MARIADB, 9, "/b/ib_logfile0", Role::Redo, Op::Fsync, fixture::stats(&[(77, 1_000)]));
    Snapshot {
        taken: Instant::now() + Duration::from_secs(seconds),
        taken_wall: SystemTime::now(),
        setup: setup.into(),
        lost: Lost::default(),
        servers: Vec::new(),
        files: vec![
            row(1, "/d/ib_logfile0", Role::Redo, redo),
            row(2, "/d/t/a.ibd", Role::Tablespace, data),
            row(3, "/d/binlog.000001", Role::Binlog, binlog),
            row(4, "/d/t/a.frm", Role::Dictionary, frm),
            row(5, "/d", Role::Directory, directory),
            other,
        ],
        threads: Vec::new(),
        in_flight: Vec::new(),
        neighbours: Vec::new(),
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
    Edge { before, snapshot, after }
}

fn quiet(reading: &Reading, snapshot: Snapshot) -> Edge {
    edge(reading.clone(), snapshot, reading.clone())
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
    // Only a role that no counter is about may be anything.
    assert!(compare(MYSQL, &first, &last([120, 60, 35, 0, 99])).succeeds());
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
    // Another file: what begins and ends it is no group.
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
