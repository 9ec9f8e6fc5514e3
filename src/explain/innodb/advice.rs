//! What to do about it, where a measurement says so.

use super::Throughput;
use crate::explain::audit::Advice;
use crate::explain::audit::advice::logs_or_connections;
use crate::explain::factors::render::megabytes;
use crate::explain::waits::Processors;
use crate::text::percent;

/// The checkpoint age, as a share of its limit, from which the redo log's size starts to matter.
const MIN_FULLNESS: f64 = 0.6;

/// `processors`: in the same window.
pub(crate) fn advise(throughput: &Throughput, processors: &Processors) -> Vec<Advice> {
    let factors = &throughput.factors;
    let observed = throughput.observed_transactions_per_second.filter(|_| factors.form.known);
    let first = logs_or_connections(observed, &factors.logs, factors.form.waits_unseen, processors);
    first.into_iter().chain(redo_size(throughput)).collect()
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
