//! What is published, and what a follower of it has not taken yet.

use std::sync::{Arc, Mutex};

use crate::linux::lock;
use crate::model::{Interval, Snapshot};

/// A snapshot, and what happened since the one before it in the same stream. The interval of the first one
/// has no length: it holds what was counted while the probes were being attached.
#[derive(Clone, Debug)]
pub struct Published {
    pub snapshot: Arc<Snapshot>,
    pub interval: Arc<Interval>,
}

impl Published {
    pub fn first(snapshot: Snapshot) -> Published {
        let before = Snapshot::empty(snapshot.taken, snapshot.taken_wall, snapshot.setup.clone());
        Published::after(&before, snapshot)
    }

    pub fn after(before: &Snapshot, snapshot: Snapshot) -> Published {
        let interval = Arc::new(Interval::between(before, &snapshot));
        Published { snapshot: Arc::new(snapshot), interval }
    }

    /// Nothing of the time since the one before is left out.
    pub fn append(&mut self, later: Published) {
        Arc::make_mut(&mut self.interval).append(Arc::unwrap_or_clone(later.interval));
        self.snapshot = later.snapshot;
    }
}

/// What one follower has not taken yet.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Published>>);

impl Slot {
    pub fn put(&self, published: &Published) {
        let mut slot = lock(&self.0);
        match &mut *slot {
            Some(waiting) => waiting.append(published.clone()),
            None => *slot = Some(published.clone()),
        }
    }

    pub fn take(&self) -> Option<Published> {
        lock(&self.0).take()
    }
}
