//! One incident: a hang, a failure, a slow phase or a saturated log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::model::{Errors, Max, Op, Role, SATURATED, ServerId};
use crate::text::percent;

/// Two incidents of one kind and server with less than this between them are one, if it is slow or saturated
/// for so much of the whole.
pub(super) const JOINED_WITHIN: Duration = Duration::from_secs(5);
const SHARE: f64 = 0.8;
/// A slow log's syncs take so many times as long as they usually do.
pub(super) const SLOW_TIMES: u64 = 4;
/// What is slow or saturated for less than this is no incident.
const SLOW_FOR: Duration = Duration::from_secs(3);
const SATURATED_FOR: Duration = Duration::from_secs(10);
/// Neighbours that are told apart for one incident.
pub(super) const MAX_NEIGHBOURS: usize = 16;

/// When a log is slow, and when it is saturated, in words.
pub(crate) fn slow_and_saturated() -> (String, String) {
    let saturated = format!("{} busy for {} s", percent(SATURATED), SATURATED_FOR.as_secs());
    (format!("{SLOW_TIMES} times its usual for {} s", SLOW_FOR.as_secs()), saturated)
}

/// In the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum What {
    /// The log was busy for 80 % of the time.
    Saturated,
    /// The log's syncs took many times as long as they usually do.
    Slow,
    /// A sync took as long as a hang does.
    Hang,
    /// A sync or a write failed, or the kernel could not write back.
    Failure,
}

impl What {
    pub const ALL: [What; 4] = [What::Hang, What::Failure, What::Slow, What::Saturated];

    pub fn name(self) -> &'static str {
        match self {
            What::Saturated => "saturated",
            What::Slow => "slow",
            What::Hang => "hang",
            What::Failure => "failure",
        }
    }
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Incident {
    pub what: What,
    /// [`ServerId::NONE`]: of a device, or of files that are no server's.
    pub server: ServerId,
    pub roles: BTreeSet<Role>,
    /// By the wall clock of the time.
    pub begin: SystemTime,
    pub end: SystemTime,
    /// It goes on at the end of what was looked at.
    pub goes_on: bool,
    pub worst: Worst,
    /// By errno.
    pub errors: Errors,
    /// The usual median of the worst role's syncs, in nanoseconds; their usual p99 where that is slow.
    pub usual_ns: Option<u64>,
    /// Of a slow phase and a saturated log: the time in the log's syncs, from its beginning to its end.
    pub busy: Duration,
    /// By the monotonic clock, from its beginning to its end, as far as intervals go; and how much of that
    /// showed it.
    pub time: Duration,
    pub(super) shown: Duration,
    /// The same of the intervals since then, which become a part of it if it goes on.
    pub(super) since: (Duration, Duration),
    /// How long no sync of the server's logs ended although one was in flight.
    pub no_log_sync: Duration,
    /// What the threads that hung waited for, and in how many intervals they were seen to.
    pub waits: BTreeMap<String, u64>,
    /// How often others synced on the server's devices.
    pub neighbours: BTreeMap<Beside, u64>,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Beside {
    /// Unescaped.
    pub comm: String,
    /// Of a traced server.
    pub pid: Option<u32>,
    /// Unescaped; the server's own, or another one of its disk.
    pub device: String,
}

/// The operation, file or log that an incident is told of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Worst {
    pub role: Role,
    /// None: all of the role.
    pub op: Option<Op>,
    /// None: it has no name, or is not told apart.
    pub path: Option<PathBuf>,
    /// Of a hang: the sync. Of a slow phase: the highest median, or p99, of an interval.
    pub took: Option<Max>,
    /// Of a slow phase: it is of p99, and the median never was slow.
    pub is_tail: bool,
    /// It took so long at least: it was seen in flight and not when it began, or has not ended.
    pub is_minimum: bool,
    /// What makes it the worst, within one kind: nanoseconds, failures, or a share of the time. A median is
    /// worse than a tail.
    pub(super) rank: (bool, u64),
}

impl Incident {
    pub(super) fn length(&self) -> Duration {
        self.end.duration_since(self.begin).unwrap_or_default()
    }

    /// What most of its threads were seen to wait for.
    pub fn waited_for(&self) -> Option<&str> {
        self.waits.iter().max_by_key(|(_, seen)| **seen).map(|(what, _)| what.as_str())
    }

    /// The neighbour with most syncs, and how many.
    pub fn busiest_neighbour(&self) -> Option<(&Beside, u64)> {
        self.neighbours.iter().max_by_key(|(_, syncs)| **syncs).map(|(beside, syncs)| (beside, *syncs))
    }

    /// The share of the time in which the log was busy.
    pub fn share(&self) -> f64 {
        (self.busy.as_secs_f64() / self.time.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// An interval that does not show it passes.
    pub(super) fn pass(&mut self, time: Duration, busy: Duration) {
        self.since = (self.since.0 + time, self.since.1 + busy);
    }

    /// Whether a sign that begins then, in an interval of that length, is one of the same incident.
    pub(super) fn goes_on_with(&self, begin: SystemTime, time: Duration) -> bool {
        let apart = begin.duration_since(self.end).unwrap_or_default();
        let whole = self.time + self.since.0 + time;
        let is_dense = (self.shown + time).as_secs_f64() >= SHARE * whole.as_secs_f64();
        apart < JOINED_WITHIN && (self.what >= What::Hang || is_dense)
    }

    pub(super) fn add_neighbour(&mut self, beside: Beside, syncs: u64) {
        if let Some(known) = self.neighbours.get_mut(&beside) {
            *known = known.saturating_add(syncs);
            return;
        }
        if self.neighbours.len() >= MAX_NEIGHBOURS {
            let least = self.neighbours.iter().min_by_key(|(_, known)| **known);
            let Some((least, _)) = least.filter(|(_, known)| **known < syncs) else { return };
            let least = least.clone();
            self.neighbours.remove(&least);
        }
        self.neighbours.insert(beside, syncs);
    }

    pub(super) fn is_worth_telling(&self) -> bool {
        match self.what {
            What::Hang | What::Failure => true,
            What::Slow => self.shown >= SLOW_FOR,
            What::Saturated => self.shown >= SATURATED_FOR,
        }
    }

    /// What is kept when there is no room for all.
    pub fn weight(&self) -> (What, Duration) {
        (self.what, self.length())
    }
}
