//! The JSON against its documentation, and with names that are no text.

use crate::model::Figure;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::model::fixture;
use crate::model::{Completions, Role, Stats};
use crate::render::Sort;

fn written(m: &Interval) -> String {
    let mut out = Vec::new();
    write(m, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn parsed(m: &Interval) -> Value {
    serde_json::from_str(&written(m)).unwrap()
}

/// The measurement that docs/json.md shows: a row of each kind.
fn documented() -> Interval {
    let mut m = fixture::busy();
    m.files.retain(|row| matches!(row.info.role, Role::Redo | Role::Tablespace));
    let first = m.files[0].target;
    m.files.retain(|row| row.target != first);
    m.files[1].stats.errors = [(libc::EIO, 1)].into();
    let table = m.files[1].clone();
    let mut durable = table.clone();
    durable.op = Op::DsyncWrite;
    durable.stats = Stats { bytes: 4_608, ..fixture::stats(&[(9, 140_000)]) };
    let mut in_ring = table.clone();
    in_ring.op = Op::IoUringFsync;
    in_ring.stats =
        Stats { completions: Completions { posted: true, reaped: false }, ..fixture::stats(&[(5, 150_000)]) };
    m.files.extend([durable, in_ring]);
    let failed = Stats { errors: [(libc::ENOSPC, 3)].into(), ..fixture::stats(&[(3, 0)]) };
    let unwritten = Stats { count: 1, errors: [(libc::EIO, 1)].into(), ..Stats::default() };
    m.failures = vec![
        FileRow { op: Op::IoUringWrite, stats: failed, ..table.clone() },
        FileRow { op: Op::Writeback, stats: unwritten, ..table },
    ]
    .into();
    m.threads.retain(|row| row.tid == 31_999);
    let mut server = (*m.servers[0]).clone();
    server.notes = vec![
        "innodb_flush_method=nosync is set: the server leaves syncs out, and a crash can lose data.".into(),
    ];
    m.servers[0] = server.into();
    m.in_flight = vec![fixture::in_flight(
        Role::Redo,
        "/var/lib/mysql/#innodb_redo/#ib_redo6",
        Duration::from_micros(12_400),
    )];
    m.neighbours = vec![fixture::neighbour("/dev/vda", "xtrabackup", &[(56, 20_000_000)])].into();
    m.devices = vec![device(0)].into();
    m.io = vec![crate::model::ServerIo {
        server: fixture::MYSQL,
        read_bytes: 0,
        written_bytes: 1_490_944,
        cancelled_bytes: 0,
    }]
    .into();
    let (files, threads) = (m.files.clone(), m.threads.clone());
    fixture::with_files(m, files, threads)
}

fn device(submitted_bytes: u64) -> crate::model::DeviceRow {
    crate::model::DeviceRow {
        number: 8 << 20 | 1,
        name: "/dev/sda1".into(),
        mount: Some(std::path::Path::new("/").into()),
        written_bytes: 20_480,
        read_bytes: 4_096,
        submitted_bytes,
    }
}

#[test]
fn the_example_in_the_documentation_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/json.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once("```json\n").unwrap();
    let (_, after) = rest.split_once("\n```").unwrap();
    let example = serde_json::to_string_pretty(&of(&documented())).unwrap();
    fixture::assert_expected("docs/json.md", &format!("{before}```json\n{example}\n```{after}"));
}

#[test]
fn an_interval_is_one_line_in_schema_1() {
    let text = written(&fixture::busy());
    assert_eq!(text.lines().count(), 1);
    assert!(text.ends_with("}\n"));
    let json = parsed(&fixture::busy());
    assert_eq!(json["schema"], 1);
    assert_eq!(json["start"], "2026-05-28T10:03:01.250000Z");
    assert_eq!(json["duration_seconds"], 1.368);
    assert_eq!(json["attach"], "fentry");
    assert_eq!(json["kernel"], "6.12.0-1-amd64");
    assert_eq!(json["lost"]["preempted"], 0);
    assert_eq!(json["servers"][0]["server"], "MySQL");
    assert_eq!(json["servers"][0]["version"], "9.7.4");
    let redo = &json["roles"][0];
    assert_eq!(
        (&redo["pid"], &redo["role"], &redo["op"]),
        (&31_960.into(), &"redo".into(), &"fdatasync".into())
    );
    assert_eq!(redo["count"], 3_237);
    assert_eq!(redo["latency_seconds"]["max"], 0.0017);
    assert_eq!(redo["latency_seconds"]["max_exact"], true);
}

#[test]
fn what_is_not_watched_is_counted_by_server() {
    let mut m = fixture::two_servers();
    m.lost.unwatched = 5;
    m.lost.neighbours_unwatched = 2;
    m.unwatched = vec![(fixture::MARIADB, 4)].into();
    let json = parsed(&m);
    assert_eq!((&json["lost"]["unwatched"], &json["lost"]["neighbours_unwatched"]), (&5.into(), &2.into()));
    assert_eq!((&json["servers"][0]["unwatched"], &json["servers"][1]["unwatched"]), (&0.into(), &4.into()));
    assert_eq!(json["unwatched_counted_on"], serde_json::json!(["ext4", "xfs"]));
}

#[test]
fn figures_that_do_not_exist_are_null() {
    let mut m = fixture::busy();
    m.threads[0].stats.max.exact = false;
    let json = parsed(&m);
    let latency = &json["threads"][0]["latency_seconds"];
    for name in ["min", "p50", "p90", "p99", "p999"] {
        assert_eq!(latency[name], Value::Null, "{name}: threads keep no histogram");
    }
    assert_eq!(latency["max"], 0.0031);
    assert_eq!(latency["max_exact"], false);
    let empty = serde_json::to_value(Figures::of(None, &Stats::default(), &fixture::quiet())).unwrap();
    for (name, value) in empty["latency_seconds"].as_object().unwrap() {
        assert_eq!(value, &Value::Null, "{name}");
    }
}

#[test]
fn rows_by_thread_are_there_only_when_kept() {
    let mut m = fixture::busy();
    assert_eq!(parsed(&m)["threads"].as_array().unwrap().len(), 4);
    std::sync::Arc::make_mut(&mut m.setup).by_thread = false;
    assert_eq!(parsed(&m).get("threads"), None);
}

#[test]
fn all_writes_are_rows_apart_with_the_devices_that_they_went_to() {
    let mut m = fixture::busy();
    assert_eq!(parsed(&m).get("writes"), None, "they were not watched");
    std::sync::Arc::make_mut(&mut m.setup).ops.extend([Op::DsyncWrite, Op::Write]);
    let written = |inode, path, op, bytes| {
        let stats = Stats { bytes, ..fixture::stats(&[(2, 9_000)]) };
        fixture::row(fixture::MYSQL, inode, path, crate::model::Role::Undo, op, stats)
    };
    m.files.push(written(70, "/d/undo_001", Op::DsyncWrite, 4_096));
    m.writes =
        vec![written(71, "/d/undo_002", Op::Write, 8_192), written(72, "/d/u", Op::IoUringWrite, 1)].into();
    m.devices = vec![device(12_289)].into();
    let syncs: u64 = m.files.iter().map(|row| row.stats.count).sum();
    let json = parsed(&m);
    let count = |rows: &Value| -> u64 {
        rows.as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum()
    };
    assert_eq!((count(&json["writes"]), count(&json["files"])), (6, syncs));
    let device = serde_json::json!({
        "device": "/dev/sda1", "device_number": "8:1", "mount": "/",
        "written_bytes": 20_480, "read_bytes": 4_096, "submitted_bytes": 12_289,
    });
    assert_eq!(json["devices"], serde_json::json!([device]));
    // With a limit, those that took the most time, of all of them.
    let limited = serde_json::to_value(limited(&m, &Options::default(), 2)).unwrap();
    assert_eq!((count(&limited["writes"]), &limited["left_out"]["writes"]["count"]), (4, &2.into()));
}

#[test]
fn with_a_limit_it_has_the_first_files_and_threads_and_says_what_it_leaves_out() {
    let m = fixture::busy();
    let of = |limit, options| serde_json::to_value(limited(&m, &options, limit)).unwrap();
    let json = of(2, Options::default());
    let files = json["files"].as_array().unwrap();
    assert_eq!([&files[0]["role"], &files[1]["role"]], ["binlog", "redo"], "those with the most time");
    assert_eq!((files.len(), json["threads"].as_array().unwrap().len()), (2, 2));
    assert_eq!(json["left_out"]["files"], serde_json::json!({ "rows": 4, "count": 1_168 }));
    let count = |rows: &Value| -> u64 {
        rows.as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(count(&json["roles"]), count(&json["files"]) + 1_168);
    let threads: u64 = m.threads.iter().map(|row| row.stats.count).sum();
    assert_eq!(threads, count(&json["threads"]) + json["left_out"]["threads"]["count"].as_u64().unwrap());
    let by_syncs = of(1, Options { sort: Some(Sort::Figure(Figure::Syncs)), ..Options::default() });
    assert_eq!(by_syncs["files"][0]["count"], 2_980);
    let enough = of(6, Options::default());
    assert_eq!(enough["left_out"]["files"], serde_json::json!({ "rows": 0, "count": 0 }));
    assert_eq!(parsed(&m).get("left_out"), None, "nobody asked for a limit");
}

#[test]
fn a_path_that_is_no_utf_8_keeps_its_bytes() {
    let json = parsed(&fixture::hostile());
    let file = &json["files"][0];
    assert_eq!(file["path"], "/d/a\nb\u{1b}]0;owned\u{7}\\xff\\xc3.ibd");
    assert_eq!(file["path_bytes"], "2f642f610a621b5d303b6f776e656407ffc32e696264");
    assert_eq!(file["errors"]["EIO"], 1);
    assert_eq!(json["files"][1]["path"], "/d/gpj.\u{202e}dbi.\u{9b}31m");
    assert_eq!(json["files"][1].get("path_bytes"), None);
    assert_eq!(json["servers"][0]["datadir_bytes"], "2f64fe0a");
    assert_eq!(json["in_flight"][0]["path_bytes"], "2f642f610a62ff");
    assert_eq!(json["files"][4]["target"], "bad_descriptor");
    assert_eq!(json["files"][4]["path"], Value::Null);
}

#[test]
fn the_line_itself_is_safe_on_a_terminal() {
    let text = written(&fixture::hostile());
    assert!(text.chars().all(|c| c == '\n' || !is_deceptive(c)), "{text}");
    assert!(text.contains("\\u202e") && text.contains("\\u009b"));
}

#[test]
fn a_time_that_rfc_3339_cannot_express_becomes_its_nearest() {
    let mut m = fixture::quiet();
    m.span.start = std::time::SystemTime::UNIX_EPOCH - Duration::from_secs(9);
    m.span.end = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(999_999_999_999);
    let json = parsed(&m);
    assert_eq!(json["start"], "1970-01-01T00:00:00.000000Z");
    assert_eq!(json["end"], "9999-12-31T23:59:59.000000Z");
}
