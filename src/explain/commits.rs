//! The parts of `explain` that concern commits: the throughput in factors, the log latencies compared with
//! those of a sync alone, the audit, the advice. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::audit::{self, Advice, Evidence, Finding, Standing};
use super::factors::{Alone, Edges, InFlightSamples, Log, Window};
use super::waits::Processors;
use super::{innodb, postgres};
use crate::model::Role;
use crate::sync_cost::Calibration;
use crate::text::escape_sentence;

/// The result, for the page and for JSON. Flattened into an object, it has
/// `observed_transactions_per_second`, `predicted_transactions_per_second`, `factors`, `alone`, `audit` and
/// `advice`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Commits {
    /// None: of this engine it is not taken apart.
    #[serde(flatten)]
    pub throughput: Option<Throughput>,
    pub alone: Option<Alone>,
    pub audit: Vec<Finding>,
    pub advice: Vec<Advice>,
    /// What the audit lacks, and why, where the factors do not say so. Plain sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// By the equations of its engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Throughput {
    InnoDb(Box<innodb::Throughput>),
    Postgres(Box<postgres::Throughput>),
}

/// The input that does not come from the traced syncs.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub edges: Edges<'a>,
    pub in_flight: &'a InFlightSamples,
    pub processors: Processors,
    pub calibration: Option<&'a Calibration>,
    /// What the processes of a server of several call themselves, by their numbers. None: not known.
    pub titles: Option<&'a BTreeMap<u32, String>>,
    /// Why the server's counters are missing, if they are. A plain sentence.
    pub no_status: Option<&'a str>,
}

impl<'a> Inputs<'a> {
    pub(super) fn window<R>(&self, evidence: &Evidence<'a, R>) -> Window<'a, R> {
        Window {
            server: evidence.server,
            measurement: evidence.measurement,
            edges: self.edges,
            status: evidence.status,
            in_flight: self.in_flight,
        }
    }

    pub(super) fn alone(&self, logs: &[Log]) -> Option<Alone> {
        self.calibration.and_then(|calibration| Alone::of(logs, calibration))
    }
}

impl Throughput {
    /// How many transactions there were, where they are counted.
    pub fn transactions(&self) -> Option<u64> {
        let transactions = match self {
            Throughput::InnoDb(throughput) => &throughput.factors.transactions,
            Throughput::Postgres(throughput) => &throughput.factors.transactions,
        };
        transactions.as_ref().map(|counted| counted.count)
    }

    /// The logs that commits can wait for.
    pub(crate) fn log_roles(&self) -> &'static [Role] {
        match self {
            Throughput::InnoDb(_) => innodb::LOGS,
            Throughput::Postgres(_) => postgres::LOGS,
        }
    }

    /// Which writes are durable by themselves, by the settings. A sentence without its full stop.
    pub(crate) fn durable_writes(&self) -> Option<String> {
        match self {
            Throughput::InnoDb(throughput) => throughput.factors.form.durable_writes.in_words(),
            Throughput::Postgres(throughput) => {
                let why = throughput.factors.form.by_writes.as_deref()?;
                Some(format!("each write of the WAL is itself durable ({why})"))
            }
        }
    }

    pub fn innodb(&self) -> Option<&innodb::Throughput> {
        match self {
            Throughput::InnoDb(throughput) => Some(throughput),
            Throughput::Postgres(_) => None,
        }
    }

    fn render(&self, equations: bool) -> String {
        match self {
            Throughput::InnoDb(throughput) => innodb::render(throughput, equations),
            Throughput::Postgres(throughput) => postgres::render(throughput, equations),
        }
    }
}

impl Commits {
    /// Of an engine whose settings are looked at, and no more.
    /// `refused`: what it would not tell.
    pub(super) fn of_settings(audit: Vec<Finding>, refused: &[String], inputs: &Inputs) -> Commits {
        let refused = refused.iter().map(|what| format!("Not allowed: {what}."));
        let left_out = inputs.no_status.map(str::to_owned).into_iter().chain(refused).collect();
        Commits { throughput: None, alone: None, audit, advice: Vec::new(), left_out }
    }

    pub fn innodb(&self) -> Option<&innodb::Throughput> {
        self.throughput.as_ref()?.innodb()
    }

    /// Whether what was seen contradicts a promise of the settings: then nothing on the page matters more.
    pub(crate) fn is_broken(&self) -> bool {
        self.audit.iter().any(|finding| finding.standing == Standing::Broken)
    }

    /// What was seen of the first promise that is not kept.
    pub(super) fn broken(&self) -> Option<&Finding> {
        self.audit.iter().find(|finding| finding.standing == Standing::Broken)
    }

    /// For the page: how many transactions there are and why, and the advice that follows. Empty if the
    /// throughput is not taken apart. `equations`: with all factors.
    pub(crate) fn throughput_in_words(&self, equations: bool) -> String {
        let render = |throughput: &Throughput| throughput.render(equations);
        let mut text = self.throughput.as_ref().map(render).unwrap_or_default();
        if let Some(alone) = &self.alone {
            text.push_str(&alone.in_words());
            text.push('\n');
        }
        if !self.advice.is_empty() {
            text.push('\n');
            text.push_str(&audit::render_advice(&self.advice));
        }
        text
    }

    /// For the page: a line for each promise. Empty if nothing was looked at.
    pub(crate) fn audit_in_words(&self) -> String {
        let mut text = audit::render(&self.audit);
        self.left_out.iter().for_each(|line| text.push_str(&format!("{}\n", escape_sentence(line))));
        text
    }

    /// All of it, one after the other.
    pub fn render(&self) -> String {
        format!("{}\n{}", self.throughput_in_words(true), self.audit_in_words())
    }
}
