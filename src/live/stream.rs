//! What is published, as a stream of intervals: whoever follows it keeps nothing of what was before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::shared::Shared;
use crate::linux::lock;
use crate::model::{Measurement, Snapshot};

/// A snapshot, and what happened since the one before it in the same stream. The interval of the first one
/// has no length: it holds what was counted while the probes were being attached.
#[derive(Clone, Debug)]
pub struct Published {
    pub snapshot: Arc<Snapshot>,
    pub interval: Arc<Measurement>,
}

impl Published {
    pub fn first(snapshot: Snapshot) -> Published {
        let before = Snapshot::empty(snapshot.taken, snapshot.taken_wall, snapshot.setup.clone());
        Published::after(&before, snapshot)
    }

    pub fn after(before: &Snapshot, snapshot: Snapshot) -> Published {
        let interval = Arc::new(Measurement::between(before, &snapshot));
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

    fn take(&self) -> Option<Published> {
        lock(&self.0).take()
    }
}

/// For one follower. Whoever asks late gets a longer interval, and misses nothing.
pub struct Stream {
    pub(super) shared: Arc<Shared>,
    pub(super) slot: Arc<Slot>,
    /// Regular snapshots of which this has heard.
    pub(super) heard: u64,
}

impl Stream {
    /// Waits for the next regular snapshot; they come one interval after the other, whatever
    /// [`Live::fresh`](super::Live::fresh) asks for in between. None: the time is over, or there will be no
    /// more.
    pub fn next(&mut self, timeout: Duration) -> Option<Published> {
        self.heard = self.shared.wait_for_tick(timeout, self.heard)?;
        self.slot.take()
    }

    /// What has been published since this was last asked, if anything was.
    pub fn newest(&mut self) -> Option<Published> {
        self.slot.take()
    }
}
