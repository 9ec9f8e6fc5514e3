//! Needs root, and real etcd, Redis, RocksDB and SQLite: what each syncs is counted as it counts that itself,
//! or as often as its documentation says, and every file has the role that its engine's profile gives it.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use common::exact::until_quiet;
use common::measured::{Measured, number, path_of, sum, text};
use common::tracing::Tracing;
use common::{Running, needs, wait_until};

/// Not in memory: what is synced there waits for nothing, but it is synced.
fn directory() -> tempfile::TempDir {
    tempfile::TempDir::with_prefix_in("fsynctop-", "/var/tmp").unwrap()
}

/// The syncs of a role's files below a directory.
fn of_role(measured: &Measured, role: &str, below: &Path) -> u64 {
    let is_its = |row: &&serde_json::Value| {
        row["role"] == role && path_of(row).is_some_and(|path| path.starts_with(below))
    };
    sum(measured.files().iter().filter(is_its))
}

/// No file of the directory is without a role.
fn assert_no_other(measured: &Measured, below: &Path) {
    let is_other = |row: &&serde_json::Value| {
        row["role"] == "other" && path_of(row).is_none_or(|path| path.starts_with(below))
    };
    let others: Vec<_> = measured.files().iter().filter(is_other).collect();
    assert!(others.is_empty(), "{others:?}");
}

fn engine_of(measured: &Measured, pid: u32) -> String {
    let servers = measured.0["servers"].as_array().unwrap();
    let server = servers.iter().find(|server| number(server, "pid") == u64::from(pid));
    text(server.unwrap_or_else(|| panic!("no server {pid} in {servers:?}")), "engine")
}

struct Etcd {
    running: Running,
    client: String,
}

impl Etcd {
    fn start(data: &Path) -> Etcd {
        let [client, peer] = [(); 2].map(|()| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            format!("http://{}", free.local_addr().unwrap())
        });
        let running = Command::new("etcd")
            .args(["--data-dir", data.to_str().unwrap(), "--snapshot-count", "50"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stderr(Stdio::null())
            .spawn();
        let etcd = Etcd { running: Running(running.unwrap()), client };
        wait_until("etcd to be ready", || etcd.get("/health").contains("true"));
        etcd
    }

    fn curl(&self, path: &str, arguments: &[&str]) -> String {
        let output = Command::new("curl")
            .args(["--silent", "--max-time", "10", &format!("{}{path}", self.client)])
            .args(arguments)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    fn get(&self, path: &str) -> String {
        self.curl(path, &[])
    }

    fn post(&self, path: &str, body: &str) {
        let answer = self.curl(path, &["--data", body]);
        assert!(answer.starts_with('{') && !answer.contains("error"), "{path}: {answer}");
    }

    /// What it counts itself: syncs of the WAL, commits of the backend, syncs of snapshots.
    fn counted(&self) -> [u64; 3] {
        let metrics = self.get("/metrics");
        let of = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name}_count ")));
            line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
        };
        [
            of("etcd_disk_wal_fsync_duration_seconds"),
            of("etcd_disk_backend_commit_duration_seconds"),
            of("etcd_snap_fsync_duration_seconds"),
        ]
    }

    /// Once it has committed what it was told.
    fn quiet(&self) -> [u64; 3] {
        let mut last = self.counted();
        wait_until("etcd to come to rest", || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            last == std::mem::replace(&mut last, self.counted())
        });
        last
    }
}

#[test]
#[ignore = "needs root, a kernel with BTF, and etcd"]
fn root_etcd_is_seen_to_sync_as_often_as_it_counts() {
    needs(&["/usr/bin/etcd"]);
    let directory = directory();
    let data = directory.path().join("data");
    let etcd = Etcd::start(&data);
    let (measured, counted) = until_quiet(|| {
        let before = etcd.quiet();
        let tracing = Tracing::begin(&["--engine", "etcd", "--output", "json"]);
        if etcd.counted() != before {
            return None;
        }
        (0..120).for_each(|_| etcd.post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#));
        let quiet = etcd.quiet();
        let [measured] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
        let counted = [0, 1, 2].map(|at| quiet[at] - before[at]);
        (etcd.counted() == quiet).then_some((measured, counted))
    });
    measured.assert_nothing_lost();
    assert_eq!(engine_of(&measured, etcd.running.0.id()), "etcd");
    let seen = ["wal", "backend", "snapshot"].map(|role| of_role(&measured, role, &data));
    let [wal, commits, snapshots] = counted;
    assert!(wal >= 120 && commits > 0 && snapshots > 0, "{counted:?}");
    // A commit of bbolt writes and syncs its pages, then the page that leads to them.
    assert_eq!(seen, [wal, 2 * commits, snapshots], "{measured:?}", measured = measured.0["files"]);
    assert_no_other(&measured, &data);
    // Where it makes files, which it counts nowhere.
    let tracing = Tracing::begin(&["--engine", "etcd", "--output", "json"]);
    etcd.post("/v3/maintenance/defragment", "{}");
    let [defragmented] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
    assert!(of_role(&defragmented, "backend", &data) > 0);
    assert_no_other(&defragmented, &data);
}

struct Redis {
    running: Running,
    stream: BufReader<UnixStream>,
}

impl Redis {
    fn start(directory: &Path) -> Redis {
        let socket = directory.join("socket");
        let running = Command::new("redis-server")
            .args(["--dir", directory.to_str().unwrap(), "--port", "0", "--save", ""])
            .args(["--unixsocket", socket.to_str().unwrap()])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .stdout(Stdio::null())
            .spawn();
        let running = Running(running.unwrap());
        wait_until("Redis to listen", || UnixStream::connect(&socket).is_ok());
        let stream = BufReader::new(UnixStream::connect(&socket).unwrap());
        let mut redis = Redis { running, stream };
        wait_until("Redis to be ready", || redis.ask("PING") == "+PONG");
        redis
    }

    /// The first line of the answer.
    fn ask(&mut self, command: &str) -> String {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.stream.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

#[test]
#[ignore = "needs root, a kernel with BTF, and Redis"]
fn root_redis_under_appendfsync_always_is_seen_to_sync_once_for_each_write() {
    needs(&["/usr/bin/redis-server"]);
    let directory = directory();
    let data = directory.path();
    let mut redis = Redis::start(data);
    let tracing = Tracing::begin(&["--engine", "redis", "--output", "json"]);
    for number in 0..500 {
        assert_eq!(redis.ask(&format!("SET key{number} value")), "+OK");
    }
    let [measured] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
    measured.assert_nothing_lost();
    assert_eq!(engine_of(&measured, redis.running.0.id()), "redis");
    assert_eq!(of_role(&measured, "aof", data), 500, "{}", measured.0["files"]);
    assert_no_other(&measured, data);
    // What its children write.
    let tracing = Tracing::begin(&["--engine", "redis", "--output", "json"]);
    assert!(redis.ask("BGREWRITEAOF").starts_with("+Background"));
    let base = data.join("appendonlydir/appendonly.aof.2.base.rdb");
    wait_until("the file to be rewritten", || base.exists());
    assert!(redis.ask("BGSAVE").starts_with('+'));
    wait_until("a snapshot", || data.join("dump.rdb").exists());
    let [measured] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
    for role in ["aof_manifest", "rdb", "directory"] {
        assert!(of_role(&measured, role, data) > 0, "{role}: {}", measured.0["files"]);
    }
    assert_no_other(&measured, data);
}

/// A command and what was traced of it.
fn traced(command: &str) -> Measured {
    let output = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["once", "--output", "json", "--", "sh", "-c", command])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let measured = Measured::parse(String::from_utf8(output.stdout).unwrap().trim());
    measured.assert_nothing_lost();
    measured
}

#[test]
#[ignore = "needs root, a kernel with BTF, and RocksDB's db_bench"]
fn root_rocksdb_is_seen_to_sync_its_wal_as_often_as_it_counts() {
    needs(&["/usr/bin/db_bench"]);
    let directory = directory();
    let (data, said) = (directory.path().join("db"), directory.path().join("said"));
    let measured = traced(&format!(
        "db_bench --benchmarks=fillrandom,compact --statistics --db={} --num=1000 --value_size=4000 --sync=1 \
         --write_buffer_size=1000000 --threads=2 --enable_blob_files=1 >{} 2>&1",
        data.display(),
        said.display()
    ));
    let said = std::fs::read_to_string(said).unwrap();
    let counted = said.lines().find_map(|line| line.strip_prefix("rocksdb.wal.synced COUNT : "));
    let counted: u64 = counted.unwrap_or_else(|| panic!("{said}")).trim().parse().unwrap();
    assert!(counted > 100, "{said}");
    assert_eq!(of_role(&measured, "wal", &data), counted, "{}", measured.0["files"]);
    for role in ["sst", "manifest", "options", "directory"] {
        assert!(of_role(&measured, role, &data) > 0, "{role}: {}", measured.0["files"]);
    }
    assert_no_other(&measured, &data);
}

/// How often a commit syncs what: "Atomic Commit In SQLite" (sqlite.org/atomiccommit.html), 3.7 and 3.10, and
/// "Write-Ahead Logging" (sqlite.org/wal.html), 3.
#[test]
#[ignore = "needs root, a kernel with BTF, and SQLite"]
fn root_sqlite_is_seen_to_sync_as_often_as_its_commits_have_to() {
    needs(&["/usr/bin/sqlite3"]);
    let directory = directory();
    let data = directory.path();
    let (rollback, wal) = (data.join("r.db"), data.join("w.db"));
    const COMMITS: u64 = 50;
    let inserts = "INSERT INTO t VALUES(randomblob(100));".repeat(COMMITS as usize);
    // What makes the table is not traced.
    for (path, mode) in [(&rollback, "delete"), (&wal, "wal")] {
        let made =
            Command::new("sqlite3").arg(path).arg(format!("PRAGMA journal_mode={mode};CREATE TABLE t(a);"));
        assert!({ made }.output().unwrap().status.success());
    }
    let sqlite = |path: &Path| {
        let text = format!("PRAGMA synchronous=full;PRAGMA wal_autocheckpoint=0;{inserts}");
        traced(&format!("echo '{text}' | sqlite3 {} >/dev/null", path.display()))
    };
    let measured = sqlite(&rollback);
    let seen = ["journal", "database", "directory"].map(|role| of_role(&measured, role, data));
    // The journal before and after its header says how many pages it has.
    assert_eq!(seen, [2 * COMMITS, COMMITS, 2 * COMMITS], "{}", measured.0["files"]);
    assert_no_other(&measured, data);
    let measured = sqlite(&wal);
    let seen = ["wal", "database"].map(|role| of_role(&measured, role, data));
    assert_eq!(seen, [COMMITS, 1], "{}", measured.0["files"]);
    assert_no_other(&measured, data);
}
