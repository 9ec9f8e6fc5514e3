//! The kernel's histogram as a native one: 16 linear steps per power of two into as many exponential ones.
//!
//! The buckets of a native histogram are (b^(i-1), b^i] seconds with b = 2^(1/16). None of their boundaries
//! is one of the kernel's, so each of the kernel's buckets goes as a whole where its midpoint lies. A latency
//! is within 3.1 % of its midpoint, and the midpoint within one bucket (4.4 %) of whatever Prometheus
//! interpolates in it. Together that is never more than 6.8 %, as a test computes for every bucket. Counts
//! and sums are exact.

use std::sync::LazyLock;

use super::metrics_proto::BucketSpan;
use crate::model::histogram::{BUCKETS, Histogram, midpoint};

/// Each power of two is divided into 2^4 buckets.
pub const SCHEMA: i32 = 4;
const PER_OCTAVE: f64 = 16.0;
/// So many empty buckets take no more room than another span.
const BRIDGED: i32 = 2;

/// The index of the bucket where a bucket of the kernel goes; of no use for the first one, which is the zero
/// bucket. Midpoints of what takes longer than 18 minutes do not exist: it counts as 18 minutes.
static PLACES: LazyLock<[i32; BUCKETS]> = LazyLock::new(|| std::array::from_fn(place));

fn place(kernel_bucket: usize) -> i32 {
    // No midpoint lies on a boundary: a test asks.
    ((midpoint(kernel_bucket) as f64 / 1e9).log2() * PER_OCTAVE).ceil() as i32
}

/// What took less than the kernel's histogram tells apart (256 ns) is in the zero bucket, which ends where
/// the lowest bucket that is ever used begins: at 260 ns.
pub fn zero_threshold() -> f64 {
    (f64::from(PLACES[1] - 1) / PER_OCTAVE).exp2()
}

#[derive(Debug, Default, PartialEq)]
pub struct Native {
    pub zero_count: u64,
    pub spans: Vec<BucketSpan>,
    pub deltas: Vec<i64>,
}

impl Native {
    pub fn of(histogram: &Histogram) -> Native {
        let mut native = Native::default();
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for (bucket, n) in histogram.iter() {
            match (bucket, buckets.last_mut()) {
                (0, _) => native.zero_count += n,
                (_, Some((last, sum))) if *last == PLACES[bucket] => *sum += n,
                _ => buckets.push((PLACES[bucket], n)),
            }
        }
        let (mut next, mut before) = (0, 0);
        for (index, n) in buckets {
            match native.spans.last_mut() {
                Some(span) if index - next <= BRIDGED => {
                    for _ in next..index {
                        native.deltas.push(-before);
                        before = 0;
                        span.length += 1;
                    }
                    span.length += 1;
                }
                _ => native.spans.push(BucketSpan { offset: index - next, length: 1 }),
            }
            // A bucket of the kernel counts to 2^54, and at most two of them go into one.
            native.deltas.push(n as i64 - before);
            (next, before) = (index + 1, n as i64);
        }
        native
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::histogram::{bucket_of, lower_edge, upper_edge};

    fn boundary(index: i32) -> f64 {
        (f64::from(index) / PER_OCTAVE).exp2()
    }

    /// The buckets as whoever reads them finds them: (index, count).
    fn read(native: &Native) -> Vec<(i32, u64)> {
        let (mut next, mut count, mut deltas) = (0, 0, native.deltas.iter());
        let mut buckets = Vec::new();
        for span in &native.spans {
            next += span.offset;
            for _ in 0..span.length {
                count += deltas.next().unwrap();
                buckets.push((next, u64::try_from(count).unwrap()));
                next += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        buckets
    }

    #[test]
    fn no_midpoint_is_so_near_to_a_boundary_that_rounding_could_decide() {
        for bucket in 1..BUCKETS {
            let index = (midpoint(bucket) as f64 / 1e9).log2() * PER_OCTAVE;
            assert!((index - index.round()).abs() > 1e-4, "{bucket}: {index}");
            let seconds = midpoint(bucket) as f64 / 1e9;
            assert!(boundary(PLACES[bucket] - 1) < seconds && seconds <= boundary(PLACES[bucket]));
        }
    }

    #[test]
    fn whatever_is_interpolated_is_within_7_percent_of_the_latency() {
        let mut worst: f64 = 0.0;
        for bucket in 1..BUCKETS - 1 {
            for latency in [lower_edge(bucket), upper_edge(bucket) - 1] {
                for told in [boundary(PLACES[bucket] - 1), boundary(PLACES[bucket])] {
                    worst = worst.max((told / (latency as f64 / 1e9) - 1.0).abs());
                }
            }
        }
        assert!((0.067..0.068).contains(&worst), "{worst}");
    }

    #[test]
    fn the_zero_bucket_ends_where_the_lowest_one_begins() {
        assert!((256e-9..261e-9).contains(&zero_threshold()), "{}", zero_threshold());
        assert_eq!(zero_threshold(), boundary(PLACES[1] - 1));
        assert!(PLACES[1..].is_sorted());
        let native = Native::of(&Histogram::from_sorted([(0, 7)]));
        assert_eq!(native, Native { zero_count: 7, ..Native::default() });
    }

    #[test]
    fn a_gap_is_a_span_only_where_that_is_shorter() {
        let at = |latency: u64| (bucket_of(latency), 1);
        let native = Native::of(&Histogram::from_sorted([at(1_000_000), at(1_100_000), at(64_000_000)]));
        assert_eq!(native.spans.len(), 2, "{native:?}");
        assert_eq!(read(&native).iter().map(|(_, n)| n).sum::<u64>(), 3);
        // Six octaves further.
        let (low, high) = (place(bucket_of(1_000_000)), place(bucket_of(64_000_000)));
        assert_eq!((high - low, native.spans[0].offset), (6 * 16, low));
    }

    #[test]
    fn no_more_buckets_than_the_kernel_has() {
        let all = Histogram::from_sorted((0..BUCKETS).map(|bucket| (bucket, (1 << 54) - 1)));
        let native = Native::of(&all);
        let buckets = read(&native);
        assert!(buckets.len() <= BUCKETS && native.spans.len() <= BUCKETS / 2, "{}", buckets.len());
        // Exact with the greatest counts that there can be.
        assert_eq!(native.zero_count + buckets.iter().map(|(_, n)| n).sum::<u64>(), all.count());
    }

    proptest! {
        #[test]
        fn every_latency_is_in_one_bucket_and_near_it(
            latencies in prop::collection::vec((0u64..1 << 42, 0u32..36), 0..200),
        ) {
            let (mut histogram, mut near) = (Histogram::default(), 0);
            for &(latency, shift) in &latencies {
                histogram.add(bucket_of(latency >> shift), 1);
            }
            let native = Native::of(&histogram);
            let buckets = read(&native);
            prop_assert!(buckets.is_sorted());
            let count = native.zero_count + buckets.iter().map(|(_, n)| n).sum::<u64>();
            prop_assert_eq!(count, latencies.len() as u64);
            for &(latency, shift) in &latencies {
                let seconds = (latency >> shift) as f64 / 1e9;
                let is_near = |&(index, n): &(i32, u64)| {
                    n > 0 && boundary(index - 1) / 1.032 <= seconds && seconds <= boundary(index) * 1.032
                };
                let is_outermost = seconds <= zero_threshold() || seconds >= 1_099.0;
                near += u32::from(is_outermost || buckets.iter().any(is_near));
            }
            prop_assert_eq!(near as usize, latencies.len());
        }
    }
}
