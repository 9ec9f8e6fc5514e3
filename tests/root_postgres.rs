//! Needs root, and a real PostgreSQL: its log is made durable by its writes or by syncs, as wal_sync_method
//! says, and either is counted as the server counts it, to the call.

mod common;

use serde_json::Value;

use common::exact::{counts_of, until_quiet};
use common::measured::{Measured, number, path_of, sum};
use common::needs;
use common::postgres::{Cluster, Postgres, Wal};
use common::tracing::Tracing;

/// A page of the log (XLOG_BLCKSZ); whole ones are written.
const PAGE: u64 = 8192;

/// A load of 16 connections: what was traced of it, and what the server counted in that time.
fn measure(comm: &str, server: &Postgres) -> (Measured, Wal) {
    until_quiet(|| {
        let before = server.quiet_wal();
        let tracing = Tracing::begin(&["--comm", comm, "--output", "json"]);
        if server.wal() != before {
            return None;
        }
        server.load(16, 200);
        let quiet = server.quiet_wal();
        let [measured] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
        (server.wal() == quiet).then(|| (measured, quiet.since(before)))
    })
}

/// The rows of the log's files. Each process has its own, because each counts as a server.
fn of_log<'a>(measured: &'a Measured, op: &str) -> Vec<&'a Value> {
    let is_log =
        |row: &Value| path_of(row).is_some_and(|path| path.parent().is_some_and(|at| at.ends_with("pg_wal")));
    measured.files().iter().filter(|row| row["op"] == op && is_log(row)).collect()
}

fn each_method_on(filesystem: &str, megabytes: u64, wal_level: &str) {
    let cluster = Cluster::on(filesystem, megabytes);
    let server = cluster.start(&["fsync=off"]);
    server.prepare();
    server.stop();
    for (method, is_durable) in [("open_datasync", true), ("open_sync", true), ("fdatasync", false)] {
        let method = format!("wal_sync_method={method}");
        let server = cluster.start(&[&method, wal_level, "max_wal_senders=0"]);
        let (measured, counted) = measure(&cluster.comm, &server);
        server.stop();
        let said = format!("{filesystem} {method}: {counted:?} {}", counts_of(&measured));
        measured.assert_nothing_lost();
        assert!(counted.writes > 100, "{said}");
        let (writes, syncs) = (of_log(&measured, "dsync_write"), of_log(&measured, "fdatasync"));
        let made = [&writes, &syncs].map(|rows| sum(rows.iter().copied()));
        if is_durable {
            assert_eq!((made, counted.syncs), ([counted.writes, 0], 0), "{said}");
            let bytes: u64 = writes.iter().map(|row| number(row, "bytes")).sum();
            assert!(bytes.is_multiple_of(PAGE) && bytes >= counted.bytes, "{bytes} bytes: {said}");
        } else {
            assert!(counted.syncs > 100, "{said}");
            assert_eq!(made, [0, counted.syncs], "{said}");
        }
        assert!(measured.files().iter().all(|row| row["errors"] == serde_json::json!({})), "{said}");
    }
}

/// Where nobody reads the log but a recovery (wal_level=minimal), PostgreSQL opens it with O_DIRECT as well.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_postgres_is_seen_to_make_its_log_durable_as_often_as_it_counts() {
    needs(&[]);
    std::thread::scope(|scope| {
        scope.spawn(|| each_method_on("ext4", 512, "wal_level=replica"));
        scope.spawn(|| each_method_on("xfs", 512, "wal_level=minimal"));
    });
}
