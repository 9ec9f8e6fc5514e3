//! One of a server's logs: sync rate, latency, busy share, and the throughput that follows from them.

use serde::Serialize;

use super::samples::{By, MIN_SAMPLES, Sampled};
use super::{Edges, Window};
use crate::model::{InFlight, Interval, Op, Role, ServerId, Stats, Via};

/// Statistical tolerance of the samples against the latencies, in standard errors.
const STANDARD_ERRORS: f64 = 4.0;
/// Tolerance for samples and snapshots that do not start and end at the same moment. The timer's samples
/// are read right after the first snapshot and right before the second.
const EDGE_TOLERANCE: [(By, f64); 2] = [(By::Timer, 0.01), (By::Thread, 0.03)];

/// What the server's settings say of a log.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Each of its writes is durable by itself.
    pub by_writes: bool,
    /// A commit waits for it.
    pub commits_wait: bool,
}

/// What a log is made durable by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DurableBy {
    Syncs,
    /// No sync follows.
    DurableWrites,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Log {
    pub role: Role,
    /// What its commits wait for.
    pub made_durable_by: DurableBy,
    /// How many of these there were: its syncs, or its durable writes.
    pub syncs: u64,
    pub syncs_per_second: f64,
    /// The time in which it was made durable, over their number. Where both kinds were seen, as on a mount
    /// with `-o sync`, that of the others is in it, because commits wait for both.
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

impl DurableBy {
    /// One of those that make it durable.
    pub(crate) fn each(self) -> &'static str {
        match self {
            DurableBy::Syncs => "sync",
            DurableBy::DurableWrites => "durable write",
        }
    }
}

impl Log {
    pub(crate) fn each(&self) -> &'static str {
        self.made_durable_by.each()
    }

    /// None if nothing that makes this log durable was traced.
    pub fn measure<R>(
        window: &Window<'_, R>,
        role: Role,
        observed: Option<f64>,
        terms: Terms,
    ) -> Option<Log> {
        let seconds = window.measurement.span.duration.as_secs_f64();
        let stats = |wanted: fn(Op) -> bool| stats_of(window.measurement, window.server.id, role, wanted);
        let (writes, syncs) = (stats(Op::writes), stats(|op| !op.writes()));
        let (made_durable_by, count) = match (writes.count, syncs.count) {
            (0, 0) => return None,
            (writes @ 1.., 0) => (DurableBy::DurableWrites, writes),
            (writes @ 1.., _) if terms.by_writes => (DurableBy::DurableWrites, writes),
            (_, syncs) => (DurableBy::Syncs, syncs),
        };
        if seconds <= 0.0 {
            return None;
        }
        let mean_latency_seconds = (writes.sum_ns + syncs.sum_ns) as f64 / 1e9 / count as f64;
        let syncs_per_second = count as f64 / seconds;
        let by_latencies = in_flight_by_latencies(window, role);
        let busy = by_latencies.0;
        let in_flight = window.in_flight.of(role);
        let is_serial = in_flight.is_none_or(|sampled| sampled.is_serial());
        // Transactions per second if the log were busy all the time.
        let full = observed.map(|observed| observed / busy).filter(|full| full.is_finite());
        let enough = in_flight.filter(|sampled| sampled.samples >= MIN_SAMPLES);
        let predicted = full.zip(enough).map(|(full, sampled)| full * sampled.mean);
        let bound = full.filter(|_| terms.commits_wait && is_serial);
        Some(Log {
            role,
            made_durable_by,
            syncs: count,
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
fn in_flight_by_latencies<R>(window: &Window<'_, R>, role: Role) -> (f64, f64) {
    let Edges { begun, until, unsure } = window.edges;
    let stats = stats_of(until, window.server.id, role, |_| true);
    let traced =
        |sync: &&InFlight| is_of_log(sync.op) && sync.server == window.server.id && !sync.age_is_minimum;
    let sum_of_ages = |syncs: &mut dyn Iterator<Item = &InFlight>| -> f64 {
        syncs.filter(traced).map(|sync| sync.age.as_secs_f64()).sum()
    };
    let ages = |syncs: &[InFlight]| sum_of_ages(&mut syncs.iter().filter(|sync| sync.role == role));
    let unnamed = &mut begun.iter().chain(&until.in_flight).filter(|sync| sync.path.is_none());
    let ended = &mut unsure.ended.iter().filter(|sync| sync.role == role || sync.path.is_none());
    let uncertainty = sum_of_ages(unnamed) + sum_of_ages(ended) + unsure.apart.as_secs_f64();
    let sum = stats.sum_ns as f64 / 1e9 - ages(begun) + ages(&until.in_flight);
    let seconds = until.span.duration.as_secs_f64();
    if seconds > 0.0 { (sum.max(0.0) / seconds, uncertainty / seconds) } else { (0.0, 0.0) }
}

/// What is measured of a log: calls that make it durable. The timer does not sample requests of rings, by
/// which no known server makes its logs durable.
fn is_of_log(op: Op) -> bool {
    op.makes_file_durable() && op.via() == Via::Call
}

/// Of these, those that are wanted.
fn stats_of(measurement: &Interval, server: ServerId, role: Role, wanted: fn(Op) -> bool) -> Stats {
    let mut stats = Stats::default();
    let rows = measurement.roles.iter().filter(|row| row.server == server && row.role == role);
    rows.filter(|row| is_of_log(row.op) && wanted(row.op)).for_each(|row| stats.merge(&row.stats));
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
