//! What `explain` asks of the sampler beside its snapshots.

use super::ledger::Subject;
use super::{Sampler, role_of};
use crate::probe::{WaitError, WaitPlan, WaitProbe};
use crate::snapshot::{Op, Role, ServerId};

impl Sampler {
    /// Attaches the wait probes, if the configuration prepared for them.
    pub fn watch_waits(&self, plan: &WaitPlan) -> Result<WaitProbe, WaitError> {
        self.probe.watch_waits(plan)
    }

    /// Syncs of which it is not known where they waited.
    pub fn without_wait_state(&self) -> u64 {
        self.probe.counters().no_wait_state
    }

    /// Whose syncs a slot of the kernel side counts, of what. None: nobody's, or not known any more.
    pub fn owner_of(&mut self, slot: u32) -> Option<(ServerId, Role, Op)> {
        let row = self.probe.row(slot).ok()?;
        match Subject::of(&row.id)? {
            ref subject @ Subject::File { server, op, .. } => {
                Some((server, role_of(subject, &self.names), op))
            }
            _ => None,
        }
    }
}
