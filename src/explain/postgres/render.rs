//! The factors as a part of a page of plain English.

use std::fmt::Write;

use super::{Factors, Throughput};
use crate::explain::factors::DurableBy;
use crate::explain::factors::render::{
    latency, rate, write_connections, write_logs, write_naive, write_quotients, written,
};
use crate::text::{count, counted, escape, escape_sentence, percent};

pub fn render(throughput: &Throughput, equations: bool) -> String {
    written(|text| write_to(text, throughput, equations))
}

fn write_to(text: &mut String, throughput: &Throughput, equations: bool) -> std::fmt::Result {
    let factors = &throughput.factors;
    let observed = throughput.observed_transactions_per_second;
    match observed.zip(factors.transactions.as_ref()) {
        Some((observed, counted)) => {
            let about = if counted.exact { "" } else { "about " };
            writeln!(text, "{about}{} transactions/s that wrote ({}).", rate(observed), counted.source)?;
        }
        None => writeln!(text, "Transactions are not measurable here.")?,
    }
    if factors.form.known {
        writeln!(text, "By its settings, {}.", factors.form.in_words)?;
    }
    for note in &factors.form.notes {
        writeln!(text, "{note}")?;
    }
    let by_writes = factors.logs.iter().any(|log| log.made_durable_by == DurableBy::DurableWrites);
    let (name, meaning) = if by_writes {
        ("transactions per WAL write", "how many commits one durable write of the WAL serves")
    } else {
        ("transactions per WAL sync", "how many commits one sync of the WAL serves")
    };
    if equations {
        write_quotients(text, &[(name, &factors.transactions_per_wal_sync, meaning)])?;
    }
    write_logs(text, &factors.logs, equations)?;
    let each = factors
        .logs
        .first()
        .map_or(String::new(), |log| format!("{} for the WAL", latency(log.mean_latency_seconds)));
    write_naive(text, factors.naive.as_ref(), observed, &each)?;
    if equations {
        write_connections(text, factors.connections.as_ref(), observed)?;
    }
    write_synced_by(text, factors, by_writes)?;
    write_checkpoints(text, factors)?;
    for line in &factors.left_out {
        writeln!(text, "{}", escape_sentence(line))?;
    }
    Ok(())
}

fn write_synced_by(text: &mut String, factors: &Factors, by_writes: bool) -> std::fmt::Result {
    if factors.synced_by.is_empty() {
        return Ok(());
    }
    let one = |syncer: &super::Syncer| format!("{} {}", escape(syncer.who.as_bytes()), percent(syncer.share));
    let who: Vec<String> = factors.synced_by.iter().map(one).collect();
    let (done, of) = if by_writes { ("written", "durable writes") } else { ("synced", "syncs") };
    writeln!(text, "WAL: {done} by {}, of the {of} seen in flight.", who.join(", "))
}

fn write_checkpoints(text: &mut String, factors: &Factors) -> std::fmt::Result {
    let checkpoints = &factors.checkpoints;
    if checkpoints.syncs == 0 && checkpoints.count.is_none_or(|n| n == 0) {
        return Ok(());
    }
    let how_many = match checkpoints.count {
        Some(1) => "1 checkpoint. ".to_owned(),
        Some(n) => format!("{} checkpoints. ", count(n)),
        None => String::new(),
    };
    writeln!(
        text,
        "{how_many}{} besides the WAL's took {} ({} of tables and indexes): commits seldom wait for them, but they \
         share its device.",
        counted(checkpoints.syncs, "sync", "syncs"),
        latency(checkpoints.seconds),
        count(checkpoints.data_syncs),
    )
}
