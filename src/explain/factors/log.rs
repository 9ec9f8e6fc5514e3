//! One of the two logs: how often it is synced, how long that takes, how busy it is, and what follows.

use serde::Serialize;

use super::samples::{By, ENOUGH, Sampled};
use super::{Form, Window};
use crate::snapshot::{Op, Role, Stats};

/// By so many standard errors the samples may differ from the latencies by chance.
const STANDARD_ERRORS: f64 = 4.0;
/// And by so much because samples and snapshots begin and end at slightly different moments: a timer's are read right
/// after the one and before the other.
const EDGES: [(By, f64); 2] = [(By::Timer, 0.01), (By::Thread, 0.03)];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Log {
    pub role: Role,
    pub syncs: u64,
    pub syncs_per_second: f64,
    pub mean_latency_seconds: f64,
    /// Sum of the latencies / time. The server serialises this log, so that it is busy for this share of the time.
    pub busy: f64,
    /// The mean number in flight, sampled.
    pub in_flight: Option<Sampled>,
    /// Whether the samples agree with the latencies. None: too few samples.
    pub adds_up: Option<bool>,
    /// Transactions per sync x sampled number in flight / mean latency.
    pub predicted_transactions_per_second: Option<f64>,
    /// What this log allows at most with as many transactions per sync as now. None: it was seen with several syncs in
    /// flight at once, or commits do not wait for it.
    pub bound_transactions_per_second: Option<f64>,
}

impl Log {
    /// None if no sync of it was traced.
    pub fn measure(
        window: &Window,
        role: Role,
        seconds: f64,
        observed: Option<f64>,
        form: &Form,
    ) -> Option<Log> {
        let mut stats = Stats::default();
        let is_one = |op| matches!(op, Op::Fsync | Op::Fdatasync);
        let rows = window.measurement.roles.iter();
        rows.filter(|row| row.server == window.server && row.role == role && is_one(row.op))
            .for_each(|row| stats.merge(&row.stats));
        if stats.count == 0 || seconds <= 0.0 {
            return None;
        }
        let mean_latency_seconds = stats.sum_ns as f64 / 1e9 / stats.count as f64;
        let syncs_per_second = stats.count as f64 / seconds;
        let busy = stats.in_flight_mean(window.measurement.duration);
        let in_flight = window.in_flight.of(role);
        let applies = match role {
            Role::Binlog => form.why_not_binlog.is_none(),
            _ => form.why_not_redo.is_none(),
        };
        let per_sync = observed.map(|observed| observed / syncs_per_second);
        let is_serial = in_flight.is_none_or(|sampled| sampled.is_serial());
        let predicted = per_sync
            .zip(in_flight.filter(|sampled| sampled.samples >= ENOUGH))
            .map(|(per_sync, sampled)| per_sync * sampled.mean / mean_latency_seconds);
        let bound = per_sync.filter(|_| applies && is_serial).map(|per_sync| per_sync / mean_latency_seconds);
        Some(Log {
            role,
            syncs: stats.count,
            syncs_per_second,
            mean_latency_seconds,
            busy,
            in_flight,
            adds_up: in_flight.and_then(|sampled| adds_up(&sampled, busy, mean_latency_seconds / seconds)),
            predicted_transactions_per_second: predicted,
            bound_transactions_per_second: bound,
        })
    }
}

/// Whether a sampled mean is that which the latencies give. `one`: a sync's share of the window. One that began before it
/// counts with its whole latency, one that is still in flight not at all.
fn adds_up(sampled: &Sampled, busy: f64, one: f64) -> Option<bool> {
    // Of samples that were all alike the spread says nothing; what the latencies expect of them does.
    let expected = (busy * (1.0 - busy).max(0.0) / sampled.samples as f64).sqrt();
    let edges = EDGES.iter().find(|(by, _)| *by == sampled.by).map_or(0.0, |&(_, edges)| edges);
    let tolerance = STANDARD_ERRORS * sampled.standard_error.max(expected) + edges + one;
    (sampled.samples >= ENOUGH).then(|| (sampled.mean - busy).abs() <= tolerance)
}
