//! What was traced of the write-ahead log of a PostgreSQL, to be held against what it counts itself.

use std::collections::BTreeMap;

use serde_json::Value;

use super::exact::until_quiet;
use super::measured::{Measured, number, path_of};
use super::postgres::{Postgres, Wal};
use super::tracing::Tracing;

/// A page of the log (XLOG_BLCKSZ); whole ones are written.
pub const PAGE: u64 = 8192;

/// What was traced of a load, and what the server counted in that time.
pub fn measure(options: &[&str], server: &Postgres, load: impl Fn(&Postgres)) -> (Measured, Wal) {
    until_quiet(|| {
        let before = server.quiet_wal();
        let tracing = Tracing::begin(&[options, &["--output", "json"]].concat());
        if server.wal() != before {
            return None;
        }
        load(server);
        let quiet = server.quiet_wal();
        let measured = tracing.one();
        (server.wal() == quiet).then(|| (measured, quiet.since(before)))
    })
}

pub fn is_of_log(row: &Value) -> bool {
    path_of(row).is_some_and(|path| path.parent().is_some_and(|at| at.ends_with("pg_wal")))
}

/// The rows of the log's files.
pub fn of_log<'a>(measured: &'a Measured, op: &str) -> Vec<&'a Value> {
    measured.files().iter().filter(|row| row["op"] == op && is_of_log(row)).collect()
}

/// The rows of one server.
pub fn of<'a>(rows: impl IntoIterator<Item = &'a Value>, pid: u32) -> Vec<&'a Value> {
    rows.into_iter().filter(|row| number(row, "pid") == u64::from(pid)).collect()
}

/// All that was traced is this server's, by one row for each of its files.
pub fn assert_is_one(measured: &Measured, server: &Postgres) {
    let servers: Vec<u64> =
        measured.0["servers"].as_array().unwrap().iter().map(|server| number(server, "pid")).collect();
    assert_eq!(servers, [u64::from(server.pid())]);
    let mut rows: BTreeMap<String, u32> = BTreeMap::new();
    for row in measured.files() {
        assert_eq!(number(row, "pid"), u64::from(server.pid()), "{row}");
        *rows.entry(format!("{} {} {}", row["op"], row["path"], row["inode"])).or_default() += 1;
    }
    assert!(rows.values().all(|&rows| rows == 1), "{rows:?}");
}
