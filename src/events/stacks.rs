//! Where threads wait that are in flight for long. /proc may take its time: it is given a moment, on the
//! threads that scans have, and a line without a stack is better than none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Waits;
use crate::server::who::processes;
use crate::threads::{Looks, Processes, StuckSync, scan, waits_for};

/// Frames of a line.
const MOST: usize = 48;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waiting {
    pub waits_for: Option<String>,
    pub stack: Vec<String>,
}

/// Of the threads that are still in the same call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks(BTreeMap<Waits, Waiting>);

impl Stacks {
    pub fn of(threads: &BTreeSet<Waits>) -> Stacks {
        if threads.is_empty() {
            return Stacks::default();
        }
        // Of a server of several, each thread's own.
        let proc_root = Path::new("/proc");
        let pids: BTreeSet<u32> =
            threads.iter().filter_map(|waits| processes::of_thread(proc_root, waits.tid)).collect();
        let processes = Processes::These(pids.into_iter().collect());
        let found = scan(proc_root, &processes, &Looks::once()).unwrap_or_default();
        let key = |sync: &StuckSync| {
            threads.iter().copied().find(|waits| (waits.tid, waits.op) == (sync.tid, sync.op))
        };
        let wanted = found.syncs.into_iter().filter_map(|sync| Some((key(&sync)?, sync)));
        let waiting = wanted.map(|(key, mut sync)| {
            sync.stack.truncate(MOST);
            let wait = waits_for(&sync.stack, sync.wait_channel.as_deref());
            (key, Waiting { waits_for: wait.map(|wait| wait.what), stack: sync.stack })
        });
        Stacks(waiting.collect())
    }

    pub fn get(&self, waits: &Waits) -> Option<&Waiting> {
        self.0.get(waits)
    }
}
