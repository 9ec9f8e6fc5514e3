//! Which rows go out of use, and which accounts are folded together, so that maps and memory stay bounded while the
//! totals stay exact.

use crate::probe::Identity;
use crate::snapshot::{Role, Target};

use super::subject::other_neighbours;
use super::{Ledger, Live, Subject};

impl Ledger {
    /// Rows to take out of use: those idle longest first, at most `wanted`, none that changed in this tick, and none
    /// with a sync in flight.
    pub fn retirable(&self, from: u32, to: u32, wanted: usize, idle_ticks: u64) -> Vec<(u32, Identity)> {
        let mut idle: Vec<_> = self
            .live
            .iter()
            .filter(|(slot, live)| (from..to).contains(slot) && live.unlinked.is_none())
            .filter_map(|(&slot, live)| {
                let account = &self.accounts[live.account];
                let quiet = live.running() == 0 && account.changed + idle_ticks <= self.tick;
                quiet.then_some((account.changed, slot, live.seen.id))
            })
            .collect();
        idle.sort_unstable_by_key(|&(changed, slot, _)| (changed, slot));
        idle.truncate(wanted);
        idle.into_iter().map(|(_, slot, id)| (slot, id)).collect()
    }

    /// The row was taken out of use; it is still read, for syncs that were under way.
    pub fn unlinked(&mut self, slot: u32) {
        if let Some(live) = self.live.get_mut(&slot) {
            live.unlinked = Some(self.tick);
        }
    }

    /// Rows that were unlinked and have been quiet since: free them.
    pub fn freeable(&self) -> Vec<u32> {
        let quiet = |live: &Live| {
            let account = &self.accounts[live.account];
            live.unlinked.is_some_and(|at| at < self.tick)
                && account.changed < self.tick
                && live.running() == 0
        };
        self.live.iter().filter(|(_, live)| quiet(live)).map(|(&slot, _)| slot).collect()
    }

    /// The row is about to be cleared: what it holds is settled.
    pub fn freed(&mut self, slot: u32) {
        let Some(live) = self.live.remove(&slot) else { return };
        let account = &mut self.accounts[live.account];
        account.slots.retain(|&other| other != slot);
        account.settled.merge(&live.stats);
    }

    /// Folds accounts without a row into one (files by role, threads by server, neighbours all), those idle longest
    /// first, until at most `most` are left: totals stay exact while memory stays bounded. Returns how many are gone.
    pub fn fold(&mut self, most: usize, role: impl Fn(&Subject) -> Role) -> usize {
        let mut rowless: Vec<_> = self
            .by_subject
            .iter()
            .filter(|(subject, at)| {
                self.accounts[**at].slots.is_empty()
                    && matches!(
                        subject,
                        Subject::File { target: Target::File(_), .. }
                            | Subject::Thread { start: 1.., .. }
                            | Subject::Neighbour { device: 1.., .. }
                    )
            })
            .map(|(_, &at)| (self.accounts[at].changed, at))
            .collect();
        if rowless.len() <= most {
            return 0;
        }
        rowless.sort_unstable();
        // A quarter more than needed, so that this does not happen at every tick.
        let excess = (rowless.len() - most + most / 4).min(rowless.len());
        for &(_, at) in &rowless[..excess] {
            let subject = self.accounts[at].subject.clone();
            self.by_subject.remove(&subject);
            let stats = std::mem::take(&mut self.accounts[at].stats);
            self.vacant.push(at);
            let shown_as = self.accounts[at].shown_as.get();
            let heir = match subject {
                Subject::File { server, op, .. } => {
                    let role = shown_as.unwrap_or_else(|| role(&subject));
                    Subject::File { server, target: Target::Gone(role), op }
                }
                Subject::Thread { server, op, .. } => Subject::Thread { server, tid: 0, start: 0, op },
                Subject::Neighbour { .. } => other_neighbours(),
            };
            let heir = self.account(heir);
            self.accounts[heir].settled.merge(&stats);
            self.total(heir);
        }
        excess
    }
}
