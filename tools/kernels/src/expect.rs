//! What must hold in each scenario.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;

use crate::diff::differences;
use crate::guests::{Guest, MODES, Scenario};
use crate::measured::{compare, counted, nothing_is_lost, number, rows, text};
use crate::outcome::{Findings, Outcome};
use crate::{durable, faults, filesystems, preemption, shape, unsynced, users, waits};

/// What a kernel writes when something in it goes wrong.
const ALARMS: [&str; 5] = ["WARNING:", "BUG:", "Oops", "cut here", "general protection"];
/// One that is about the processor which is emulated: it says so as it starts.
const ABOUT_THE_PROCESSOR: &str = "Speculative Return Stack Overflow: ";

/// Filesystems, and what `explain` calls the wait for their committer.
const JOURNALS: [(&str, &str); 2] = [("ext4", "journal_commit"), ("xfs", "log_force")];

pub fn outcome(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    findings.run("guest", |findings| {
        let status = outcome.status("scenario")?;
        let complaints = outcome.text("scenario.err")?;
        findings.check(status == 0, || {
            format!("guest/{}.sh ended with {status}: {complaints}", guest.scenario.name())
        });
        findings.check(complaints.is_empty(), || complaints);
        Ok(())
    });
    findings.run("kernel", |findings| kernel_is_unharmed(outcome, findings));
    match guest.scenario {
        Scenario::Modes => modes(guest, outcome, findings),
        Scenario::Conditions => conditions(guest, outcome, findings),
        Scenario::Lockdown => lockdown(outcome, findings),
        Scenario::Preemption => preemption::expect(guest, outcome, findings),
        Scenario::Filesystems => filesystems::expect(guest, outcome, findings),
    }
}

fn kernel_is_unharmed(outcome: &Outcome, findings: &mut Findings) -> Result<()> {
    let (before, after) = (outcome.text("tainted-before")?, outcome.text("tainted-after")?);
    findings.check(before == after, || format!("taint changed from {before} to {after}"));
    let log = outcome.text("dmesg")?;
    let alarms = log.lines().filter(|line| ALARMS.iter().any(|alarm| line.contains(alarm)));
    for line in alarms.filter(|line| !line.contains(ABOUT_THE_PROCESSOR)) {
        findings.fail(line);
    }
    Ok(())
}

fn modes(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    findings.run("check", |findings| {
        let status = outcome.status("check")?;
        let text = outcome.text("check.out")?;
        findings.check(status == 0, || format!("exit status {status}: {text}"));
        findings.check(text.ends_with("Tracing works here."), || {
            format!("it does not say that it works: {text}")
        });
        for name in guest.modes().iter().chain(&["attach"]) {
            let name = if *name == "tracepoint" { "tracepoints" } else { name };
            let verdict = outcome.verdict("check-json", name)?;
            findings
                .check(verdict.status == "ok", || format!("{name}: {}: {}", verdict.status, verdict.detail));
        }
        Ok(())
    });
    if !guest.has_fentry {
        without_fentry(outcome, findings);
    }
    for mode in guest.modes() {
        findings.run(mode, |findings| {
            let by_thread = outcome.json(&format!("{mode}.out"))?.get("threads").is_some();
            findings.check(by_thread, || "there are no rows by thread".into());
            attached_as(mode, &compare(outcome, mode, findings)?, findings)
        });
    }
    findings.run("auto", |findings| {
        let used = compare(outcome, "auto", findings)?;
        let said = outcome.verdict("check-json", "attach")?.detail;
        findings.check(said.split(' ').next() == Some(&used), || {
            format!("check says {said:?}, and it attached by {used}")
        });
        findings.check(used == guest.auto(), || format!("{} serves better here", guest.auto()));
        findings.notes.push(format!("auto: {said}"));
        Ok(())
    });
    for (filesystem, _) in JOURNALS {
        findings.run(&format!("unwatched-{filesystem}"), |findings| unwatched(outcome, filesystem, findings));
    }
    for (filesystem, _) in JOURNALS {
        for mode in guest.modes() {
            let step = format!("writes-{mode}-{filesystem}");
            let names_failures = guest.names_failures(mode);
            findings.run(&step, |findings| durable::expect(outcome, &step, names_failures, findings));
            let step = format!("unsynced-{mode}-{filesystem}");
            findings.run(&step, |findings| {
                if guest.watches_all_writes(mode) {
                    return durable::expect_unsynced(outcome, &step, findings);
                }
                let said = outcome.text(&format!("{step}.err"))?;
                findings
                    .check(said.contains("no way of attaching works here"), || format!("it says {said:?}"));
                Ok(())
            });
        }
        let step = format!("rings-{filesystem}");
        findings.run(&step, |findings| durable::expect_requests(outcome, "io_uring", &step, findings));
        for mode in guest.modes() {
            let step = format!("aio-{mode}-{filesystem}");
            findings.run(&step, |findings| durable::expect_requests(outcome, "libaio", &step, findings));
        }
    }
    task_storage(guest, outcome, findings);
    if !guest.quick {
        hangs_and_waits(guest, outcome, findings);
    }
}

/// What takes long: syncs that hang, where the time goes, each operation, devices that fail.
fn hangs_and_waits(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    for mode in guest.modes() {
        findings.run(mode, |findings| hung(outcome, mode, findings));
    }
    for (filesystem, journal) in JOURNALS {
        let step = format!("explain-{filesystem}");
        findings.run(&step, |findings| waits::expect(guest, outcome, &step, journal, findings));
    }
    findings.run("ops", |findings| every_operation(guest, outcome, findings));
    findings.run("unsynced", |findings| unsynced::expect(outcome, findings));
    if guest.faults {
        faults::expect(guest, outcome, findings);
    }
}

/// Each durable write is counted as unwatched, and the syncs between them are not.
fn unwatched(outcome: &Outcome, filesystem: &str, findings: &mut Findings) -> Result<()> {
    let step = format!("unwatched-{filesystem}");
    let (measured, load) = (outcome.json(&format!("{step}.out"))?, outcome.load(&step)?);
    let covered = rows(&measured["unwatched_counted_on"]).any(|name| name == filesystem);
    findings.check(covered, || format!("counted on {}", measured["unwatched_counted_on"]));
    let (made, counted) = (number(&load["durable_writes"]), number(&measured["lost"]["unwatched"]));
    findings.check(made > 0 && counted == made, || format!("{made} durable writes, {counted} counted"));
    let syncs: u64 = rows(&measured["roles"]).map(|role| number(&role["count"])).sum();
    findings.check(syncs == number(&load["calls"]), || format!("{syncs} syncs counted: {load}"));
    Ok(())
}

/// Where the start of a wait is kept.
fn task_storage(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    findings.run("task storage", |findings| {
        let storage = outcome.verdict("check-json", "task storage")?;
        let said = format!("{}: {}", storage.status, storage.detail);
        findings.check(said.starts_with(guest.wait_storage()), || format!("it says {said:?}"));
        Ok(())
    });
}

/// Each operation that can be traced, on what it is made on, to the call. fentry cannot watch sync, so that
/// auto takes another mode.
fn every_operation(guest: &Guest, outcome: &Outcome, findings: &mut Findings) -> Result<()> {
    let measured = outcome.json("ops.out")?;
    let used = text(&measured["attach"]);
    findings
        .check(used != "fentry" && guest.modes().contains(&used.as_str()), || format!("attached by {used}"));
    let expected: BTreeMap<String, (String, u64)> = outcome.load("ops")?["ops"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(op, count)| {
            let target = match op.as_str() {
                "msync" | "sync" => "none",
                "syncfs" => "filesystem",
                _ => "file",
            };
            (op.clone(), (target.to_owned(), number(&count["calls"])))
        })
        .collect();
    findings.check(expected.len() == 6, || format!("the load made {expected:?}"));
    let row = |row: &Value| (text(&row["op"]), (text(&row["target"]), number(&row["count"])));
    let found = rows(&measured["files"]).map(row).collect();
    differences(&expected, &found).into_iter().for_each(|line| findings.fail(line));
    nothing_is_lost(&measured, findings);
    Ok(())
}

/// It says that this kernel cannot attach fentry programs, with the kernel's own number (ENOTSUPP), and auto
/// takes tracepoints.
fn without_fentry(outcome: &Outcome, findings: &mut Findings) {
    const WHY: &str =
        "not supported (os error 524): this kernel cannot attach such programs (fentry on arm64 before 6.4,";
    refused(outcome, "fentry", &["fentry: attach fexit_", WHY], findings);
    says(outcome, "check-json", "fentry", "warn", WHY, findings);
    says(outcome, "check-json", "attach", "ok", WHY, findings);
}

pub fn attached_as(wanted: &str, used: &str, findings: &mut Findings) -> Result<()> {
    findings.check(used == wanted, || format!("it was attached by {used}"));
    Ok(())
}

/// A sync that hangs is shown in every way, with its age, and is not taken for anything else once it ends.
fn hung(outcome: &Outcome, mode: &str, findings: &mut Findings) -> Result<()> {
    let load = outcome.load(&format!("hung-{mode}"))?;
    let (pid, tid) = (&load["pid"], &load["threads"][0]["tid"]);
    for (step, is_minimum) in [("hung", false), ("hung-before", true), ("stuck", true)] {
        let name = format!("{step}-{mode}");
        findings.run(&name, |findings| {
            let status = outcome.status(&name)?;
            findings.check(status == 0, || format!("exit status {status}"));
            let seen = outcome.json(&format!("{name}.out"))?;
            let expected = serde_json::json!([{
                "pid": pid, "tid": tid, "thread": "sync-0", "op": "fdatasync", "role": "redo",
                "path": "/mnt/ext4/#innodb_redo/#ib_redo7", "age_is_minimum": is_minimum,
            }]);
            let mut found = seen["in_flight"].clone();
            for sync in found.as_array_mut().into_iter().flatten() {
                let age = sync["age_seconds"].as_f64().unwrap_or(f64::NAN);
                findings.check(age > 0.15 && age < 60.0, || format!("it hangs for {age} s"));
                if let Some(fields) = sync.as_object_mut() {
                    fields.retain(|field, _| expected[0].get(field).is_some());
                }
            }
            findings.check(found == expected, || format!("in_flight should be {expected} and is {found}"));
            if step != "stuck" {
                findings.check(counted(&seen["files"]).count() == 0, || {
                    format!("it was counted: {}", seen["files"])
                });
                nothing_is_lost(&seen, findings);
                shape::differences_from_contract(&seen)?.into_iter().for_each(|line| findings.fail(line));
            }
            Ok(())
        });
    }
    // It began before this measurement: how long it took is not known, so it is neither counted nor lost.
    let name = format!("resumed-{mode}");
    findings.run(&name, |findings| {
        let seen = outcome.json(&format!("{name}.out"))?;
        findings.check(rows(&seen["in_flight"]).count() == 0, || {
            format!("still in flight: {}", seen["in_flight"])
        });
        findings.check(counted(&seen["files"]).count() == 0, || format!("it was counted: {}", seen["files"]));
        nothing_is_lost(&seen, findings);
        Ok(())
    });
    Ok(())
}

/// A step that must fail with status 1 and words that name the cause.
fn refused(outcome: &Outcome, step: &str, words: &[&str], findings: &mut Findings) {
    findings.run(step, |findings| {
        let status = outcome.status(step)?;
        findings.check(status == 1, || format!("exit status {status} instead of 1"));
        let said =
            format!("{}{}", outcome.text(&format!("{step}.out"))?, outcome.text(&format!("{step}.err"))?);
        findings.check(!said.contains("libbpf:"), || format!("libbpf speaks to the user: {said}"));
        for word in words.iter().filter(|word| !said.contains(*word)) {
            findings.fail(format!("it does not say {word:?}: {said}"));
        }
        Ok(())
    });
}

/// A verdict of `check --output json` and a word that it must have, in what it says or in its cure.
pub fn says(outcome: &Outcome, step: &str, name: &str, status: &str, word: &str, findings: &mut Findings) {
    findings.run(step, |findings| {
        let verdict = outcome.verdict(step, name)?;
        let said = format!("{}: {} {}", verdict.status, verdict.detail, verdict.cure);
        findings.check(verdict.status == status && said.contains(word), || {
            format!("{name} should be {status:?} with {word:?} and is {said:?}")
        });
        Ok(())
    });
}

fn conditions(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    findings.run("no-tracefs", |findings| {
        attached_as("tracepoint", &compare(outcome, "no-tracefs", findings)?, findings)?;
        let mounts = outcome.text("no-tracefs-mounts.out")?;
        findings.check(mounts.is_empty(), || format!("it left a mount behind: {mounts}"));
        Ok(())
    });
    findings.run("no-ftrace", |findings| {
        attached_as("tracepoint", &compare(outcome, "no-ftrace", findings)?, findings)
    });
    says(outcome, "no-ftrace-check", "attach", "ok", "self-test", findings);
    says(outcome, "no-ftrace-check", "fentry", "warn", "self-test", findings);
    says(outcome, "no-ftrace-check", "ftrace", "warn", "ftrace_enabled", findings);
    refused(outcome, "no-ftrace-fentry", &["fentry", "self-test"], findings);
    refused(outcome, "no-btf", &["CONFIG_DEBUG_INFO_BTF"], findings);
    says(outcome, "no-btf-check", "BTF", "fail", "CONFIG_DEBUG_INFO_BTF", findings);
    refused(outcome, "no-capabilities", &["Tracing needs root: sudo fsynctop once"], findings);
    refused(outcome, "no-capabilities-check", &["CAP_BPF", "CAP_PERFMON"], findings);
    findings.run("bpf-perfmon", |findings| {
        attached_as("fentry", &compare(outcome, "bpf-perfmon", findings)?, findings)
    });
    says(outcome, "bpf-perfmon-check", "capabilities", "warn", "CAP_DAC_READ_SEARCH", findings);
    refused(outcome, "bpf-perfmon-tracepoint", &["CAP_DAC_READ_SEARCH"], findings);
    says(outcome, "perf-paranoid-check", "perf events", "warn", "perf_event_paranoid", findings);
    refused(outcome, "perf-paranoid", &["kernel.perf_event_paranoid is 3"], findings);
    says(outcome, "minimum-check", "capabilities", "ok", "", findings);
    for mode in MODES {
        let step = format!("minimum-{mode}");
        findings.run(&step, |findings| attached_as(mode, &compare(outcome, &step, findings)?, findings));
    }
    let (step, (_, journal)) = ("minimum-explain", JOURNALS[0]);
    findings.run(step, |findings| waits::expect(guest, outcome, step, journal, findings));
    users::expect(outcome, findings);
}

fn lockdown(outcome: &Outcome, findings: &mut Findings) {
    says(outcome, "check", "lockdown", "fail", "confidentiality", findings);
    for step in ["auto", "fentry", "tracepoint"] {
        refused(outcome, step, &["lockdown", "confidentiality"], findings);
    }
    refused(outcome, "check", &["lockdown"], findings);
}
