//! The ways of attaching that this kernel allows, found out by trying.

use anyhow::{Context as _, Result};
use fsynctop::host;
use fsynctop::probe::{Capacity, Probe, ProbeConfig, Targets};
use fsynctop::snapshot::{AttachMode, Op};

use crate::floor::{Does, Floor};
use crate::progress;

pub fn config(mode: Option<AttachMode>, pids: Vec<u32>) -> ProbeConfig {
    ProbeConfig {
        targets: Targets { pids, ..Targets::default() },
        ops: vec![Op::Fsync, Op::Fdatasync],
        mode,
        preemptible: host::may_skip_programs(),
        by_thread: false,
        capacity: Capacity::default(),
    }
}

/// Those in which both fsynctop and empty programs can be attached.
pub fn all() -> Vec<AttachMode> {
    let mut modes = vec![AttachMode::Fentry, AttachMode::Kprobe, AttachMode::Tracepoint];
    modes.retain(|&mode| {
        let own = Probe::attach(&config(Some(mode), Vec::new())).map(drop).context("fsynctop");
        match own.and_then(|()| Floor::attach(mode, Does::Nothing)) {
            Ok(_) => true,
            Err(error) => {
                progress!("{} is not to be had here: {error:#}", mode.name());
                false
            }
        }
    });
    modes
}

/// The one that fsynctop takes by itself.
pub fn own() -> Result<AttachMode> {
    let probe = Probe::attach(&config(None, Vec::new())).context("fsynctop cannot be attached here")?;
    Ok(probe.attached().mode)
}
