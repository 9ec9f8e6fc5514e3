//! Needs root, and a real PostgreSQL: what is written of its log, in calls and bytes, against what it counts
//! itself.

use std::cell::Cell;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::measured::{Measured, count, number};
use crate::common::needs;
use crate::common::postgres::{Cluster, Postgres, Wal};
use crate::common::postgres_log::{PAGE, is_of_log, measure};

const SEGMENT: u64 = 16 << 20;
/// Full-page images after a checkpoint would soon fill the log's files; recycled files would leave none to be
/// created.
const SETTINGS: [&str; 2] = ["full_page_writes=off", "wal_recycle=off"];

/// Calls and bytes.
fn written(measured: &Measured) -> (u64, u64) {
    let rows = measured.0["writes"].as_array().unwrap();
    let rows = rows.iter().filter(|row| is_of_log(row));
    let add = |(calls, bytes), row: &Value| (calls + count(row), bytes + number(row, "bytes"));
    rows.fold((0, 0), add)
}

/// The load begins with a file of the log that is there and has room for all of it.
fn measure_writes(server: &Postgres<'_>, load: impl Fn(&Postgres<'_>)) -> (Measured, Wal) {
    server.query("SELECT pg_switch_wal()");
    server.query("CHECKPOINT");
    let pid = server.pid().to_string();
    let (measured, counted) = measure(&["--pid", &pid, "--writes", "all"], server, load);
    measured.assert_no_call_lost();
    (measured, counted)
}

/// From 18 on, the server counts the bytes that it asks the kernel to write, and so does the kernel.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_bytes_of_the_log_are_those_that_postgresql_counts() {
    needs(&[]);
    let cluster = Cluster::with_tables(18);
    for method in ["wal_sync_method=open_datasync", "wal_sync_method=fdatasync"] {
        let server = cluster.start(&[&SETTINGS[..], &[method]].concat());
        let (measured, counted) = measure_writes(&server, |server| server.load(16, 100));
        let seen = written(&measured);
        eprintln!("{method}: {seen:?} {counted:?}");
        assert!(counted.writes >= 100, "{method}: {counted:?}");
        assert_eq!((seen, counted.made), ((counted.writes, counted.written), 0), "{method}: {counted:?}");
        server.stop();
    }
}

/// A file that is made is filled with zeros first (wal_init_zero), which is a context of its own there
/// ("init"), and here in the row of the file that it becomes.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_bytes_by_which_files_of_the_log_are_made_are_counted_apart_there() {
    needs(&[]);
    let cluster = Cluster::with_tables(18);
    let server = cluster.start(&SETTINGS);
    let (measured, counted) = measure_writes(&server, |server| {
        for _ in 0..2 {
            server.load(4, 20);
            server.query("SELECT pg_switch_wal()");
        }
    });
    let (_, bytes) = written(&measured);
    eprintln!("{bytes} {counted:?}");
    assert!(counted.made >= SEGMENT && counted.made.is_multiple_of(SEGMENT), "{counted:?}");
    assert_eq!(bytes, counted.written + counted.made, "{counted:?}");
    server.stop();
}

/// Before 18 it counts the calls, and the bytes of records. What these are rounded up to is known within a
/// page for each call: whole pages are written, and the first one of a call may have been written before, as
/// far as it was full.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_bytes_of_an_older_log_are_whole_pages_of_each_write() {
    needs(&[]);
    std::thread::scope(|scope| {
        for version in [15, 17] {
            scope.spawn(move || whole_pages(version));
        }
    });
}

fn whole_pages(version: u32) {
    let cluster = Cluster::with_tables(version);
    for method in ["wal_sync_method=fdatasync", "wal_sync_method=open_datasync"] {
        let server = cluster.start(&[&SETTINGS[..], &[method]].concat());
        let grown = Cell::new(0);
        let (measured, counted) = measure_writes(&server, |server| {
            let before = server.wal_position();
            server.load(16, 100);
            server.quiet_wal();
            grown.set(server.wal_position() - before);
        });
        let (calls, bytes) = written(&measured);
        let said = format!("{version} {method}: {bytes} bytes, {} of the log, {counted:?}", grown.get());
        eprintln!("{said}");
        assert!(counted.writes >= 100, "{said}");
        assert_eq!(calls, counted.writes, "{said}");
        assert!(bytes.is_multiple_of(PAGE), "{said}");
        let least = grown.get().max(counted.writes * PAGE);
        let most = grown.get() + (counted.writes + 1) * PAGE;
        assert!((least..=most).contains(&bytes), "{said}");
        server.stop();
    }
}

/// How far its log is behind is looked at by the server itself, each millisecond, while files of the log are
/// made: their zeros are no commit's data.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_at_its_worst_the_log_is_as_far_behind_as_postgresql_sees_it() {
    needs(&[]);
    // A fast machine writes a gigabyte meanwhile.
    let cluster = Cluster::on("ext4", 4096);
    let server = cluster.start(&SETTINGS);
    server.query("CREATE TABLE t (b text)");
    server.query("ALTER TABLE t ALTER b SET STORAGE EXTERNAL");
    server.query(
        "CREATE PROCEDURE work(seconds float) LANGUAGE plpgsql AS $$ \
         DECLARE until timestamptz := clock_timestamp() + make_interval(secs => seconds); \
         BEGIN WHILE clock_timestamp() < until LOOP \
         INSERT INTO t VALUES (repeat('x', 40000)); COMMIT; END LOOP; END $$",
    );
    server.query(
        "CREATE FUNCTION most_behind(seconds float) RETURNS bigint LANGUAGE plpgsql AS $$ \
         DECLARE until timestamptz := clock_timestamp() + make_interval(secs => seconds); most bigint := 0; \
         BEGIN WHILE clock_timestamp() < until LOOP \
         most := greatest(most, pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn()); \
         PERFORM pg_sleep(0.001); END LOOP; RETURN most; END $$",
    );
    server.query("SELECT pg_switch_wal()");
    server.query("CHECKPOINT");
    let command = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["once", "--output", "json", "--writes", "all", "-d", "8", "--pid", &server.pid().to_string()])
        .stdout(Stdio::piped())
        .spawn();
    let fsynctop = command.unwrap();
    let from = server.wal_position();
    let _load = server.begin("CALL work(9)");
    let behind: u64 = server.query("SELECT most_behind(9)").parse().unwrap();
    let output = fsynctop.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let grown = server.wal_position() - from;
    let measured = Measured::parse(&String::from_utf8(output.stdout).unwrap());
    let rows = measured.0["unsynced"].as_array().unwrap();
    let wal = rows.iter().find(|row| row["role"] == "wal").unwrap();
    eprintln!("the log grew by {grown}; at most behind: {behind} by the server, here {wal}");
    assert!(grown > 2 * SEGMENT, "{grown}: no file of the log was made");
    // It looks each millisecond only; here a log that goes on to its next file may count twice, and what a
    // new file took before it was looked at may all have been unsynced at once: on a busy machine, of 0.1 s.
    let most = number(wal, "max_bytes");
    let bound = 2 * behind + 32 * PAGE + grown / 80;
    assert!(bound < SEGMENT, "{grown}: it would hide a segment's zeros");
    assert!(most > PAGE && most <= bound, "{most}, {behind} by the server");
    server.stop();
}
