//! The cases: each way of making a write durable with one thread, then one of them with more and more
//! threads.

use serde::{Deserialize, Serialize};

/// How a write is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    Fsync,
    Fdatasync,
    ODsync,
    OSync,
    /// Bypasses the page cache and then calls fdatasync, as InnoDB does with O_DIRECT.
    ODirect,
}

impl Method {
    pub const ALL: [Method; 5] =
        [Method::Fsync, Method::Fdatasync, Method::ODsync, Method::OSync, Method::ODirect];

    pub fn name(self) -> &'static str {
        match self {
            Method::Fsync => "fsync",
            Method::Fdatasync => "fdatasync",
            Method::ODsync => "O_DSYNC",
            Method::OSync => "O_SYNC",
            Method::ODirect => "O_DIRECT + fdatasync",
        }
    }
}

/// The position of the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Overwrites existing blocks: a redo log in steady state.
    Overwritten,
    /// Extends the file: a binary log, whose size must be made durable as well.
    Appended,
}

impl Pattern {
    pub const ALL: [Pattern; 2] = [Pattern::Overwritten, Pattern::Appended];

    pub fn name(self) -> &'static str {
        match self {
            Pattern::Overwritten => "overwritten",
            Pattern::Appended => "appended",
        }
    }
}

/// One case to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub method: Method,
    pub pattern: Pattern,
    pub threads: u32,
    /// Each thread has its own file; otherwise all share one.
    pub file_each: bool,
}

impl Case {
    pub const fn alone(method: Method, pattern: Pattern) -> Case {
        Case { method, pattern, threads: 1, file_each: false }
    }
}

/// Every method with one thread, then fdatasync of appended blocks with 2, 4, 8 … threads.
pub fn cases(max_threads: u32) -> Vec<Case> {
    let alone = Pattern::ALL
        .into_iter()
        .flat_map(|pattern| Method::ALL.into_iter().map(move |method| Case::alone(method, pattern)));
    let counts = || std::iter::successors(Some(1u32), |n| n.checked_mul(2)).take_while(|&n| n <= max_threads);
    let together = [false, true].into_iter().flat_map(|file_each| {
        let case = Case { file_each, ..Case::alone(Method::Fdatasync, Pattern::Appended) };
        // One thread with one file is already among the first.
        counts().filter(|&n| n > 1).map(move |threads| Case { threads, ..case })
    });
    alone.chain(together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_measured_once() {
        let cases = cases(128);
        assert_eq!(cases.len(), 10 + 14);
        for (at, case) in cases.iter().enumerate() {
            assert!(!cases[..at].contains(case), "{case:?}");
        }
        assert_eq!(cases.iter().map(|case| case.threads).max(), Some(128));
        assert_eq!(super::cases(1).len(), 10);
    }
}
