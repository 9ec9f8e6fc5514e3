//! Needs root and real servers: what a server counted itself is recorded beside what was traced of it, and
//! the two agree when the recording is looked at; so are the bytes that the kernel accounts to it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::chroot::Chroot;
use crate::common::exact::on_each;
use crate::common::faults::{fsynctop, output, signal, stderr, stdout};
use crate::common::postgres::Cluster;
use crate::common::redis::{REDIS, Redis};
use crate::common::server::{Database, Kind};
use crate::common::verified::{exact, parse, row};
use crate::common::{Running, needs, wait_until};

/// Records the server while it has the load.
fn record(pid: u32, recording: &Path, load: impl FnOnce()) {
    let mut command = fsynctop();
    command.args(["record", "--counters", "--pid", &pid.to_string(), "-i", "500ms", "-o"]).arg(recording);
    let mut running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    let plain = recording.join("all-00000000-plain.fst");
    wait_until("the first interval", || plain.metadata().is_ok_and(|file| file.len() > 0));
    // Before it is known what the server is, nothing is asked about it.
    wait_until("its bytes", || recorded_bytes(recording).is_some());
    load();
    signal(running.0.id(), "INT");
    assert!(running.0.wait().unwrap().success());
}

fn verified(recording: &Path) -> Value {
    let output = output(fsynctop().args(["verify", "--output", "json", "--replay"]).arg(recording));
    assert!(output.status.success(), "{} {}", stdout(&output), stderr(&output));
    parse(&output)
}

/// What the kernel says that all processes of the server wrote, those that ended included.
fn written(pids: &[u32]) -> u64 {
    let of = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: ").map(str::to_owned));
        line.map_or(0, |bytes| bytes.parse().unwrap())
    };
    pids.iter().map(of).sum()
}

fn recorded_bytes(recording: &Path) -> Option<u64> {
    let output = output(fsynctop().args(["once", "--output", "json", "--replay"]).arg(recording));
    assert!(output.status.success(), "{}", stderr(&output));
    parse(&output)["servers"][0]["io"]["written_bytes"].as_u64()
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn root_what_mysql_and_mariadb_counted_agrees_with_what_was_recorded() {
    on_each(|kind| {
        let mut database = Database::start(kind, &[]);
        database.prepare();
        database.quiet_counters();
        let directory = tempfile::tempdir().unwrap();
        let recording = directory.path().join("recording");
        let pid = database.pid;
        let all = written(&[pid]);
        let mut of_load = 0;
        record(pid, &recording, || {
            let before = written(&[pid]);
            database.insert(16, 200);
            database.quiet_counters();
            of_load = written(&[pid]) - before;
            // An interval at whose end nothing moves.
            std::thread::sleep(Duration::from_millis(1_200));
        });
        let all = written(&[pid]) - all;
        let bytes = recorded_bytes(&recording).unwrap();
        assert!((of_load..=all).contains(&bytes) && of_load > 100_000, "{of_load} <= {bytes} <= {all}");
        let value = verified(&recording);
        let compared: &[&str] = match kind {
            Kind::MariaDb => &["InnoDB together", "binary log"],
            Kind::MySql | Kind::MySql56 => &["redo log", "InnoDB together", "binary log"],
        };
        compared.iter().for_each(|what| assert!(exact(&value, what) > 50, "{value:#}"));
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF and PostgreSQL"]
fn root_what_postgresql_counted_agrees_with_what_was_recorded() {
    needs(&[]);
    let cluster = Cluster::on("ext4", 768);
    let postgres = cluster.start(&[]);
    postgres.prepare();
    postgres.query("SELECT pg_switch_wal()");
    postgres.quiet_wal();
    let directory = tempfile::tempdir().unwrap();
    let recording = directory.path().join("recording");
    record(postgres.pid(), &recording, || {
        postgres.load(8, 100);
        postgres.quiet_wal();
        // Idle processes hand in what they counted within ten seconds.
        std::thread::sleep(Duration::from_secs(12));
    });
    let value = verified(&recording);
    let log = row(&value, "write-ahead log");
    assert_eq!(log["verdict"], "agrees", "{value:#}");
    assert!(log["traced"].as_u64().unwrap() > 50, "{value:#}");
    assert!(recorded_bytes(&recording).unwrap() > 50_000, "backends that ended are the server's");
}

#[test]
#[ignore = "needs root, a kernel with BTF and Redis"]
fn root_what_redis_counted_agrees_with_what_was_recorded() {
    needs(&[]);
    let tree = Chroot::on(crate::common::etcd::TOOL, 0, "ext4", 768);
    let mut redis = Redis::start(&tree, REDIS, &[]);
    let directory = tempfile::tempdir().unwrap();
    let recording = directory.path().join("recording");
    record(redis.pid(), &recording, || {
        redis.set(200);
        redis.write_by_child("BGSAVE");
        std::thread::sleep(Duration::from_millis(1_200));
    });
    let value = verified(&recording);
    assert_eq!(exact(&value, "RDB files"), 1, "{value:#}");
    // Without its counters there is nothing to compare, and it is said what is missing.
    let bare = directory.path().join("bare");
    let mut command = fsynctop();
    command.args(["record", "-d", "1", "--pid", &redis.pid().to_string(), "-o"]).arg(&bare);
    assert!(output(&mut command).status.success());
    let output = output(fsynctop().args(["verify", "--replay"]).arg(&bare));
    assert_eq!(output.status.code(), Some(6), "{}", stdout(&output));
    assert!(stderr(&output).contains("fsynctop record --counters"), "{}", stderr(&output));
}
