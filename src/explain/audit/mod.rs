//! The durability audit: what a server's settings promise, compared with what was observed. [`Evidence`]
//! holds the observations; each engine checks its own settings against them, [`storage`] what holds for all.
//! [`advice`] is what a measurement supports.

pub(crate) mod advice;
pub(crate) mod render;
pub(crate) mod storage;

use serde::Serialize;

use crate::linux::storage::Storage;
use crate::model::{Measurement, Op, Role, Server};
use crate::text::count;

pub use advice::Advice;
pub use render::render;
pub(crate) use render::render_advice;

/// With fewer transactions than this, no sync may be chance: their group's sync fell outside the window.
const MIN_TRANSACTIONS: u64 = 50;

/// The input of the audit. `R`: what the server's counters and settings are read into.
#[derive(Debug)]
pub struct Evidence<'a, R> {
    pub server: &'a Server,
    pub measurement: &'a Measurement,
    /// The server's counters and settings at both ends of the window. None: no connection, so only
    /// observations are reported.
    pub status: Option<(&'a R, &'a R)>,
    /// The storage under the logs and the data.
    pub storage: &'a [Storage],
    /// Cache flushes sent to the devices during the window. None: not measured.
    pub device_flushes: Option<u64>,
}

/// Whether a promise holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The observations contradict the promise: commits are less durable than the settings say.
    Broken,
    /// The settings themselves allow a crash of the host to lose commits or damage data.
    Weak,
    /// As `Weak`, but common practice here: a replica, or a member of a cluster.
    Usual,
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

    /// Of a promise that commits wait for a log, which was made durable so many times.
    pub(super) fn kept(&self, times: u64, transactions: Option<u64>) -> Standing {
        match times {
            1.. => Standing::Kept,
            0 if transactions.unwrap_or(0) >= MIN_TRANSACTIONS && self.all_is_known() => Standing::Broken,
            0 => Standing::Unseen,
        }
    }

    /// A sync that was not seen was not made: none was lost, and the server made none by other calls, as far
    /// as its filesystem shows.
    fn all_is_known(&self) -> bool {
        self.measurement.lost.is_zero() && self.measurement.lost.unwatched == 0
    }
}

/// "3,064 syncs for 16,000 transactions".
pub(super) fn for_transactions(what: String, transactions: Option<u64>) -> String {
    match transactions {
        Some(transactions) => format!("{what} for {} transactions", count(transactions)),
        None => what,
    }
}
