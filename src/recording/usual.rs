//! How long the syncs of a log usually take.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::histogram::{Histogram, bucket_of};
use crate::model::{Role, ServerId};

/// From so many intervals on, which last at least so long, the usual is known.
const ENOUGH: u32 = 10;
const LONG_ENOUGH: Duration = Duration::from_secs(10);
/// Logs of which it is kept. A new one takes the place of one that has not been seen for so long.
const MAX_LOGS: usize = 512;
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Time after which what was learnt weighs half: what is usual changes with the hour.
const HALF: Duration = Duration::from_secs(3_600);

#[derive(Clone, Debug, Default)]
pub(super) struct Usual {
    logs: BTreeMap<(ServerId, Role), Learnt>,
    /// The sum of all intervals.
    now: Duration,
    /// Until then there is no room for a new one.
    full_until: Duration,
}

#[derive(Clone, Debug, Default)]
struct Learnt {
    /// Of each interval the median of its syncs, and what one in a hundred of them took.
    medians: Histogram,
    tails: Histogram,
    intervals: u32,
    time: Duration,
    last: Duration,
}

/// What a log's syncs usually take, in nanoseconds: the median of all intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usually {
    pub median: u64,
    pub p99: u64,
}

impl Usual {
    /// None: too little was seen.
    pub fn of(&self, server: ServerId, role: Role) -> Option<Usually> {
        let learnt = self.logs.get(&(server, role))?;
        let is_known = learnt.intervals >= ENOUGH && learnt.time >= LONG_ENOUGH;
        let [median, p99] = [&learnt.medians, &learnt.tails].map(|of| of.quantile(0.5));
        median.zip(p99).filter(|_| is_known).map(|(median, p99)| Usually { median, p99 })
    }

    /// Whether it is known of all logs that were synced. None: there was none.
    pub fn is_known(&self) -> Option<bool> {
        let known = |&(server, role): &(ServerId, Role)| self.of(server, role).is_some();
        (!self.logs.is_empty()).then(|| self.logs.keys().all(known))
    }

    /// An interval begins.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Takes in a log's syncs of the interval. False: there is no room for another log.
    pub fn learn(&mut self, server: ServerId, role: Role, syncs: &Histogram, time: Duration) -> bool {
        let Some((median, p99)) = syncs.quantile(0.5).zip(syncs.quantile(0.99)) else { return true };
        let key = (server, role);
        if self.logs.len() >= MAX_LOGS && !self.logs.contains_key(&key) && !self.forget_one() {
            return false;
        }
        let learnt = self.logs.entry(key).or_default();
        learnt.medians.add(bucket_of(median), 1);
        learnt.tails.add(bucket_of(p99), 1);
        learnt.intervals += 1;
        learnt.time += time;
        learnt.last = self.now;
        if learnt.time >= 2 * HALF {
            (learnt.intervals, learnt.time) = (learnt.intervals / 2, learnt.time / 2);
            for of in [&mut learnt.medians, &mut learnt.tails] {
                let halved = of.iter().map(|(bucket, n)| (bucket, n / 2)).filter(|(_, n)| *n > 0);
                *of = Histogram::from_sorted(halved.collect::<Vec<_>>());
            }
        }
        true
    }
}

impl Usual {
    pub fn retain_servers(&mut self, wanted: impl Fn(ServerId) -> bool) {
        self.logs.retain(|&(server, _), _| wanted(server));
    }

    fn forget_one(&mut self) -> bool {
        if self.now < self.full_until {
            return false;
        }
        let oldest = self.logs.iter().min_by_key(|(_, learnt)| learnt.last);
        let Some((&key, learnt)) = oldest else { return true };
        self.full_until = learnt.last + FORGOTTEN_AFTER;
        let is_forgotten = self.now >= self.full_until;
        if is_forgotten {
            self.logs.remove(&key);
        }
        is_forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MYSQL, stats};

    const SECOND: Duration = Duration::from_secs(1);

    fn learn(usual: &mut Usual, ns: u64, times: u32, each: Duration) {
        let syncs = stats(&[(10, ns)]).histogram;
        for _ in 0..times {
            usual.pass(each);
            assert!(usual.learn(MYSQL, Role::Redo, &syncs, each));
        }
    }

    fn is_around(usual: &Usual, ns: u64) -> bool {
        usual.of(MYSQL, Role::Redo).is_some_and(|of| of.median.abs_diff(ns) < ns / 16 && of.p99 == of.median)
    }

    #[test]
    fn the_usual_is_known_after_some_time_and_follows_the_day() {
        let mut usual = Usual::default();
        learn(&mut usual, 1_000_000, 9, SECOND);
        assert_eq!(usual.of(MYSQL, Role::Redo), None);
        learn(&mut usual, 1_000_000, 1, SECOND);
        assert!(is_around(&usual, 1_000_000));
        usual.learn(MYSQL, Role::Redo, &Histogram::default(), SECOND);
        assert_eq!(usual.of(MYSQL, Role::Binlog), None);
        // What was usual in the morning is so no more in the evening, also where it was slow at first.
        learn(&mut usual, 1_000_000, 36_000, SECOND);
        learn(&mut usual, 6_000_000, 2_000, SECOND);
        assert!(is_around(&usual, 1_000_000));
        learn(&mut usual, 6_000_000, 9_000, SECOND);
        assert!(is_around(&usual, 6_000_000), "{:?}", usual.of(MYSQL, Role::Redo));
        // A second of short intervals is not enough.
        let mut usual = Usual::default();
        learn(&mut usual, 1_000_000, 10, SECOND / 10);
        assert_eq!(usual.of(MYSQL, Role::Redo), None);
    }

    #[test]
    fn logs_without_end_take_bounded_memory_and_one_that_is_there_stays_known() {
        let mut usual = Usual::default();
        let syncs = stats(&[(1, 1_000)]).histogram;
        for pid in 1..5_000 {
            usual.learn(ServerId { pid, start_ns: 1 }, Role::Redo, &syncs, SECOND);
            if pid % 100 == 0 {
                learn(&mut usual, 1_000, 1, SECOND);
            }
        }
        assert_eq!(usual.logs.len(), MAX_LOGS);
        assert!(usual.of(MYSQL, Role::Redo).is_some());
        // Those that have gone make room.
        let newcomer = ServerId { pid: 9_999, start_ns: 1 };
        assert!(!usual.learn(newcomer, Role::Redo, &syncs, SECOND), "which is said");
        learn(&mut usual, 1_000, FORGOTTEN_AFTER.as_secs() as u32, SECOND);
        for _ in 0..10 {
            assert!(usual.learn(newcomer, Role::Redo, &syncs, SECOND));
        }
        assert!(usual.of(newcomer, Role::Redo).is_some());
        assert_eq!(usual.logs.len(), MAX_LOGS);
    }
}
