//! The first lines of the page: whether syncs are the problem, what they wait for, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Explanation;
use super::waits::facts;
use crate::model::{Role, SATURATED, ServerId, Stats};
use crate::render::{Options, Style, header, reading};
use crate::text::{self, percent};

/// A sync in flight for so long hangs, whatever the window was.
const HANGS: Duration = Duration::from_secs(1);

/// Verdict, cause and advice, a sentence each; what is not known is left out.
pub(super) fn head(explanation: &Explanation, style: &Style) -> Vec<String> {
    if explanation.waits.total().measured == 0 {
        // What hangs, and that nothing was seen, is said below.
        return Vec::new();
    }
    let busiest = busiest_log(explanation);
    let (verdict, is_sync) = verdict(explanation, busiest, style);
    let cause = is_sync.then(|| cause(explanation, style)).flatten();
    let advice = explanation.commits.iter().flat_map(|commits| &commits.advice).next();
    let advice = advice.map(|advice| format!("{} {}", advice.what, advice.because));
    [verdict, cause, advice].into_iter().flatten().collect()
}

/// The second: the syncs themselves are the problem.
fn verdict(
    explanation: &Explanation,
    busiest: Option<(ServerId, Role, f64)>,
    style: &Style,
) -> (Option<String>, bool) {
    let m = &explanation.measurement;
    let options = Options { style: *style, ..Options::default() };
    // One of several says whose.
    let whose = |server| match m.servers.len() {
        0 | 1 => String::new(),
        _ => format!(" of {}", header::name(m, server, style)),
    };
    if !reading::failed_beside_syncs(m, &options).is_empty() || m.total().error_count() > 0 {
        return (Some("Not everything could be made durable.".into()), true);
    }
    if let Some(broken) = explanation.commits.as_ref().and_then(|commits| commits.broken()) {
        let setting = text::escape_sentence(&broken.setting);
        return (Some(format!("A promise of durability is broken: {setting}.")), false);
    }
    if let Some(oldest) = m.in_flight.iter().filter(|sync| sync.age >= HANGS).max_by_key(|sync| sync.age) {
        let age = text::duration_in_words(u64::try_from(oldest.age.as_nanos()).unwrap_or(u64::MAX));
        let of = whose(oldest.server);
        return (Some(format!("A sync of {}{of} has hung for {age}.", oldest.role.in_a_sentence())), true);
    }
    let Some((server, role, busy)) = busiest else { return (None, false) };
    let log = format!("{}{}", role.in_a_sentence(), whose(server));
    if busy >= SATURATED {
        let verdict = format!("Syncs are the limit: {log} is {} busy.", percent(busy));
        return (Some(verdict), true);
    }
    let logs = if are_several(explanation) {
        format!("the logs are at most {} busy", percent(busy))
    } else {
        format!("{log} is {} busy", percent(busy))
    };
    (Some(format!("Syncs are not the problem: {logs}.")), false)
}

fn are_several(explanation: &Explanation) -> bool {
    let roles = explanation.measurement.roles.iter().filter(|row| row.role.is_serial());
    roles.map(|row| (row.server, row.role)).collect::<BTreeSet<_>>().len() > 1
}

/// The largest part of the time in syncs.
fn cause(explanation: &Explanation, style: &Style) -> Option<String> {
    let durable_writes = explanation.unseen_durable_writes();
    let Explanation { waits, processors, journals, .. } = explanation;
    facts(waits, processors, journals, durable_writes.as_deref(), style).into_iter().next()
}

/// The share of the time in which the log had a sync in flight; one that hung throughout counts whole.
fn busiest_log(explanation: &Explanation) -> Option<(ServerId, Role, f64)> {
    let m = &explanation.measurement;
    let mut logs: BTreeMap<(ServerId, Role), Stats> = BTreeMap::new();
    for row in m.roles.iter().filter(|row| row.role.is_serial() && row.stats.count > 0) {
        logs.entry((row.server, row.role)).or_default().merge(&row.stats);
    }
    let share = |stats: &Stats| stats.in_flight_mean(m.span.duration).min(1.0);
    let busy = logs.iter().map(|(&(server, role), stats)| (server, role, share(stats)));
    busy.max_by(|a, b| a.2.total_cmp(&b.2))
}
