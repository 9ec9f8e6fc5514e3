//! What `fsynctop explain` says of a load on a filesystem with a journal or log.

use anyhow::Result;
use serde_json::Value;

use crate::guests::Guest;
use crate::measured::{number, rows, text};
use crate::outcome::{Findings, Outcome};

/// How far the parts may be from the whole, and how much may be called "other", as shares.
const MOST_OFF: f64 = 0.02;
const MOST_OTHER: f64 = 0.05;

/// What `not_measurable` says of level two where the kernel has no lock for its clocks.
const WITHOUT_CLOCKS: &str = "(level two)";
/// The load is called as a server is, and answers no questions.
const NO_SERVER: &str =
    "what the throughput is made of, and what of the settings' promises is kept: no connection to the server";

/// The step `name` watched redo and binary log, undo and a tablespace of one process on one filesystem.
/// `journal`: the wait of level one in which ext4 and XFS wait for their committer.
pub fn expect(
    guest: &Guest,
    outcome: &Outcome,
    name: &str,
    journal: &str,
    findings: &mut Findings,
) -> Result<()> {
    let (status, complaints) = (outcome.status(name)?, outcome.text(&format!("{name}.err"))?);
    findings.check(status == 0 && complaints.is_empty(), || format!("exit status {status}: {complaints}"));
    let explained = outcome.json(&format!("{name}.out"))?;
    let seconds = |row: &Value| row["seconds"].as_f64().unwrap_or(f64::NAN);
    let phases: Vec<_> = rows(&explained["phases"]).collect();
    let first = || phases.iter().filter(|row| row["under"].is_null());

    for role in ["redo", "binlog", "undo", "tablespace"] {
        findings.check(first().any(|row| text(&row["role"]) == role), || format!("no phases of {role}"));
    }
    let accounted = explained["accounted_share"].as_f64().unwrap_or(f64::NAN);
    findings.check((accounted - 1.0).abs() <= MOST_OFF, || format!("the parts are {accounted} of the whole"));
    let whole: f64 = first().map(|row| seconds(row)).sum();
    let other: f64 = first().filter(|row| text(&row["phase"]) == "other").map(|row| seconds(row)).sum();
    findings.check(other <= MOST_OTHER * whole, || {
        format!("{other} of {whole} s are called other: {}", explained["phases"])
    });
    let waited: f64 = first().filter(|row| text(&row["phase"]) == journal).map(|row| seconds(row)).sum();
    let below: f64 = phases.iter().filter(|row| text(&row["under"]) == journal).map(|row| seconds(row)).sum();
    findings.check(waited > 0.0, || format!("nothing waits in {journal}: {}", explained["phases"]));
    let has_clocks = guest.has_clocks();
    let expected = if has_clocks { waited } else { 0.0 };
    findings.check((below - expected).abs() <= MOST_OFF * expected, || {
        format!("{journal} took {waited} s, and what the committer did meanwhile {below} s")
    });
    let journals: Vec<_> = rows(&explained["journal"]).collect();
    findings.check(journals.len() == 1, || format!("one filesystem was synced: {}", explained["journal"]));
    for journal in journals {
        let is_silent = |field: &str| number(&journal[field]) == 0;
        findings.check(!has_clocks || !is_silent("log_writes") && !is_silent("device_flushes"), || {
            format!("its log was written, and its device flushed: {journal}")
        });
        let counts_commits = text(&journal["filesystem"]) == "ext4";
        findings.check(!has_clocks || !counts_commits || !is_silent("commits"), || {
            format!("it committed: {journal}")
        });
    }
    for (what, lost) in explained["lost"].as_object().into_iter().flatten() {
        // Where programs are preempted, others are skipped: that is counted, and moves the parts by less than
        // they may be off.
        let may_be = what == "preempted" && !guest.skipping_modes().is_empty();
        findings.check(may_be || lost.as_f64() == Some(0.0), || format!("{what}: {lost} are lost"));
    }
    let (no_server, sentences): (Vec<_>, Vec<_>) =
        rows(&explained["not_measurable"]).map(text).partition(|sentence| sentence.starts_with(NO_SERVER));
    findings.check(no_server.len() == 1, || format!("of the server it says {no_server:?} and {sentences:?}"));
    let says_so = sentences.iter().any(|sentence| sentence.contains(WITHOUT_CLOCKS));
    findings.check(says_so != has_clocks, || format!("of level two it says {sentences:?}"));
    findings.check(!has_clocks || sentences.is_empty(), || format!("not measurable: {sentences:?}"));
    findings.notes.push(format!(
        "{name}: {accounted:.3} of the time has its place, {:.3} of it is other",
        (other / whole).abs()
    ));
    Ok(())
}
