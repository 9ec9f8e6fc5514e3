//! The factors as a part of a page of plain English.

use std::fmt::Write;

use super::redo::{Redo, Who};
use super::{Factors, Throughput};
use crate::explain::factors::render::{
    latency, megabytes, rate, write_connections, write_logs, write_naive, write_quotients, written,
};
use crate::explain::factors::{DurableBy, Factor};
use crate::model::Role;
use crate::text::{count, duration_in_words, escape, escape_sentence, percent};

pub fn render(throughput: &Throughput, equations: bool) -> String {
    written(|text| write_to(text, throughput, equations))
}

fn write_to(text: &mut String, throughput: &Throughput, equations: bool) -> std::fmt::Result {
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
    if equations {
        write_ratios(text, factors)?;
    }
    write_logs(text, &factors.logs, equations)?;
    write_naive_of(text, throughput)?;
    if equations {
        let observed = throughput.observed_transactions_per_second;
        write_connections(text, factors.connections.as_ref(), observed)?;
    }
    write_redo(text, &factors.redo, factors.redo_log().map_or(DurableBy::Syncs, |log| log.made_durable_by))?;
    for line in &factors.left_out {
        writeln!(text, "{}", escape_sentence(line))?;
    }
    Ok(())
}

fn write_ratios(text: &mut String, factors: &Factors) -> std::fmt::Result {
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
    write_quotients(text, &rows)
}

fn write_naive_of(text: &mut String, throughput: &Throughput) -> std::fmt::Result {
    let factors = &throughput.factors;
    let parts = factors.logs.iter().filter(|log| match log.role {
        Role::Binlog => factors.form.why_not_binlog.is_none(),
        _ => factors.form.why_not_redo.is_none(),
    });
    let parts: Vec<String> = parts
        .map(|log| format!("{} for the {}", latency(log.mean_latency_seconds), log.role.title()))
        .collect();
    let observed = throughput.observed_transactions_per_second;
    write_naive(text, factors.naive.as_ref(), observed, &parts.join(" + "))
}

fn write_redo(text: &mut String, redo: &Redo, made_durable_by: DurableBy) -> std::fmt::Result {
    let mut parts = Vec::new();
    let (done, of) = match made_durable_by {
        DurableBy::Syncs => ("synced", "syncs"),
        DurableBy::DurableWrites => ("written", "durable writes"),
    };
    if let Some((who, share)) = redo.mostly_synced_by().filter(|(who, _)| *who != Who::Unnamed) {
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
    if !parts.is_empty() {
        writeln!(text, "Redo log: {}.", parts.join("; "))?;
    }
    let Some(((capacity, held), needs)) =
        redo.capacity_bytes.zip(redo.hours_held).zip(redo.an_hour_needs_bytes)
    else {
        return Ok(());
    };
    let fills = duration_in_words((held * 3600.0 * 1e9) as u64);
    let enough = match held < 1.0 {
        true => format!("; {} would last an hour", megabytes(needs)),
        false => String::new(),
    };
    writeln!(text, "The redo log ({}) fills in {fills} at this rate{enough}.", megabytes(capacity))
}
