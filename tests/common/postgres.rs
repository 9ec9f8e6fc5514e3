//! A PostgreSQL of its own (tools/postgres-root.sh), thrown away with the test, and what it counts itself of
//! its write-ahead log.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::chroot::Chroot;
use super::disk::run;
use super::{Running, wait_until};

const TOOL: &str = "postgres-root.sh";
/// Which one, unless a test says so.
const VERSION: u32 = 15;
/// Of the tree: PostgreSQL does not run as root.
const USER: u32 = 26;
/// Processes hand in what they have counted at the end of a transaction, the writer of the log each fifth of
/// a second; the log is written now and then after a load.
const QUIET: Duration = Duration::from_secs(2);

/// What `pg_stat_wal` has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wal {
    /// Calls that wrote the log, one each (XLogWrite in xlog.c).
    pub writes: u64,
    /// Calls that synced it (issue_xlog_fsync): none where the writes are durable.
    pub syncs: u64,
    /// Of records. Whole pages are written, the last one of a commit again and again.
    pub bytes: u64,
}

impl Wal {
    pub fn since(self, earlier: Wal) -> Wal {
        Wal {
            writes: self.writes - earlier.writes,
            syncs: self.syncs - earlier.syncs,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// A cluster on a filesystem of its own, to start servers on, one after another.
pub struct Cluster {
    chroot: Chroot,
    version: u32,
}

impl Cluster {
    /// `filesystem`: ext4 or xfs, of so many megabytes.
    pub fn on(filesystem: &str, megabytes: u64) -> Cluster {
        Cluster::of(VERSION, filesystem, megabytes)
    }

    /// `version`: one that the tool knows.
    pub fn of(version: u32, filesystem: &str, megabytes: u64) -> Cluster {
        let chroot = Chroot::on(&format!("{TOOL} {version}"), USER, filesystem, megabytes);
        let cluster = Cluster { chroot, version };
        let data = cluster.data().display().to_string();
        let arguments = ["--no-sync", "--auth=trust", "--locale=C", "-D", &data];
        let made = cluster.chroot.enter(&cluster.program("initdb"), &arguments).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        cluster
    }

    fn program(&self, name: &str) -> String {
        format!("/usr/lib/postgresql/{}/bin/{name}", self.version)
    }

    /// As the server sees it.
    pub fn data(&self) -> PathBuf {
        self.chroot.inside(&self.chroot.disk().join("data"))
    }

    /// Of its sockets, as the server sees it.
    fn sockets(&self) -> String {
        self.chroot.inside(self.chroot.directory()).display().to_string()
    }

    /// Starts the server with settings ("fsync=on") and waits until it answers.
    pub fn start(&self, settings: &[&str]) -> Postgres<'_> {
        let log = std::fs::File::create(self.chroot.directory().join("server.log")).unwrap();
        let (data, sockets) = (self.data(), format!("unix_socket_directories={}", self.sockets()));
        let all = ["listen_addresses=", &sockets, "jit=off", "autovacuum=off", "checkpoint_timeout=1h"];
        let settings = all.iter().chain(settings).flat_map(|setting| ["-c", setting]);
        let arguments: Vec<&str> = ["-D", data.to_str().unwrap()].into_iter().chain(settings).collect();
        let mut command = self.chroot.enter(&self.program("postgres"), &arguments);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut server = Postgres { cluster: self, running: Running(command.spawn().unwrap()) };
        wait_until("PostgreSQL to answer", || {
            let ended = server.running.0.try_wait().unwrap();
            assert!(ended.is_none(), "{}", self.log());
            self.client("pg_isready").output().unwrap().status.success()
        });
        server
    }

    /// How whoever connects to a server that is started from now on has to prove who they are.
    pub fn let_in_by(&self, method: &str) {
        let rules = self.chroot.disk().join("data/pg_hba.conf");
        std::fs::write(rules, format!("local all all {method}\n")).unwrap();
    }

    /// Where its sockets are, as this machine sees it.
    pub fn socket_directory(&self) -> &Path {
        self.chroot.directory()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.chroot.directory().join("server.log")).unwrap_or_default()
    }

    fn client(&self, program: &str) -> Command {
        let mut client = self.chroot.run(&self.program(program), &[]);
        client.args(["-h", &self.sockets(), "-U", "postgres"]).env("PGDATABASE", "postgres");
        client
    }
}

/// A server that runs.
pub struct Postgres<'a> {
    cluster: &'a Cluster,
    running: Running,
}

impl Postgres<'_> {
    fn tell(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.cluster.client(program).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {stderr}{}", self.cluster.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Of the postmaster.
    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }

    /// A client that is told this and left to itself.
    pub fn begin(&self, statement: &str) -> Running {
        let mut client = self.cluster.client("psql");
        client.args(["-Xqc", statement]).stdout(Stdio::null()).stderr(Stdio::null());
        Running(client.spawn().unwrap())
    }

    /// So many connections that go on until this is dropped.
    pub fn begin_load(&self, connections: u32) -> Running {
        let mut client = self.cluster.client("pgbench");
        client.args(["--no-vacuum", "--builtin=simple-update", "-T", "600", "-c", &connections.to_string()]);
        Running(client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Kills the postmaster, and it alone.
    pub fn kill(mut self) {
        self.running.0.kill().unwrap();
        self.running.0.wait().unwrap();
    }

    /// What a statement answers: columns are separated by `|`.
    pub fn query(&self, statement: &str) -> String {
        self.tell("psql", &["-AtXqc", statement]).trim().to_owned()
    }

    /// Makes the tables of pgbench.
    pub fn prepare(&self) {
        self.tell("pgbench", &["--initialize", "--quiet"]);
    }

    /// So many connections, and so many transactions on each, which change different rows.
    pub fn load(&self, connections: u32, transactions: u32) {
        self.load_by(connections, transactions, &[]);
    }

    /// The same with a connection of its own for each transaction: a process that lives as long as that.
    pub fn load_by_short_lived(&self, connections: u32, transactions: u32) {
        self.load_by(connections, transactions, &["--connect"]);
    }

    fn load_by(&self, connections: u32, transactions: u32, options: &[&str]) {
        let (connections, transactions) = (connections.to_string(), transactions.to_string());
        let all =
            ["--no-vacuum", "--builtin=simple-update", "-c", &connections, "-j", "2", "-t", &transactions];
        self.tell("pgbench", &[&all[..], options].concat());
    }

    pub fn wal(&self) -> Wal {
        let row = self.query("SELECT wal_write, wal_sync, wal_bytes FROM pg_stat_wal");
        let numbers: Vec<u64> = row.split('|').map(|number| number.parse().unwrap()).collect();
        let [writes, syncs, bytes] = numbers[..] else { panic!("{row}") };
        Wal { writes, syncs, bytes }
    }

    /// The counters, once they have stood still for a while.
    pub fn quiet_wal(&self) -> Wal {
        let deadline = Instant::now() + Duration::from_secs(60);
        let (mut wal, mut since) = (self.wal(), Instant::now());
        while since.elapsed() < QUIET {
            assert!(Instant::now() < deadline, "the server does not come to rest: {wal:?}");
            std::thread::sleep(Duration::from_millis(200));
            let now = self.wal();
            if now != wal {
                (wal, since) = (now, Instant::now());
            }
        }
        wal
    }

    /// A clean shutdown, so that the next server need not recover.
    pub fn stop(mut self) {
        run("kill", &["-INT", &self.running.0.id().to_string()]);
        let status = self.running.0.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.cluster.log());
    }
}
