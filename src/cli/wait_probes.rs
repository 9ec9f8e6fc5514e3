//! The wait probes, as `explain` and `record --waits` attach them.

use std::path::Path;

use anyhow::Context;

use super::session::Session;
use crate::explain::waits::disks;
use crate::explain::waits::rules::Rules;
use crate::explain::waits::symbols::Symbols;
use crate::host;
use crate::linux::PROC;
use crate::linux::mountinfo;
use crate::probe::{CLOCKS, WaitPlan, WaitProbe};
use crate::sampler::Sampler;
use crate::server::who::selection::Selection;

/// Processes whose mounts are looked at: each may have very many.
const MOUNTS_OF: usize = 64;

/// What tells the kernel's stacks.
pub(super) struct Reader {
    pub symbols: Symbols,
    pub rules: Rules,
}

impl Reader {
    pub fn load() -> anyhow::Result<Reader> {
        Ok(Reader { symbols: Symbols::load(Path::new("/proc/kallsyms"))?, rules: Rules::builtin() })
    }

    /// Nothing counts yet.
    pub fn attach(&self, session: &Session, sampler: &Sampler) -> anyhow::Result<WaitProbe> {
        let plan = self.plan(&session.selection);
        let probe = host::tracefs::with_tracefs_if_possible(|| sampler.watch_waits(&plan));
        session.print_libbpf_log();
        probe.context("cannot watch what syncs wait for")
    }

    /// From now on the sampler's snapshots have what syncs waited for. Returns what of that is missing, in
    /// sentences.
    pub fn keep(self, session: &Session, sampler: &mut Sampler) -> anyhow::Result<Vec<String>> {
        let probe = self.attach(session, sampler)?;
        let missing = not_attached(probe.not_attached());
        let tell = move |frames: &[u64]| self.rules.tell(&self.symbols, frames);
        sampler.keep_waits(probe, Box::new(tell)).context("cannot begin to watch what syncs wait for")?;
        Ok(missing)
    }

    /// The filesystems that have a second level, as the tool and the servers see them mounted, and the
    /// functions by which their committers are told.
    fn plan(&self, selection: &Selection) -> WaitPlan {
        let pids = selection.processes().into_iter().map(|process| process.pid);
        let mounts = std::iter::once(std::process::id())
            .chain(pids.take(MOUNTS_OF))
            .flat_map(|pid| mountinfo::of_process(Path::new(PROC), pid));
        let state_in = |name: &str| self.rules.committer_in(name).map(|state| state as usize);
        WaitPlan {
            filesystems: disks::watched(Path::new("/sys"), mounts),
            committer_functions: self.symbols.ranges(state_in),
        }
    }
}

/// What programs that could not be attached would have told. (Program, reason).
pub(super) fn not_attached(programs: &[(String, String)]) -> Vec<String> {
    let tells = |program: &str| match program {
        CLOCKS => "what the filesystem did while a sync waited for it (level two)",
        "start_commit" => "commits, and what the thread that makes them does (ext4)",
        "start_handle" => "whose changes a commit writes out",
        _ => "cache flushes and log writes of the devices",
    };
    let sentence = |(program, reason): &(String, String)| format!("{}: {reason}", tells(program));
    let mut sentences: Vec<String> = programs.iter().map(sentence).collect();
    sentences.sort();
    sentences.dedup();
    sentences
}
