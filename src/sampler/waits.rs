//! What `explain` asks of the sampler beside its snapshots, and the waits in snapshots.

use std::io;

use super::ledger::Subject;
use super::waited::{Kept, Tell, Waited};
use super::{Sampler, role_of};
use crate::model::{Op, Role, ServerId, Table, WaitLosses, WaitRow};
use crate::probe::{SLOTS_OF_LOG, TimerProbe, WaitError, WaitPlan, WaitProbe};

/// Of more of them, those that stand still are given up: each takes two system calls with each snapshot. The
/// kernel side has room for sixteen times as many.
const MANY_WAITS: usize = 4_096;

impl Sampler {
    /// Attaches the wait probes, if the configuration prepared for them.
    pub fn watch_waits(&self, plan: &WaitPlan) -> Result<WaitProbe, WaitError> {
        self.probe.watch_waits(plan)
    }

    /// From now on each snapshot has what syncs waited for.
    pub fn keep_waits(&mut self, mut probe: WaitProbe, tell: Tell) -> Result<(), WaitError> {
        probe.begin()?;
        self.waits = Some(Kept { probe, tell, waited: Waited::default() });
        Ok(())
    }

    /// Files and servers are known as well as they are by now.
    pub(super) fn read_waits(&mut self) -> io::Result<(Table<WaitRow>, WaitLosses)> {
        let Some(mut kept) = self.waits.take() else { return Ok(Default::default()) };
        let Kept { probe, tell, waited } = &mut kept;
        let (times, waits) = probe.totals().map_err(io::Error::other)?;
        let told = |stack| probe.stack(stack).ok().flatten().map(|frames| tell(&frames));
        waited.take(&times, &waits, told, |slot| self.owner_of(slot));
        if waits.len() > MANY_WAITS {
            waited.forget_idle(&times, |slot, stack| probe.forget(slot, stack).is_ok());
        }
        let rows = waited.rows().clone();
        let lost = WaitLosses { syncs: self.without_wait_state(), ..probe.losses() };
        self.waits = Some(kept);
        Ok((rows, lost))
    }

    /// Begins to sample how many syncs of the logs are in flight. Whose is said by [`TimerProbe::watch`].
    pub fn watch_logs(&self) -> Result<TimerProbe, WaitError> {
        self.probe.watch_logs()
    }

    /// The slots in which a server's syncs and durable writes of one role are counted, those that were used
    /// last first; as of the last reading of the rows, which [`Sampler::in_flight`] is one of. As many as can
    /// be sampled.
    pub(crate) fn slots_of(&self, server: ServerId, role: Role) -> Vec<u32> {
        let rows = self.ledger.rows_in_use_of(server).filter(|(_, account)| {
            let Subject::File { op, .. } = account.subject else { return false };
            op.makes_file_durable() && role_of(&account.subject, &self.names) == role
        });
        let mut rows: Vec<_> = rows.map(|(slot, account)| (account.changed, slot)).collect();
        rows.sort_unstable_by_key(|&(changed, slot)| (std::cmp::Reverse(changed), slot));
        rows.truncate(SLOTS_OF_LOG);
        rows.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Syncs of which it is not known where they waited.
    pub(crate) fn without_wait_state(&self) -> u64 {
        self.probe.counters().no_wait_state
    }

    /// Whose syncs a slot of the kernel side counts, of what. None: nobody's, or not known any more.
    pub(crate) fn owner_of(&mut self, slot: u32) -> Option<(ServerId, Role, Op)> {
        let row = self.probe.row(slot).ok()?;
        match Subject::of(&row.id)? {
            ref subject @ Subject::File { server, op, .. } => {
                Some((server, role_of(subject, &self.names), op))
            }
            _ => None,
        }
    }
}
