//! A row's figures, out of what the kernel side keeps of it.

use crate::model::histogram::Histogram;
use crate::model::{Completions, Errors, Max, Stats};
use crate::probe::Row;
use crate::probe::record::{COMPLETION_POSTED, COMPLETION_REAPED};

/// A row's counts and, if it has one, its histogram, as [`crate::probe::Probe::histogram`] gives it; no
/// errors. The sum of the buckets is the count; what lies elsewhere is added.
pub(crate) fn stats_of(row: &Row, histogram: &[(usize, u64)]) -> Stats {
    let histogram = Histogram::from_filled(row.under, histogram, row.over);
    let count = histogram.count() + row.elsewhere;
    Stats {
        count,
        sum_ns: row.sum_ns,
        max: Max { ns: row.max_ns, exact: true },
        histogram,
        errors: Errors::default(),
        untimed: 0,
        bytes: row.bytes,
        completions: Completions {
            posted: row.completions & COMPLETION_POSTED != 0,
            reaped: row.completions & COMPLETION_REAPED != 0,
        },
        pending_ns: 0,
    }
}

/// A row's failures by errno. Those whose errno found no room are failures of this file all the same: errno
/// 0.
pub(crate) fn errors_of(failed: u64, known: Option<&[(i32, u64)]>) -> Errors {
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
