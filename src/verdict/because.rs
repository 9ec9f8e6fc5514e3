//! What a verdict follows from.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::model::{InFlight, Op, Role};

/// The operation, file or log. What does not apply is None.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Because {
    pub role: Option<Role>,
    /// As the server sees it; raw bytes.
    pub path: Option<PathBuf>,
    pub op: Option<Op>,
    /// Of the operation that has not returned.
    pub tid: Option<u32>,
    pub thread: Option<String>,
    /// For how long it has been in flight.
    pub age: Option<Duration>,
    /// It began before it was watched.
    pub age_is_minimum: bool,
    /// How it failed; 0 if that is not known.
    pub errno: Option<i32>,
    /// When it failed last: the end of that interval.
    pub failed_at: Option<SystemTime>,
    /// The 99th percentile of a slow log's syncs.
    pub p99: Option<Duration>,
    pub per_second: Option<f64>,
    /// The longest operation of a window, where one has ended that took longer than the limit.
    pub took: Option<Duration>,
    /// How many more operations are in flight for too long, or files have failed.
    pub more: u64,
    /// Why nothing can be said.
    pub unknown: Option<String>,
}

impl Because {
    pub(super) fn in_flight(oldest: &InFlight, more: u64) -> Because {
        Because {
            role: Some(oldest.role),
            path: oldest.path.clone(),
            op: Some(oldest.op),
            // A request of a ring has no thread of its own.
            tid: (oldest.tid != 0).then_some(oldest.tid),
            thread: (!oldest.thread.is_empty()).then(|| oldest.thread.clone()),
            age: Some(oldest.age),
            age_is_minimum: oldest.age_is_minimum,
            more,
            ..Because::default()
        }
    }

    pub(super) fn unknown(why: impl Into<String>) -> Because {
        Because { unknown: Some(why.into()), ..Because::default() }
    }
}
