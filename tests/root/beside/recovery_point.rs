//! Needs root and real servers: how far the logs are behind under each setting is what the servers' manuals
//! promise: one commit, a second, so many commits, or whatever the operating system thinks right.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::exact::on_each;
use crate::common::measured::{Measured, number};
use crate::common::server::{Database, Kind};
use crate::common::traced::measure;
use crate::common::{Running, built, needs};
use serde_json::Value;

/// What a commit takes at most, unless its syncs take longer, on a crowded machine; less than the second that
/// InnoDB waits under innodb_flush_log_at_trx_commit=2.
const COMMIT: f64 = 0.5;
const ROWS: u32 = 1_500;

fn set(database: &Database, flush_log: u32, sync_binlog: u32) {
    let flush_log = format!("SET GLOBAL innodb_flush_log_at_trx_commit = {flush_log}");
    database.execute(&[flush_log, format!("SET GLOBAL sync_binlog = {sync_binlog}")]);
}

/// What was unsynced of a log; None if nothing ever was.
fn unsynced<'a>(measured: &'a Measured, role: &str) -> Option<&'a Value> {
    measured.0["unsynced"].as_array().unwrap().iter().find(|row| row["role"] == role)
}

fn most(measured: &Measured, role: &str) -> (u64, f64) {
    let row = unsynced(measured, role);
    row.map_or((0, 0.0), |row| (number(row, "max_bytes"), row["max_oldest_seconds"].as_f64().unwrap_or(0.0)))
}

fn written(measured: &Measured, role: &str) -> u64 {
    let rows = measured.0["writes"].as_array().unwrap().iter();
    rows.filter(|row| row["role"] == role).map(|row| row["bytes"].as_u64().unwrap_or(0)).sum()
}

/// The longest sync of a log, in seconds.
fn longest(measured: &Measured, role: &str) -> f64 {
    let rows = measured.0["roles"].as_array().unwrap().iter().filter(|row| row["role"] == role);
    rows.filter_map(|row| row["latency_seconds"]["max"].as_f64()).fold(0.0, f64::max)
}

/// One connection, so that each commit is a group of its own; from before the first to after the last.
fn load(database: &Database) -> Measured {
    let pid = database.pid.to_string();
    let load = database.load(1, ROWS);
    let command: Vec<PathBuf> =
        std::iter::once(load.get_program()).chain(load.get_args()).map(PathBuf::from).collect();
    let run = measure(&["--writes", "all", "--pid", &pid], &command);
    assert!(run.output.status.success(), "{:?}", run.output);
    let [measured] = run.measured.try_into().unwrap_or_else(|_| panic!("one measurement"));
    measured.assert_no_call_lost();
    assert_eq!(number(&measured.0, "unsynced_unknown_bytes"), 0);
    measured
}

/// In the midst of a load, as it is said.
fn window(database: &Database, output: &str) -> String {
    let mut load = database.load(4, 1_000_000);
    let _load = Running(load.stdout(Stdio::null()).spawn().unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["once", "--writes", "all", "-d", "5", "--pid", &database.pid.to_string(), "--output", output])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn root_the_logs_are_as_far_behind_as_the_settings_allow() {
    built("insert-load");
    on_each(|kind| {
        let database = Database::start(kind, &[]);
        database.prepare();
        for sync_binlog in [0, 1, 100] {
            set(&database, 1, sync_binlog);
            let measured = load(&database);
            let binlog = written(&measured, "binlog");
            let (bytes, age) = most(&measured, "binlog");
            let commit = binlog as f64 / f64::from(ROWS);
            let (redo_bytes, redo_age) = most(&measured, "redo");
            eprintln!(
                "{kind:?}, sync_binlog={sync_binlog}: {binlog} bytes of binary log in {} s, at most {bytes} and \
                 {age} s behind; the redo log {redo_bytes} and {redo_age} s",
                measured.0["duration_seconds"]
            );
            // A write may have to wait for the sync before its own.
            let commit_takes = |role| COMMIT.max(3.0 * longest(&measured, role));
            assert!(redo_bytes > 0 && redo_age < commit_takes("redo"), "{redo_bytes} bytes of {redo_age} s");
            match sync_binlog {
                0 => assert_eq!(number(unsynced(&measured, "binlog").unwrap(), "bytes"), binlog),
                1 => {
                    assert!((bytes as f64) < 2.0 * commit, "{bytes} in commits of {commit}");
                    assert!(age < commit_takes("binlog"), "{age} s");
                }
                n => {
                    let commits = bytes as f64 / commit;
                    assert!((commits - f64::from(n)).abs() < 5.0, "{commits} commits");
                }
            }
        }
        set(&database, 2, 1);
        let measured = Measured::parse(&window(&database, "json"));
        let (bytes, age) = most(&measured, "redo");
        eprintln!("{kind:?}, innodb_flush_log_at_trx_commit=2: at most {bytes} bytes and {age} s behind");
        assert!((COMMIT..5.0).contains(&age) && bytes > 0, "{bytes} bytes of {age} s");
        let text = window(&database, "table").split_whitespace().collect::<Vec<_>>().join(" ");
        let said = text.split("A power cut would have cost at most ").nth(1);
        let said = said.unwrap_or_else(|| panic!("{text}"));
        assert!(said.contains("of the redo log and"), "{said}");
        assert!(said.contains("of the binary log"), "{said}");
    });
}

/// The most of a log is of one moment, and no sum of what each of its files had at some time.
#[test]
#[ignore = "needs root, a kernel with BTF, and MySQL"]
fn root_a_log_that_goes_through_many_files_is_no_further_behind_than_one_of_them() {
    needs(&[]);
    built("insert-load");
    const CAPACITY: u64 = 8 << 20;
    let capacity = format!("--innodb-redo-log-capacity={CAPACITY}");
    let database = Database::start(Kind::MySql, &[&capacity]);
    database.prepare();
    set(&database, 1, 1);
    let pid = database.pid.to_string();
    let load = database.load(1, 12 * ROWS);
    let command: Vec<PathBuf> =
        std::iter::once(load.get_program()).chain(load.get_args()).map(PathBuf::from).collect();
    let run = measure(&["--writes", "all", "--pid", &pid], &command);
    assert!(run.output.status.success(), "{:?}", run.output);
    let measured = &run.measured[0];
    let files = measured.0["unsynced_files"].as_array().unwrap();
    let files: Vec<u64> =
        files.iter().filter(|row| row["role"] == "redo").map(|row| number(row, "max_bytes")).collect();
    let (bytes, _) = most(measured, "redo");
    let (sum, one) = (files.iter().sum::<u64>(), files.iter().max().copied().unwrap_or(0));
    eprintln!("{} files, {sum} in all, at most {one} of one, {bytes} at once", files.len());
    assert!(files.len() > 6 && sum > 4 * one, "{files:?}");
    // What a file took before it was first looked at counts as if it had been unsynced at once: on a busy
    // machine that look is late, and never by more than the file.
    assert!((one..=one + CAPACITY / 32).contains(&bytes) && bytes < sum / 2, "{bytes} at once, {one} of one");
}
