//! What the tests share, most of all those that need root.

#![allow(dead_code)] // each test program uses a part of it

pub mod asked;
pub mod chroot;
pub mod disk;
pub mod durable;
pub mod etcd;
pub mod exact;
pub mod explained;
pub mod exporter;
pub mod faultfs;
pub mod faults;
pub mod hostile;
pub mod imports;
pub mod kernel_count;
pub mod measured;
pub mod nested;
pub mod postgres;
pub mod postgres_log;
pub mod prometheus;
pub mod redis;
pub mod rows;
pub mod schema;
pub mod scrape;
pub mod server;
pub mod terminal;
pub mod throwaway;
pub mod traced;
pub mod tracepoints;
pub mod tracing;
pub mod turn;
pub mod unwritable;
pub mod verified;
pub mod ways;
pub mod web;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fsynctop::model::FileId;

/// A process that ends with the test, however that ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that does nothing. Returns once it executes `sleep`: the kernel lets a parent go on before it
/// has given the child its new name.
pub fn sleeper() -> Running {
    let child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("sleep can be started");
    let comm = format!("/proc/{}/comm", child.id());
    let sleeper = Running(child);
    wait_until("the child to be sleep", || {
        std::fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n")
    });
    sleeper
}

/// Fails a test that cannot run here, with what is missing: no test looks as if it had run.
pub fn needs(paths: &[&str]) {
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    assert!(root, "this test needs root: run it by `make test`, or as root");
    turn::take();
    tracepoints::hold();
    let missing: Vec<_> = paths.iter().filter(|path| !Path::new(path).exists()).collect();
    assert!(
        missing.is_empty(),
        "this test needs {missing:?}, which this host lacks: `make deps` installs programs"
    );
}

/// The end of a table of figures in which nothing is wrong, where lines are as long as they like.
pub const ALL_WELL: &str =
    " nothing failed, nothing is stuck, no watched call was missed.\nNot watched: msync, ";

/// The identity of a file on a filesystem whose `stat` shows the kernel's own numbers (ext4, XFS, tmpfs).
pub fn id_of(path: &Path) -> FileId {
    let stat = std::fs::metadata(path).unwrap();
    let (major, minor) = (rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
    FileId { device: major << 20 | minor, inode: stat.ino(), generation: 1, weak: false, part: false }
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process is in uninterruptible sleep, as in a call on a filesystem that hangs.
pub fn wait_until_it_hangs(pid: u32) {
    wait_until("the process to hang", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
    });
}

/// A program of this workspace, beside `fsynctop`: `syncgen`, `faultfs`, `insert-load`. `cargo build
/// --workspace` builds them all.
pub fn built(program: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_fsynctop")).with_file_name(program);
    assert!(path.exists(), "{} is not there: run `cargo build --workspace` first", path.display());
    path
}
