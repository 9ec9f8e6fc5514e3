//! A PostgreSQL of its own (tools/postgres-root.sh), thrown away with the test, and what it counts itself of
//! its write-ahead log.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::disk::{Mounted, run};
use super::{Running, wait_until};

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/postgres-root.sh");
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
/// The user of the tree: PostgreSQL does not run as root.
const USER: &str = "26:26";
/// Processes hand in what they have counted at the end of a transaction, the writer of the log each fifth of
/// a second; the log is written now and then after a load.
const QUIET: Duration = Duration::from_secs(2);

/// Mounts the devices in a namespace that ends with the server, as its segment of shared memory does, which a
/// server that is killed leaves behind. It dies with the test.
const ENTER: &str = r#"
root=$1; shift
for device in null zero random urandom; do mount --bind /dev/$device "$root/dev/$device"; done
exec setpriv --reuid 26 --regid 26 --clear-groups --inh-caps +sys_chroot --ambient-caps +sys_chroot --pdeathsig KILL \
  chroot "$root" "$@"
"#;

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
    // In this order they go.
    _bound: Mounted,
    _disk: Mounted,
    directory: TempDir,
    root: PathBuf,
    /// The name of all of the server's processes, so that no other's are taken for them.
    pub comm: String,
}

impl Cluster {
    /// `filesystem`: ext4 or xfs, of so many megabytes.
    pub fn on(filesystem: &str, megabytes: u64) -> Cluster {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let output = Command::new(TOOL).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{} failed, as it says above", TOOL);
        let root = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let directory = TempDir::with_prefix_in("fsynctop-", root.join("tmp")).unwrap();
        let point = directory.path().join("disk");
        std::fs::create_dir(&point).unwrap();
        let disk = Mounted::image(filesystem, megabytes);
        let bound = Mounted::on(&["--bind", disk.path().to_str().unwrap()], &point);
        let comm = format!("pg{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        std::os::unix::fs::symlink(format!("{PROGRAMS}/postgres"), directory.path().join(&comm)).unwrap();
        run("chmod", &["755", directory.path().to_str().unwrap()]);
        run("chown", &[USER, point.to_str().unwrap(), directory.path().to_str().unwrap()]);
        let cluster = Cluster { _bound: bound, _disk: disk, directory, root, comm };
        let data = cluster.data().display().to_string();
        let made = cluster
            .enter(&format!("{PROGRAMS}/initdb"), &["--no-sync", "--auth=trust", "--locale=C", "-D", &data])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        cluster
    }

    /// A path of this machine as the server sees it.
    fn inside(&self, path: PathBuf) -> PathBuf {
        Path::new("/").join(path.strip_prefix(&self.root).unwrap())
    }

    /// As the server sees it.
    pub fn data(&self) -> PathBuf {
        self.inside(self.directory.path().join("disk/data"))
    }

    /// Of its sockets, as the server sees it.
    fn sockets(&self) -> String {
        self.inside(self.directory.path().to_owned()).display().to_string()
    }

    fn enter(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--ipc", "--propagation", "slave", "bash", "-euc", ENTER, "enter"]);
        command.arg(&self.root).arg(program).args(arguments).stdin(Stdio::null()).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    /// Starts the server with settings ("fsync=on") and waits until it answers.
    pub fn start(&self, settings: &[&str]) -> Postgres<'_> {
        let program = self.inside(self.directory.path().join(&self.comm));
        let log = std::fs::File::create(self.directory.path().join("server.log")).unwrap();
        let (data, sockets) = (self.data(), format!("unix_socket_directories={}", self.sockets()));
        let all = ["listen_addresses=", &sockets, "jit=off", "autovacuum=off", "checkpoint_timeout=1h"];
        let settings = all.iter().chain(settings).flat_map(|setting| ["-c", setting]);
        let arguments: Vec<&str> = ["-D", data.to_str().unwrap()].into_iter().chain(settings).collect();
        let mut command = self.enter(program.to_str().unwrap(), &arguments);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut server = Postgres { cluster: self, running: Running(command.spawn().unwrap()) };
        wait_until("PostgreSQL to answer", || {
            let ended = server.running.0.try_wait().unwrap();
            assert!(ended.is_none(), "{}", self.log());
            self.client("psql").args(["-c", "SELECT 1"]).output().unwrap().status.success()
        });
        server
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default()
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={USER}")).arg(&self.root).arg(format!("{PROGRAMS}/{program}"));
        command
            .args(["-h", &self.sockets(), "-U", "postgres"])
            .env("PGDATABASE", "postgres")
            .stdin(Stdio::null());
        command
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
        let (connections, transactions) = (connections.to_string(), transactions.to_string());
        let builtin = ["--no-vacuum", "--builtin=simple-update"];
        self.tell("pgbench", &[&builtin[..], &["-c", &connections, "-j", "2", "-t", &transactions]].concat());
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
