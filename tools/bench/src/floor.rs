//! The floor: two empty programs for each call, on the very hooks that fsynctop has in a mode, or two that do
//! the least of what a tracer must.

use anyhow::{Context as _, Result, ensure};
use fsynctop::model::AttachMode;
use libbpf_rs::{Link, Object, ObjectBuilder};

use crate::modes;

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o"));

/// What the programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Nothing,
    ReadClock,
    /// Besides, count by descriptor in a hash; tracepoints and fdatasync only.
    CountDescriptors,
}

/// Loaded as long as it lives, and attached until it is detached.
pub struct Floor {
    links: Vec<Link>, // detached before the programs go
    object: Object,
    hooks: usize,
}

impl Floor {
    pub fn attach(mode: AttachMode, does: Does) -> Result<Floor> {
        let mut open = ObjectBuilder::default().open_memory(PROGRAMS)?;
        let prefix = match does {
            Does::Nothing => "empty_",
            Does::ReadClock => "clock_",
            Does::CountDescriptors => "count_",
        };
        let hooks = modes::hooks(mode)?;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let hook = name.strip_prefix(prefix);
            program.set_autoload(hook.is_some_and(|hook| hooks.iter().any(|own| own == hook)));
        }
        let object = open.load().context("cannot load the floor's programs")?;
        let hooks = if does == Does::CountDescriptors { 2 } else { hooks.len() };
        let mut floor = Floor { links: Vec::new(), object, hooks };
        floor.attach_again()?;
        Ok(floor)
    }

    pub fn attach_again(&mut self) -> Result<()> {
        let programs = self.object.progs_mut().filter(|program| program.autoload());
        let links = programs.map(|program| program.attach()).collect::<Result<Vec<_>, _>>();
        self.links = links.context("cannot attach the floor's programs")?;
        ensure!(
            self.links.len() == self.hooks,
            "the floor has {} programs for {} hooks",
            self.links.len(),
            self.hooks
        );
        Ok(())
    }

    pub fn detach(&mut self) {
        self.links.clear();
    }
}
