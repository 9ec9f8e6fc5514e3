//! Whether the processors have room for more work. That syncs waited for one, and the advice to open more
//! connections, both come from here, so that they cannot contradict each other.

use super::{Account, Committer, Phase};
use crate::text::percent;

/// A cause below this share of the time in syncs gets no sentence.
const MIN_CAUSE_SHARE: f64 = 0.10;
/// Minimum share of idle CPU time; below it, more connections would compete for the CPUs.
const MIN_IDLE: f64 = 0.25;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processors {
    /// The share of the host's CPU time that was idle. None: not measured.
    idle: Option<f64>,
    /// Syncs were runnable without a CPU for so much of their time that it is one of its causes.
    queues: bool,
}

impl Processors {
    /// `waits`: of the same window.
    pub fn new(idle: Option<f64>, waits: &Account) -> Processors {
        Processors { idle, queues: is_cause(queued_ns(waits), waits.total().accounted()) }
    }

    /// The idle share, if more threads would find a CPU. A host can have idle CPUs that a server may not use.
    pub(crate) fn room(&self) -> Option<f64> {
        self.idle.filter(|&idle| idle >= MIN_IDLE && !self.queues)
    }

    /// What syncs that were runnable waited for.
    pub(crate) fn queue_in_words(&self) -> String {
        match self.idle.filter(|&idle| idle >= MIN_IDLE) {
            Some(idle) => format!(
                "a free CPU, although the CPUs were {} idle: the server may not use all of them (affinity, a quota), or \
                 its threads become runnable at the same moments",
                percent(idle)
            ),
            None => "a free CPU: there are more runnable threads than CPUs".into(),
        }
    }
}

/// Whether so much of the time in syncs is worth a sentence.
pub(crate) fn is_cause(ns: u64, all: u64) -> bool {
    ns > 0 && ns as f64 >= MIN_CAUSE_SHARE * all as f64
}

/// Of the threads in syncs, and of the committers that they waited for.
pub(crate) fn queued_ns(waits: &Account) -> u64 {
    let total = waits.total();
    let under = total.under.iter().filter(|((_, state), _)| *state == Committer::Queued).map(|(_, ns)| ns);
    let queued = total.phases.get(&Phase::RunQueue);
    queued.into_iter().chain(under).fold(0, |sum, ns| sum.saturating_add(*ns))
}
