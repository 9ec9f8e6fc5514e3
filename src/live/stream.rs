//! What is published, as a stream of intervals: whoever follows it keeps nothing of what was before.

use std::sync::Arc;
use std::time::Duration;

use super::published::{Published, Slot};
use super::shared::Shared;

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
