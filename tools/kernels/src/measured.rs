//! A measurement compared with the reports of the loads: by file, role and thread, to the call.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::diff::{Short, differences_but};
use crate::outcome::{Findings, Outcome};
use crate::shape;

/// The roles of the files of guest/functions.sh, by their last component.
const ROLES: [(&str, &str); 4] =
    [("#ib_redo7", "redo"), ("binlog.000001", "binlog"), ("orders.ibd", "tablespace"), ("undo_001", "undo")];

#[derive(Clone, Debug, PartialEq)]
struct File {
    role: String,
    /// "254:0", the inode's number, and the filesystem; of a bad descriptor none.
    place: Option<(String, u64, String)>,
    count: u64,
    errors: BTreeMap<String, u64>,
}

impl Short for File {
    fn short_of(&self, made: &File) -> Option<u64> {
        let same = (&self.role, &self.place) == (&made.role, &made.place);
        let fewer =
            |(errno, count): (&String, &u64)| made.errors.get(errno).is_some_and(|made| count <= made);
        (same && self.errors.iter().all(fewer)).then(|| self.count.short_of(&made.count))?
    }
}

/// (pid, path, op).
type Files = BTreeMap<(u64, String, String), File>;
/// (pid, role, op).
type Roles = BTreeMap<(u64, String, String), u64>;
/// (pid, tid, op).
type Threads = BTreeMap<(u64, u64, String), u64>;

/// Compares what the step `name` of guest/functions.sh's `measure` printed with what load.sh says it did.
/// Returns how it was attached.
pub fn compare(outcome: &Outcome, name: &str, findings: &mut Findings) -> Result<String> {
    compare_loads(outcome, name, &["ext4", "xfs", "bad"], findings)
}

/// The same for a load on some filesystems: each left NAME.FILESYSTEM.load.
pub fn compare_loads(
    outcome: &Outcome,
    name: &str,
    filesystems: &[&str],
    findings: &mut Findings,
) -> Result<String> {
    let status = outcome.status(name)?;
    let complaints = outcome.text(&format!("{name}.err"))?;
    findings.check(status == 0, || format!("exit status {status}: {complaints}"));
    findings.check(complaints.is_empty(), || format!("it complains: {complaints}"));
    let measured = outcome.json(&format!("{name}.out"))?;

    let mut files = Files::new();
    let mut threads = Threads::new();
    for &filesystem in filesystems {
        let load = outcome.load(&format!("{name}.{filesystem}"))?;
        let pid = number(&load["pid"]);
        for file in rows(&load["files"]) {
            let path = text(&file["path"]);
            let role = ROLES.iter().find(|(end, _)| path.ends_with(end)).map(|(_, role)| (*role).to_owned());
            let role = role.with_context(|| format!("no role is expected of {path}"))?;
            let place =
                Some((device(number(&file["device"])), number(&file["inode"]), filesystem.to_owned()));
            for (op, count, errors) in counts(&file["ops"]) {
                files.insert(
                    (pid, path.clone(), op),
                    File { role: role.clone(), place: place.clone(), count, errors },
                );
            }
        }
        if filesystem == "bad" {
            for (op, count, errors) in counts(&load["ops"]) {
                files.insert(
                    (pid, "bad_descriptor".into(), op),
                    File { role: "other".into(), place: None, count, errors },
                );
            }
        }
        for thread in rows(&load["threads"]) {
            for (op, count, _) in counts(&thread["ops"]) {
                threads.insert((pid, number(&thread["tid"]), op), count);
            }
        }
    }
    let mut roles = Roles::new();
    for ((pid, _, op), file) in &files {
        *roles.entry((*pid, file.role.clone(), op.clone())).or_default() += file.count;
    }

    let skipped = skipped(&measured);
    let mut differ = differences_but(&files, &measured_files(&measured), skipped);
    differ.extend(differences_but(&roles, &measured_roles(&measured), skipped));
    if let Some(rows) = measured.get("threads") {
        differ.extend(differences_but(&threads, &measured_threads(rows), skipped));
    }
    differ.into_iter().for_each(|line| findings.fail(line));
    nothing_is_lost_but(skipped, &measured, findings);
    shape::differences_from_contract(&measured)?
        .into_iter()
        .for_each(|line| findings.fail(format!("JSON: {line}")));
    Ok(text(&measured["attach"]))
}

/// What other processes do is no loss, and neither is a call that began before the tracing.
const NO_LOSS: [&str; 2] = ["neighbours_unwatched", "answered"];
/// At most: a run of its program that the kernel skipped may have been an error that is counted already.
const WRITEBACK: &str = "writeback_errors";

/// Calls that were counted as lost in the mode in which that may be: no program of kprobe's makes the kernel
/// skip another, but a map operation of user space does, while it is preempted.
fn skipped(measured: &Value) -> u64 {
    if measured["attach"] == "kprobe" { number(&measured["lost"]["preempted"]) } else { 0 }
}

pub fn nothing_is_lost(measured: &Value, findings: &mut Findings) {
    nothing_is_lost_but(0, measured, findings);
}

/// `preempted`: calls that the kernel skipped.
fn nothing_is_lost_but(preempted: u64, measured: &Value, findings: &mut Findings) {
    let lost = measured["lost"].as_object();
    let is_expected = |(kind, lost): (&String, &Value)| {
        let is_no_loss = NO_LOSS.contains(&kind.as_str()) || kind == WRITEBACK;
        is_no_loss || lost.as_f64() == Some(if kind == "preempted" { preempted as f64 } else { 0.0 })
    };
    let zero = lost.is_some_and(|kinds| !kinds.is_empty() && kinds.iter().all(is_expected));
    findings.check(zero, || format!("lost: {}", measured["lost"]));
}

/// Counted, lost to preemption, and what else was lost, over all intervals.
pub fn totals(intervals: &[Value]) -> (u64, u64, u64) {
    let mut sum = (0, 0, 0);
    for measured in intervals {
        sum.0 += rows(&measured["roles"]).map(|role| number(&role["count"])).sum::<u64>();
        sum.1 += number(&measured["lost"]["preempted"]);
        let others = measured["lost"].as_object().into_iter().flatten();
        // The time of pauses is no number of syncs.
        let others = others.filter(|(kind, _)| {
            !matches!(
                kind.as_str(),
                "preempted" | "paused_seconds" | "neighbours_unwatched" | "answered" | WRITEBACK
            )
        });
        sum.2 += others.map(|(_, count)| number(count)).sum::<u64>();
    }
    sum
}

fn measured_files(measured: &Value) -> Files {
    let row = |row: &Value| {
        let file = row["target"] == "file";
        let name = if file { text(&row["path"]) } else { text(&row["target"]) };
        let place =
            file.then(|| (text(&row["device_number"]), number(&row["inode"]), text(&row["filesystem"])));
        let (count, errors) = (number(&row["count"]), errors(&row["errors"]));
        (
            (number(&row["pid"]), name, text(&row["op"])),
            File { role: text(&row["role"]), place, count, errors },
        )
    };
    rows(&measured["files"]).map(row).collect()
}

fn measured_roles(measured: &Value) -> Roles {
    let row =
        |row: &Value| ((number(&row["pid"]), text(&row["role"]), text(&row["op"])), number(&row["count"]));
    rows(&measured["roles"]).map(row).collect()
}

fn measured_threads(threads: &Value) -> Threads {
    let row = |row: &Value| {
        let key = (number(&row["pid"]), number(&row["tid"]), text(&row["op"]));
        (key, number(&row["count"]))
    };
    rows(threads).map(row).collect()
}

pub fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Those of which something finished: what hangs has a row for the time that it has taken.
pub fn counted(value: &Value) -> impl Iterator<Item = &Value> {
    rows(value).filter(|row| number(&row["count"]) > 0)
}

/// What is no number differs from every count there can be.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}

pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn errors(value: &Value) -> BTreeMap<String, u64> {
    value.as_object().into_iter().flatten().map(|(name, count)| (name.clone(), number(count))).collect()
}

/// syncgen's counts by operation.
fn counts(ops: &Value) -> impl Iterator<Item = (String, u64, BTreeMap<String, u64>)> {
    let ops = ops.as_object().into_iter().flatten();
    ops.map(|(op, count)| (op.clone(), number(&count["calls"]), errors(&count["errors"])))
}

/// st_dev as the kernel writes it; minor numbers of one byte.
pub fn device(number: u64) -> String {
    format!("{}:{}", number >> 8 & 0xfff, number & 0xff)
}
