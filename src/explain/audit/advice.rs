//! Advice, each with the measurement that justifies it. Without a measurement there is no advice.

use serde::Serialize;

use crate::explain::factors::Log;
use crate::explain::waits::Processors;
use crate::text::{capitalize, percent};

/// Above this busy share, a serial log has no room for more syncs.
pub(crate) const NEARLY_FULL: f64 = 0.8;

/// One sentence to act on, and one with the measurement behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub what: String,
    pub because: String,
}

/// What would help more: faster syncs, or more connections. `observed` transactions per second;
/// `waits_unseen`: a commit also waits for what is not watched. `processors`: in the same window.
pub(in crate::explain) fn logs_or_connections(
    observed: Option<f64>,
    logs: &[Log],
    waits_unseen: bool,
    processors: &Processors,
) -> Option<Advice> {
    observed.filter(|&rate| rate > 0.0)?;
    if logs.is_empty() || logs.iter().any(|log| log.bound_transactions_per_second.is_none()) {
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
    // Where a commit also waits for writes that are not watched, a log may have no room either.
    if waits_unseen {
        return None;
    }
    let idle = processors.room()?;
    let at_once = |log: &Log| log.in_flight.is_some();
    logs.iter().all(at_once).then(|| Advice {
        what: "More connections would help.".into(),
        because: format!("{}, and the CPUs were {} idle.", capitalize(&busy.join(", ")), percent(idle)),
    })
}
