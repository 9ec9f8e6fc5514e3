//! One of the two logs: sync rate, latency, busy share, and the throughput that follows from them.

use serde::Serialize;

use super::samples::{By, MIN_SAMPLES, Sampled};
use super::{Edges, Form, Window};
use crate::model::{InFlight, Measurement, Op, Role, ServerId, Stats};

/// Statistical tolerance of the samples against the latencies, in standard errors.
const STANDARD_ERRORS: f64 = 4.0;
/// Tolerance for samples and snapshots that do not start and end at the same moment. The timer's samples
/// are read right after the first snapshot and right before the second.
const EDGE_TOLERANCE: [(By, f64); 2] = [(By::Timer, 0.01), (By::Thread, 0.03)];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Log {
    pub role: Role,
    pub syncs: u64,
    pub syncs_per_second: f64,
    pub mean_latency_seconds: f64,
    /// Sum of the latencies / time, counting only what lies within the window. The server serialises this
    /// log, so this is the share of the time in which it is busy.
    pub busy: f64,
    /// The mean number in flight, from samples.
    pub in_flight: Option<Sampled>,
    /// Whether the samples agree with the latencies. None: too few samples.
    pub adds_up: Option<bool>,
    /// Transactions per second / busy x sampled number in flight.
    pub predicted_transactions_per_second: Option<f64>,
    /// The most transactions per second that this log allows at the current number per sync. None: several
    /// of its syncs were seen in flight at once, or commits do not wait for it.
    pub bound_transactions_per_second: Option<f64>,
}

impl Log {
    /// None if no sync of this log was traced.
    pub fn measure(
        window: &Window,
        role: Role,
        seconds: f64,
        observed: Option<f64>,
        form: &Form,
    ) -> Option<Log> {
        let stats = stats_of(window.measurement, window.server.id, role);
        if stats.count == 0 || seconds <= 0.0 {
            return None;
        }
        let mean_latency_seconds = mean_seconds(&stats);
        let syncs_per_second = stats.count as f64 / seconds;
        let by_latencies = in_flight_by_latencies(window, role);
        let busy = by_latencies.0;
        let in_flight = window.in_flight.of(role);
        let applies = match role {
            Role::Binlog => form.why_not_binlog.is_none(),
            _ => form.why_not_redo.is_none(),
        };
        let is_serial = in_flight.is_none_or(|sampled| sampled.is_serial());
        // Transactions per second if the log were busy all the time.
        let full = observed.map(|observed| observed / busy).filter(|full| full.is_finite());
        let enough = in_flight.filter(|sampled| sampled.samples >= MIN_SAMPLES);
        let predicted = full.zip(enough).map(|(full, sampled)| full * sampled.mean);
        let bound = full.filter(|_| applies && is_serial);
        Some(Log {
            role,
            syncs: stats.count,
            syncs_per_second,
            mean_latency_seconds,
            busy,
            in_flight,
            adds_up: in_flight.and_then(|sampled| adds_up(&sampled, by_latencies)),
            predicted_transactions_per_second: predicted,
            bound_transactions_per_second: bound,
        })
    }
}

/// The mean number in flight between the edges, from the latencies, and its uncertainty: a sync that
/// finished while the rows were read may or may not be included, and a sync is attributed to its file only
/// some milliseconds after the file's first one.
fn in_flight_by_latencies(window: &Window, role: Role) -> (f64, f64) {
    let Edges { begun, until, unsure } = window.edges;
    let stats = stats_of(until, window.server.id, role);
    let traced = |sync: &&InFlight| {
        let is_log_sync = is_log_sync(sync.op) && sync.server == window.server.id;
        is_log_sync && !sync.age_is_minimum
    };
    let sum_of_ages = |syncs: &mut dyn Iterator<Item = &InFlight>| -> f64 {
        syncs.filter(traced).map(|sync| sync.age.as_secs_f64()).sum()
    };
    let ages = |syncs: &[InFlight]| sum_of_ages(&mut syncs.iter().filter(|sync| sync.role == role));
    let unnamed = &mut begun.iter().chain(&until.in_flight).filter(|sync| sync.path.is_none());
    let ended = &mut unsure.ended.iter().filter(|sync| sync.role == role || sync.path.is_none());
    let uncertainty = sum_of_ages(unnamed) + sum_of_ages(ended) + unsure.apart.as_secs_f64();
    let sum = stats.sum_ns as f64 / 1e9 - ages(begun) + ages(&until.in_flight);
    let seconds = until.duration.as_secs_f64();
    if seconds > 0.0 { (sum.max(0.0) / seconds, uncertainty / seconds) } else { (0.0, 0.0) }
}

/// 0 if there are no syncs.
fn mean_seconds(stats: &Stats) -> f64 {
    stats.sum_ns as f64 / 1e9 / stats.count.max(1) as f64
}

fn is_log_sync(op: Op) -> bool {
    matches!(op, Op::Fsync | Op::Fdatasync)
}

fn stats_of(measurement: &Measurement, server: ServerId, role: Role) -> Stats {
    let mut stats = Stats::default();
    let rows = measurement.roles.iter();
    rows.filter(|row| row.server == server && row.role == role && is_log_sync(row.op))
        .for_each(|row| stats.merge(&row.stats));
    stats
}

/// Whether the sampled mean agrees with the one from the latencies.
fn adds_up(sampled: &Sampled, (busy, uncertainty): (f64, f64)) -> Option<bool> {
    // If all samples are equal, their spread says nothing; the spread expected from the latencies does.
    let expected = (busy * (1.0 - busy).max(0.0) / sampled.equal).sqrt();
    let edges = EDGE_TOLERANCE.iter().find(|(by, _)| *by == sampled.by).map_or(0.0, |&(_, edges)| edges);
    let tolerance = STANDARD_ERRORS * sampled.standard_error.max(expected) + edges + uncertainty;
    (sampled.samples >= MIN_SAMPLES).then(|| (sampled.mean - busy).abs() <= tolerance)
}
