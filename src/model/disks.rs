//! Which devices share a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The whole disks below each device that rows are on, by numbers as superblocks have them; shared between
/// snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeDisks(Arc<BTreeMap<u32, BTreeSet<u32>>>);

impl WholeDisks {
    /// Whether the two are known to lie on one disk.
    pub(crate) fn are_shared(&self, one: u32, other: u32) -> bool {
        let below = |device| self.0.get(&device);
        one == other
            || below(one)
                .zip(below(other))
                .is_some_and(|(one, other)| one.intersection(other).next().is_some())
    }
}

impl From<BTreeMap<u32, BTreeSet<u32>>> for WholeDisks {
    fn from(disks: BTreeMap<u32, BTreeSet<u32>>) -> WholeDisks {
        WholeDisks(Arc::new(disks))
    }
}
