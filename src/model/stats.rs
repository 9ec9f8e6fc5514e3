//! The figures of one row: sync count, latencies, failures.

use std::time::Duration;

use super::{Completions, Errors};
use crate::model::histogram::{Histogram, lower_edge, upper_edge};

/// From this share of the time on a log is saturated: a queue in front of it grows steeply.
pub(crate) const SATURATED: f64 = 0.8;

/// The maximum latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Max {
    pub ns: u64,
    /// False: the upper edge of the highest bucket that grew, at most one bucket's width too high.
    pub exact: bool,
}

/// Syncs of one row. In a snapshot: since the start of tracing; in a measurement: within one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Syncs that finished.
    pub count: u64,
    pub sum_ns: u64,
    pub max: Max,
    /// Shared between snapshots while the row does not change. Its total equals `count`, except for
    /// threads, which keep no histogram.
    pub histogram: Histogram,
    /// Failed syncs by errno.
    pub errors: Errors,
    /// Made durable by calls that are not watched: counted, and in no other figure. Of neighbours only.
    pub untimed: u64,
    /// What durable writes have written, as the kernel returned it.
    pub bytes: u64,
    /// Of requests of rings, since they were first seen: no interval has its own.
    pub completions: Completions,
    /// Of an interval: the time of operations that had not returned at its end, less the time before it of
    /// those that were in flight at its beginning. Nanoseconds; 0 in a snapshot.
    pub pending_ns: i64,
}

impl Stats {
    /// Adds another row's syncs to this one. Saturating: a history received from elsewhere may hold any
    /// values.
    pub(crate) fn merge(&mut self, other: &Stats) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        if other.max.ns > self.max.ns {
            self.max = other.max;
        }
        self.histogram.merge(&other.histogram);
        self.untimed = self.untimed.saturating_add(other.untimed);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.pending_ns = self.pending_ns.saturating_add(other.pending_ns);
        self.completions.merge(other.completions);
        for (&errno, &n) in &other.errors {
            let sum = self.errors.entry(errno).or_default();
            *sum = sum.saturating_add(n);
        }
    }

    /// What happened since `earlier`, a previous reading of the same row. The interval's maximum latency is
    /// the new maximum if it rose, else the upper edge of the highest bucket that grew.
    pub fn since(&self, earlier: &Stats) -> Stats {
        let histogram = self.histogram.since(&earlier.histogram);
        let count = self.count.saturating_sub(earlier.count);
        let max = if self.max.ns > earlier.max.ns {
            self.max
        } else if count == 0 {
            Max::default()
        } else {
            let edge = histogram.highest_bucket().map_or(self.max.ns, upper_edge);
            Max { ns: edge.min(self.max.ns), exact: false }
        };
        let errors = self.errors.iter().filter_map(|(&errno, &n)| {
            let new = n - earlier.errors.get(&errno).copied().unwrap_or(0).min(n);
            (new > 0).then_some((errno, new))
        });
        Stats {
            count,
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max,
            errors: errors.collect(),
            histogram,
            untimed: self.untimed.saturating_sub(earlier.untimed),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            completions: self.completions,
            pending_ns: 0,
        }
    }

    /// Whether this can be a later reading of the same row: no count has decreased. A row that was merged
    /// into another and came back starts from zero; it may have more syncs by then, but hardly in every
    /// bucket.
    pub(crate) fn continues(&self, earlier: &Stats) -> bool {
        // A failure of unknown errno (0) may have been attributed since.
        let errors = earlier.errors.iter().filter(|&(&errno, _)| errno != 0);
        self.count >= earlier.count
            && self.sum_ns >= earlier.sum_ns
            && self.untimed >= earlier.untimed
            && self.bytes >= earlier.bytes
            && errors.into_iter().all(|(errno, n)| self.errors.get(errno) >= Some(n))
            && earlier.histogram.since(&self.histogram).is_empty()
    }

    /// Those that were not timed included.
    pub(crate) fn all(&self) -> u64 {
        self.count.saturating_add(self.untimed)
    }

    /// In nanoseconds; never above the maximum latency, which is exact while a bucket's midpoint is not.
    pub(crate) fn quantile_ns(&self, q: f64) -> Option<u64> {
        self.histogram.quantile(q).map(|ns| ns.min(self.max.ns))
    }

    /// The lower edge of the lowest non-empty bucket.
    pub(crate) fn min_ns(&self) -> Option<u64> {
        self.histogram.lowest()
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.total()
    }

    /// Mean number in flight over a time: the time in operations, of those that hang as well, / time. For a
    /// serial log this is its busy share.
    pub fn in_flight_mean(&self, over: Duration) -> f64 {
        let time = (self.sum_ns as f64 + self.pending_ns as f64).max(0.0);
        if over.is_zero() { 0.0 } else { time / over.as_nanos() as f64 }
    }

    /// What is certain of the longest latency: where only its bucket is known, its lower edge.
    pub(crate) fn longest_at_least(&self) -> Duration {
        let ns = match self.max.exact {
            true => self.max.ns,
            false => self.histogram.highest_bucket().map_or(0, lower_edge),
        };
        Duration::from_nanos(ns)
    }

    /// Makes the maximum consistent with the histogram: never below the highest non-empty bucket. Two CPUs
    /// that finish syncs of one file at the same instant can lose the greater maximum; the histogram never
    /// does.
    pub(crate) fn settle_max(&mut self) {
        if let Some(bucket) = self.histogram.highest_bucket()
            && self.max.ns < lower_edge(bucket)
        {
            self.max = Max { ns: upper_edge(bucket), exact: false };
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::histogram::bucket_of;

    pub fn stats(latencies: &[u64]) -> Stats {
        let mut histogram = Histogram::default();
        latencies.iter().for_each(|&ns| histogram.add(bucket_of(ns), 1));
        Stats {
            count: latencies.len() as u64,
            sum_ns: latencies.iter().sum(),
            max: Max { ns: latencies.iter().copied().max().unwrap_or(0), exact: true },
            histogram,
            ..Stats::default()
        }
    }

    #[test]
    fn the_maximum_of_an_interval_says_whether_it_is_exact() {
        let early = stats(&[5_000, 70_000]);
        let risen = stats(&[5_000, 70_000, 90_001]).since(&early);
        assert_eq!(risen.max, Max { ns: 90_001, exact: true });
        let below = stats(&[5_000, 70_000, 6_000]).since(&early);
        assert!(!below.max.exact);
        assert_eq!(below.max.ns, upper_edge(bucket_of(6_000)));
        assert_eq!(below.count, 1);
        assert_eq!(below.sum_ns, 6_000);
        assert_eq!(early.since(&early).max, Max::default());
    }

    #[test]
    fn a_maximum_below_its_own_histogram_is_replaced_and_marked() {
        let mut raced = stats(&[5_000, 70_000]);
        raced.max.ns = 5_000;
        raced.settle_max();
        assert_eq!(raced.max, Max { ns: upper_edge(bucket_of(70_000)), exact: false });
    }

    #[test]
    fn merging_adds_counts_errors_and_buckets() {
        let mut a = stats(&[1_000, 2_000]);
        a.errors.insert(libc::EIO, 1);
        let mut b = stats(&[3_000]);
        b.errors.insert(libc::EIO, 2);
        (a.bytes, b.bytes) = (512, 4_096);
        a.merge(&b);
        assert_eq!((a.count, a.sum_ns, a.max.ns), (3, 6_000, 3_000));
        assert_eq!((a.bytes, a.since(&b).bytes), (4_608, 512));
        assert_eq!(a.errors[&libc::EIO], 3);
        assert_eq!(a.histogram.count(), 3);
        assert_eq!(a.in_flight_mean(Duration::from_nanos(12_000)), 0.5);
    }
}
