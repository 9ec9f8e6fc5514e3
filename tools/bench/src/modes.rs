//! The ways of attaching that this kernel allows, found out by trying.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use fsynctop::engine::engines::Engines;
use fsynctop::host;
use fsynctop::model::{AttachMode, Op};
use fsynctop::probe::{AttachedProgram, Capacity, CommPattern, InstancePattern, Probe, ProbeConfig, Targets};
use fsynctop::server::who::filter::TargetFilter;

use crate::floor::{Does, Floor};
use crate::progress;

/// As by default.
pub fn config(mode: Option<AttachMode>, pids: Vec<u32>) -> ProbeConfig {
    ProbeConfig {
        targets: Targets { pids, ..Targets::default() },
        ops: vec![Op::Fsync, Op::Fdatasync, Op::DsyncWrite],
        mode,
        preemptible: host::may_skip_programs(),
        by_thread: false,
        watch_waits: false,
        capacity: Capacity::default(),
    }
}

/// What fsynctop traces by itself: servers, by the names of their processes.
pub fn of_servers(mode: AttachMode) -> ProbeConfig {
    let comms = TargetFilter::default().names().into_iter().map(CommPattern::new).collect();
    let engines = Engines::builtin();
    let instances = InstancePattern::all_of(engines.profiles().iter().map(|profile| &*profile.engine));
    let targets = Targets { comms, instances, ..Targets::default() };
    ProbeConfig { targets, ..config(Some(mode), Vec::new()) }
}

/// As `--writes all` has it.
pub fn all_writes_of_servers(mode: AttachMode) -> ProbeConfig {
    let mut config = of_servers(mode);
    config.watch(&[Op::DsyncWrite, Op::Write, Op::Fallocate]);
    config
}

/// The hooks that fsynctop has in a mode, by the names of its programs: on kernels that preempt, entries are
/// kprobe's whatever the mode.
pub fn hooks(mode: AttachMode) -> Result<Vec<String>> {
    static KNOWN: Mutex<Vec<(AttachMode, Vec<String>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, hooks)) = known.iter().find(|(of, _)| *of == mode) {
        return Ok(hooks.clone());
    }
    let probe = Probe::attach(&config(Some(mode), Vec::new())).context("fsynctop")?;
    let attached = probe.attached();
    let mut hooks: Vec<_> = attached.programs.iter().flat_map(hooks_of).collect();
    if attached.ops().contains(&Op::IoUringFsync) {
        hooks.extend(["ring_submit", "ring_complete"].map(str::to_owned));
    }
    if attached.ops().contains(&Op::AioFsync) {
        hooks.extend(of_libaio(&attached.programs));
    }
    if attached.net().filesystems.iter().any(|filesystem| filesystem == "ext4") {
        hooks.push("net_ext4".to_owned());
    }
    known.push((mode, hooks.clone()));
    Ok(hooks)
}

/// Of the same kind as those of fsync.
fn of_libaio(programs: &[AttachedProgram]) -> Vec<String> {
    let how = |is_exit: bool| {
        let program = programs.iter().find(|program| program.is_exit == is_exit);
        program.and_then(|program| Some(program.name.split_once('_')?.0)).unwrap_or_default()
    };
    let calls = ["io_submit", "io_getevents", "io_pgetevents", "io_destroy"];
    let exits = calls.map(|call| format!("{}_{call}", how(true)));
    [format!("{}_io_submit", how(false))].into_iter().chain(exits).collect()
}

/// Those in which both fsynctop and empty programs can be attached.
pub fn all() -> Vec<AttachMode> {
    let mut modes = vec![AttachMode::Fentry, AttachMode::Kprobe, AttachMode::Tracepoint];
    modes.retain(|&mode| match Floor::attach(mode, Does::Nothing) {
        Ok(_) => true,
        Err(error) => {
            progress!("{} is not to be had here: {error:#}", mode.name());
            false
        }
    });
    modes
}

/// The one that fsynctop takes by itself.
pub fn own() -> Result<AttachMode> {
    let probe = Probe::attach(&config(None, Vec::new())).context("fsynctop cannot be attached here")?;
    Ok(probe.attached().mode)
}

/// A program that serves several calls is on the hook of each: `enter_fsync_or_fdatasync` on those of both
/// entries.
fn hooks_of(program: &AttachedProgram) -> impl Iterator<Item = String> {
    let (how, calls) = program.name.split_once('_').unwrap_or_default();
    calls.split("_or_").map(move |call| format!("{how}_{call}"))
}
