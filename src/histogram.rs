//! The latency histogram: log-linear buckets, kept in the kernel, read and compared here.
//!
//! Sixteen steps per power of two from 2^8 ns to 2^40 ns, one bucket under and one over. A bucket is at most
//! 1/16 of its lower edge wide, so its midpoint is within 3.2 % of every value in it. The same arithmetic stands
//! in `bpf/histogram.h`; a test compares the two at every boundary.

/// Buckets per power of two.
pub const STEPS: usize = 16;
/// Values below 2^8 ns fall into the bucket under all others.
pub const FIRST_EXPONENT: u32 = 8;
/// Values from 2^40 ns (18 minutes) on fall into the bucket over all others.
pub const LAST_EXPONENT: u32 = 40;
/// All buckets: index 0 is the one under, the last is the one over.
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

/// The smallest latency above a bucket, in nanoseconds; `u64::MAX` for the one over all others.
pub fn upper_edge(bucket: usize) -> u64 {
    if bucket >= BUCKETS - 1 { u64::MAX } else { lower_edge(bucket + 1) }
}

/// What a latency of this bucket is taken to be: its middle, and the lower edge where there is no upper one.
pub fn midpoint(bucket: usize) -> u64 {
    if bucket >= BUCKETS - 1 {
        return lower_edge(bucket);
    }
    lower_edge(bucket) + (upper_edge(bucket) - lower_edge(bucket)) / 2
}

/// Counts per bucket; only the buckets that hold something are stored, because a file rarely fills more than fifty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<(u16, u64)>,
}

impl Histogram {
    /// From (bucket, count) pairs in ascending order of bucket; empty ones are left out.
    pub fn from_sorted(counts: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let counts: Vec<_> = counts.into_iter().filter(|&(_, n)| n > 0).map(|(b, n)| (b as u16, n)).collect();
        debug_assert!(counts.is_sorted_by_key(|&(b, _)| b));
        Self { counts }
    }

    /// Adds `n` syncs to a bucket.
    pub fn add(&mut self, bucket: usize, n: u64) {
        if n == 0 {
            return;
        }
        match self.counts.binary_search_by_key(&(bucket as u16), |&(b, _)| b) {
            Ok(at) => self.counts[at].1 += n,
            Err(at) => self.counts.insert(at, (bucket as u16, n)),
        }
    }

    /// The buckets that hold something, in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        self.counts.iter().map(|&(b, n)| (b as usize, n))
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&(_, n)| n).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds another one's counts to this one.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
            return;
        }
        for (bucket, n) in other.iter() {
            self.add(bucket, n);
        }
    }

    /// What came to this one since `earlier`, a previous reading of the same row.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut before = earlier.counts.iter().peekable();
        let counts = self.counts.iter().filter_map(|&(bucket, n)| {
            while before.next_if(|&&(b, _)| b < bucket).is_some() {}
            let old = before.next_if(|&&(b, _)| b == bucket).map_or(0, |&(_, n)| n);
            (n > old).then(|| (bucket, n - old))
        });
        Histogram { counts: counts.collect() }
    }

    /// The latency that a share `q` (0 to 1) of the syncs did not exceed, in nanoseconds: nearest rank, bucket
    /// midpoint. None when there are none.
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

    /// The lower edge of the lowest bucket in use, in nanoseconds.
    pub fn lowest(&self) -> Option<u64> {
        self.iter().next().map(|(b, _)| lower_edge(b))
    }

    /// The highest bucket in use.
    pub fn highest_bucket(&self) -> Option<usize> {
        self.iter().next_back().map(|(b, _)| b)
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
