//! A process that makes system calls on request, and how it is told to. It is this program again, under
//! another name: "mysqld" is a traced process, any other name a neighbour.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    Fsync,
    Fdatasync,
    Getppid,
    /// 4 KB at the end of the file, and fdatasync: on a disk, a sync that waits.
    Append,
    /// One of two threads that wake each other in turn: no sync, but a switch between threads.
    Switch,
    /// As [`Call::Fsync`], in the second directory.
    FsyncOnDisk,
    /// 4 KB at the beginning of the file, always the same.
    Write,
    /// The same through a descriptor with O_DSYNC.
    DurableWrite,
    /// A byte to /dev/null, which stores nothing, as a socket or a pipe does not.
    NullWrite,
    /// An fsync that is asked for in a ring of io_uring; a worker of the kernel makes it.
    RingFsync,
    /// A request that does nothing.
    RingNop,
    /// An fsync by a new thread, which does nothing else.
    FirstOfThread,
    /// An fsync by a new process, which does nothing else: it is forked and executes no other program.
    FirstOfProcess,
    /// As [`Call::DurableWrite`], by libaio: a system call that submits it, which writes, and one that takes
    /// its event.
    AioDurableWrite,
}

impl Call {
    /// Whether fsynctop counts it.
    pub fn counts(self) -> bool {
        !matches!(self, Call::Getppid | Call::Switch | Call::Write | Call::NullWrite | Call::RingNop)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Files {
    /// The first thread syncs the first file, the second the second.
    Own,
    /// So many files take turns in each thread.
    Shared(usize),
    /// So many files, of which each thread has its part: more than one may have open. Needs
    /// [`Load::start_split`].
    Split(usize),
}

/// What the process is to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Round {
    pub call: Call,
    pub threads: usize,
    /// Thread i runs on processor i modulo this.
    pub cpus: usize,
    pub files: Files,
    pub duration: Duration,
    /// Calls a second, of all threads together. None: as fast as they go.
    pub rate: Option<f64>,
}

/// What it did.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Done {
    pub calls: u64,
    pub seconds: f64,
    /// The median over small batches of calls, so that what interrupts a batch now and then does not count.
    /// 0 if a rate was asked for.
    pub ns_per_call: f64,
}

/// The process, seen from its parent. Dropping it ends it.
pub struct Load {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Load {
    /// `directory`: where its files are made.
    pub fn start(name: &str, directory: &Path) -> Result<Load> {
        Load::start_with(name, directory, None, &[])
    }

    /// Each of its threads has a table of descriptors of its own, and so its own limit of open files. `disk`:
    /// the second directory.
    pub fn start_split(name: &str, directory: &Path, disk: Option<&Path>) -> Result<Load> {
        Load::start_with(name, directory, disk, &["--split"])
    }

    fn start_with(name: &str, directory: &Path, disk: Option<&Path>, options: &[&str]) -> Result<Load> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--load", name, "--directory"]).arg(directory).args(options);
        if let Some(disk) = disk {
            command.arg("--disk").arg(disk);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start the load")?;
        let requests = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().context("its standard output")?);
        let mut load = Load { child, requests, replies };
        ensure!(load.reply::<String>()? == name, "the load has another name");
        Ok(load)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Begins a round; [`Load::end`] waits for its end.
    pub fn begin(&mut self, round: &Round) -> Result<()> {
        let requests = self.requests.as_mut().context("the load has ended")?;
        writeln!(requests, "{}", serde_json::to_string(round)?).context("the load has ended")
    }

    pub fn end(&mut self) -> Result<Done> {
        self.reply()
    }

    pub fn run(&mut self, round: &Round) -> Result<Done> {
        self.begin(round)?;
        self.end()
    }

    fn reply<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.replies.read_line(&mut line).context("the load does not answer")?;
        serde_json::from_str(&line).with_context(|| format!("the load answered {line:?}"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.requests = None; // by which it ends
        let _ = self.child.wait();
    }
}
