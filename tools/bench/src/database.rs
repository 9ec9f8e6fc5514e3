//! A throw-away server under a load that does not end, and how many transactions it has committed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use insert_load::Tally;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use serde_json::Value;

const TOOL: &str = "tools/throwaway-server";
const CONNECTIONS: u32 = 16;
/// Tables of sysbench, and their rows: of Debian's package the plain defaults, but for more than one table.
const TABLES: [&str; 2] = ["--tables=4", "--table-size=10000"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    MariaDb,
    MySql,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::MariaDb => "MariaDB",
            Kind::MySql => "MySQL",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Insert,
    Sysbench,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Insert => "insert-load",
            Workload::Sysbench => "sysbench oltp_write_only",
        }
    }
}

/// Stopped, and its files removed, when dropped.
pub struct Database {
    pub pid: u32,
    pub version: String,
    socket: PathBuf,
    connection: Conn,
    directory: tempfile::TempDir,
}

impl Database {
    /// `data`: where its data directory is made; else on the disk that holds /var/tmp.
    pub fn start(kind: Kind, data: Option<&Path>) -> Result<Database> {
        // Not in /tmp, which is memory on many systems. The name is short because it is a socket's, too.
        let directory = tempfile::TempDir::with_prefix_in("fsynctop-", "/var/tmp")?;
        let output = Command::new(TOOL)
            .args(["start", &kind.name().to_lowercase()])
            .arg(directory.path())
            .args(["--json", &format!("--owner={}", std::process::id())])
            .args(data.map(|data| format!("--datadir-base={}", data.display())))
            .output()
            .with_context(|| format!("cannot run {TOOL}; is this the top of the repository?"))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        let facts: Value =
            serde_json::from_slice(&output.stdout).context("what the server's starter says")?;
        let text = |name: &str| facts[name].as_str().unwrap_or_default().to_owned();
        let socket = PathBuf::from(text("socket"));
        let options = OptsBuilder::new().socket(socket.to_str()).user(Some("root"));
        let mut connection = Conn::new(options).context("cannot connect to the server")?;
        connection.query_drop("CREATE DATABASE sbtest")?;
        let pid =
            facts["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).context("the server's pid")?;
        Ok(Database { pid, version: text("version"), socket, connection, directory })
    }

    /// Starts a load. `programs`: the directory of insert-load; `memory`: one on tmpfs.
    pub fn load(&self, workload: Workload, programs: &Path, memory: &Path) -> Result<RunningLoad> {
        let run = |mut command: Command| -> Result<()> {
            let output =
                command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            ensure!(output.status.success(), "{:?}: {said}", command.get_program());
            Ok(())
        };
        let mut tally = None;
        let command = match workload {
            Workload::Insert => {
                let file = memory.join("tally");
                tally = Some(Tally::create(&file)?);
                let insert = |options: &[&str]| {
                    let mut command = Command::new(programs.join("insert-load"));
                    command.arg("--socket").arg(&self.socket).args(options);
                    command
                };
                run(insert(&["--prepare"]))?;
                let mut command =
                    insert(&["--run", "--rows=1000000000", &format!("--connections={CONNECTIONS}")]);
                command.arg("--tally").arg(&file);
                command
            }
            Workload::Sysbench => {
                let sysbench = |action: &str| {
                    let mut command = Command::new("sysbench");
                    command.args(["oltp_write_only", "--mysql-user=root", "--time=0"]).args(TABLES);
                    command.arg(format!("--mysql-socket={}", self.socket.display()));
                    command.arg(format!("--threads={CONNECTIONS}")).arg(action);
                    command
                };
                run(sysbench("prepare"))?;
                sysbench("run")
            }
        };
        RunningLoad::start(command, tally)
    }

    /// How many there were, and at which moment: where the load does not count them itself, the server is
    /// asked, which takes its time to answer.
    pub fn transactions(&mut self, load: &RunningLoad) -> Result<(u64, Instant)> {
        let asked = Instant::now();
        if let Some(tally) = &load.tally {
            return Ok((tally.read(), asked));
        }
        let row: Option<(String, u64)> =
            self.connection.query_first("SHOW GLOBAL STATUS LIKE 'Com_commit'")?;
        let (_, transactions) = row.context("the server does not count its transactions")?;
        Ok((transactions, asked + asked.elapsed() / 2))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut command = Command::new(TOOL);
        let _ = command.args(["stop", "--now"]).arg(self.directory.path()).status();
    }
}

/// Killed when dropped.
pub struct RunningLoad {
    child: Child,
    /// Where the load counts itself.
    tally: Option<Tally>,
}

impl RunningLoad {
    fn start(mut command: Command, tally: Option<Tally>) -> Result<RunningLoad> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        Ok(RunningLoad { child, tally })
    }

    pub fn check(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the load has ended by itself: {ended:?}");
        Ok(())
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
