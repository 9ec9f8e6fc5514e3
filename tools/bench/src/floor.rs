//! The floor: two empty programs for each call, on the hooks of a mode, or two that only read the clock.

use anyhow::{Context as _, Result};
use fsynctop::snapshot::AttachMode;
use libbpf_rs::{Link, Object, ObjectBuilder};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o"));

/// What the programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Nothing,
    ReadClock,
}

/// Attached as long as it lives.
pub struct Floor {
    _links: Vec<Link>, // detached before the programs go
    _object: Object,
}

impl Floor {
    pub fn attach(mode: AttachMode, does: Does) -> Result<Floor> {
        let mut open = ObjectBuilder::default().open_memory(PROGRAMS)?;
        let prefix = match does {
            Does::Nothing => "empty_",
            Does::ReadClock => "clock_",
        };
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let kinds = match mode {
                AttachMode::Fentry => ["fentry/", "fexit/"],
                AttachMode::Kprobe => ["kprobe.multi/", "kretprobe.multi/"],
                AttachMode::Tracepoint => ["tracepoint/syscalls/sys_enter_", "tracepoint/syscalls/sys_exit_"],
            };
            let is_ours = program.name().to_string_lossy().starts_with(prefix);
            program.set_autoload(is_ours && kinds.iter().any(|kind| section.starts_with(kind)));
        }
        let object = open.load().context("cannot load the floor's programs")?;
        let programs = object.progs_mut().filter(|program| program.autoload());
        let links = programs.map(|program| program.attach()).collect::<Result<_, _>>();
        Ok(Floor { _links: links.context("cannot attach the floor's programs")?, _object: object })
    }
}
