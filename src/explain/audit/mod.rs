//! The durability audit: what a server's settings promise, compared with what was observed. [`Evidence`]
//! holds the observations; each engine checks its own settings against them, [`storage`] what holds for all.
//! [`advice`] is what a measurement supports.

pub(crate) mod advice;
pub(crate) mod render;
pub(crate) mod storage;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::linux::storage::Storage;
use crate::model::{Engine, FileRow, Interval, Op, Role, Server};
use crate::text::{bytes, count, counted};

pub use advice::Advice;
pub use render::render;
pub(crate) use render::render_advice;

/// With fewer transactions than this, no sync may be chance: their group's sync fell outside the window.
const MIN_TRANSACTIONS: u64 = 50;
/// A commit writes at least so many bytes to its log: a log that grew by less was not what they wrote to.
const SMALLEST_COMMIT: u64 = 16;

/// The input of the audit. `R`: what the server's counters and settings are read into.
#[derive(Debug)]
pub struct Evidence<'a, R> {
    pub server: &'a Server,
    pub measurement: &'a Interval,
    /// The server's counters and settings at both ends of the window. None: no connection, so only
    /// observations are reported.
    pub status: Option<(&'a R, &'a R)>,
    /// The storage under the logs and the data.
    pub storage: &'a [Storage],
    /// For how long the server's own syncs of each role waited for cache flushes, in nanoseconds: flushes
    /// that others asked for prove nothing.
    pub flush_waits: BTreeMap<Role, u64>,
}

/// Whether a promise holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The observations contradict the promise: commits are less durable than the settings say.
    Broken,
    /// The settings themselves allow a crash of the host to lose commits or damage data.
    Weak,
    /// More commits than the syncs can have released: not every one of them waited, and what was read does
    /// not say why.
    Unclear,
    /// As `Weak`, but common practice here: a replica, or a member of a cluster.
    Usual,
    /// Promised, and as often done as it would be if the promise held: a count alone proves none.
    Consistent,
    /// Promised, seen to be done, and nothing that was seen contradicts it.
    Kept,
    /// Promised, but nothing in this window confirms it.
    Unseen,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// "sync_binlog=1".
    pub setting: String,
    pub standing: Standing,
    /// The consequence. A plain sentence.
    pub promise: String,
    /// The measurements.
    pub seen: String,
}

impl Finding {
    pub(in crate::explain) fn new(
        setting: impl Into<String>,
        standing: Standing,
        promise: &str,
        seen: String,
    ) -> Finding {
        Finding { setting: setting.into(), standing, promise: promise.into(), seen }
    }
}

/// A log that commits wait for, by a setting that was read.
pub(super) struct Log {
    /// By syncs, or by writes that are durable themselves.
    pub made_durable: u64,
    /// None: not counted, or of no use.
    pub commits: Option<u64>,
    /// By how many bytes it grew. None: not known.
    pub grown: Option<u64>,
    /// How many could commit at a time, at most: one sync releases one commit of each. None: any number.
    pub sessions: Option<u64>,
    /// What may be why commits did not wait, and how to find out.
    pub why_not: &'static str,
}

impl<R> Evidence<'_, R> {
    fn count(&self, role: Role, wanted: impl Fn(Op) -> bool) -> u64 {
        let rows = self.measurement.roles.iter();
        let rows = rows.filter(|row| row.server == self.server.id && row.role == role);
        rows.filter(|row| row.op.makes_file_durable() && wanted(row.op)).map(|row| row.stats.count).sum()
    }

    pub(super) fn syncs(&self, role: Role) -> u64 {
        self.count(role, |op| !op.writes())
    }

    /// Writes that were durable when they returned. None: they are not watched.
    pub(super) fn durable_writes(&self, role: Role) -> Option<u64> {
        self.measurement.setup.ops.contains(&Op::DsyncWrite).then(|| self.count(role, Op::writes))
    }

    /// Of any file, by any call that is watched.
    pub(super) fn all_syncs(&self) -> u64 {
        let rows = self.measurement.roles.iter().filter(|row| row.server == self.server.id);
        rows.map(|row| row.stats.count).sum()
    }

    /// Bytes written to a server's files of this role. None: not all writes are watched.
    pub(super) fn written(&self, role: Role) -> Option<u64> {
        let its = |row: &&FileRow| row.server == self.server.id && row.info.role == role;
        let is_watched = self.measurement.setup.ops.contains(&Op::Write);
        is_watched.then(|| self.measurement.all_writes().filter(its).map(|row| row.stats.bytes).sum())
    }

    /// Of a setting that promises that each commit waits for this log.
    pub(super) fn of_waiting(&self, setting: String, promise: &str, seen: String, log: &Log) -> Finding {
        let commits = log.commits.unwrap_or(0);
        let (standing, seen) = match log.made_durable {
            0 if commits < MIN_TRANSACTIONS || !self.all_is_known() => (Standing::Unseen, seen),
            0 => match log.grown {
                None => (Standing::Unseen, format!("{seen}; whether the log grew is not known")),
                Some(grown) if grown < commits.saturating_mul(SMALLEST_COMMIT) => {
                    (Standing::Unseen, format!("{seen}, but the log grew by {} only", bytes(grown)))
                }
                Some(grown) => (Standing::Broken, format!("{seen}, and the log grew by {}", bytes(grown))),
            },
            // One of them may have begun before the window, and released commits in it.
            times => match log.sessions {
                Some(sessions) if commits > sessions.saturating_mul(times + 1) => {
                    let many = count(sessions);
                    let why = log.why_not;
                    (
                        Standing::Unclear,
                        format!("{seen} of {many} sessions at most: not every commit waited; {why}"),
                    )
                }
                _ => (Standing::Consistent, seen),
            },
        };
        let seen = if log.made_durable == 0 { seen + &self.filtered() } else { seen };
        Finding::new(setting, standing, promise, seen)
    }

    /// What may be why the kernel was not asked for a sync.
    fn filtered(&self) -> String {
        match self.server.seccomp_filters {
            0 => String::new(),
            n => format!(
                "; {} of the server may answer syncs itself",
                counted(n.into(), "seccomp filter", "seccomp filters")
            ),
        }
    }

    /// A sync that was not seen was not made: none was lost, and the server made none by other calls, as far
    /// as its filesystem shows.
    pub(super) fn all_is_known(&self) -> bool {
        self.measurement.lost.is_zero() && self.measurement.lost.unwatched == 0 && self.is_followed()
    }

    /// The children of a server of several processes are known as its own by its name. One that began under
    /// another name after fsynctop did may sync in children that are not traced.
    fn is_followed(&self) -> bool {
        let is_known = |engine: &Engine| !engine.is_several() || engine.commands.contains(&self.server.comm);
        self.server.engine.as_deref().is_none_or(is_known)
    }
}

/// "3,064 syncs".
pub(super) fn syncs(n: u64) -> String {
    counted(n, "sync", "syncs")
}

/// "3,064 syncs for 16,000 transactions".
pub(super) fn for_transactions(what: String, transactions: Option<u64>) -> String {
    match transactions {
        Some(n) => format!("{what} for {}", counted(n, "transaction", "transactions")),
        None => what,
    }
}
