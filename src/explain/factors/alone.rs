//! The log latencies compared with those of one sync alone on the same filesystem, from `fsynctop
//! calibrate`.

use serde::Serialize;

use super::{DurableBy, Log, render};
use crate::model::Role;
use crate::sync_cost::Calibration;
use crate::sync_cost::plan::{Case, Method, Pattern};

/// The mean latency of one log, and that of one sync alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogComparison {
    pub role: Role,
    pub mean_latency_seconds: f64,
    pub alone_seconds: f64,
}

/// The cost of one sync without the server, if it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// RFC 3339.
    pub measured: String,
    pub logs: Vec<LogComparison>,
}

impl Alone {
    /// A redo log and the WAL overwrite existing blocks, a binary log appends. None: no measurement to
    /// compare with.
    pub fn of(logs: &[Log], calibration: &Calibration) -> Option<Alone> {
        let logs: Vec<LogComparison> = logs
            .iter()
            .filter_map(|log| {
                let pattern = match log.role {
                    Role::Redo | Role::Wal => Pattern::Overwritten,
                    _ => Pattern::Appended,
                };
                let method = match log.made_durable_by {
                    DurableBy::Syncs => Method::Fdatasync,
                    DurableBy::DurableWrites => Method::ODsync,
                };
                let alone = calibration.of(Case::alone(method, pattern))?;
                let (mean_latency_seconds, alone_seconds) = (log.mean_latency_seconds, alone.mean_seconds);
                (alone_seconds > 0.0).then_some(LogComparison {
                    role: log.role,
                    mean_latency_seconds,
                    alone_seconds,
                })
            })
            .collect();
        (!logs.is_empty()).then(|| Alone { measured: calibration.when.clone(), logs })
    }

    pub fn in_words(&self) -> String {
        let one = |log: &LogComparison| {
            format!(
                "{} for the {} alone, {} under this load ({} times that)",
                render::latency(log.alone_seconds),
                log.role.title(),
                render::latency(log.mean_latency_seconds),
                render::number(log.mean_latency_seconds / log.alone_seconds)
            )
        };
        let logs: Vec<String> = self.logs.iter().map(one).collect();
        let when = crate::text::escape_sentence(&self.measured);
        format!(
            "For comparison, calibrate measured one sync alone on this filesystem at {when}: {}.",
            logs.join("; ")
        )
    }
}
