//! Where threads wait that are in flight for long. /proc may take its time: it is given a moment, on the
//! threads that scans have, and a line without a stack is better than none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Waits;
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
        let pids: BTreeSet<u32> = threads.iter().map(|waits| waits.pid).collect();
        let processes = Processes::These(pids.into_iter().collect());
        let found = scan(Path::new("/proc"), &processes, &Looks::once()).unwrap_or_default();
        let waits = |sync: &StuckSync| Waits { pid: sync.pid, tid: sync.tid, op: sync.op };
        let wanted = found.syncs.into_iter().filter(|sync| threads.contains(&waits(sync)));
        let waiting = wanted.map(|mut sync| {
            let key = waits(&sync);
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
