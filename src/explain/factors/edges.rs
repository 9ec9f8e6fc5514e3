//! The moments between which the syncs in flight are sampled, and what cannot be known of them.

use std::time::{Duration, Instant};

use crate::model::{InFlight, Measurement};

/// The measurement goes on until the syncs that its end cuts have ended, which may be long after the second moment, where
/// a device stalls.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// In flight at the first moment.
    pub begun: &'a [InFlight],
    /// What ended until the second moment, and what was in flight then.
    pub until: &'a Measurement,
    pub unsure: &'a Unsure,
}

/// What ended while the rows were read, at either moment: its row may have been read before it ended, and what is in
/// flight was looked at after, so that it may be in neither.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unsure {
    /// With the longest latency that each can have.
    pub ended: Vec<InFlight>,
    /// So long the looks lay apart, together: one that both began and ended in between is in no look.
    pub apart: Duration,
}

/// What was in flight right before the rows are read.
#[derive(Debug)]
pub struct EarlyLook {
    at: Instant,
    syncs: Vec<InFlight>,
}

impl EarlyLook {
    pub fn new(syncs: Vec<InFlight>) -> EarlyLook {
        EarlyLook { at: Instant::now(), syncs }
    }
}

impl Unsure {
    /// `late`: what was in flight after the rows were read, at the moment `now`.
    pub fn add(&mut self, early: EarlyLook, late: &[InFlight], now: Instant) {
        let apart = now.saturating_duration_since(early.at);
        // What is younger than the first look is the thread's next sync.
        let goes_on = |sync: &InFlight| {
            late.iter().any(|other| {
                (other.server, other.tid, other.op) == (sync.server, sync.tid, sync.op)
                    && other.age >= sync.age.max(apart)
            })
        };
        let ended = early.syncs.into_iter().filter(|sync| !goes_on(sync));
        self.ended.extend(ended.map(|sync| InFlight { age: sync.age + apart, ..sync }));
        self.apart += apart;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use crate::model::fixture;

    #[test]
    fn what_is_in_both_looks_is_known_and_what_ended_in_between_is_not() {
        let sync =
            |tid, ms| InFlight { tid, ..fixture::in_flight(Role::Binlog, "/d/x", Duration::from_millis(ms)) };
        let early = EarlyLook::new(vec![sync(1, 40), sync(2, 30), sync(3, 20), sync(5, 1)]);
        let now = early.at + Duration::from_millis(5);
        let mut unsure = Unsure::default();
        // Threads 3 and 5 are in another sync by now, which may be older than the one before was when it was seen.
        unsure.add(early, &[sync(1, 45), sync(3, 1), sync(4, 2), sync(5, 3)], now);
        let ended = vec![sync(2, 35), sync(3, 25), sync(5, 6)];
        assert_eq!(unsure, Unsure { ended, apart: Duration::from_millis(5) });
    }
}
