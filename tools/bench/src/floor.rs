//! The floor: two empty programs for each call, on the hooks of a mode.

use anyhow::{Context as _, Result};
use fsynctop::snapshot::AttachMode;
use libbpf_rs::{Link, Object, ObjectBuilder};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o"));

/// Attached as long as it lives.
pub struct Floor {
    _links: Vec<Link>, // detached before the programs go
    _object: Object,
}

impl Floor {
    pub fn attach(mode: AttachMode) -> Result<Floor> {
        let mut open = ObjectBuilder::default().open_memory(PROGRAMS)?;
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let kinds = match mode {
                AttachMode::Fentry => ["fentry/", "fexit/"],
                AttachMode::Kprobe => ["kprobe.multi/", "kretprobe.multi/"],
                AttachMode::Tracepoint => ["tracepoint/syscalls/sys_enter_", "tracepoint/syscalls/sys_exit_"],
            };
            program.set_autoload(kinds.iter().any(|kind| section.starts_with(kind)));
        }
        let object = open.load().context("cannot load empty programs")?;
        let programs = object.progs_mut().filter(|program| program.autoload());
        let links = programs.map(|program| program.attach()).collect::<Result<_, _>>();
        Ok(Floor { _links: links.context("cannot attach empty programs")?, _object: object })
    }
}
