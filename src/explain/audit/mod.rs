//! The durability audit: what the settings promise, against what was seen. [`Evidence`] is what was seen, [`promises`]
//! holds the settings against it, [`advice`] says what would help, only where a figure carries it.

pub mod advice;
pub mod promises;
pub mod render;

use serde::Serialize;

use crate::linux::storage::Storage;
use crate::model::{Measurement, Op, Role, Server, Stats};
use crate::server::status::counters::Between;
use crate::server::status::reading::Reading;

pub use advice::{Advice, advise};
pub use promises::audit;
pub use render::render;

/// What the audit is made from.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub server: &'a Server,
    pub measurement: &'a Measurement,
    /// The server's counters and settings at the window's ends. None: no connection, so only what was seen is told.
    pub status: Option<(&'a Reading, &'a Reading)>,
    /// What the redo log, the binary log and the data lie on.
    pub storage: &'a [Storage],
    /// Flushes that the devices were sent meanwhile. None: nobody looked.
    pub device_flushes: Option<u64>,
}

/// How a promise stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// What was seen does not fit what is promised: commits are less durable than the settings say.
    Broken,
    /// A crash of the host can lose commits, or damage data: the settings say so themselves.
    Weak,
    /// The same, where it is usual: a replica, a member of a cluster.
    Usual,
    /// Promised, and what was seen fits.
    Kept,
    /// Promised, and nothing was to be seen of it in this window.
    Unseen,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// "sync_binlog=1".
    pub setting: String,
    pub standing: Standing,
    /// What follows from it. A plain sentence.
    pub promise: String,
    /// The figures.
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

    fn of_role(&self, role: Role) -> Stats {
        let mut stats = Stats::default();
        let is_one = |op| matches!(op, Op::Fsync | Op::Fdatasync);
        let rows = self.measurement.roles.iter();
        rows.filter(|row| row.server == self.server.id && row.role == role && is_one(row.op))
            .for_each(|row| stats.merge(&row.stats));
        stats
    }

    fn syncs(&self, role: Role) -> u64 {
        self.of_role(role).count
    }
}

#[cfg(test)]
mod tests;
