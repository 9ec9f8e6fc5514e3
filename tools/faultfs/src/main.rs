//! faultfs: a file system in memory whose syncs are delayed by a known time, fail with a named error, or hang
//! until released. It serves the tests of latencies, errors and stuck syncs; a database runs on it too.

mod content;
mod filesystem;
mod gate;
mod rules;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, Result};
use clap::Parser;
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{getgid, getuid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::filesystem::FaultFs;
use crate::gate::Gate;

/// Mounts an empty file system in memory whose fsync and fdatasync do what they are told to.
///
/// Write to DIRECTORY/.control, at any time: `ok`, `delay 10ms`, `fail EIO`, `hang`, each for every file or
/// `on PREFIX` for those whose name begins so; `release` (or `release EIO`) completes what hangs. Names say
/// it too: slow-10ms-…, fail-ENOSPC-…, hang-…. Reading .control shows the rules and how many syncs came. Runs
/// in the foreground; prints "ready DIRECTORY" once mounted. On SIGTERM, Ctrl-C or SIGHUP it fails what
/// hangs, unmounts and ends.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// An existing directory to mount on.
    directory: PathBuf,
    /// A command in force from the start, for example "delay 10ms".
    #[arg(long)]
    control: Option<String>,
}

fn main() -> ExitCode {
    match try_main(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("faultfs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_main(options: &Options) -> Result<()> {
    let directory = options.directory.canonicalize();
    let directory = directory.with_context(|| format!("cannot mount on {}", options.directory.display()))?;
    let gate = Arc::new(Gate::new());
    if let Some(control) = &options.control {
        gate.command(control).map_err(anyhow::Error::msg).context("--control")?;
    }
    // Before mounting: a signal from now on must find someone to unmount.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot watch for signals")?;

    let filesystem = FaultFs::new(Arc::clone(&gate), getuid().as_raw(), getgid().as_raw());
    let session = Session::new(filesystem, &directory, &mount_options()).with_context(|| {
        format!(
            "cannot mount on {} (needs /dev/fuse, and root or fusermount3 of the package fuse3)",
            directory.display()
        )
    })?;
    let session = session.spawn().context("cannot start the threads that serve the file system")?;
    println!("ready {}", directory.display());

    let (ended, end) = channel();
    let signalled = ended.clone();
    thread::spawn(move || signals.forever().next().map(|_| signalled.send(None)));
    thread::spawn(move || ended.send(Some(session.join())));
    match end.recv().context("every watcher has ended")? {
        Some(unmounted) => unmounted.context("the file system ended with an error"),
        None => {
            gate.close();
            detach(&directory);
            // Whoever still has files open gets errors from now on: the connection ends with this process.
            Ok(())
        }
    }
}

fn mount_options() -> Config {
    let mut config = Config::default();
    config.n_threads = Some(4);
    config.mount_options = vec![MountOption::FSName("faultfs".into()), MountOption::DefaultPermissions];
    // fusermount3 stays behind and unmounts even after a SIGKILL; it wants the file system open to every
    // user, which only root may.
    if getuid().is_root() && Command::new("fusermount3").arg("-V").output().is_ok() {
        config.mount_options.push(MountOption::AutoUnmount);
        config.acl = SessionACL::All;
    }
    config
}

/// Unmounts even while files are open.
fn detach(directory: &Path) {
    if unmount(directory, UnmountFlags::DETACH).is_err() && !getuid().is_root() {
        let _ = Command::new("fusermount3").args(["-u", "-q", "-z", "--"]).arg(directory).output();
    }
}
