//! More threads than processors on kernels that preempt: what is counted and what is lost, by mode.

use std::fmt::Write;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::expect::{attached_as, says};
use crate::guests::{Guest, Scenario};
use crate::measured::{compare, number, rows, text, totals};
use crate::outcome::{Findings, Outcome};

/// At the rate of a journal, and saturated.
const PLACES: [&str; 2] = ["ext4", "tmpfs"];
/// In a mode whose programs make the kernel skip no other, map operations of user space still do, for as long
/// as they are preempted: one call in so many.
const SKIPPED_FOR_OPERATIONS: u64 = 1_000;

pub fn expect(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    says(outcome, "check", "preemption", "ok", "the kernel may preempt fentry", findings);
    for mode in guest.modes() {
        for place in PLACES {
            let step = format!("{place}-{mode}");
            findings.run(&step, |findings| {
                let note = one(outcome, &step, mode, !guest.skipping_modes().contains(mode), findings)?;
                findings.notes.push(format!("{mode:10} {place:5}: {note}"));
                Ok(())
            });
        }
    }
    // The mode that auto takes is one of those whose programs lost nothing above; in each that does, check
    // warns.
    says(outcome, "check", "attach", "ok", guest.auto(), findings);
    findings.run("check", |findings| {
        let attach = outcome.verdict("check", "attach")?;
        attached_as(guest.auto(), attach.detail.split(' ').next().unwrap_or_default(), findings)
    });
    says(outcome, "few-check", "perf events", "warn", "kernel.perf_event_paranoid is 3", findings);
    if guest.modes().contains(&"kprobe") {
        says(outcome, "few-check", "attach", "ok", "kprobe (", findings);
        findings.run("few", |findings| attached_as("kprobe", &compare(outcome, "few", findings)?, findings));
    } else {
        says(outcome, "check", "kprobe", "warn", "follows only a few calls at a time", findings);
        says(outcome, "few-check", "attach", "warn", "such calls are counted as lost", findings);
    }
}

/// Counted and lost together are what the load did, to the call, and no pair of a wrong entry and exit makes
/// a latency longer than the longest that the load saw.
fn one(outcome: &Outcome, step: &str, mode: &str, exact: bool, findings: &mut Findings) -> Result<String> {
    let status = outcome.status(step)?;
    findings.check(status == 0, || format!("exit status {status}"));
    let load = outcome.load(step)?;
    let calls = number(&load["calls"]);
    let seconds = load["seconds"].as_f64().unwrap_or(f64::NAN);
    let intervals = outcome.json_lines(&format!("{step}.out"))?;
    for measured in &intervals {
        attached_as(mode, &text(&measured["attach"]), findings)?;
    }
    let (counted, preempted, otherwise) = totals(&intervals);
    findings.check(counted + preempted == calls, || {
        format!("{counted} counted and {preempted} lost are {} of {calls}", counted + preempted)
    });
    findings.check(otherwise == 0, || format!("{otherwise} were lost otherwise"));
    findings.check(!exact || preempted * SKIPPED_FOR_OPERATIONS <= calls, || {
        format!("{preempted} of {calls} were lost in a mode whose programs skip none")
    });
    // The reader polled while the load ran; how often depends on the host.
    findings.check(intervals.len() > 1, || format!("only {} intervals", intervals.len()));
    for row in intervals.iter().flat_map(|measured| rows(&measured["files"])) {
        no_longer_than_seen(row, &load, findings)?;
    }
    Ok(format!("{:6.0} calls a second, {preempted} of {calls} lost", calls as f64 / seconds))
}

/// The load's own clock runs around each call, so it shows more. A maximum that is the edge of a bucket may
/// be one step of 16 too high.
fn no_longer_than_seen(row: &Value, load: &Value, findings: &mut Findings) -> Result<()> {
    let op = text(&row["op"]);
    let Some(longest) = row["latency_seconds"]["max"].as_f64() else { return Ok(()) };
    let seen = load["latency_seconds"][&op]["max"].as_f64();
    ensure!(seen.is_some(), "the load measured no {op}");
    let step = if row["latency_seconds"]["max_exact"] == true { 1.0 } else { 17.0 / 16.0 };
    let most = seen.unwrap_or_default() * step;
    findings
        .check(longest <= most, || format!("one {op} of {longest} s, and the load saw none above {most} s"));
    Ok(())
}

/// The section of the page.
pub fn page(seen: &[(Guest, Outcome)]) -> Result<String> {
    let mut text = "\n## Preemption\n\nSixteen threads on one processor, while someone reads every 200 ms: on ext4 at the rate of its journal, \
                    and on tmpfs as fast as they can. In each mode, calls counted and calls lost (`lost.preempted`) together are what the load \
                    did, to the call, and no latency is longer than the longest that the load saw itself. How many are lost differs from run \
                    to run; the run prints it. Auto takes the first mode whose programs make the kernel skip none; what it still skips while a \
                    map operation of user space is preempted is at most one call in a thousand.\n\n\
                    | kernel | preemption | mode | lost on ext4 | lost on tmpfs | auto |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let mut reasons = String::new();
    for (guest, outcome) in seen.iter().filter(|(guest, _)| guest.scenario == Scenario::Preemption) {
        let release = outcome.text("release")?;
        let model = outcome.verdict("check", "preemption")?.detail;
        let model = model.split(" (").next().unwrap_or_default();
        for mode in guest.modes() {
            let mut lost = Vec::new();
            for place in PLACES {
                let (_, preempted, _) = totals(&outcome.json_lines(&format!("{place}-{mode}.out"))?);
                lost.push(if preempted > 0 { "some" } else { "none" });
            }
            let auto = if *mode == guest.auto() { "takes it" } else { "" };
            writeln!(text, "| {release} | {model} | {mode} | {} | {} | {auto} |", lost[0], lost[1])?;
        }
        let attach = outcome.verdict("check", "attach")?.detail;
        writeln!(reasons, "- {release}, {model}: {attach}")?;
    }
    write!(text, "\nIn the words of `fsynctop check`:\n\n{reasons}")?;
    Ok(text)
}
