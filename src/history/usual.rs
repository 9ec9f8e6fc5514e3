//! How long the syncs of a log usually take.

use std::collections::BTreeMap;

use crate::model::histogram::{Histogram, bucket_of};
use crate::model::{Role, ServerId};

/// From so many intervals on the usual is known.
const ENOUGH: u32 = 10;
/// Logs of which it is kept. A new one takes the place of the one of which least was seen.
const MAX_LOGS: usize = 512;
/// Intervals after which what was learnt weighs half: what is usual changes with the hour.
const HALF: u32 = 3_600;

#[derive(Clone, Debug, Default)]
pub(super) struct Usual(BTreeMap<(ServerId, Role), Learnt>);

#[derive(Clone, Debug, Default)]
struct Learnt {
    /// Of each interval the median of its syncs.
    medians: Histogram,
    intervals: u32,
}

impl Usual {
    /// The median of the medians, in nanoseconds. None: too little was seen.
    pub fn of(&self, server: ServerId, role: Role) -> Option<u64> {
        let learnt = self.0.get(&(server, role))?;
        (learnt.intervals >= ENOUGH).then(|| learnt.medians.quantile(0.5)).flatten()
    }

    /// Takes in an interval in which nothing was wrong.
    pub fn learn(&mut self, server: ServerId, role: Role, syncs: &Histogram) {
        let Some(median) = syncs.quantile(0.5) else { return };
        let key = (server, role);
        if self.0.len() >= MAX_LOGS && !self.0.contains_key(&key) {
            let least = self.0.iter().min_by_key(|(_, learnt)| learnt.intervals).map(|(key, _)| *key);
            least.and_then(|key| self.0.remove(&key));
        }
        let learnt = self.0.entry(key).or_default();
        learnt.medians.add(bucket_of(median), 1);
        learnt.intervals += 1;
        if learnt.intervals >= 2 * HALF {
            learnt.intervals /= 2;
            let halved = learnt.medians.iter().map(|(bucket, n)| (bucket, n / 2)).filter(|(_, n)| *n > 0);
            learnt.medians = Histogram::from_sorted(halved.collect::<Vec<_>>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MYSQL, stats};

    #[test]
    fn the_usual_is_known_after_some_intervals_and_follows_the_day() {
        let mut usual = Usual::default();
        let of = |usual: &Usual| usual.of(MYSQL, Role::Redo);
        let learn = |usual: &mut Usual, ns, times| {
            let syncs = stats(&[(10, ns)]).histogram;
            (0..times).for_each(|_| usual.learn(MYSQL, Role::Redo, &syncs));
        };
        learn(&mut usual, 1_000_000, ENOUGH - 1);
        assert_eq!(of(&usual), None);
        learn(&mut usual, 1_000_000, 1);
        let around = |ns: u64, of: Option<u64>| of.unwrap().abs_diff(ns) < ns / 16;
        assert!(around(1_000_000, of(&usual)));
        usual.learn(MYSQL, Role::Redo, &Histogram::default());
        assert_eq!(usual.of(MYSQL, Role::Binlog), None);
        // What was usual in the morning is so no more in the evening.
        learn(&mut usual, 1_000_000, 10 * HALF);
        learn(&mut usual, 4_000_000, 3 * HALF);
        assert!(around(4_000_000, of(&usual)), "{:?}", of(&usual));
    }

    #[test]
    fn logs_without_end_take_bounded_memory() {
        let mut usual = Usual::default();
        let syncs = stats(&[(1, 1_000)]).histogram;
        for pid in 1..5_000 {
            usual.learn(ServerId { pid, start_ns: 1 }, Role::Redo, &syncs);
        }
        assert_eq!(usual.0.len(), MAX_LOGS);
        // Newcomers displace each other, and not what is known.
        (0..ENOUGH).for_each(|_| usual.learn(MYSQL, Role::Redo, &syncs));
        for pid in 5_000..9_000 {
            usual.learn(ServerId { pid, start_ns: 1 }, Role::Redo, &syncs);
        }
        assert!(usual.of(MYSQL, Role::Redo).is_some());
    }
}
