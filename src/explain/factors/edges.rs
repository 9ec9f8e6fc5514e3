//! The interval in which syncs in flight are sampled, and what is uncertain at its ends.

use std::time::{Duration, Instant};

use crate::model::{InFlight, Interval};

/// The measurement continues until the syncs that were in flight at the second moment have finished. On a
/// device that stalls this can be much later.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// Syncs in flight at the first moment.
    pub begun: &'a [InFlight],
    /// Syncs that finished by the second moment, and those in flight then.
    pub until: &'a Interval,
    pub unsure: &'a Uncertain,
}

/// Syncs that finished while the rows were read, at either end: the row may have been read before the sync
/// finished, and syncs in flight after, so the sync may be in neither.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncertain {
    /// Each with the longest latency that it can have.
    pub ended: Vec<InFlight>,
    /// Total time between the scans: a sync that starts and finishes within it appears in no scan.
    pub apart: Duration,
}

/// Syncs in flight right before the rows are read.
#[derive(Debug)]
pub struct EarlyScan {
    at: Instant,
    syncs: Vec<InFlight>,
}

impl EarlyScan {
    pub fn new(syncs: Vec<InFlight>) -> EarlyScan {
        EarlyScan { at: Instant::now(), syncs }
    }
}

impl Uncertain {
    /// `late`: syncs in flight after the rows were read, at the moment `now`.
    pub fn add(&mut self, early: EarlyScan, late: &[InFlight], now: Instant) {
        let apart = now.saturating_duration_since(early.at);
        // A sync that started after the first scan is the thread's next one.
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
        let early = EarlyScan::new(vec![sync(1, 40), sync(2, 30), sync(3, 20), sync(5, 1)]);
        let now = early.at + Duration::from_millis(5);
        let mut unsure = Uncertain::default();
        // Threads 3 and 5 are in another sync by now, which may be older than the previous one was when it
        // was seen.
        unsure.add(early, &[sync(1, 45), sync(3, 1), sync(4, 2), sync(5, 3)], now);
        let ended = vec![sync(2, 35), sync(3, 25), sync(5, 6)];
        assert_eq!(unsure, Uncertain { ended, apart: Duration::from_millis(5) });
    }
}
