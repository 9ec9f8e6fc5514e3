//! The first lines of the page: whether syncs are the problem, what they wait for, and what to do about it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Explanation;
use super::waits::{facts, neighbours};
use crate::model::{Errors, Role, RoleRow, SATURATED, ServerId, Stats};
use crate::render::{Options, Style, header, reading};
use crate::text::{self, absence, capitalize, percent};
use crate::verdict::is_failure_of_durability;

/// A sync in flight for so long hangs, whatever the window was.
const HANGS: Duration = Duration::from_secs(1);

/// From here on syncs are no longer "not the problem", though below the limit: of commits that come at
/// random, half find such a log busy.
const BUSY: f64 = 0.5;

/// Verdict, causes and advice, a sentence each; what is not known is left out.
pub(super) fn head(explanation: &Explanation, style: &Style) -> Vec<String> {
    if explanation.waits.total().measured == 0 && explanation.incidents.is_none() {
        // What hangs, and that nothing was seen, is said below.
        return Vec::new();
    }
    let busiest = busiest_log(explanation);
    let (verdict, is_sync) = verdict(explanation, busiest, style);
    let causes = if is_sync { causes(explanation, style) } else { Vec::new() };
    let advice = explanation.commits.iter().flat_map(|commits| &commits.advice).next();
    let advice = advice.map(|advice| format!("{} {}", advice.what, advice.because));
    verdict.into_iter().chain(causes).chain(advice).collect()
}

/// Of a recording, its incidents. None: it is no recording.
pub(super) fn incidents(explanation: &Explanation, style: &Style) -> Option<Vec<String>> {
    let incidents = explanation.incidents.as_ref()?;
    let lines: Vec<String> = incidents.iter().flat_map(|line| style.wrap(line, 2)).collect();
    Some(if lines.is_empty() { lines } else { vec![lines.join("\n")] })
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
    let failed = |errors: &Errors| errors.keys().any(|&errno| is_failure_of_durability(errno));
    let has_failed = m.roles.iter().map(|row| &row.stats.errors).any(failed);
    if has_failed || !reading::failed_beside_syncs(m, &options).is_empty() {
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
    let long = |row: &&RoleRow| row.stats.longest_at_least() >= HANGS;
    let longest = m.roles.iter().filter(long).max_by_key(|row| row.stats.longest_at_least());
    if let Some(row) = longest {
        let took = row.stats.longest_at_least();
        let took = text::duration_in_words(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let of = whose(row.server);
        return (Some(format!("A sync of {}{of} hung for {took}.", row.role.in_a_sentence())), true);
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
    let is_all_counted = explanation.unseen_durable_writes().is_none();
    // Of a file that is no log it is not known who waits for it.
    let is_busy = |row: &RoleRow| row.stats.in_flight_mean(m.span.duration) >= BUSY;
    let verdict = absence::sync_problem(m.roles.iter().any(is_busy), is_all_counted, &m.lost);
    let verdict = verdict.map_or_else(|| capitalize(&logs), |verdict| format!("{verdict}: {logs}"));
    (Some(format!("{verdict}.")), false)
}

fn are_several(explanation: &Explanation) -> bool {
    let roles = explanation.measurement.roles.iter().filter(|row| row.role.is_serial());
    roles.map(|row| (row.server, row.role)).collect::<BTreeSet<_>>().len() > 1
}

/// The largest part of the time in syncs, and who else brings it about.
fn causes(explanation: &Explanation, style: &Style) -> Vec<String> {
    let durable_writes = explanation.unseen_durable_writes();
    let Explanation { waits, processors, journals, .. } = explanation;
    let writes = durable_writes.as_deref();
    let waits = facts(waits, processors, journals, writes, style).into_iter().next();
    waits.into_iter().chain(neighbours(journals, writes, style).next()).collect()
}

/// The log that had a sync in flight for most of the time, and the share.
fn busiest_log(explanation: &Explanation) -> Option<(ServerId, Role, f64)> {
    let m = &explanation.measurement;
    let servers: BTreeSet<ServerId> = m.roles.iter().map(|row| row.server).collect();
    let share = |stats: &Stats| stats.in_flight_mean(m.span.duration).min(1.0);
    let logs =
        servers.into_iter().flat_map(|server| m.logs_of(server).into_iter().map(move |log| (server, log)));
    let busy = logs.filter(|(_, (_, syncs))| syncs.count > 0);
    let busy = busy.map(|(server, (role, syncs))| (server, role, share(&syncs)));
    busy.max_by(|a, b| a.2.total_cmp(&b.2))
}
