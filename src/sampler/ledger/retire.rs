//! Which rows go out of use, and which accounts are folded together, so that maps and memory stay bounded
//! while the totals stay exact.

use std::ops::Range;

use crate::model::{Role, Target};
use crate::probe::{Capacity, record};

use super::subject::other_neighbours;
use super::{Ledger, Subject};

/// The slots that are handed out, by what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    Neighbours,
    /// With and without a histogram: a file that stands idle keeps its row while there is room of either
    /// kind.
    Files,
}

impl Slots {
    pub const ALL: [Slots; 2] = [Slots::Neighbours, Slots::Files];

    pub fn range(self, capacity: Capacity) -> Range<u32> {
        match self {
            Slots::Neighbours => record::FIRST_NEIGHBOUR_SLOT..record::FIRST_FILE_SLOT,
            Slots::Files => record::FIRST_FILE_SLOT..capacity.slots(),
        }
    }
}

impl Ledger {
    pub(crate) fn rows_in_use(&self, slots: Slots) -> usize {
        match slots {
            Slots::Neighbours => self.neighbour_rows,
            Slots::Files => self.file_rows,
        }
    }

    /// The count that a slot is a part of.
    pub(super) fn rows_of(&mut self, slot: u32) -> &mut usize {
        if slot < record::FIRST_FILE_SLOT { &mut self.neighbour_rows } else { &mut self.file_rows }
    }

    /// Rows to take out of use: those idle longest first, at most `wanted`, none that changed in this tick,
    /// and none with a sync in flight. In their order.
    pub(crate) fn retirable(&self, among: Range<u32>, wanted: usize, idle_ticks: u64) -> Vec<u32> {
        let end = self.live.len().min(among.end as usize);
        let rows = self.live.get(among.start as usize..end).unwrap_or_default();
        let mut idle: Vec<_> = rows
            .iter()
            .zip(among.start..)
            .filter_map(|(live, slot)| Some((live.as_ref().filter(|live| !live.unlinked)?, slot)))
            .filter_map(|(live, slot)| {
                let changed = self.accounts[live.account as usize].changed;
                (live.running == 0 && changed + idle_ticks <= self.tick).then_some((changed, slot))
            })
            .collect();
        idle.sort_unstable();
        idle.truncate(wanted);
        let mut slots: Vec<u32> = idle.into_iter().map(|(_, slot)| slot).collect();
        slots.sort_unstable();
        slots
    }

    /// The row was taken out of use; it is still read, for syncs that were under way.
    pub fn unlinked(&mut self, slot: u32) {
        if let Some(live) = self.live.get_mut(slot as usize).and_then(Option::as_mut)
            && !live.unlinked
        {
            live.unlinked = true;
            self.unlinked.push((slot, self.tick));
        }
    }

    /// Rows that were unlinked and have been quiet since: they are to be cleared. What they hold stays in
    /// their accounts.
    pub(crate) fn free_quiet(&mut self) -> Vec<u32> {
        let mut unlinked = std::mem::take(&mut self.unlinked);
        // A slot that has begun another life meanwhile needs no clearing.
        unlinked.retain(|&(slot, _)| self.live(slot).is_some_and(|live| live.unlinked));
        let is_quiet = |&mut (slot, at): &mut (u32, u64)| {
            at < self.tick
                && self.live(slot).is_some_and(|live| {
                    live.running == 0 && self.accounts[live.account as usize].changed < self.tick
                })
        };
        let quiet: Vec<u32> = unlinked.extract_if(.., is_quiet).map(|(slot, _)| slot).collect();
        quiet.iter().for_each(|&slot| self.freed(slot));
        self.unlinked = unlinked;
        quiet
    }

    /// A slot's row is no more; what it held stays in its account.
    pub(super) fn freed(&mut self, slot: u32) {
        let Some(live) = self.live.get_mut(slot as usize).and_then(Option::take) else { return };
        let account = &mut self.accounts[live.account as usize];
        account.only = account.only.filter(|&only| only != slot);
        account.rows -= 1;
        self.rowless += usize::from(account.rows == 0);
        *self.rows_of(slot) -= 1;
    }

    /// Folds accounts without a row into one (files by role, threads by server, neighbours all), those idle
    /// longest first, until at most `most` are left: totals stay exact while memory stays bounded. Returns
    /// how many are gone.
    pub fn fold(&mut self, most: usize, role: impl Fn(&Subject) -> Role) -> usize {
        if self.rowless <= most {
            return 0;
        }
        // Those that are folded into are kept. A neighbour without a file has device 0 as well.
        let others = other_neighbours();
        let mut rowless: Vec<_> = self
            .by_subject
            .iter()
            .filter(|&&at| {
                let account = &self.accounts[at as usize];
                account.rows == 0
                    && match &account.subject {
                        Subject::File { target, .. } => matches!(target, Target::File(_)),
                        Subject::Thread { start, .. } => *start > 0,
                        neighbour @ Subject::Neighbour { .. } => *neighbour != others,
                    }
            })
            .map(|&at| (self.accounts[at as usize].changed, at))
            .collect();
        if rowless.len() <= most {
            return 0;
        }
        rowless.sort_unstable();
        // A quarter more than needed, so that this does not happen at every tick.
        let excess = (rowless.len() - most + most / 4).min(rowless.len());
        for &(_, at) in &rowless[..excess] {
            let (subject, stats, shown_as) = self.close(at);
            let heir = match subject {
                Subject::File { server, op, .. } => {
                    let role = shown_as.unwrap_or_else(|| role(&subject));
                    Subject::File { server, target: Target::Gone(role), op }
                }
                Subject::Thread { server, op, .. } => Subject::Thread { server, tid: 0, start: 0, op },
                Subject::Neighbour { .. } => other_neighbours(),
            };
            let heir = self.account(heir);
            self.merge(heir, &stats);
        }
        excess
    }
}
