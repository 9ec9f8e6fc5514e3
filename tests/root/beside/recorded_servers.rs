//! Needs root and real servers: what is replayed of a recording is what was traced live beside it, to the
//! call and the byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::chroot::Chroot;
use crate::common::exact::{on_each, until_quiet};
use crate::common::faults::{fsynctop, output, signal, stderr, stdout};
use crate::common::postgres::Cluster;
use crate::common::redis::{REDIS, Redis};
use crate::common::server::Database;
use crate::common::tracing::Tracing;
use crate::common::{Running, needs, wait_until};

/// Calls and bytes of a measurement, by table, role and operation.
type Figures = BTreeMap<String, (u64, u64)>;

fn figures(measured: &Value) -> Figures {
    let mut all = Figures::new();
    for table in ["roles", "writes"] {
        for row in measured[table].as_array().into_iter().flatten() {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| row[name].as_u64().unwrap_or_default();
            let sum = all.entry(format!("{table} {} {}", text("role"), text("op"))).or_default();
            sum.0 += number("count");
            sum.1 += number("bytes");
        }
    }
    all.retain(|_, figures| *figures != (0, 0));
    all
}

fn sum(parts: impl Iterator<Item = Figures>) -> Figures {
    parts.flatten().fold(Figures::new(), |mut sum, (name, (calls, bytes))| {
        let of = sum.entry(name).or_default();
        *of = (of.0 + calls, of.1 + bytes);
        sum
    })
}

/// `fsynctop record`, from its first interval on.
fn record(pid: &str, recording: &Path) -> Running {
    let mut command: Command = fsynctop();
    command.args(["record", "--pid", pid, "--writes", "all", "-i", "300ms", "-o"]).arg(recording);
    let running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let plain = recording.join("all-00000000-plain.fst");
    wait_until("the first interval", || plain.metadata().is_ok_and(|file| file.len() > 0));
    running
}

/// Traces a server twice, live and into a recording, and replays that.
fn is_replayed_as_it_was(pid: u32, mut load: impl FnMut()) {
    let pid = pid.to_string();
    let (live, series, replayed) = until_quiet(|| {
        let directory = tempfile::tempdir().unwrap();
        let recording = directory.path().join("recording");
        let live = Tracing::begin(&["--pid", &pid, "--writes", "all", "--output", "json"]);
        let mut recorder = record(&pid, &recording);
        load();
        // What a server does behind its answers.
        std::thread::sleep(Duration::from_millis(500));
        let live = figures(&live.one().0);
        signal(recorder.0.id(), "INT");
        assert!(recorder.0.wait().unwrap().success());
        let replay = |command: &[&str]| {
            let mut replay = fsynctop();
            let output = output(replay.args(command).arg("--replay").arg(&recording));
            assert!(output.status.success(), "{command:?}: {}", stderr(&output));
            let text = stdout(&output);
            sum(text.lines().map(|line| figures(&serde_json::from_str(line).unwrap())))
        };
        let replayed = replay(&["once", "--output", "json"]);
        let series = replay(&["once", "-i", "1s", "--output", "json"]);
        let segments = stdout(&output(fsynctop().arg("segments").arg(&recording)));
        assert!(segments.contains("Nothing of it is missing."), "{segments}");
        (live == replayed).then_some((live, series, replayed))
    });
    assert_eq!(replayed, live);
    assert_eq!(series, live);
    assert!(live.values().map(|(calls, _)| calls).sum::<u64>() > 100, "{live:?}");
    assert!(live.keys().any(|name| name.starts_with("writes ")), "{live:?}");
}

#[test]
#[ignore = "needs root, a kernel with BTF, MariaDB and MySQL"]
fn root_mariadb_and_mysql_are_replayed_as_they_were_traced() {
    on_each(|kind| {
        let mut database = Database::start(kind, &[]);
        database.prepare();
        database.quiet_counters();
        let pid = database.pid;
        is_replayed_as_it_was(pid, || {
            database.insert(16, 50);
            database.quiet_counters();
        });
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF and PostgreSQL"]
fn root_postgresql_is_replayed_as_it_was_traced() {
    needs(&[]);
    let cluster = Cluster::on("ext4", 768);
    let postgres = cluster.start(&[]);
    postgres.prepare();
    is_replayed_as_it_was(postgres.pid(), || {
        postgres.load(8, 50);
        postgres.quiet_wal();
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF and Redis"]
fn root_redis_is_replayed_as_it_was_traced() {
    needs(&[]);
    let tree = Chroot::on(crate::common::etcd::TOOL, 0, "ext4", 768);
    let mut redis = Redis::start(&tree, REDIS, &[]);
    let pid = redis.pid();
    is_replayed_as_it_was(pid, || {
        redis.set(200);
        redis.write_by_child("BGSAVE");
    });
}
