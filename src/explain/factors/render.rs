//! What all engines' factors have in common, as a part of a page of plain English.

use std::fmt::Write;

use super::{Connections, DurableBy, Factor, Log, Naive};
use crate::text::{count, duration_in_words, percent};

/// What is written, as a text. Lines without an indent; nothing is cut.
pub(in crate::explain) fn written(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut text = String::new();
    // String's formatter cannot fail.
    let _ = write(&mut text);
    text
}

/// The table of the ratios, between empty lines: a name, the ratio, what it means.
pub(in crate::explain) fn write_quotients(
    text: &mut String,
    rows: &[(&str, &Factor, &str)],
) -> std::fmt::Result {
    writeln!(text)?;
    for (name, factor, meaning) in rows {
        match factor.value {
            Some(value) => writeln!(text, "  {name:<34} {:>8}  {meaning}", number(value))?,
            None => writeln!(text, "  {name:<34} {:>8}  {}", "–", factor.source)?,
        }
    }
    writeln!(text)
}

/// The table of the logs, if there are any; without being asked for it where it contradicts itself.
pub(in crate::explain) fn write_logs(text: &mut String, logs: &[Log], equations: bool) -> std::fmt::Result {
    let contradicts_itself = logs.iter().any(|log| log.adds_up == Some(false));
    if logs.is_empty() || !equations && !contradicts_itself {
        return Ok(());
    }
    writeln!(
        text,
        "  {:<11} {:>8} {:>8} {:>7}  {:<30} allows at most",
        "", "syncs/s", "mean", "busy", "in flight, sampled"
    )?;
    for log in logs {
        let sampled = log.in_flight.map_or("–".to_owned(), |sampled| {
            let verdict = match log.adds_up {
                Some(true) => ", adds up",
                Some(false) => ", DOES NOT ADD UP",
                None => ", too few samples",
            };
            format!("{:.3} ± {:.3}{verdict}", sampled.mean, sampled.standard_error)
        });
        let bound = log
            .bound_transactions_per_second
            .map_or("–".into(), |bound| format!("{} transactions/s", rate(bound)));
        writeln!(
            text,
            "  {:<11} {:>8} {:>8} {:>7}  {sampled:<30} {bound}",
            log.role.title(),
            rate(log.syncs_per_second),
            latency(log.mean_latency_seconds),
            percent(log.busy),
        )?;
    }
    for log in logs.iter().filter(|log| log.made_durable_by == DurableBy::DurableWrites) {
        writeln!(
            text,
            "  The {} is made durable by its writes: these are its syncs here.",
            log.role.title()
        )?;
    }
    writeln!(text)
}

/// Of what the disk could do one after the other. Near it, commits wait for the disk most of the time.
const FAR_BELOW: f64 = 0.25;

/// What commits could do one after the other. `each`: how long one waits for its logs, by parts.
pub(in crate::explain) fn write_naive(
    text: &mut String,
    naive: Option<&Naive>,
    observed: Option<f64>,
    each: &str,
) -> std::fmt::Result {
    let Some((naive, observed)) = naive.zip(observed) else { return Ok(()) };
    let (observed, alone) = (rate(observed), rate(naive.ceiling_transactions_per_second));
    if naive.multiple < 1.0 {
        let far_below = if naive.multiple < FAR_BELOW { ": it is not the limit" } else { "" };
        return writeln!(
            text,
            "{observed} commits/s; one after the other, with syncs as long as these, there could be {alone} ({each}){far_below}."
        );
    }
    writeln!(
        text,
        "{observed} commits/s are {} times what there could be one after the other, with syncs as long as these ({alone}: \
         {each}): {} commits share their syncs.",
        number(naive.multiple),
        number(naive.transactions_per_group),
    )
}

pub(in crate::explain) fn write_connections(
    text: &mut String,
    connections: Option<&Connections>,
    observed: Option<f64>,
) -> std::fmt::Result {
    let Some((connections, observed)) = connections.zip(observed) else { return Ok(()) };
    writeln!(
        text,
        "Connections: {} / {} transactions/s = {} for a transaction of each, if all of them commit; {} of it in the \
         syncs of its own group, the rest waiting for other groups, and in the server and the client.",
        count(connections.connected.round() as u64),
        rate(observed),
        latency(connections.seconds_per_transaction),
        latency(connections.seconds_in_syncs),
    )
}

pub(crate) fn latency(seconds: f64) -> String {
    duration_in_words((seconds * 1e9).round() as u64)
}

/// Per second.
pub(crate) fn rate(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// A quotient: three digits that count.
pub(crate) fn number(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// In MB (of 2^20 bytes, as servers' settings have them) or GB.
pub(crate) fn megabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / f64::from(1 << 20);
    match megabytes {
        m if m < 9.95 => format!("{m:.1} MB"),
        m if m < 1024.0 => format!("{m:.0} MB"),
        m => format!("{:.1} GB", m / 1024.0),
    }
}
