//! The durability audit: what the settings promise, compared with what was observed. [`Evidence`] holds the
//! observations, [`promises`] checks the settings against them, [`advice`] suggests improvements that a
//! measurement supports.

pub(crate) mod advice;
pub(crate) mod promises;
pub(crate) mod render;

use serde::Serialize;

use crate::linux::storage::Storage;
use crate::model::{Measurement, Op, Role, Server};
use crate::server::mysql::status::counters::Between;
use crate::server::mysql::status::reading::Reading;

pub use advice::Advice;
pub(crate) use advice::advise;
pub use promises::audit;
pub use render::render;
pub(crate) use render::render_advice;

/// The input of the audit.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub server: &'a Server,
    pub measurement: &'a Measurement,
    /// The server's counters and settings at both ends of the window. None: no connection, so only
    /// observations are reported.
    pub status: Option<(&'a Reading, &'a Reading)>,
    /// The storage under the redo log, the binary log and the data.
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

impl Evidence<'_> {
    fn reading(&self) -> Option<&Reading> {
        self.status.map(|(_, to)| to)
    }

    fn between(&self) -> Option<Between<'_>> {
        let (from, to) = self.status?;
        let between = Between { from, to };
        between.interrupted().is_none().then_some(between)
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.between()?.transactions()?.count)
    }

    fn count(&self, role: Role, wanted: impl Fn(Op) -> bool) -> u64 {
        let rows = self.measurement.roles.iter();
        let rows = rows.filter(|row| row.server == self.server.id && row.role == role);
        rows.filter(|row| row.op.makes_file_durable() && wanted(row.op)).map(|row| row.stats.count).sum()
    }

    fn syncs(&self, role: Role) -> u64 {
        self.count(role, |op| !op.writes())
    }

    /// Writes that were durable when they returned. None: they are not watched.
    fn durable_writes(&self, role: Role) -> Option<u64> {
        self.measurement.setup.ops.contains(&Op::DsyncWrite).then(|| self.count(role, Op::writes))
    }

    /// Of any file, by any call that is watched.
    fn all_syncs(&self) -> u64 {
        let rows = self.measurement.roles.iter().filter(|row| row.server == self.server.id);
        rows.map(|row| row.stats.count).sum()
    }
}

#[cfg(test)]
mod tests;
