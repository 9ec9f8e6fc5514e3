//! Of MySQL and MariaDB: why transactions per second differ from syncs per second, and what of their
//! settings' promises is kept. [`form`] says which equations apply, [`ratios`] are the quotients, [`redo`] is
//! what else is known of the redo log, [`promises`] is the audit, and [`advice`] what follows from it all.
//!
//! Commits go through the logs in groups: with X transactions, G groups and S syncs of a log per second,
//! `X = (X/G) · (G/S) · (N / R)` ([`factors`](super::factors)).

pub(crate) mod advice;
mod explained;
pub(crate) mod form;
pub(crate) mod promises;
pub(crate) mod ratios;
pub(crate) mod redo;
pub(crate) mod render;

use serde::Serialize;

use super::factors::log::Terms;
use super::factors::{Connections, DurableBy, Factor, Log, Naive, per_second, usable};
use crate::model::Role;
use crate::server::asking::Counted;
use crate::server::mysql::status::counters::Between;
use crate::server::mysql::status::reading::Reading;
use ratios::{Rates, Seen};

pub use form::Form;
pub use promises::audit;
pub use redo::Redo;
pub use render::render;

/// The logs that commits can wait for, in the order of a commit.
pub(crate) const LOGS: &[Role] = &[Role::Redo, Role::Binlog];

pub type Window<'a> = super::factors::Window<'a, Reading>;
pub type Throughput = super::factors::Throughput<Factors>;
pub type Evidence<'a> = super::audit::Evidence<'a, Reading>;

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
    fn redo_log(&self) -> Option<&Log> {
        self.logs.iter().find(|log| log.role == Role::Redo)
    }
}

/// Splits the throughput of a window into factors.
pub fn measure(window: &Window) -> Throughput {
    let mut left_out = Vec::new();
    let between = window.status.map(|(from, to)| Between { from, to });
    let status = usable(between, |between| between.interrupted(), &mut left_out);
    let (no_counters, status) = (status.err(), status.ok());
    let seconds = window.measurement.span.duration.as_secs_f64();
    let form = Form::of(window.server, status.as_ref(), &window.measurement.setup.ops);
    let transactions = status.and_then(|between| between.transactions());
    let counted_over = status.map_or(0.0, |between| between.duration().as_secs_f64());
    let observed = transactions.as_ref().and_then(|counted| per_second(counted.count, counted_over));
    let groups = status.and_then(|between| between.commit_groups());
    let groups_per_second = groups.and_then(|counted| per_second(counted.count, counted_over));

    let log = |role, by_writes, why_not: &Option<String>| {
        Log::measure(window, role, observed, Terms { by_writes, commits_wait: why_not.is_none() })
    };
    let redo_log = log(Role::Redo, form.durable_writes.redo.is_some(), &form.why_not_redo);
    let binlog = log(Role::Binlog, false, &form.why_not_binlog);
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
    let naive = observed
        .and_then(|observed| naive(observed, redo_log.as_ref(), binlog.as_ref(), &form))
        .filter(|naive| naive.all_may_wait(status.and_then(|between| between.sessions_at_most())));
    let connections = status.and_then(|between| others_connected(&between)).zip(observed).zip(naive.as_ref());
    let connections =
        connections.and_then(|((ends, observed), naive)| Connections::measure(ends, observed, naive));
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
    Naive::of(observed, binlog.or(redo)?.syncs_per_second, each)
}

/// How many were connected at both ends, without fsynctop.
fn others_connected(between: &Between) -> Option<[u64; 2]> {
    let others = |reading: &Reading| reading.number("threads_connected")?.checked_sub(1);
    Some([others(between.from)?, others(between.to)?])
}

#[cfg(test)]
mod audit_tests;
#[cfg(test)]
mod tests;
