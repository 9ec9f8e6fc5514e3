//! What every part needs: where things lie, how long to measure, what this machine is.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::others::Others;

/// `f_type` of tmpfs (linux/magic.h).
const TMPFS_MAGIC: u64 = 0x0102_1994;

pub struct Context {
    /// Fewer and shorter rounds, for those who develop.
    pub quick: bool,
    pub fsynctop: PathBuf,
    /// On tmpfs, ours, and gone with this.
    pub files: tempfile::TempDir,
    /// In a guest: one processor, no other tracers, shorter names.
    pub guest: bool,
    pub cpus: usize,
    pub others: Others,
}

/// The machine, as the page states it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub kernel: String,
    pub processor: String,
    pub cpus: usize,
    pub load_average: String,
    /// Programs that others had attached all the time.
    pub others: Vec<String>,
}

impl Context {
    pub fn new(quick: bool, guest: bool, fsynctop: Option<PathBuf>, tmpfs: &Path) -> Result<Context> {
        ensure!(rustix::process::geteuid().is_root(), "tracing needs root: try again with sudo");
        let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("fsynctop"));
        let fsynctop = fsynctop.map_or_else(beside, Ok)?;
        ensure!(
            fsynctop.is_file(),
            "{} is not there: build it first (cargo build --release), or name it with --fsynctop",
            fsynctop.display()
        );
        let kind = rustix::fs::statfs(tmpfs).with_context(|| tmpfs.display().to_string())?.f_type;
        ensure!(
            kind as u64 == TMPFS_MAGIC,
            "{} is not on tmpfs, where a sync costs nothing itself; name a directory there with --directory",
            tmpfs.display()
        );
        let files = tempfile::tempdir_in(tmpfs).context("cannot make a directory on tmpfs")?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Context { quick, fsynctop, files, guest, cpus, others: Others::find() })
    }

    /// One of two, by `--quick`.
    pub fn or_quick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The figures do not count.
    pub fn is_rough(&self) -> bool {
        self.quick || cfg!(debug_assertions)
    }

    pub fn machine(&self) -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: processor(&read("/proc/cpuinfo")),
            cpus: self.cpus,
            load_average: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            others: self.others.lasting(),
        }
    }
}

/// Says on standard error what is being done.
#[macro_export]
macro_rules! progress {
    ($($text:tt)*) => { eprintln!("bench: {}", format_args!($($text)*)) };
}

/// The first processor of /proc/cpuinfo, with family and model where it has them: hosts of virtual machines
/// shorten the name ("AMD EPYC"), and what hooks and clocks cost differs from one model to the next.
fn processor(cpuinfo: &str) -> String {
    let value = |name: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines
            .map(|(key, value)| (key.trim(), value.trim()))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let name = value("model name").unwrap_or("unknown");
    match (value("cpu family"), value("model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_told_by_name_family_and_model_where_it_says_so() {
        let x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\n\
                   processor\t: 1\ncpu family\t: 6\nmodel\t\t: 2\nmodel name\t: another\n";
        assert_eq!(processor(x86), "AMD EPYC (family 25, model 1)");
        assert_eq!(processor("model name\t: A processor\n"), "A processor");
        assert_eq!(processor("processor\t: 0\nBogoMIPS\t: 100.00\n"), "unknown");
    }
}
