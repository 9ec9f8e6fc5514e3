//! Where threads wait that are in flight for long. /proc may take its time: it is given a moment, on the
//! threads that scans have, and a line without a stack is better than none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::threads::{Looks, Processes, scan, waits_for};

/// Frames of a line.
const MOST: usize = 48;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waiting {
    pub waits_for: Option<String>,
    pub stack: Vec<String>,
}

/// Of the threads (pid, tid) that still wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks(BTreeMap<(u32, u32), Waiting>);

impl Stacks {
    pub fn of(threads: &BTreeSet<(u32, u32)>) -> Stacks {
        if threads.is_empty() {
            return Stacks::default();
        }
        let pids: BTreeSet<u32> = threads.iter().map(|(pid, _)| *pid).collect();
        let processes = Processes::These(pids.into_iter().collect());
        let found = scan(Path::new("/proc"), &processes, &Looks::once()).unwrap_or_default();
        let wanted = found.syncs.into_iter().filter(|sync| threads.contains(&(sync.pid, sync.tid)));
        let waiting = wanted.map(|mut sync| {
            sync.stack.truncate(MOST);
            let wait = waits_for(&sync.stack, sync.wait_channel.as_deref());
            ((sync.pid, sync.tid), Waiting { waits_for: wait.map(|wait| wait.what), stack: sync.stack })
        });
        Stacks(waiting.collect())
    }

    pub fn get(&self, pid: u32, tid: u32) -> Option<&Waiting> {
        self.0.get(&(pid, tid))
    }
}
