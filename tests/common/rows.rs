//! Probes as tests ask for them, and what their rows say of a process whose syncs are known.

use std::path::Path;
use std::process::{Command, Stdio};

use fsynctop::host;
use fsynctop::host::tracefs::with_tracefs_if_possible;
use fsynctop::model::Op;
use fsynctop::probe::{Capacity, CommPattern, Probe, ProbeConfig, Targets};

use super::{Running, built};

/// To trace the processes of this name.
pub fn of_comm(comm: &str) -> ProbeConfig {
    of(Targets { comms: vec![CommPattern::new(comm.as_bytes())], ..Targets::default() })
}

pub fn of_pid(pid: u32) -> ProbeConfig {
    of(Targets { pids: vec![pid], ..Targets::default() })
}

fn of(targets: Targets) -> ProbeConfig {
    ProbeConfig {
        targets,
        ops: vec![Op::Fsync, Op::Fdatasync],
        mode: None,
        preemptible: host::may_skip_programs(),
        by_thread: false,
        watch_waits: false,
        capacity: Capacity::default(),
    }
}

pub fn attach(config: &ProbeConfig) -> Probe {
    with_tracefs_if_possible(|| Probe::attach(config)).unwrap()
}

/// Begun and finished syncs of a process.
pub fn syncs_of(probe: &mut Probe, pid: u32) -> (u64, u64) {
    let (mut begun, mut finished) = (0, 0);
    for slot in probe.slots_in_use() {
        let row = probe.row(slot).unwrap();
        if row.id.tgid != pid {
            continue;
        }
        begun += row.started;
        finished += row.under + row.over + row.elsewhere;
        if probe.has_histogram(slot) {
            finished += probe.histogram(slot, &row).unwrap().iter().map(|&(_, n)| n).sum::<u64>();
        }
    }
    (begun, finished)
}

pub fn syncgen(directory: &Path, comm: &str, threads: u64, syncs: u64) -> Running {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(["--comm", comm, "--op", "fsync,fdatasync"]);
    command.args(["--threads", &threads.to_string(), "--syncs", &syncs.to_string()]);
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

/// Runs it to its end, and holds what was counted against what it did.
pub fn count(probe: &mut Probe, comm: &str, threads: u64, syncs: u64) {
    let directory = tempfile::tempdir().unwrap();
    let mut load = syncgen(directory.path(), comm, threads, syncs);
    assert!(load.0.wait().unwrap().success());
    let all = threads * syncs;
    assert_eq!(syncs_of(probe, load.0.id()), (all, all), "{:?}", probe.counters());
}
