//! Advice, each with the measurement that justifies it. Without a measurement there is no advice.

use serde::Serialize;

use crate::explain::factors::render::megabytes;
use crate::explain::factors::{Log, Throughput};
use crate::explain::waits::Processors;
use crate::text::{capitalize, percent};

/// Above this busy share, a serial log has no room for more syncs.
pub(crate) const NEARLY_FULL: f64 = 0.8;
/// The checkpoint age, as a share of its limit, from which the redo log's size starts to matter.
const MIN_FULLNESS: f64 = 0.6;

/// One sentence to act on, and one with the measurement behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub what: String,
    pub because: String,
}

/// `processors`: in the same window.
pub(crate) fn advise(throughput: &Throughput, processors: &Processors) -> Vec<Advice> {
    let mut advice = Vec::new();
    advice.extend(connections(throughput, processors));
    advice.extend(redo_size(throughput));
    advice
}

fn connections(throughput: &Throughput, processors: &Processors) -> Option<Advice> {
    let form = &throughput.factors.form;
    let logs = &throughput.factors.logs;
    throughput.observed_transactions_per_second.filter(|&rate| rate > 0.0)?;
    if !form.known || logs.is_empty() || logs.iter().any(|log| log.bound_transactions_per_second.is_none()) {
        return None;
    }
    let busy: Vec<String> =
        logs.iter().map(|log| format!("the {} is {} busy", log.role.title(), percent(log.busy))).collect();
    let busiest = logs.iter().max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    if busiest.busy >= NEARLY_FULL {
        return Some(Advice {
            what: format!("Faster {}s of the {} would help most.", busiest.each(), busiest.role.title()),
            because: format!(
                "It is busy {} of the time with one {} after another; more connections can only share each of them.",
                percent(busiest.busy),
                busiest.each(),
            ),
        });
    }
    // Where a commit also waits for writes that are not watched, the redo log may have no room either.
    if form.waits_unseen {
        return None;
    }
    let idle = processors.room()?;
    let at_once = |log: &Log| log.in_flight.is_some();
    logs.iter().all(at_once).then(|| Advice {
        what: "More connections would help.".into(),
        because: format!("{}, and the CPUs were {} idle.", capitalize(&busy.join(", ")), percent(idle)),
    })
}

fn redo_size(throughput: &Throughput) -> Option<Advice> {
    let redo = &throughput.factors.redo;
    let (fullness, held, needs) = (redo.fullness()?, redo.hours_held?, redo.an_hour_needs_bytes?);
    (fullness >= MIN_FULLNESS && held < 1.0).then(|| Advice {
        what: format!("A redo log of {} would hold an hour of this load.", megabytes(needs)),
        because: format!(
            "The checkpoint age is at {} of its limit, and the log wraps around in {:.0} minutes.",
            percent(fullness),
            (held * 60.0).max(1.0)
        ),
    })
}
