//! Why transactions per second differ from syncs per second: the throughput as a product of measured
//! factors.
//!
//! With X transactions, G commit groups and S syncs of a log (or durable writes, where no sync follows them)
//! per second, R a sync's mean latency and N the mean number in flight: `X = (X/G) · (G/S) · (N / R)`. N is
//! sampled independently of R, so the product can fail; how closely it matches is part of the result. A log
//! that the server serialises has N ≤ 1, which gives the upper bounds.

pub(crate) mod alone;
pub(crate) mod connections;
pub(crate) mod edges;
pub(crate) mod form;
pub(crate) mod log;
pub(crate) mod ratios;
pub(crate) mod redo;
pub(crate) mod render;
pub mod samples;

use serde::Serialize;

use crate::model::{Measurement, Role, Server};
use crate::server::mysql::status::counters::Between;
use crate::server::mysql::status::reading::Reading;
use crate::server::status::Counted;
use ratios::{Rates, Seen};

pub use alone::Alone;
pub use connections::Connections;
pub use edges::{EarlyScan, Edges, Uncertain};
pub use form::Form;
pub use log::{DurableBy, Log};
pub use ratios::Factor;
pub use redo::Redo;
pub use render::render;
pub use samples::InFlightSamples;

/// The input of the factors.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    pub server: &'a Server,
    pub measurement: &'a Measurement,
    pub edges: Edges<'a>,
    /// The server's own counters at both ends of the window, the earlier one first. None: no connection.
    pub status: Option<(&'a Reading, &'a Reading)>,
    pub in_flight: &'a InFlightSamples,
}

/// The throughput as the server counted it, the throughput predicted by the log that commits wait for last,
/// and the factors. Flattened into an object, these are three fields of `explain`'s JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Throughput {
    pub observed_transactions_per_second: Option<f64>,
    pub predicted_transactions_per_second: Option<f64>,
    pub factors: Factors,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Factors {
    pub duration_seconds: f64,
    /// Which of the equations apply to this server's settings, and why the others do not.
    pub form: Form,
    pub transactions: Option<Counted>,
    pub transactions_per_commit_group: Factor,
    pub commit_groups_per_binlog_sync: Factor,
    pub transactions_per_binlog_sync: Factor,
    pub redo_syncs_per_binlog_sync: Factor,
    pub transactions_per_redo_sync: Factor,
    /// The redo log and the binary log, if they were made durable.
    pub logs: Vec<Log>,
    pub naive: Option<Naive>,
    pub connections: Option<Connections>,
    pub redo: Redo,
    /// What is missing, and why. Plain sentences.
    pub left_out: Vec<String>,
}

impl Factors {
    pub(super) fn redo_log(&self) -> Option<&Log> {
        self.logs.iter().find(|log| log.role == Role::Redo)
    }
}

/// The throughput of commits one at a time, each waiting for both logs, and why the observed one is higher.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Naive {
    /// 1 / (mean redo latency + mean binary-log latency); the redo log's alone if commits wait only for
    /// that.
    pub ceiling_transactions_per_second: f64,
    /// Observed / ceiling = transactions per group x groups at once.
    pub multiple: f64,
    pub transactions_per_group: f64,
    /// Mean number of groups in their syncs at once: at most 1 per log.
    pub groups_at_once: f64,
}

/// Splits the throughput of a window into factors.
pub fn measure(window: &Window) -> Throughput {
    let status = window.status.map(|(from, to)| Between { from, to });
    let mut left_out = Vec::new();
    let mut no_counters = None;
    let status = match status.map(|between| (between, between.interrupted())) {
        None => {
            left_out.push("No connection to the server: its own counters are missing.".to_owned());
            no_counters = Some("no connection to the server");
            None
        }
        Some((_, Some(why))) => {
            left_out.push(format!("The server's counters cannot be used: {why}."));
            no_counters = Some("the server's counters cannot be used");
            None
        }
        Some((between, None)) => Some(between),
    };
    let seconds = window.measurement.duration.as_secs_f64();
    let form = Form::of(window.server, status.as_ref(), &window.measurement.setup.ops);
    let transactions = status.and_then(|between| between.transactions());
    let per_second = |count: u64, over: f64| (over > 0.0).then(|| count as f64 / over);
    let counted_over = status.map_or(0.0, |between| between.duration().as_secs_f64());
    let observed = transactions.as_ref().and_then(|counted| per_second(counted.count, counted_over));
    let groups = status.and_then(|between| between.commit_groups());
    let groups_per_second = groups.and_then(|counted| per_second(counted.count, counted_over));

    let log = |role| Log::measure(window, role, seconds, observed, &form);
    let (redo_log, binlog) = (log(Role::Redo), log(Role::Binlog));
    let rate = |log: &Log| log.syncs_per_second;
    let ratios = Rates::of(
        &Seen {
            no_counters,
            transactions: observed.zip(transactions.as_ref().map(|counted| counted.source)),
            groups: groups_per_second,
            redo_syncs: redo_log.as_ref().map(rate),
            redo_by: redo_log.as_ref().map_or(DurableBy::Syncs, |log| log.made_durable_by),
            binlog_syncs: binlog.as_ref().map(rate),
        },
        &form,
    );

    left_out.extend(window.in_flight.without_timer());
    let waits_for = match form.commits_wait_for() {
        Some(Role::Binlog) => binlog.as_ref(),
        Some(_) => redo_log.as_ref(),
        None => None,
    };
    let predicted = waits_for.and_then(|log| log.predicted_transactions_per_second);
    let naive = observed.and_then(|observed| naive(observed, redo_log.as_ref(), binlog.as_ref(), &form));
    let connections = status.zip(observed).zip(naive.as_ref());
    let connections =
        connections.and_then(|((between, observed), naive)| Connections::measure(&between, observed, naive));
    if let Some(between) = &status {
        let refused = between.to.refused.iter().map(|what| format!("Not allowed: {what}."));
        left_out.extend(refused);
    }
    let factors = Factors {
        duration_seconds: seconds,
        transactions,
        transactions_per_commit_group: ratios.transactions_per_commit_group(),
        commit_groups_per_binlog_sync: ratios.commit_groups_per_binlog_sync(),
        transactions_per_binlog_sync: ratios.transactions_per_binlog_sync(),
        redo_syncs_per_binlog_sync: ratios.redo_syncs_per_binlog_sync(),
        transactions_per_redo_sync: ratios.transactions_per_redo_sync(),
        naive,
        connections,
        redo: Redo::measure(window.in_flight, status.as_ref()),
        logs: redo_log.into_iter().chain(binlog).collect(),
        form,
        left_out,
    };
    Throughput {
        observed_transactions_per_second: observed,
        predicted_transactions_per_second: predicted,
        factors,
    }
}

fn naive(observed: f64, redo: Option<&Log>, binlog: Option<&Log>, form: &Form) -> Option<Naive> {
    // How long a commit takes alone is not known where it waits for what is not seen.
    if form.waits_unseen {
        return None;
    }
    let redo = redo.filter(|_| form.why_not_redo.is_none());
    let binlog = binlog.filter(|_| form.why_not_binlog.is_none());
    let latency = |log: Option<&Log>| log.map_or(0.0, |log| log.mean_latency_seconds);
    let each = latency(redo) + latency(binlog);
    // A group is counted by its sync of the log that commits wait for last.
    let groups = binlog.or(redo)?.syncs_per_second;
    (each > 0.0 && groups > 0.0 && observed > 0.0).then(|| Naive {
        ceiling_transactions_per_second: 1.0 / each,
        multiple: observed * each,
        transactions_per_group: observed / groups,
        groups_at_once: groups * each,
    })
}

#[cfg(test)]
mod tests;
