//! The buckets of the exported histogram. Each `le` is a boundary of the kernel's histogram, so every count
//! by `le` is a sum of whole kernel buckets, and none is guessed.

use crate::model::histogram::{
    BUCKETS, FIRST_EXPONENT, Histogram, LAST_EXPONENT, bucket_of, lower_edge, upper_edge,
};
use crate::text::seconds;

/// 1-2.5-5 steps from 25 µs to 60 s, in seconds, because a quantile is anywhere between two of them; not more
/// of them, because each is a series for each server, role and operation. At 0.24, 24 and 2,400 ms, 2.5 would
/// be snapped to more than 2.5 times the one before.
pub(crate) const DEFAULT: [f64; 22] = [
    25e-6, 50e-6, 100e-6, 240e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 24e-3, 50e-3, 100e-3, 160e-3, 200e-3,
    250e-3, 500e-3, 1.0, 2.4, 5.0, 10.0, 25.0, 60.0,
];
/// More than this says no more about a latency than the kernel's own 3 %.
const MOST: usize = 64;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum BucketsError {
    #[error("no bucket is given")]
    None,
    #[error("{0} buckets are given, at most {MOST} are exported")]
    TooMany(usize),
    #[error("{0} is no latency in seconds: buckets lie between 0.000000256 (256 ns) and 1099 (18 minutes)")]
    Range(f64),
    #[error("buckets must ascend: {1} comes after {0}")]
    Order(f64, f64),
    #[error("{0} and {1} are the same boundary of the kernel's histogram, whose steps are 1/16 of an octave")]
    Same(f64, f64),
}

/// The upper bounds, without the infinite one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// A sync that took less than this is counted; ascending.
    edges_ns: Vec<u64>,
}

impl Default for Buckets {
    fn default() -> Self {
        Buckets { edges_ns: DEFAULT.into_iter().map(nearest_edge).collect() }
    }
}

impl Buckets {
    /// Upper bounds in seconds, ascending. Each becomes the nearest boundary of the kernel's histogram.
    pub fn new(seconds: &[f64]) -> Result<Buckets, BucketsError> {
        if seconds.is_empty() {
            return Err(BucketsError::None);
        }
        if seconds.len() > MOST {
            return Err(BucketsError::TooMany(seconds.len()));
        }
        let (least, greatest) = (1u64 << FIRST_EXPONENT, 1u64 << LAST_EXPONENT);
        let in_range = |&bound: &f64| bound * 1e9 >= least as f64 && bound * 1e9 <= greatest as f64;
        if let Some(&bound) = seconds.iter().find(|bound| !in_range(bound)) {
            return Err(BucketsError::Range(bound));
        }
        let edges_ns: Vec<_> = seconds.iter().copied().map(nearest_edge).collect();
        for (at, bounds) in seconds.windows(2).enumerate() {
            if bounds[0] >= bounds[1] {
                return Err(BucketsError::Order(bounds[0], bounds[1]));
            }
            if edges_ns[at] == edges_ns[at + 1] {
                return Err(BucketsError::Same(bounds[0], bounds[1]));
            }
        }
        Ok(Buckets { edges_ns })
    }

    /// How many, without the infinite one.
    pub fn len(&self) -> usize {
        self.edges_ns.len()
    }

    /// The bounds as they are shown, in seconds.
    #[cfg(test)]
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.edges_ns.iter().copied().map(seconds)
    }

    /// Each bound in seconds, with how many took less than that; without the infinite one.
    pub fn cumulative<'a>(&'a self, histogram: &'a Histogram) -> impl Iterator<Item = (f64, u64)> + 'a {
        let (mut counts, mut sum) = (histogram.iter().peekable(), 0);
        self.edges_ns.iter().map(move |&edge| {
            while let Some((_, n)) = counts.next_if(|&(bucket, _)| upper_edge(bucket) <= edge) {
                sum += n;
            }
            (seconds(edge), sum)
        })
    }
}

/// The boundary of the kernel's histogram that is nearest to a latency.
fn nearest_edge(seconds: f64) -> u64 {
    let ns = seconds * 1e9;
    let bucket = bucket_of(ns as u64).min(BUCKETS - 2);
    let (below, above) = (lower_edge(bucket).max(1 << FIRST_EXPONENT), upper_edge(bucket));
    if ns - (below as f64) < above as f64 - ns { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_twelve_to_twenty_boundaries_of_the_kernel_near_what_they_are_meant_to_be() {
        let buckets = Buckets::default();
        assert_eq!(buckets, Buckets::new(&DEFAULT).unwrap());
        assert!((12..=22).contains(&buckets.len()));
        for bounds in buckets.edges_ns.windows(2) {
            assert!(bounds[1] as f64 / bounds[0] as f64 <= 2.5, "{bounds:?}");
        }
        assert!(*buckets.edges_ns.last().unwrap() > 60_000_000_000);
        for (&edge, meant) in buckets.edges_ns.iter().zip(DEFAULT) {
            assert!((0..BUCKETS).any(|bucket| lower_edge(bucket) == edge), "{edge}");
            let other_edges = (0..BUCKETS).map(lower_edge);
            let nearest =
                other_edges.map(|other| (other as f64 - meant * 1e9).abs()).fold(f64::MAX, f64::min);
            assert_eq!((edge as f64 - meant * 1e9).abs(), nearest, "{meant}");
            // Half a step of 1/16 at most.
            assert!((edge as f64 / 1e9 / meant - 1.0).abs() <= 1.0 / 32.0, "{meant}: {edge}");
        }
        assert_eq!(buckets.seconds().next().unwrap().to_string(), "0.000024576");
    }

    #[test]
    fn counts_by_bound_are_exact_for_random_latencies() {
        let mut x = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        for bounds in [&DEFAULT[..], &[256e-9, 1e-6, 1.5e-3, 0.02, 1_000.0, 1_099.0], &[1.0]] {
            let buckets = Buckets::new(bounds).unwrap();
            let (mut histogram, mut latencies) = (Histogram::default(), Vec::new());
            for _ in 0..20_000 {
                // Every magnitude from a nanosecond to some hours.
                let ns = random() >> (random() % 56 + 8);
                histogram.add(bucket_of(ns), 1);
                latencies.push(ns);
            }
            // The bounds themselves, and what is next to them.
            for &edge in &buckets.edges_ns {
                for ns in [edge - 1, edge, edge + 1] {
                    histogram.add(bucket_of(ns), 1);
                    latencies.push(ns);
                }
            }
            let counts: Vec<_> = buckets.cumulative(&histogram).collect();
            assert_eq!(counts.len(), buckets.len());
            for (&edge, (bound, count)) in buckets.edges_ns.iter().zip(counts) {
                assert_eq!(bound, edge as f64 / 1e9);
                assert_eq!(count, latencies.iter().filter(|&&ns| ns < edge).count() as u64, "{edge}");
            }
            assert_eq!(histogram.count(), latencies.len() as u64);
        }
    }

    #[test]
    fn what_is_configured_is_snapped_or_refused() {
        let shown: Vec<_> = Buckets::new(&[0.001, 0.02, 7.0]).unwrap().seconds().collect();
        for (shown, asked) in shown.iter().zip([0.001, 0.02, 7.0]) {
            assert!(*shown != asked && (shown / asked - 1.0).abs() < 0.032, "{shown}");
        }
        // A boundary stays what it is.
        assert_eq!(Buckets::new(&[1024e-9]).unwrap().edges_ns, [1024]);
        assert_eq!(Buckets::new(&[256e-9]).unwrap().edges_ns, [256]);
        assert_eq!(Buckets::new(&[]), Err(BucketsError::None));
        assert_eq!(Buckets::new(&[1.0; 65]), Err(BucketsError::TooMany(65)));
        for bound in [0.0, -1.0, 1e-9, 2_000.0, f64::INFINITY] {
            assert_eq!(Buckets::new(&[bound]), Err(BucketsError::Range(bound)));
        }
        assert!(matches!(Buckets::new(&[f64::NAN]), Err(BucketsError::Range(_))));
        assert_eq!(Buckets::new(&[0.1, 0.05]), Err(BucketsError::Order(0.1, 0.05)));
        assert_eq!(Buckets::new(&[0.1, 0.1001]), Err(BucketsError::Same(0.1, 0.1001)));
    }
}
