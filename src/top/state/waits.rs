//! Where stuck threads wait in the kernel, as far as that is known.

use std::time::{Duration, Instant};

use crate::model::InFlight;
use crate::top::event::{Effect, Waiting};

/// Where stuck syncs wait is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// At most so many threads are looked at.
const MOST_LOOKED_AT: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub known: Vec<Waiting>,
    looked: Option<Instant>,
}

impl Waits {
    pub fn of(&self, tid: u32) -> Option<&Waiting> {
        self.known.iter().find(|waiting| waiting.tid == tid)
    }

    /// Asks where stuck threads are, now and then for as long as there are any.
    pub(super) fn look(&mut self, stuck: &[InFlight], now: Instant) -> Option<Effect> {
        self.known.retain(|waiting| stuck.iter().any(|sync| sync.tid == waiting.tid));
        let all_known = stuck.iter().take(MOST_LOOKED_AT).all(|sync| self.of(sync.tid).is_some());
        let soon = self.looked.is_some_and(|looked| {
            let after = if all_known { LOOK_AGAIN } else { LOOK_AGAIN / 4 };
            now.saturating_duration_since(looked) < after
        });
        if stuck.is_empty() || soon {
            return None;
        }
        self.looked = Some(now);
        let threads = stuck.iter().take(MOST_LOOKED_AT).map(|sync| (sync.server.pid, sync.tid));
        Some(Effect::Look(threads.collect()))
    }
}
