//! The latency histogram: log-linear buckets, filled in the kernel, read and compared here.
//!
//! Sixteen buckets per power of two from 2^8 ns to 2^40 ns, plus an underflow and an overflow bucket. A
//! bucket's width is at most 1/16 of its lower edge, so its midpoint is within 3.2 % of every value in it.
//! `bpf/histogram.h` has the same arithmetic; a test compares the two at every boundary.

use std::fmt;
use std::sync::Arc;

/// Buckets per power of two.
pub(crate) const STEPS: usize = 16;
/// Values below 2^8 ns are in the underflow bucket.
pub(crate) const FIRST_EXPONENT: u32 = 8;
/// Values from 2^40 ns (18 minutes) on are in the overflow bucket.
pub(crate) const LAST_EXPONENT: u32 = 40;
/// Number of buckets: index 0 is the underflow bucket, the last is the overflow bucket.
pub const BUCKETS: usize = (LAST_EXPONENT - FIRST_EXPONENT) as usize * STEPS + 2;

/// The bucket of a latency in nanoseconds, 0 to [`BUCKETS`] - 1.
pub fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds < 1 << FIRST_EXPONENT {
        return 0;
    }
    let exponent = nanoseconds.ilog2();
    if exponent >= LAST_EXPONENT {
        return BUCKETS - 1;
    }
    let step = (nanoseconds >> (exponent - 4)) as usize & (STEPS - 1);
    (exponent - FIRST_EXPONENT) as usize * STEPS + step + 1
}

/// The smallest latency of a bucket, in nanoseconds.
pub fn lower_edge(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        b if b >= BUCKETS - 1 => 1 << LAST_EXPONENT,
        b => {
            let (octave, step) = ((b - 1) / STEPS, (b - 1) % STEPS);
            ((STEPS + step) as u64) << (octave as u32 + FIRST_EXPONENT - 4)
        }
    }
}

/// The smallest latency above a bucket, in nanoseconds; `u64::MAX` for the overflow bucket.
pub(crate) fn upper_edge(bucket: usize) -> u64 {
    if bucket >= BUCKETS - 1 { u64::MAX } else { lower_edge(bucket + 1) }
}

/// The latency that represents a bucket: its midpoint, or the lower edge of the overflow bucket.
pub fn midpoint(bucket: usize) -> u64 {
    if bucket >= BUCKETS - 1 {
        return lower_edge(bucket);
    }
    lower_edge(bucket) + (upper_edge(bucket) - lower_edge(bucket)) / 2
}

/// Counts per bucket. Only non-empty buckets are stored, because a file rarely uses more than fifty. Clones
/// share them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// In ascending order of bucket. None if there are none: most files of a large set are cold.
    counts: Option<Arc<[Count]>>,
}

/// A bucket and its count packed into one word, the bucket in the upper bits. 2^54 syncs of one file take
/// five centuries at a million per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Count(u64);

const COUNT_BITS: u32 = 54;
const _: () = assert!(BUCKETS <= 1 << (u64::BITS - COUNT_BITS));

impl Count {
    fn new(bucket: usize, n: u64) -> Count {
        Count((bucket as u64) << COUNT_BITS | n.min((1 << COUNT_BITS) - 1))
    }

    fn bucket(self) -> usize {
        (self.0 >> COUNT_BITS) as usize
    }

    fn n(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

impl Histogram {
    /// From (bucket, count) pairs in ascending order of bucket; empty buckets are dropped.
    pub(crate) fn from_sorted(counts: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let counts: Vec<_> =
            counts.into_iter().filter(|&(_, n)| n > 0).map(|(bucket, n)| Count::new(bucket, n)).collect();
        debug_assert!(counts.is_sorted());
        Self { counts: (!counts.is_empty()).then(|| counts.into()) }
    }

    /// From the counts of the underflow and overflow buckets, and (bucket, count) pairs of the non-empty
    /// ones between them in ascending order. The vector is allocated once: thousands of rows are read this
    /// way.
    pub(crate) fn from_filled(under: u64, inner: &[(usize, u64)], over: u64) -> Self {
        let outermost = |bucket, n| (n > 0).then(|| Count::new(bucket, n)).into_iter();
        if under == 0 && inner.is_empty() && over == 0 {
            return Self::default();
        }
        let inner = inner.iter().map(|&(bucket, n)| Count::new(bucket, n));
        let counts: Arc<[Count]> =
            outermost(0, under).chain(inner).chain(outermost(BUCKETS - 1, over)).collect();
        debug_assert!(counts.is_sorted());
        Self { counts: Some(counts) }
    }

    fn counts(&self) -> &[Count] {
        self.counts.as_deref().unwrap_or_default()
    }

    /// Adds `n` syncs to a bucket.
    pub fn add(&mut self, bucket: usize, n: u64) {
        self.merge(&Histogram::from_sorted([(bucket, n)]));
    }

    /// The non-empty buckets, in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        self.counts().iter().map(|count| (count.bucket(), count.n()))
    }

    pub fn count(&self) -> u64 {
        self.counts().iter().map(|count| count.n()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_none()
    }

    /// A copy without the underflow and overflow buckets.
    pub(crate) fn without_outermost(&self) -> Histogram {
        let outermost = |&(bucket, _): &(usize, u64)| bucket == 0 || bucket == BUCKETS - 1;
        match self.iter().any(|count| outermost(&count)) {
            true => Histogram::from_sorted(self.iter().filter(|count| !outermost(count))),
            false => self.clone(),
        }
    }

    /// Adds another histogram's counts to this one.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        if self.is_empty() {
            self.counts.clone_from(&other.counts);
        } else if !self.merge_in_place(other) {
            *self = self.merged(other);
        }
    }

    fn merged(&self, other: &Histogram) -> Histogram {
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        Histogram::from_sorted(std::iter::from_fn(|| match (left.peek(), right.peek()) {
            (Some(&(a, n)), Some(&(b, m))) if a == b => {
                left.next();
                right.next();
                Some((a, n + m))
            }
            (Some((a, _)), Some((b, _))) if b < a => right.next(),
            (None, _) => right.next(),
            _ => left.next(),
        }))
    }

    /// Fast path: every bucket of the other histogram is already present here, and the counts are not
    /// shared, as usual when many are summed up. Returns false if it did nothing.
    fn merge_in_place(&mut self, other: &Histogram) -> bool {
        let mut places = self.counts().iter();
        if !other.iter().all(|(bucket, _)| places.any(|count| count.bucket() == bucket)) {
            return false;
        }
        let Some(counts) = self.counts.as_mut().and_then(Arc::get_mut) else { return false };
        let mut at = 0;
        for (bucket, n) in other.iter() {
            while counts[at].bucket() != bucket {
                at += 1;
            }
            counts[at] = Count::new(bucket, counts[at].n() + n);
        }
        true
    }

    /// The syncs added since `earlier`, a previous reading of the same row.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        if let (Some(new), Some(old)) = (&self.counts, &earlier.counts)
            && Arc::ptr_eq(new, old)
        {
            return Histogram::default();
        }
        let mut before = earlier.iter().peekable();
        Histogram::from_sorted(self.iter().filter_map(|(bucket, n)| {
            while before.next_if(|&(b, _)| b < bucket).is_some() {}
            let old = before.next_if(|&(b, _)| b == bucket).map_or(0, |(_, n)| n);
            (n > old).then(|| (bucket, n - old))
        }))
    }

    /// The latency that a share `q` (0 to 1) of the syncs did not exceed, in nanoseconds: nearest rank,
    /// bucket midpoint. None if there are no syncs.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let total = self.count();
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        self.iter()
            .find(|&(_, n)| {
                seen += n;
                seen >= rank
            })
            .map(|(bucket, _)| midpoint(bucket))
    }

    /// The lower edge of the lowest non-empty bucket, in nanoseconds.
    pub fn lowest(&self) -> Option<u64> {
        self.iter().next().map(|(b, _)| lower_edge(b))
    }

    /// The highest non-empty bucket.
    pub(crate) fn highest_bucket(&self) -> Option<usize> {
        self.iter().next_back().map(|(b, _)| b)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_begins_where_the_one_below_ends() {
        for bucket in 0..BUCKETS - 1 {
            let (low, high) = (lower_edge(bucket), upper_edge(bucket));
            assert!(low < high);
            assert_eq!(bucket_of(low), bucket);
            assert_eq!(bucket_of(high - 1), bucket);
            assert_eq!(bucket_of(high), bucket + 1);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_midpoint_is_within_3_2_percent_of_every_value_of_its_bucket() {
        for bucket in 1..BUCKETS - 1 {
            let middle = midpoint(bucket) as f64;
            for edge in [lower_edge(bucket), upper_edge(bucket) - 1] {
                assert!((middle - edge as f64).abs() / edge as f64 <= 0.032, "bucket {bucket}");
            }
        }
    }

    #[test]
    fn what_is_read_of_a_row_is_the_same_histogram() {
        let last = BUCKETS - 1;
        let all = Histogram::from_filled(4, &[(1, 2), (last - 1, 3)], 5);
        assert_eq!(all, Histogram::from_sorted([(0, 4), (1, 2), (last - 1, 3), (last, 5)]));
        assert_eq!(Histogram::from_filled(0, &[(7, 1)], 0), Histogram::from_sorted([(7, 1)]));
        assert!(Histogram::from_filled(0, &[], 0).is_empty());
    }

    #[test]
    fn a_difference_holds_only_what_is_new() {
        let mut early = Histogram::default();
        early.add(3, 5);
        early.add(9, 1);
        let mut late = early.clone();
        late.add(1, 2);
        late.add(9, 4);
        late.add(500, 1);
        assert_eq!(late.since(&early).iter().collect::<Vec<_>>(), [(1, 2), (9, 4), (500, 1)]);
        assert!(late.since(&late).is_empty());
        let mut sum = early;
        sum.merge(&late.since(&sum.clone()));
        assert_eq!(sum, late);
    }

    #[test]
    fn a_sum_is_the_same_whether_it_finds_its_buckets_in_use_or_shared_or_not() {
        let part = Histogram::from_sorted([(2, 1), (9, 5), (BUCKETS - 1, 7)]);
        let mut sum = Histogram::from_sorted([(0, 4), (9, 1)]);
        sum.merge(&part);
        assert_eq!(sum.iter().collect::<Vec<_>>(), [(0, 4), (2, 1), (9, 6), (BUCKETS - 1, 7)]);
        let before = sum.clone();
        sum.merge(&part);
        assert_eq!(sum.iter().collect::<Vec<_>>(), [(0, 4), (2, 2), (9, 11), (BUCKETS - 1, 14)]);
        assert_eq!(before.count(), 18, "a clone keeps what it was");
        sum.merge(&part);
        assert_eq!(sum.since(&before).iter().collect::<Vec<_>>(), [(2, 2), (9, 10), (BUCKETS - 1, 14)]);
    }

    #[test]
    fn quantiles_agree_with_hdrhistogram_within_a_bucket() {
        let mut ours = Histogram::default();
        let mut theirs = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        let mut x = 88_172_645_463_325_252_u64;
        for _ in 0..20_000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let ns = 1_000 + x % 50_000_000;
            ours.add(bucket_of(ns), 1);
            theirs.record(ns).unwrap();
        }
        for q in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let (a, b) = (ours.quantile(q).unwrap() as f64, theirs.value_at_quantile(q) as f64);
            assert!((a - b).abs() / b < 0.033, "{q}: {a} and {b}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
