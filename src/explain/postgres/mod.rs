//! Of PostgreSQL: why transactions per second differ from syncs per second, and what of its settings'
//! promises is kept. It has one log, which each backend writes and syncs for itself and for those that wait
//! beside it, one at a time.

mod explained;
mod form;
mod promises;
mod render;

use std::collections::BTreeMap;

use serde::Serialize;

use super::audit::Advice;
use super::audit::advice::logs_or_connections;
use super::factors::log::Terms;
use super::factors::{Connections, Factor, Log, Naive, per_second, usable};
use super::waits::Processors;
use crate::model::{Interval, Role, ServerId};
use crate::server::asking::Counted;
use crate::server::postgres::status::counters::Between;
use crate::server::postgres::status::reading::Reading;
use crate::text::absence;

pub use form::Form;
pub use promises::audit;
pub use render::render;

pub(crate) const LOGS: &[Role] = &[Role::Wal];

pub type Window<'a> = super::factors::Window<'a, Reading>;
pub type Throughput = super::factors::Throughput<Factors>;
pub type Evidence<'a> = super::audit::Evidence<'a, Reading>;

/// Those that had no title any more, or were not asked for it.
const OTHERS: &str = "other processes";

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Factors {
    pub duration_seconds: f64,
    /// Whether commits wait for the WAL, by the settings.
    pub form: Form,
    /// Those that wrote.
    pub transactions: Option<Counted>,
    pub transactions_per_wal_sync: Factor,
    /// The WAL, if it was made durable.
    pub logs: Vec<Log>,
    pub naive: Option<Naive>,
    pub connections: Option<Connections>,
    /// Which kinds of processes were seen to sync the WAL, the most frequent first.
    pub synced_by: Vec<Syncer>,
    pub checkpoints: Checkpoints,
    /// What is missing, and why. Plain sentences.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Syncer {
    /// By their titles: "client backend", "walwriter".
    pub who: String,
    /// Share of the syncs seen in flight.
    pub share: f64,
}

/// What was synced beside the WAL, most of it by checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checkpoints {
    /// How many there were. None: they are not counted, or may not be seen.
    pub count: Option<u64>,
    /// Syncs of all other files.
    pub syncs: u64,
    /// How long these took together.
    pub seconds: f64,
    /// Those of them of tables and indexes.
    pub data_syncs: u64,
}

/// `titles`: what the server's processes call themselves, by their numbers. None: they could not be read in
/// time.
pub fn measure(window: &Window, titles: Option<&BTreeMap<u32, String>>) -> Throughput {
    let mut left_out = Vec::new();
    let between = window.status.map(|(from, to)| Between { from, to });
    let status = usable(between, |between| between.interrupted(), &mut left_out);
    let no_counters = status.err().unwrap_or("the transactions of this server are not known");
    let status = status.ok();
    let form = Form::of(window.server, status.as_ref(), &window.measurement.setup.ops);
    let transactions = status.and_then(|between| between.transactions());
    let counted_over = status.map_or(0.0, |between| between.duration().as_secs_f64());
    let observed = transactions.as_ref().and_then(|counted| per_second(counted.count, counted_over));
    let terms = Terms { by_writes: form.by_writes.is_some(), commits_wait: form.why_not_wal.is_none() };
    let log = Log::measure(window, Role::Wal, observed, terms);
    left_out.extend(window.in_flight.without_timer());
    if titles.is_none() {
        left_out.push(
            "The processes' titles could not be read in time: who syncs the WAL is not known.".to_owned(),
        );
    }

    // How long a commit takes alone is not known where it waits for what is not seen, or for nothing.
    let waited_for =
        log.as_ref().filter(|_| terms.commits_wait && !form.waits_unseen && !form.waits_for_more);
    let naive = observed
        .zip(waited_for)
        .and_then(|(observed, log)| Naive::of(observed, log.syncs_per_second, log.mean_latency_seconds))
        .filter(|naive| naive.all_may_wait(status.and_then(|between| between.sessions_at_most())));
    let ends = status.and_then(|between| Some([between.from.clients()?, between.to.clients()?]));
    let connections = ends.zip(observed).zip(naive.as_ref());
    let connections =
        connections.and_then(|((ends, observed), naive)| Connections::measure(ends, observed, naive));
    let factors = Factors {
        duration_seconds: window.measurement.span.duration.as_secs_f64(),
        transactions_per_wal_sync: per_sync(&form, observed, log.as_ref(), no_counters),
        transactions,
        naive,
        connections,
        synced_by: titles.map(|titles| synced_by(window, titles)).unwrap_or_default(),
        checkpoints: Checkpoints::of(window.measurement, window.server.id, status.as_ref()),
        form,
        left_out,
        logs: log.into_iter().collect(),
    };
    let waits_for = factors.logs.first().filter(|_| terms.commits_wait);
    Throughput {
        observed_transactions_per_second: observed,
        predicted_transactions_per_second: waits_for.and_then(|log| log.predicted_transactions_per_second),
        factors,
    }
}

fn per_sync(form: &Form, observed: Option<f64>, log: Option<&Log>, no_counters: &str) -> Factor {
    let none = |why: String| Factor { value: None, source: why };
    match (observed, log) {
        (None, _) => {
            let unknown = || format!("not measurable here: {no_counters}");
            none(form.why_not_wal.clone().unwrap_or_else(unknown))
        }
        (Some(observed), Some(log)) => Factor {
            value: Some(observed / log.syncs_per_second),
            source: format!("transaction IDs and traced {}s", log.each()),
        },
        (Some(_), None) => {
            let nothing = || format!("not measurable here: {}", absence::log_traced("the WAL"));
            none(form.why_not_wal.clone().unwrap_or_else(nothing))
        }
    }
}

fn synced_by(window: &Window, titles: &BTreeMap<u32, String>) -> Vec<Syncer> {
    let mut by_title: BTreeMap<&str, u64> = BTreeMap::new();
    for (tid, n) in window.in_flight.tids(Role::Wal) {
        *by_title.entry(titles.get(&tid).map_or(OTHERS, String::as_str)).or_default() += n;
    }
    let seen: u64 = by_title.values().sum();
    let one = |(who, n): (&str, u64)| Syncer { who: who.to_owned(), share: n as f64 / seen.max(1) as f64 };
    let mut all: Vec<Syncer> = by_title.into_iter().map(one).collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

impl Checkpoints {
    fn of(measurement: &Interval, server: ServerId, status: Option<&Between>) -> Checkpoints {
        let rows = measurement.roles.iter().filter(|row| row.server == server && row.role != Role::Wal);
        let rows = rows.filter(|row| row.op.makes_file_durable() && !row.op.writes());
        let (mut syncs, mut sum_ns, mut data_syncs) = (0, 0, 0);
        for row in rows {
            syncs += row.stats.count;
            sum_ns += row.stats.sum_ns;
            data_syncs += if row.role == Role::Data { row.stats.count } else { 0 };
        }
        let count = status.and_then(Between::checkpoints);
        Checkpoints { count, syncs, seconds: sum_ns as f64 / 1e9, data_syncs }
    }
}

/// `processors`: in the same window.
pub(crate) fn advise(throughput: &Throughput, processors: &Processors) -> Vec<Advice> {
    let factors = &throughput.factors;
    let observed = throughput.observed_transactions_per_second.filter(|_| factors.form.known);
    let waits_unseen = factors.form.waits_unseen || factors.form.waits_for_more;
    let advice = logs_or_connections(observed, &factors.logs, waits_unseen, processors);
    advice.into_iter().collect()
}

#[cfg(test)]
mod tests;
