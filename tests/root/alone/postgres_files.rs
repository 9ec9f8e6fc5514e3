//! Needs root, and a real PostgreSQL. After whatever makes, renames and syncs files of all kinds, each has
//! the role that PostgreSQL's profile gives it, or stands in docs/engines.md as one that has none.

use std::collections::BTreeSet;
use std::path::Path;

use fsynctop::engine::engines::Engines;
use serde_json::Value;

use crate::common::exact::of_server;
use crate::common::measured::{Measured, path_of, text};
use crate::common::postgres::{Cluster, Postgres};
use crate::common::tracing::Tracing;
use crate::common::{needs, wait_until};

/// The names that docs/engines.md lists.
fn listed() -> BTreeSet<String> {
    let engines = Engines::builtin();
    let others = &engines.profile("postgres").unwrap().others;
    others.iter().flat_map(|other| other.name.split(", ")).map(str::to_owned).collect()
}

/// The roles that were seen, and that each file without one is listed.
fn roles(measured: &Measured) -> BTreeSet<String> {
    let others = measured.files().iter().filter(|row| row["role"] == "other");
    let path = |row| path_of(row).unwrap_or_else(|| panic!("no path: {row}"));
    let name = |row| path(row).file_name().unwrap().to_str().unwrap().to_owned();
    let others: BTreeSet<String> = others.map(name).collect();
    let unlisted: Vec<_> = others.difference(&listed()).cloned().collect();
    assert!(unlisted.is_empty(), "docs/engines.md does not list {unlisted:?}");
    measured.files().iter().map(|row| text(row, "role")).collect()
}

fn assert_seen(seen: &BTreeSet<String>, roles: &[&str]) {
    let missing: Vec<_> = roles.iter().filter(|role| !seen.contains(**role)).collect();
    assert!(missing.is_empty(), "no {missing:?} among {seen:?}");
}

fn one(tracing: Tracing) -> Measured {
    let measured = tracing.one();
    measured.assert_no_call_lost();
    measured
}

/// Whether any process has that working directory: of a cluster, as the server sees it.
fn is_at_work_in(data: &Path) -> bool {
    let below = data.strip_prefix("/").unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|process| process.path().join("cwd").read_link())
        .any(|at| at.is_ok_and(|at| at.ends_with(below)))
}

/// What has it make files.
fn work(server: &Postgres) {
    for statement in [
        "CREATE TABLE t (id serial PRIMARY KEY, v text)",
        "INSERT INTO t (v) SELECT repeat('x', 100) FROM generate_series(1, 50000)",
        "CREATE UNLOGGED TABLE u AS SELECT 1 AS n",
        "CREATE INDEX ON t (v)",
        "SET work_mem = '64kB'; CREATE TEMPORARY TABLE s AS SELECT * FROM t ORDER BY v DESC, id",
        "VACUUM FULL t",
        "CLUSTER t USING t_pkey",
        "VACUUM ANALYZE t",
        "CREATE TABLESPACE elsewhere LOCATION ''",
        "CREATE TABLE x TABLESPACE elsewhere AS SELECT generate_series(1, 50000) AS n",
        "CREATE DATABASE copied STRATEGY file_copy",
        "CREATE DATABASE logged",
        "ALTER SYSTEM SET log_min_duration_statement = '10s'",
        "BEGIN; INSERT INTO t (v) VALUES ('p'); PREPARE TRANSACTION 'p'",
        "CHECKPOINT",
        "COMMIT PREPARED 'p'",
        "SELECT pg_create_physical_replication_slot('physical', true)",
        "SELECT pg_create_logical_replication_slot('logical', 'test_decoding')",
        "INSERT INTO t (v) VALUES ('q')",
        "SELECT count(*) FROM pg_logical_slot_get_changes('logical', NULL, NULL)",
        "SELECT pg_backup_start('backup', true); SELECT pg_backup_stop(false)",
        "SELECT pg_switch_wal()",
        "CHECKPOINT",
        "SELECT pg_drop_replication_slot('logical')",
        "DROP TABLE x",
        "DROP TABLESPACE elsewhere",
        "DROP DATABASE copied",
        "CHECKPOINT",
    ] {
        server.query(statement);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_postgres_files_have_their_roles_or_are_listed() {
    needs(&[]);
    let settings = [
        "wal_level=logical",
        "max_prepared_transactions=10",
        "track_commit_timestamp=on",
        "allow_in_place_tablespaces=on",
        "archive_mode=on",
        "archive_command=true",
        "logging_collector=on",
    ];
    let cluster = Cluster::on("ext4", 1024);
    let server = cluster.start(&settings);
    let tracing = Tracing::begin(&["--pid", &server.pid().to_string(), "--output", "json"]);
    work(&server);
    let measured = one(tracing);
    let of_work = ["wal", "data", "commit_status", "control", "replication_slot", "directory"];
    assert_seen(&roles(&measured), &of_work);
    // After a crash, the startup process syncs each file of the data directory.
    server.kill();
    wait_until("the backends to notice", || !is_at_work_in(&cluster.data()));
    // By no name, because others may run here, and this one does not yet.
    let tracing = Tracing::begin(&["--all", "--output", "json"]);
    let server = cluster.start(&settings);
    server.query("CHECKPOINT");
    let measured = of_server(&one(tracing), server.pid());
    assert_seen(&roles(&measured), &[&of_work[..], &["log", "other"]].concat());
    server.stop();
}

/// The copy is synced by `pg_basebackup`, which is no server; a standby that begins with it, and ends as a
/// server with a timeline of its own, goes through the files of both.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_files_of_a_base_backup_and_of_a_standby_have_their_roles_or_are_listed() {
    needs(&[]);
    for version in [15, 18] {
        let cluster = Cluster::with_tables(version);
        let server = cluster.start(&[]);
        let tracing = Tracing::begin(&["--comm", "postgres,pg_basebackup", "--output", "json"]);
        let copy = server.copy("standby");
        let measured = one(tracing);
        // As the process saw them or, once it has ended, as this host does, from outside of its root.
        let data = copy.data().display().to_string();
        let in_copy =
            |row: &&Value| path_of(row).is_some_and(|path| path.display().to_string().contains(&data));
        let copied = measured.files().iter().filter(in_copy).count();
        assert!(copied > 900, "{copied} files");
        assert_seen(&roles(&measured), &["wal", "data", "commit_status", "control", "directory", "other"]);

        let tracing = Tracing::begin(&["--comm", "postgres", "--output", "json"]);
        let standby = copy.start(&[]);
        server.query("CREATE TABLE t AS SELECT generate_series(1, 1000)");
        let written = server.query("SELECT pg_current_wal_lsn()");
        wait_until("the standby to have all", || {
            standby.query(&format!("SELECT pg_last_wal_replay_lsn() >= '{written}'")) == "t"
        });
        assert_eq!(standby.query("SELECT pg_promote()"), "t");
        standby.query("CHECKPOINT");
        let measured = one(tracing);
        assert_seen(&roles(&of_server(&measured, standby.pid())), &["wal", "data", "control", "other"]);
        standby.stop();
        server.stop();
    }
}

/// Behind `pg_tblspc/OID`, a symbolic link. No path that the kernel knows leads through the data directory.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_files_of_a_tablespace_elsewhere_are_data_of_its_server() {
    needs(&[]);
    let cluster = Cluster::on("ext4", 512);
    let (_disk, location) = cluster.another_disk("elsewhere", "xfs", 320);
    let server = cluster.start(&[]);
    server.query(&format!("CREATE TABLESPACE elsewhere LOCATION '{}'", location.display()));
    let tracing = Tracing::begin(&["--pid", &server.pid().to_string(), "--output", "json"]);
    for statement in [
        "CREATE TABLE t TABLESPACE elsewhere AS SELECT generate_series(1, 50000) AS n",
        "CREATE INDEX i ON t (n) TABLESPACE elsewhere",
        "DELETE FROM t WHERE n % 2 = 0",
        "VACUUM t",
        "CHECKPOINT",
    ] {
        server.query(statement);
    }
    let measured = one(tracing);
    let there = |row: &&Value| path_of(row).is_some_and(|path| path.starts_with(&location));
    let (elsewhere, at_home): (Vec<_>, Vec<_>) = measured.files().iter().partition(there);
    let named = |row: &&Value| path_of(row).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let data: BTreeSet<String> = elsewhere.iter().filter(|row| row["role"] == "data").map(named).collect();
    for (relation, fork) in [("t", ""), ("i", ""), ("t", "_fsm"), ("t", "_vm")] {
        let node = server.query(&format!("SELECT pg_relation_filenode('{relation}')"));
        assert!(data.contains(&format!("{node}{fork}")), "{relation}{fork} {node} is not among {data:?}");
    }
    for row in &elsewhere {
        assert!(row["role"] == "data" || row["role"] == "directory", "{row}");
        assert_eq!(row["filesystem"], "xfs", "{row}");
    }
    assert!(at_home.iter().any(|row| row["role"] == "wal"));
    assert!(at_home.iter().all(|row| row["filesystem"] == "ext4"), "{at_home:#?}");
    let servers = measured.0["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{servers:#?}");
    server.stop();
}
