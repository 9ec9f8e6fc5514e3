//! Needs root, MariaDB as installed and a MySQL in a root tree of its own: what is traced equals what the server itself
//! counts, to the last sync.

mod common;

use common::can_run;
use common::measured::{Measured, sum};
use common::server::{Counters, Database, Kind};
use common::tracing::measure;

/// Of the files that Innodb_data_fsyncs is about.
const INNODB: [&str; 7] =
    ["redo", "doublewrite", "undo", "system_tablespace", "tablespace", "dictionary", "temporary"];

fn innodb(measured: &Measured) -> u64 {
    INNODB.iter().map(|role| measured.of_role(role)).sum()
}

/// The syncs of a role that were made by that call.
fn of_op(measured: &Measured, role: &str, op: &str) -> u64 {
    sum(measured.roles().iter().filter(|row| row["role"] == role && row["op"] == op))
}

fn assert_exact(measured: &Measured, counted: &Counters) {
    let roles = &measured.0["roles"];
    measured.assert_nothing_lost();
    assert!(measured.in_flight().is_empty(), "{}", measured.0["in_flight"]);
    assert_eq!(measured.of_role("other"), 0, "{}", measured.0["files"]);
    assert_eq!(innodb(measured), counted.innodb, "{counted:?} {roles}");
    if let Some(redo) = counted.redo {
        assert_eq!(measured.of_role("redo"), redo, "{counted:?} {roles}");
    }
    measured.total(); // roles against files
}

/// One server with these options under the classic load and under a single connection, traced exactly. Returns both
/// measurements.
fn both_loads(kind: Kind, options: &[&str], rows: u32) -> [Measured; 2] {
    let mut database = Database::start(kind, options);
    database.prepare();
    let syncs_binlog = !options.contains(&"--sync-binlog=0");
    let loads = [(16, rows, &["--by", "thread"][..]), (1, 1000, &[])];
    loads.map(|(connections, rows, by)| {
        let (measured, counted) = measure(&mut database, by, |database| database.insert(connections, rows));
        assert_exact(&measured, &counted);
        let binlog = of_op(&measured, "binlog", "fdatasync");
        assert_eq!(measured.of_role("binlog"), binlog);
        if syncs_binlog {
            assert_eq!(binlog, counted.binlog, "{}", measured.0["roles"]);
        }
        match (syncs_binlog, connections) {
            (false, _) => assert_eq!(binlog, 0),
            (true, 1) => assert_eq!(binlog, 1000),
            (true, _) => assert!(binlog > 0 && binlog <= u64::from(connections * rows)),
        }
        if !by.is_empty() {
            assert_eq!(sum(measured.threads()), measured.total());
        }
        measured
    })
}

fn is_root(test: &str) -> bool {
    can_run(test, &[])
}

#[test]
fn mariadb_is_traced_exactly() {
    if is_root("mariadb_is_traced_exactly") {
        for measured in both_loads(Kind::MariaDb, &[], 1000) {
            assert_eq!(of_op(&measured, "redo", "fdatasync"), measured.of_role("redo"));
        }
    }
}

#[test]
fn mysql_is_traced_exactly() {
    if is_root("mysql_is_traced_exactly") {
        for measured in both_loads(Kind::MySql, &[], 1000) {
            assert_eq!(of_op(&measured, "redo", "fdatasync"), measured.of_role("redo"));
        }
    }
}

#[test]
fn flush_method_fsync_is_traced_exactly() {
    if is_root("flush_method_fsync_is_traced_exactly") {
        both_loads(Kind::MariaDb, &["--innodb-flush-method=fsync"], 300);
        both_loads(Kind::MySql, &["--innodb-flush-method=fsync"], 300);
    }
}

#[test]
fn flush_method_o_direct_no_fsync_is_traced_exactly() {
    if is_root("flush_method_o_direct_no_fsync_is_traced_exactly") {
        both_loads(Kind::MariaDb, &["--innodb-flush-method=O_DIRECT_NO_FSYNC"], 300);
        both_loads(Kind::MySql, &["--innodb-flush-method=O_DIRECT_NO_FSYNC"], 300);
    }
}

#[test]
fn without_sync_binlog_the_rest_is_traced_exactly() {
    if is_root("without_sync_binlog_the_rest_is_traced_exactly") {
        both_loads(Kind::MariaDb, &["--sync-binlog=0"], 300);
        both_loads(Kind::MySql, &["--sync-binlog=0"], 300);
    }
}

#[test]
fn innodb_syncs_by_fsync_without_use_fdatasync() {
    if is_root("innodb_syncs_by_fsync_without_use_fdatasync") {
        for measured in both_loads(Kind::MySql, &["--innodb-use-fdatasync=OFF"], 300) {
            assert_eq!(INNODB.map(|role| of_op(&measured, role, "fdatasync")), [0; INNODB.len()]);
        }
    }
}
