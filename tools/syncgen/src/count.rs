//! What was called and how it ended, per operation; kept by each thread for itself and added up at the end.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::call::Op;

/// The errors that fsync(2), msync(2), sync_file_range(2) and write(2) document.
const ERRNOS: [(i32, &str); 15] = [
    (libc::EBADF, "EBADF"),
    (libc::EIO, "EIO"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EDQUOT, "EDQUOT"),
    (libc::EROFS, "EROFS"),
    (libc::EINVAL, "EINVAL"),
    (libc::EINTR, "EINTR"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::ESPIPE, "ESPIPE"),
    (libc::ESTALE, "ESTALE"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::EFAULT, "EFAULT"),
    (libc::EFBIG, "EFBIG"),
    (libc::ECANCELED, "ECANCELED"),
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    pub calls: u64,
    pub succeeded: u64,
    /// By the error's name, or its number where it has no name here.
    pub errors: BTreeMap<String, u64>,
}

impl Count {
    pub fn record(&mut self, result: &io::Result<()>) {
        self.calls += 1;
        match result {
            Ok(()) => self.succeeded += 1,
            Err(error) => *self.errors.entry(errno_name(error)).or_default() += 1,
        }
    }

    pub fn add(&mut self, other: &Count) {
        self.calls += other.calls;
        self.succeeded += other.succeeded;
        for (name, count) in &other.errors {
            *self.errors.entry(name.clone()).or_default() += count;
        }
    }
}

pub type ByOp = BTreeMap<Op, Count>;

pub fn add(total: &mut ByOp, part: &ByOp) {
    for (op, count) in part {
        total.entry(*op).or_default().add(count);
    }
}

pub fn errno_name(error: &io::Error) -> String {
    let number = error.raw_os_error().unwrap_or_default();
    match ERRNOS.iter().find(|(errno, _)| *errno == number) {
        Some((_, name)) => (*name).to_owned(),
        None => number.to_string(),
    }
}

/// Latencies as the caller sees them, entry to return, in seconds.
#[derive(Serialize)]
pub struct Latency {
    min: f64,
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are in order")
}

impl Latency {
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let seconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64();
        Latency {
            min: seconds(histogram.min()),
            mean: histogram.mean() / 1e9,
            p50: seconds(histogram.value_at_quantile(0.5)),
            p99: seconds(histogram.value_at_quantile(0.99)),
            max: seconds(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_the_sum_of_successes_and_errors_by_name() {
        let mut count = Count::default();
        count.record(&Ok(()));
        count.record(&Err(io::Error::from_raw_os_error(libc::EIO)));
        let mut total = Count::default();
        total.add(&count);
        total.add(&count);
        assert_eq!((total.calls, total.succeeded), (4, 2));
        assert_eq!(total.errors, BTreeMap::from([("EIO".to_owned(), 2)]));
    }
}
