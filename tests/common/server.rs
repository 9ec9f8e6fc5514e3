//! Real servers that are thrown away with the test, and their own counters, which are the truth to test
//! against.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fsynctop::engine::engines::Engines;
use fsynctop::server::who::filter::TargetFilter;
use fsynctop::server::who::processes;
use fsynctop::server::who::selection;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tempfile::TempDir;

use super::throwaway::{Throwaway, at_rest};
use super::{built, disk, turn, wait_until};

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/throwaway-server");
/// MariaDB's page cleaner looks once a second whether there is anything to write out, and never writes it
/// all: that it let its turn pass is the only sign that it is done.
const QUIET: Duration = Duration::from_millis(1200);
/// MySQL writes everything out, and says so; between its last sync and the counter of it there is a moment.
const QUIET_AT_REST: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    MariaDb,
    MySql,
    /// Of 2015: it syncs everything by fsync; InnoDB has its doublewrite buffer and undo logs in the system
    /// tablespace, and no dictionary, which is .frm files of the server's.
    MySql56,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::MariaDb => "mariadb",
            Kind::MySql => "mysql",
            Kind::MySql56 => "mysql@5.6",
        }
    }

    pub fn named(name: &str) -> Kind {
        let kinds = [Kind::MariaDb, Kind::MySql, Kind::MySql56];
        kinds
            .into_iter()
            .find(|kind| kind.name() == name)
            .unwrap_or_else(|| panic!("no kind of server: {name}"))
    }

    /// As fsynctop calls it.
    pub fn product(self) -> &'static str {
        match self {
            Kind::MariaDb => "MariaDB",
            Kind::MySql | Kind::MySql56 => "MySQL",
        }
    }

    /// The call by which it syncs its logs, unless it is told otherwise.
    pub fn log_op(self) -> &'static str {
        match self {
            Kind::MariaDb | Kind::MySql => "fdatasync",
            Kind::MySql56 => "fsync",
        }
    }
}

/// What a server counts itself, since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Innodb_data_fsyncs: every sync of an InnoDB file, the redo log included; directories and binary logs
    /// are not.
    pub innodb: u64,
    /// Innodb_os_log_fsyncs; MariaDB has none.
    pub redo: Option<u64>,
    /// MySQL: COUNT_MISC of the binary logs in performance_schema. MariaDB: Binlog_group_commits, each of
    /// which syncs the binary log if sync_binlog=1.
    pub binlog: u64,
    /// Syncs that InnoDB is in right now.
    pub pending: u64,
    /// Bytes of the redo log that the last checkpoint does not cover, where the server writes until there are
    /// none (MySQL since 8.0.30).
    pub behind: Option<u64>,
}

impl Counters {
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            innodb: self.innodb - earlier.innodb,
            redo: self.redo.map(|n| n - earlier.redo.expect("of one server")),
            binlog: self.binlog - earlier.binlog,
            pending: self.pending,
            behind: self.behind,
        }
    }

    /// How long they must have stood still for the server to be at rest; None: they cannot yet.
    fn quiet(&self) -> Option<Duration> {
        match (self.pending, self.behind) {
            (0, None) => Some(QUIET),
            (0, Some(0)) => Some(QUIET_AT_REST),
            _ => None,
        }
    }
}

/// What a server counts itself of the writes to its redo log's files, since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoWrites {
    /// Innodb_log_writes: of the log's blocks; those that record a checkpoint and those of a file's head are
    /// not among them.
    pub blocks: u64,
    /// COUNT_WRITE in performance_schema. MySQL 9.7: all of them. MySQL 5.6 records checkpoints by
    /// asynchronous requests, of which it counts some; MariaDB writes its log past performance_schema.
    pub files: Option<u64>,
    /// MariaDB's last checkpoint.
    pub checkpoint: Option<u64>,
}

enum Keeper {
    /// tools/throwaway-server, with its directory.
    Tool(TempDir),
    Child(Throwaway),
}

/// Ten seconds after a tenth of a table's rows changed, InnoDB renews the table's statistics and syncs them,
/// in the middle of what a test takes for quiet.
const NO_LATE_STATISTICS: &str = "--innodb-stats-auto-recalc=OFF";

/// A server that runs.
pub struct Database {
    pub kind: Kind,
    /// As the host numbers it.
    pub pid: u32,
    pub version: String,
    pub socket: PathBuf,
    /// As the server sees it.
    pub datadir: PathBuf,
    connection: Conn,
    keeper: Keeper,
}

impl Database {
    /// A new one, with sync_binlog=1 unless the options say otherwise.
    pub fn start(kind: Kind, options: &[&str]) -> Database {
        Database::start_on(kind, None, options)
    }

    /// `base`: where its data directory is made.
    pub fn start_on(kind: Kind, base: Option<&Path>, options: &[&str]) -> Database {
        turn::must_be_taken();
        // Not in /tmp, which is memory on many systems. The name is short because it is a socket's, too.
        let directory = TempDir::with_prefix_in("fsynctop-", "/var/tmp").unwrap();
        let mut command = Command::new(TOOL);
        command.args(["start", kind.name()]).arg(directory.path());
        command.args(["--json", &format!("--owner={}", std::process::id())]);
        command.args(base.map(|base| format!("--datadir-base={}", base.display())));
        command.arg("--");
        if kind != Kind::MySql56 {
            command.arg(NO_LATE_STATISTICS);
        }
        let output = command.args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let keeper = Keeper::Tool(directory);
        let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let fact = |name: &str| facts[name].as_str().unwrap().to_owned();
        let socket = PathBuf::from(fact("socket"));
        Database {
            kind,
            pid: facts["pid"].as_u64().unwrap().try_into().unwrap(),
            version: fact("version"),
            datadir: fact("server_datadir").into(),
            connection: connect(&socket).expect("it is ready for connections"),
            socket,
            keeper,
        }
    }

    /// As its administrator, on a connection of its own.
    pub fn execute(&self, statements: &[impl AsRef<str>]) {
        let mut connection = connect(&self.socket).expect("it answered before");
        statements.iter().for_each(|statement| connection.query_drop(statement.as_ref()).unwrap());
    }

    /// One of the variables of SHOW GLOBAL STATUS, on a connection of its own.
    pub fn status(&self, name: &str) -> String {
        let mut connection = connect(&self.socket).expect("it answered before");
        let row: Option<(String, String)> =
            connection.exec_first("SHOW GLOBAL STATUS WHERE Variable_name = ?", (name,)).unwrap();
        row.unwrap_or_else(|| panic!("no status variable {name}")).1
    }

    /// On a connection of its own.
    pub fn redo_writes(&self) -> RedoWrites {
        let mut connection = connect(&self.socket).expect("it answered before");
        let status: Vec<(String, u64)> = connection
            .query(
                "SHOW GLOBAL STATUS
                 WHERE Variable_name IN ('Innodb_log_writes', 'Innodb_lsn_last_checkpoint')",
            )
            .unwrap();
        let status: BTreeMap<_, _> = status.into_iter().collect();
        let files = "SELECT CAST(COUNT_WRITE AS UNSIGNED) FROM performance_schema.file_summary_by_event_name
                     WHERE EVENT_NAME = 'wait/io/file/innodb/innodb_log_file'";
        RedoWrites {
            blocks: status["Innodb_log_writes"],
            files: connection.query_first(files).unwrap(),
            checkpoint: status.get("Innodb_lsn_last_checkpoint").copied(),
        }
    }

    /// The same, once it has stood still for a while.
    pub fn quiet_redo_writes(&self) -> RedoWrites {
        at_rest(|_| Some(QUIET), || self.redo_writes())
    }

    pub fn counters(&mut self) -> Counters {
        let status: Vec<(String, String)> = self
            .connection
            .query(
                "SHOW GLOBAL STATUS
                 WHERE Variable_name LIKE '%\\_%c%s' OR Variable_name LIKE 'Innodb\\_redo\\_log\\_%\\_lsn'",
            )
            .unwrap();
        let status: BTreeMap<_, _> = status.into_iter().collect();
        let number = |name: &str| status.get(name).map(|value| value.parse::<u64>().unwrap());
        let binlog = match self.kind {
            Kind::MariaDb => number("Binlog_group_commits"),
            Kind::MySql | Kind::MySql56 => self
                .connection
                .query_first(
                    "SELECT CAST(SUM(COUNT_MISC) AS UNSIGNED) FROM performance_schema.file_summary_by_instance
                     WHERE EVENT_NAME = 'wait/io/file/sql/binlog'",
                )
                .unwrap(),
        };
        let pending = ["Innodb_data_pending_fsyncs", "Innodb_os_log_pending_fsyncs"];
        let (current, checkpoint) =
            (number("Innodb_redo_log_current_lsn"), number("Innodb_redo_log_checkpoint_lsn"));
        Counters {
            behind: current.zip(checkpoint).map(|(current, checkpoint)| current - checkpoint),
            innodb: number("Innodb_data_fsyncs").unwrap(),
            redo: number("Innodb_os_log_fsyncs"),
            binlog: binlog.unwrap(),
            pending: pending.into_iter().filter_map(number).sum(),
        }
    }

    /// The counters, once they have stood still for a while with no sync under way.
    pub fn quiet_counters(&mut self) -> Counters {
        at_rest(Counters::quiet, || self.counters())
    }

    /// Makes the table that [`Database::insert`] needs.
    pub fn prepare(&self) {
        disk::run(
            built("insert-load").to_str().unwrap(),
            &[OsStr::new("--prepare"), OsStr::new("--socket"), self.socket.as_os_str()],
        );
    }

    /// The classic load: so many connections, and so many autocommit INSERTs on each.
    pub fn insert(&self, connections: u32, rows: u32) {
        let output = self.load(connections, rows).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn load(&self, connections: u32, rows: u32) -> Command {
        let mut command = Command::new(built("insert-load"));
        command.arg("--run").arg("--socket").arg(&self.socket);
        command.arg(format!("--connections={connections}")).arg(format!("--rows={rows}"));
        command
    }

    /// The name of its main thread.
    pub fn comm(&self) -> String {
        processes::find(Path::new("/proc"), self.pid).unwrap().comm
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&self) {
        disk::run("kill", &["-KILL", &self.pid.to_string()]);
        wait_until("the killed server to be gone", || {
            processes::find(Path::new("/proc"), self.pid).is_none()
                || std::fs::read(format!("/proc/{}/maps", self.pid)).is_ok_and(|maps| maps.is_empty())
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Keeper::Tool(directory) = &self.keeper {
            // Of a server that was killed, the files are just being removed: nothing to complain about.
            let mut command = Command::new(TOOL);
            let _ = command.args(["stop", "--now"]).arg(directory.path()).stderr(Stdio::null()).status();
        }
    }
}

fn connect(socket: &Path) -> mysql::Result<Conn> {
    Conn::new(OptsBuilder::new().socket(socket.to_str()).user(Some("root")))
}

/// A data directory on which servers are started by the test itself, one after another, under a name of their
/// own, so that no other test's server is taken for them.
pub struct Home {
    kind: Kind,
    directory: TempDir,
    /// The tree that the server runs chrooted in.
    root: Option<PathBuf>,
    /// The server's name: of at most 15 bytes.
    pub comm: String,
    server: PathBuf,
}

impl Home {
    pub fn new(kind: Kind) -> Home {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let output = Command::new(TOOL).args(["prepare", kind.name()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = String::from_utf8(output.stdout).unwrap();
        let fact = |name: &str| {
            let value = output.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            PathBuf::from(value.trim_matches('\''))
        };
        let root = Some(fact("ROOT=")).filter(|root| root != Path::new(""));
        let place = root.as_ref().map_or("/var/tmp".into(), |root| root.join("tmp"));
        let directory = TempDir::with_prefix_in("fsynctop-", place).unwrap();
        disk::run(
            "cp",
            &[OsStr::new("-a"), fact("TEMPLATE=").as_os_str(), directory.path().join("data").as_os_str()],
        );
        let comm = format!("db{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        std::os::unix::fs::symlink(fact("SERVER="), directory.path().join(&comm)).unwrap();
        Home { kind, directory, root, comm, server: fact("SERVER=") }
    }

    /// The directory of everything, as this machine sees it.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The same as the server sees it.
    pub fn inside(&self) -> PathBuf {
        match &self.root {
            Some(root) => Path::new("/").join(self.path().strip_prefix(root).unwrap()),
            None => self.path().to_owned(),
        }
    }

    /// The command that runs the server. `wrapper`: what is to be run with that command as its last
    /// arguments.
    fn command(&self, wrapper: &[&str], options: &[String]) -> Command {
        let mut command = Command::new("setpriv"); // the server dies with the test
        command.args(["--pdeathsig", "KILL"]).args(wrapper);
        if let Some(root) = &self.root {
            command.arg("chroot").arg(root);
        }
        command.arg(self.inside().join(&self.comm)).args(options);
        command
    }

    /// Starts the server with an option file or with nothing but the options given.
    pub fn spawn(&self, wrapper: &[&str], options: &[String]) -> Throwaway {
        let server = Throwaway::start(self.command(wrapper, options), self.path().join("error.log"));
        let socket = self.socket();
        server.wait_until("the server to listen", || connect(&socket).is_ok());
        server
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("db.sock")
    }

    /// Starts the server and waits until it can be used.
    pub fn start(&self, wrapper: &[&str], options: &[&str]) -> Database {
        let inside = self.inside();
        let inside = inside.display();
        let mut all = vec![
            "--no-defaults".to_owned(),
            "--user=root".into(),
            format!("--datadir={inside}/data"),
            format!("--socket={inside}/db.sock"),
            format!("--pid-file={inside}/db.pid"),
            "--basedir=/usr".into(),
            "--lc-messages-dir=/usr/share/mysql".into(),
            "--skip-networking".into(),
            "--log-bin=binlog".into(),
            "--server-id=1".into(),
            "--sync-binlog=1".into(),
            "--secure-file-priv=".into(),
            "--loose-mysqlx=OFF".into(),
            NO_LATE_STATISTICS.into(),
        ];
        all.extend(options.iter().map(|&option| option.to_owned()));
        let server = self.spawn(wrapper, &all);
        let filter = TargetFilter::comms(std::slice::from_ref(&self.comm)).unwrap();
        let [process] = &selection::list(Path::new("/proc"), &Engines::builtin(), &filter)[..] else {
            panic!("one process called {}", self.comm)
        };
        Database {
            kind: self.kind,
            pid: process.pid,
            version: self.version(),
            socket: self.socket(),
            datadir: self.inside().join("data"),
            connection: connect(&self.socket()).unwrap(),
            keeper: Keeper::Child(server),
        }
    }

    /// As the program itself says: "10.11.14".
    pub fn version(&self) -> String {
        let mut command = match &self.root {
            Some(root) => {
                let mut command = Command::new("chroot");
                command.arg(root).arg(&self.server);
                command
            }
            None => Command::new(&self.server),
        };
        let output = command.args(["--no-defaults", "--version"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rest = text.split_once("Ver ").unwrap().1;
        rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap().to_owned()
    }
}
