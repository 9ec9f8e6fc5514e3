//! A row's figures, out of what the kernel side keeps of it.

use crate::histogram::{BUCKETS, Histogram};
use crate::probe::{RawHistogram, Row};
use crate::snapshot::{Errors, Max, Stats};

/// A row's counts and, if it has one, its histogram; no errors. The sum of the buckets is the count; what lies
/// elsewhere is added.
pub fn stats_of(row: &Row, histogram: Option<&RawHistogram>) -> Stats {
    let counts = std::iter::once((0, row.under))
        .chain(histogram.into_iter().flat_map(inner))
        .chain(std::iter::once((BUCKETS - 1, row.over)));
    let histogram = Histogram::from_sorted(counts);
    let count = histogram.count() + row.elsewhere;
    Stats {
        count,
        sum_ns: row.sum_ns,
        max: Max { ns: row.max_ns, exact: true },
        histogram,
        errors: Errors::default(),
    }
}

/// Looked at together: most buckets are empty, and there are millions of them.
const TOGETHER: usize = 16;

/// The buckets between the two outermost, but for stretches that are empty.
fn inner(raw: &RawHistogram) -> impl Iterator<Item = (usize, u64)> {
    let stretches = raw.bucket.chunks(TOGETHER).enumerate();
    let filled = stretches.filter(|(_, stretch)| stretch.iter().fold(0, |any, n| any | n) != 0);
    filled.flat_map(|(i, stretch)| stretch.iter().enumerate().map(move |(at, &n)| (i * TOGETHER + at + 1, n)))
}

/// A row's failures by errno. Those whose errno found no room are failures of this file all the same: errno 0.
pub fn errors_of(failed: u64, known: Option<&[(i32, u64)]>) -> Errors {
    let mut errors = Errors::default();
    for &(errno, n) in known.unwrap_or_default() {
        *errors.entry(errno).or_default() += n;
    }
    let named: u64 = errors.values().sum();
    if failed > named {
        errors.insert(0, failed - named);
    }
    errors
}
