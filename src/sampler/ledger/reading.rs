//! A row's figures, out of what the kernel side keeps of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::histogram::{BUCKETS, Histogram};
use crate::probe::{RawHistogram, Row};
use crate::snapshot::{Max, Stats};

/// A row's counts and, if it has one, its histogram. The sum of the buckets is the count; what lies elsewhere is
/// added.
pub fn stats_of(row: &Row, histogram: Option<&RawHistogram>) -> Stats {
    let inner = histogram.into_iter().flat_map(|raw| raw.bucket.iter().enumerate());
    let counts = std::iter::once((0, row.under))
        .chain(inner.map(|(bucket, &n)| (bucket + 1, n)))
        .chain(std::iter::once((BUCKETS - 1, row.over)));
    let histogram = Histogram::from_sorted(counts);
    let count = histogram.count() + row.elsewhere;
    Stats {
        count,
        sum_ns: row.sum_ns,
        max: Max { ns: row.max_ns, exact: true },
        histogram: Arc::new(histogram),
        errors: BTreeMap::new(),
    }
}

/// A row's failures by errno. Those whose errno found no room are failures of this file all the same: errno 0.
pub fn errors_of(row: &Row, known: Option<&[(i32, u64)]>) -> BTreeMap<i32, u64> {
    let mut by_errno: BTreeMap<i32, u64> = BTreeMap::new();
    for &(errno, n) in known.unwrap_or_default() {
        *by_errno.entry(errno).or_default() += n;
    }
    let named: u64 = by_errno.values().sum();
    if row.errors > named {
        by_errno.insert(0, row.errors - named);
    }
    by_errno
}
