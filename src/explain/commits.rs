//! The parts of `explain` that concern commits: the throughput in factors, the log latencies compared with
//! those of a sync alone, the audit, the advice. Pure.

use serde::Serialize;

use super::audit::{self, Advice, Evidence, Finding, Standing};
use super::factors::{self, Alone, Edges, InFlightSamples, Throughput, Window};
use super::waits::Processors;
use crate::calibration::Calibration;

/// The result, for the page and for JSON. Flattened into an object, it has
/// `observed_transactions_per_second`, `predicted_transactions_per_second`, `factors`, `alone`, `audit` and
/// `advice`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Commits {
    #[serde(flatten)]
    pub throughput: Throughput,
    pub alone: Option<Alone>,
    pub audit: Vec<Finding>,
    pub advice: Vec<Advice>,
}

/// The input that does not come from the traced syncs.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub edges: Edges<'a>,
    pub in_flight: &'a InFlightSamples,
    pub processors: Processors,
    pub calibration: Option<&'a Calibration>,
    /// Why the server's counters are missing, if they are. A plain sentence.
    pub no_status: Option<&'a str>,
}

impl Commits {
    pub fn of(evidence: &Evidence, inputs: &Inputs) -> Commits {
        let window = Window {
            server: evidence.server,
            measurement: evidence.measurement,
            edges: inputs.edges,
            status: evidence.status,
            in_flight: inputs.in_flight,
        };
        let mut throughput = factors::measure(&window);
        throughput.factors.left_out.extend(inputs.no_status.map(str::to_owned));
        let alone = inputs.calibration.and_then(|calibration| Alone::of(&throughput.factors, calibration));
        Commits {
            alone,
            audit: audit::audit(evidence),
            advice: audit::advise(&throughput, &inputs.processors),
            throughput,
        }
    }

    /// Whether what was seen contradicts a promise of the settings: then nothing on the page matters more.
    pub(crate) fn is_broken(&self) -> bool {
        self.audit.iter().any(|finding| finding.standing == Standing::Broken)
    }

    /// For the page: the factors of the throughput, and the advice that follows.
    pub(crate) fn throughput_in_words(&self) -> String {
        let mut text = factors::render(&self.throughput);
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
        audit::render(&self.audit)
    }

    /// All of it, one after the other.
    pub fn render(&self) -> String {
        format!("{}\n{}", self.throughput_in_words(), self.audit_in_words())
    }
}
