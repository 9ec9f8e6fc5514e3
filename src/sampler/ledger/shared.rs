//! The histograms that the cold files of a role share.

use crate::model::histogram::Histogram;
use crate::model::{Op, Role, ServerId};
use crate::probe::record;

use super::Ledger;

impl Ledger {
    /// The slot of a role's shared histogram; None when all are taken.
    pub(crate) fn shared_slot(&mut self, server: ServerId, role: Role, op: Op) -> Option<u32> {
        if let Some(&slot) = self.shared.get(&(server, role, op)) {
            return Some(slot);
        }
        let is_free = |slot: &u32| !self.shared.values().any(|taken| taken == slot);
        let slot = (record::FIRST_SHARED_SLOT..record::FIRST_NEIGHBOUR_SLOT).find(is_free)?;
        self.shared.insert((server, role, op), slot);
        Some(slot)
    }

    pub(crate) fn shared_slots(&self) -> Vec<u32> {
        self.shared.values().copied().collect()
    }

    pub(crate) fn enter_shared(&mut self, slot: u32, buckets: &[(usize, u64)]) {
        let histogram = Histogram::from_filled(0, buckets, 0);
        let known = self.shared_histograms.entry(slot).or_default();
        if *known != histogram {
            *known = histogram;
        }
    }

    /// What the cold files of each role share.
    pub fn shared(&self) -> impl Iterator<Item = (ServerId, Role, Op, &Histogram)> {
        self.shared.iter().filter_map(|(&(server, role, op), slot)| {
            self.shared_histograms.get(slot).map(|histogram| (server, role, op, histogram))
        })
    }
}
