//! The factors as a part of a page of plain English.

use std::fmt::Write;

use super::log::Log;
use super::redo::Redo;
use super::{DurableBy, Factor, Factors, Throughput};
use crate::model::Role;
use crate::text::{count, duration_in_words, escape, escape_sentence, percent};

/// Lines without an indent; nothing is cut.
pub fn render(throughput: &Throughput) -> String {
    let mut text = String::new();
    // String's formatter cannot fail.
    let _ = write_to(&mut text, throughput);
    text
}

fn write_to(text: &mut String, throughput: &Throughput) -> std::fmt::Result {
    let factors = &throughput.factors;
    match (throughput.observed_transactions_per_second, &factors.transactions) {
        (Some(observed), Some(counted)) => {
            let about = if counted.exact { "" } else { "about " };
            writeln!(text, "{about}{} transactions/s observed ({}).", rate(observed), counted.source)?;
        }
        _ => writeln!(text, "Transactions are not measurable here.")?,
    }
    if factors.form.known {
        let words = &factors.form.in_words;
        writeln!(text, "By its settings, {words}.")?;
    }
    for note in &factors.form.notes {
        writeln!(text, "{note}")?;
    }
    writeln!(text)?;
    write_quotients(text, factors)?;
    if !factors.logs.is_empty() {
        write_logs(text, &factors.logs)?;
    }
    write_prediction(text, throughput)?;
    write_naive(text, throughput)?;
    write_connections(text, throughput)?;
    write_redo(text, &factors.redo, factors.redo_log().map_or(DurableBy::Syncs, |log| log.made_durable_by))?;
    for line in &factors.left_out {
        writeln!(text, "{}", escape_sentence(line))?;
    }
    Ok(())
}

fn write_quotients(text: &mut String, factors: &Factors) -> std::fmt::Result {
    let redo_by = factors.redo_log().map(|log| log.made_durable_by);
    let (redo_per_binlog, above_one, per_redo, serves) = match redo_by {
        Some(DurableBy::DurableWrites) => (
            "redo writes per binary-log sync",
            "above 1: the redo log is written beside the groups, too",
            "transactions per redo write",
            "how many commits one durable write of the redo log serves",
        ),
        _ => (
            "redo syncs per binary-log sync",
            "above 1: the redo log is synced beside the groups, too",
            "transactions per redo sync",
            "how many commits one sync of the redo log serves",
        ),
    };
    let rows: [(&str, &Factor, &str); 5] = [
        (
            "transactions per commit group",
            &factors.transactions_per_commit_group,
            "how many commits share one pass through the logs",
        ),
        (
            "commit groups per binary-log sync",
            &factors.commit_groups_per_binlog_sync,
            "1 where every group is made durable before its commits return",
        ),
        ("transactions per binary-log sync", &factors.transactions_per_binlog_sync, "the two together"),
        (redo_per_binlog, &factors.redo_syncs_per_binlog_sync, above_one),
        (per_redo, &factors.transactions_per_redo_sync, serves),
    ];
    for (name, factor, meaning) in rows {
        match factor.value {
            Some(value) => writeln!(text, "  {name:<34} {:>8}  {meaning}", number(value))?,
            None => writeln!(text, "  {name:<34} {:>8}  {}", "–", factor.source)?,
        }
    }
    writeln!(text)
}

fn write_logs(text: &mut String, logs: &[Log]) -> std::fmt::Result {
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

fn write_prediction(text: &mut String, throughput: &Throughput) -> std::fmt::Result {
    let log = throughput.factors.form.commits_wait_for();
    let log = throughput.factors.logs.iter().find(|candidate| Some(candidate.role) == log);
    let (Some(log), Some(predicted), Some(observed)) = (
        log,
        throughput.predicted_transactions_per_second,
        throughput.observed_transactions_per_second.filter(|&observed| observed > 0.0),
    ) else {
        return Ok(());
    };
    let Some(sampled) = log.in_flight else { return Ok(()) };
    writeln!(
        text,
        "The {} predicts {} transactions/s, {} of what was observed: {} transactions per {} x {:.3} in flight / {}.",
        log.role.title(),
        rate(predicted),
        percent(predicted / observed),
        number(observed / log.syncs_per_second),
        log.each(),
        sampled.mean,
        latency(log.mean_latency_seconds),
    )
}

fn write_naive(text: &mut String, throughput: &Throughput) -> std::fmt::Result {
    let factors = &throughput.factors;
    let Some(naive) = &factors.naive else { return Ok(()) };
    let parts = factors.logs.iter().filter(|log| match log.role {
        Role::Binlog => factors.form.why_not_binlog.is_none(),
        _ => factors.form.why_not_redo.is_none(),
    });
    let parts: Vec<String> = parts
        .map(|log| format!("{} for the {}", latency(log.mean_latency_seconds), log.role.title()))
        .collect();
    writeln!(
        text,
        "One commit after the other could reach {} transactions/s ({}). Observed: {} times that, because {} \
         transactions share the syncs of their group, times {} groups in their syncs at once{}.",
        rate(naive.ceiling_transactions_per_second),
        parts.join(" + "),
        number(naive.multiple),
        number(naive.transactions_per_group),
        number(naive.groups_at_once),
        match naive.groups_at_once {
            more if more > 1.05 => " (while the binary log syncs one group, the redo log syncs the next)",
            less if less < 0.95 =>
                " (the rest of the time no group is: the server and its clients do other work)",
            _ => "",
        }
    )
}

fn write_connections(text: &mut String, throughput: &Throughput) -> std::fmt::Result {
    let (Some(connections), Some(observed)) =
        (throughput.factors.connections, throughput.observed_transactions_per_second)
    else {
        return Ok(());
    };
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

fn write_redo(text: &mut String, redo: &Redo, made_durable_by: DurableBy) -> std::fmt::Result {
    let mut parts = Vec::new();
    let (done, of) = match made_durable_by {
        DurableBy::Syncs => ("synced", "syncs"),
        DurableBy::DurableWrites => ("written", "durable writes"),
    };
    if let Some((who, share)) = redo.mostly_synced_by() {
        let threads = redo.synced_by.iter().filter(|syncer| syncer.who == who);
        let names: Vec<String> = threads.map(|syncer| escape(syncer.thread.as_bytes())).collect();
        parts.push(format!(
            "{done} by {} ({}, {} of the {of} seen)",
            who.in_words(),
            names.join(", "),
            percent(share)
        ));
    }
    if let (Some(age), Some(limit), Some(fullness)) = (redo.checkpoint_age_bytes, redo.limit, redo.fullness())
    {
        let estimate = if limit.is_estimate { "an estimated " } else { "" };
        let limit = megabytes(limit.synchronous_bytes);
        parts.push(format!("checkpoint age {} of {estimate}{limit} ({})", megabytes(age), percent(fullness)));
    }
    if let (Some(pages), Some(share)) = (redo.dirty_pages, redo.dirty_share) {
        parts.push(format!("{} dirty pages ({} of the buffer pool)", count(pages), percent(share)));
    }
    if let (Some(per_hour), Some(capacity)) = (redo.bytes_per_hour, redo.capacity_bytes) {
        parts.push(format!(
            "{} written per hour at this rate, room for {}",
            megabytes(per_hour),
            megabytes(capacity)
        ));
    }
    if let (Some(held), Some(needs)) = (redo.hours_held, redo.an_hour_needs_bytes) {
        let minutes = duration_in_words((held * 3600.0 * 1e9) as u64);
        parts.push(format!("which is full after {minutes}; an hour of it needs {}", megabytes(needs)));
    }
    if parts.is_empty() { Ok(()) } else { writeln!(text, "Redo log: {}.", parts.join("; ")) }
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
