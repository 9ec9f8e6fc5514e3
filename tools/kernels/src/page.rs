//! docs/kernels.md, made of what the guests said.

use std::fmt::Write;

use anyhow::Result;

use crate::guests::{Guest, Scenario};
use crate::outcome::Outcome;
use crate::preemption;

const HEAD: &str = "\
# Kernels

Made by `make kernels`, which boots each of these kernels in QEMU (software emulation; x86-64, and arm64 where the name says so; Debian's \
cloud flavour), lets the static binary trace loads of exactly known counts there, and fails at the first difference.

## What works

In each mode: every sync by file, operation, thread and errno, to the call, on ext4 and XFS; paths, inodes, roles and threads as they are; \
a sync that hangs is shown, also one that hung before tracing began; nothing is lost; what could not be written back of a file that \
nobody syncs (ext4, on a device that fails every write) is told once, with its name, in the interval in which the kernel first records it \
or in the next one; the JSON has the shape of [json.md](json.md); the \
kernel's taint is unchanged and its log has no warning; each of the six operations is counted in the mode that auto takes for \
them (`sync` cannot be watched by fentry: asking for it moves all of the tracing to another mode). `explain` \
finds on ext4 and XFS a place for all of the syncs' time but 2 % at most, and calls no more than 5 % of it \"other\"; with both levels, also for what the \
journal or log did meanwhile. The loads have three threads, but one in the \
modes in which the kernel skips programs it has preempted: what threads lose to each other there stands under Preemption.

";

pub fn render(seen: &[(Guest, Outcome)]) -> Result<String> {
    let mut page = HEAD.to_owned();
    page.push_str("| guest | kernel | fentry | kprobe | tracepoint | auto takes | preemption | explain keeps waits in | explain |\n|---|---|---|---|---|---|---|---|---|\n");
    let mut reasons = String::new();
    for (guest, outcome) in seen.iter().filter(|(guest, _)| guest.scenario == Scenario::Modes) {
        let release = outcome.text("release")?;
        let attach = outcome.verdict("check-json", "attach")?.detail;
        let (mode, why) = attach.split_once(' ').unwrap_or((&attach, ""));
        let storage = outcome.verdict("check-json", "task storage")?;
        let storage = match storage.detail.split_once(": a hash keeps") {
            Some((why, _)) => format!("a hash: {why}"),
            None => "the thread".to_owned(),
        };
        let preemption = outcome.verdict("check-json", "preemption")?.detail;
        let preemption = preemption.split(" (").next().unwrap_or_default();
        let exact = ["fentry", "kprobe", "tracepoint"].map(|mode| match mode {
            mode if guest.modes().contains(&mode) => "exact",
            "kprobe" => "not tried",
            _ => "cannot be attached",
        });
        let exact = exact.join(" | ");
        writeln!(
            page,
            "| {}: {} | {release} | {exact} | {mode} | {preemption} | {storage} | {} |",
            guest.name,
            guest.about,
            if guest.has_clocks() { "both levels" } else { "level one" }
        )?;
        writeln!(reasons, "- {}: {mode} {why}", guest.name)?;
    }
    write!(page, "\nWhy auto takes what it takes, in the words of `fsynctop check`:\n\n{reasons}")?;
    page.push_str(&faults(seen)?);
    page.push_str(&filesystems(seen)?);
    page.push_str(&conditions(seen)?);
    page.push_str(&preemption::page(seen)?);
    Ok(page)
}

/// Where the devices were made to fail.
fn faults(seen: &[(Guest, Outcome)]) -> Result<String> {
    let mut text = "\n## Faults of the device\n\nBelow ext4 (with its journal) and XFS, by the device mapper, in each mode. Writes that fail: errors by file, \
                    operation and errno are those that the load saw, to the call. Flushes (ext4) and writes (XFS) that take 60 ms: median, mean \
                    and maximum are those that the load measured around its calls. A device that is suspended: the sync is in flight, older in \
                    each interval, with thread, path and role; when the device goes on, it is counted once with the time that it took.\n\n"
        .to_owned();
    for (guest, outcome) in seen.iter().filter(|(guest, _)| guest.faults) {
        writeln!(text, "- {}: {}", outcome.text("release")?, guest.modes().join(", "))?;
    }
    Ok(text)
}

/// Where what the programs read is described in modules.
fn filesystems(seen: &[(Guest, Outcome)]) -> Result<String> {
    let mut text = "\n## Filesystems that are modules\n\nIn each mode, as root and with the capabilities of the shipped unit, to the call: two files of one inode number in two subvolumes of btrfs are two rows, \
                    two files that had one inode number one after the other below an overlay \
                    (upper layer on ext4) are two rows; device numbers are those that `stat` shows.\n\n"
        .to_owned();
    for (guest, outcome) in seen.iter().filter(|(guest, _)| guest.scenario == Scenario::Filesystems) {
        writeln!(text, "- {}: {}", outcome.text("release")?, guest.modes().join(", "))?;
    }
    Ok(text)
}

/// What `fsynctop` says where something is missing.
fn conditions(seen: &[(Guest, Outcome)]) -> Result<String> {
    let mut text =
        "\n## What a host may lack\n\n| condition | what happens | in its words |\n|---|---|---|\n"
            .to_owned();
    let mut row = |condition: &str, what: &str, words: &str| {
        writeln!(text, "| {condition} | {what} | {} |", words.replace('\n', " ").replace('|', "\\|").trim())
    };
    for (guest, outcome) in seen {
        match guest.scenario {
            Scenario::Conditions => {
                row(
                    "tracefs not mounted",
                    "tracepoints work, exact, by a private mount that nobody else sees",
                    "",
                )?;
                let attach = outcome.verdict("no-ftrace-check", "attach")?.detail;
                row("`ftrace_enabled=0`", "auto falls back to tracepoints, exact", &attach)?;
                row("no BTF", "refused", &first_reason(&outcome.text("no-btf.err")?))?;
                let none = outcome.verdict("no-capabilities-check", "capabilities")?.detail;
                row("a user without capabilities", "refused, with the command to type", &none)?;
                let few = outcome.verdict("bpf-perfmon-check", "capabilities")?.detail;
                row("CAP_BPF and CAP_PERFMON alone", "fentry works, exact; tracepoints are refused", &few)?;
                let paranoid = outcome.verdict("perf-paranoid-check", "perf events")?.detail;
                row(
                    "and CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYSLOG",
                    "both modes work, exact, and `explain`; tracepoints where `kernel.perf_event_paranoid` is at most 2",
                    &paranoid,
                )?;
                row(
                    "the same, and the server is another user's, in a directory closed to others",
                    "paths and roles as they are; syncs that hung earlier are shown",
                    &outcome.verdict("other-user-check", "server")?.detail,
                )?;
            }
            Scenario::Lockdown => {
                row("`lockdown=confidentiality`", "refused", &first_reason(&outcome.text("auto.err")?))?
            }
            Scenario::Modes | Scenario::Preemption | Scenario::Filesystems => {}
        }
    }
    Ok(text)
}

/// Of the reasons that are listed, one for each mode, the first.
fn first_reason(message: &str) -> String {
    message.lines().find_map(|line| line.strip_prefix("  ")).unwrap_or(message).to_owned()
}
