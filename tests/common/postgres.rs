//! A PostgreSQL of its own (tools/postgres-root.sh), thrown away with the test, and what it counts itself of
//! its write-ahead log.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::Running;
use super::chroot::{Chroot, Disk};
use super::throwaway::{Throwaway, at_rest};

const TOOL: &str = "postgres-root.sh";
/// Which one, unless a test says so.
const VERSION: u32 = 15;
/// Of the tree: PostgreSQL does not run as root.
const USER: u32 = 26;
/// Processes hand in what they have counted at the end of a transaction, the writer of the log each fifth of
/// a second; the log is written now and then after a load.
const QUIET: Duration = Duration::from_secs(2);
/// From this version on, the log's writes and syncs are counted beside all other input and output.
const COUNTS_ALL_IO: u32 = 18;
const WAL_OF_IO: &str = "SELECT sum(writes) FILTER (WHERE context = 'normal'), sum(fsyncs) FILTER (WHERE context = 'normal'), \
     (SELECT wal_bytes FROM pg_stat_wal), sum(write_bytes) FILTER (WHERE context = 'normal'), \
     coalesce(sum(write_bytes) FILTER (WHERE context = 'init'), 0) FROM pg_stat_io WHERE object = 'wal'";

/// What the server has counted of its log: `pg_stat_wal`, or from 18 on `pg_stat_io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wal {
    /// Calls that wrote the log, one each (XLogWrite in xlog.c).
    pub writes: u64,
    /// Calls that synced it (issue_xlog_fsync): none where the writes are durable.
    pub syncs: u64,
    /// Of records. Whole pages are written, the last one of a commit again and again.
    pub bytes: u64,
    /// Bytes of these writes; 0 before 18.
    pub written: u64,
    /// Bytes of zeros by which files of the log are made; 0 before 18.
    pub made: u64,
}

impl Wal {
    pub fn since(self, earlier: Wal) -> Wal {
        Wal {
            writes: self.writes - earlier.writes,
            syncs: self.syncs - earlier.syncs,
            bytes: self.bytes - earlier.bytes,
            written: self.written - earlier.written,
            made: self.made - earlier.made,
        }
    }
}

/// A cluster on a filesystem of its own, to start servers on, one after another.
pub struct Cluster {
    chroot: Arc<Chroot>,
    version: u32,
    /// As this machine sees it.
    data: PathBuf,
    /// Of its sockets and its log, as this machine sees it.
    directory: PathBuf,
}

impl Cluster {
    /// `filesystem`: ext4 or xfs, of so many megabytes.
    pub fn on(filesystem: &str, megabytes: u64) -> Cluster {
        Cluster::of(VERSION, filesystem, megabytes)
    }

    /// `version`: one that the tool knows.
    pub fn of(version: u32, filesystem: &str, megabytes: u64) -> Cluster {
        let chroot = Chroot::on(&format!("{TOOL} {version}"), USER, filesystem, megabytes);
        let (data, directory) = (chroot.disk().join("data"), chroot.directory().to_owned());
        let cluster = Cluster { chroot: Arc::new(chroot), version, data, directory };
        let data = cluster.data().display().to_string();
        let arguments = ["--no-sync", "--auth=trust", "--locale=C", "-D", &data];
        let made = cluster.chroot.enter(&cluster.program("initdb"), &arguments).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        cluster
    }

    /// With the tables of pgbench.
    pub fn with_tables(version: u32) -> Cluster {
        let cluster = Cluster::of(version, "ext4", 512);
        let server = cluster.start(&["fsync=off"]);
        server.prepare();
        server.stop();
        cluster
    }

    fn program(&self, name: &str) -> String {
        format!("/usr/lib/postgresql/{}/bin/{name}", self.version)
    }

    /// As the server sees it.
    pub fn data(&self) -> PathBuf {
        self.chroot.inside(&self.data)
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    /// A disk for tablespaces, which servers that are started from now on see, and where it is for them.
    pub fn another_disk(&self, name: &str, filesystem: &str, megabytes: u64) -> (Disk, PathBuf) {
        let disk = self.chroot.another_disk(name, filesystem, megabytes);
        let path = self.chroot.inside(disk.path());
        (disk, path)
    }

    /// Of its sockets, as the server sees it.
    fn sockets(&self) -> String {
        self.chroot.inside(&self.directory).display().to_string()
    }

    /// Starts the server with settings ("fsync=on") and waits until it answers.
    pub fn start(&self, settings: &[&str]) -> Postgres<'_> {
        self.run_program(&self.program("postgres"), settings)
    }

    /// The same by a link of that name, which becomes the name of all its processes.
    pub fn start_as(&self, name: &str, settings: &[&str]) -> Postgres<'_> {
        let link = self.directory.join(name);
        std::os::unix::fs::symlink(self.program("postgres"), &link).unwrap();
        self.run_program(self.chroot.inside(&link).to_str().unwrap(), settings)
    }

    fn run_program(&self, program: &str, settings: &[&str]) -> Postgres<'_> {
        let (data, sockets) = (self.data(), format!("unix_socket_directories={}", self.sockets()));
        let all = ["listen_addresses=", &sockets, "jit=off", "autovacuum=off", "checkpoint_timeout=1h"];
        let settings = all.iter().chain(settings).flat_map(|setting| ["-c", setting]);
        let arguments: Vec<&str> = ["-D", data.to_str().unwrap()].into_iter().chain(settings).collect();
        let command = self.chroot.enter(program, &arguments);
        let server = Throwaway::start(command, self.directory.join("server.log"));
        server.wait_until("PostgreSQL to answer", || {
            self.client("pg_isready").output().unwrap().status.success()
        });
        Postgres { cluster: self, server }
    }

    /// How whoever connects to a server that is started from now on has to prove who they are.
    pub fn let_in_by(&self, method: &str) {
        let rules = self.data.join("pg_hba.conf");
        std::fs::write(rules, format!("local all all {method}\n")).unwrap();
    }

    /// Where its sockets are, as this machine sees it.
    pub fn socket_directory(&self) -> &Path {
        &self.directory
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
    server: Throwaway,
}

impl Postgres<'_> {
    fn tell(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.cluster.client(program).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {stderr}{}", self.server.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// As it sees it.
    pub fn data(&self) -> PathBuf {
        self.cluster.data()
    }

    /// Of the postmaster.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// A copy of its cluster on the same disk, by `pg_basebackup`. A server that is started on it is this
    /// one's standby.
    pub fn copy(&self, name: &str) -> Cluster {
        let chroot = self.cluster.chroot.clone();
        let (data, directory) = (chroot.disk().join(name), chroot.make_directory(name));
        let copy = Cluster { chroot, version: self.cluster.version, data, directory };
        let inside = copy.data();
        let options = ["--checkpoint=fast", "--write-recovery-conf", "-D", inside.to_str().unwrap()];
        self.tell("pg_basebackup", &options);
        copy
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
    pub fn kill(self) {}

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
        let row = self.query(match self.cluster.version {
            COUNTS_ALL_IO.. => WAL_OF_IO,
            _ => "SELECT wal_write, wal_sync, wal_bytes, 0, 0 FROM pg_stat_wal",
        });
        let numbers: Vec<u64> = row.split('|').map(|number| number.parse().unwrap()).collect();
        let [writes, syncs, bytes, written, made] = numbers[..] else { panic!("{row}") };
        Wal { writes, syncs, bytes, written, made }
    }

    /// How far the log is written, in bytes since there is one.
    pub fn wal_position(&self) -> u64 {
        self.query("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").parse().unwrap()
    }

    /// The counters, once they have stood still for a while.
    pub fn quiet_wal(&self) -> Wal {
        at_rest(|_| Some(QUIET), || self.wal())
    }

    /// A clean shutdown, so that the next server need not recover.
    pub fn stop(self) {
        self.server.stop("INT");
    }
}
