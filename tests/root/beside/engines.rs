//! Needs root. Real etcd, Redis, Valkey, RocksDB and SQLite: their logs are known, and are synced as often as
//! they count themselves, or as was asked of them.

use std::path::PathBuf;
use std::process::Command;

use crate::common::chroot::Chroot;
use crate::common::etcd::Etcd;
use crate::common::exact::{counts_of, until_quiet};
use crate::common::measured::{Measured, count, number, text};
use crate::common::needs;
use crate::common::redis::Redis;
use crate::common::tracing::Tracing;

fn tree() -> Chroot {
    needs(&[]);
    Chroot::on(crate::common::etcd::TOOL, 0, "ext4", 512)
}

/// All that was traced of a role, in one server.
fn of_role(measured: &Measured, role: &str) -> u64 {
    let servers = measured.0["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{servers:#?}");
    let rows = measured.files().iter().filter(|row| text(row, "role") == role);
    rows.map(|row| {
        assert_eq!(row["errors"], serde_json::json!({}));
        count(row)
    })
    .sum()
}

fn one(tracing: Tracing) -> Measured {
    let measured = tracing.one();
    measured.assert_nothing_lost();
    measured
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_etcd_syncs_its_wal_as_often_as_it_counts() {
    let tree = tree();
    let etcd = Etcd::start(&tree);
    let pid = etcd.pid().to_string();
    let (measured, counted) = until_quiet(|| {
        let before = etcd.quiet();
        let tracing = Tracing::begin(&["--pid", &pid, "--output", "json"]);
        if etcd.counts() != before {
            return None;
        }
        etcd.load(4, 100);
        let after = etcd.quiet();
        let measured = one(tracing);
        (etcd.counts() == after).then(|| (measured, [0, 1, 2].map(|i| after[i] - before[i])))
    });
    let said = format!("{counted:?} {}", counts_of(&measured));
    let [wal, commits, snapshots] = counted;
    assert!(wal > 100 && commits > 2 && snapshots > 0, "{said}");
    // A commit of bbolt writes and syncs its pages, then the page that leads to them.
    let seen = ["wal", "backend", "snapshot", "other"].map(|role| of_role(&measured, role));
    assert_eq!(seen, [wal, 2 * commits, snapshots, 0], "{said}");
    assert_eq!(text(&measured.0["servers"][0], "engine"), "etcd");
    // Where it makes a file anew, which it counts nowhere.
    let tracing = Tracing::begin(&["--pid", &pid, "--output", "json"]);
    etcd.defragment();
    let measured = one(tracing);
    assert!(of_role(&measured, "backend") > 0, "{}", counts_of(&measured));
    assert_eq!(of_role(&measured, "other"), 0, "{}", counts_of(&measured));
}

/// Commands that come one at a time are synced one by one.
fn each_command_is_synced(tree: &Chroot, program: &str, engine: &str) {
    let mut redis = Redis::start(tree, program, &[]);
    let pid = redis.pid();
    let tracing = Tracing::begin(&["--pid", &pid.to_string(), "--output", "json"]);
    redis.set(300);
    redis.write_by_child("BGSAVE");
    let measured = one(tracing);
    let said = counts_of(&measured);
    assert_eq!(text(&measured.0["servers"][0], "engine"), engine, "{said}");
    assert_eq!(of_role(&measured, "aof"), 300, "{said}");
    assert!(of_role(&measured, "rdb") >= 1, "the child's: {said}");
    assert!(measured.files().iter().all(|row| number(row, "pid") == u64::from(pid)), "{said}");

    let tracing = Tracing::begin(&["--pid", &pid.to_string(), "--output", "json"]);
    redis.write_by_child("BGREWRITEAOF");
    let measured = one(tracing);
    let said = counts_of(&measured);
    // The increment that is closed; the new base, as the child writes it; the list of both with each change.
    assert_eq!(
        ["aof", "temporary", "aof_manifest"].map(|role| of_role(&measured, role)),
        [1, 1, 3],
        "{said}"
    );
    assert_eq!(of_role(&measured, "other"), 0, "{said}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_redis_syncs_each_command_and_its_children_are_its_own() {
    each_command_is_synced(&tree(), "/usr/bin/redis-server", "redis");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_valkey_syncs_each_command_and_its_children_are_its_own() {
    needs(&[]);
    let tree = Chroot::on("valkey-root.sh", 0, "ext4", 512);
    each_command_is_synced(&tree, "/usr/bin/valkey-server", "valkey");
}

/// A program of the tree under tracing: what it said, and what was traced.
fn traced(tree: &Chroot, arguments: &[&str]) -> (String, Measured) {
    let directory = tempfile::tempdir().unwrap();
    let output: PathBuf = directory.path().join("measured.json");
    let run = tree.run(arguments[0], &arguments[1..]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["once", "--output", "json", "--output-file"]).arg(&output).arg("--");
    command.arg(run.get_program()).args(run.get_args());
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let measured = Measured::parse(std::fs::read_to_string(&output).unwrap().trim());
    measured.assert_nothing_lost();
    (said, measured)
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_rocksdb_syncs_its_wal_as_often_as_it_counts() {
    let tree = tree();
    let data = format!("--db={}", tree.inside(&tree.disk()).join("rocks").display());
    let (said, measured) = traced(
        &tree,
        &[
            "/usr/bin/db_bench",
            "--benchmarks=fillseq,flush,compact",
            "--sync=1",
            "--num=500",
            "--statistics",
            &data,
        ],
    );
    let counted =
        said.lines().find_map(|line| line.strip_prefix("rocksdb.wal.synced COUNT : ")).expect(&said);
    assert_eq!(of_role(&measured, "wal").to_string(), counted, "{}", counts_of(&measured));
    assert!(counted.parse::<u64>().unwrap() >= 500);
    for role in ["sst", "manifest", "options"] {
        assert!(of_role(&measured, role) >= 1, "{role}: {}", counts_of(&measured));
    }
    assert_eq!(of_role(&measured, "other"), 0, "{}", counts_of(&measured));
}

fn sqlite(tree: &Chroot, journal: &str) -> Measured {
    let data = tree.inside(&tree.disk()).join(format!("{journal}.db")).display().to_string();
    let mut script = format!("PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL; CREATE TABLE t (n);");
    (0..100).for_each(|n| script.push_str(&format!("INSERT INTO t VALUES ({n});")));
    traced(tree, &["/usr/bin/sqlite3", &data, &script]).1
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_sqlite_syncs_what_its_journal_mode_says() {
    let tree = tree();
    // Each transaction once: a hundred, and that which makes the table. Before them the header of the new
    // file, and after them all of it, before the checkpoint (src/wal.c).
    let measured = sqlite(&tree, "WAL");
    let said = counts_of(&measured);
    assert_eq!(of_role(&measured, "wal"), 1 + 101 + 1, "{said}");
    assert!(of_role(&measured, "database") >= 1, "the checkpoint at the end: {said}");
    assert_eq!(of_role(&measured, "other"), 0, "{said}");
    // The journal with its content, then with the number of its pages, and the database.
    let measured = sqlite(&tree, "DELETE");
    let said = counts_of(&measured);
    let (journal, database) = (of_role(&measured, "journal"), of_role(&measured, "database"));
    assert!(database >= 101 && journal >= database, "{said}");
    assert_eq!(of_role(&measured, "other"), 0, "{said}");
}
