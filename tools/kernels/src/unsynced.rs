//! What a device does to a file that nobody syncs: the kernel cannot write it back, and it is told when that
//! happens.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::measured::{number, rows, text};
use crate::outcome::{Findings, Outcome};

const FILE: &str = "/mnt/ext4/shop/orders.ibd";
/// As guest/unsynced.sh asks for it.
const INTERVAL: Duration = Duration::from_millis(500);
/// From when "now" was written into the record until the clock was read, at most, on a busy host.
const MARKED_BEFORE: Duration = Duration::from_millis(200);

/// The file is named once, though the kernel records it again and again, in the interval in which that begins
/// or in the one after it.
pub fn expect(outcome: &Outcome, findings: &mut Findings) -> Result<()> {
    let status = outcome.status("unsynced")?;
    findings.check(status == 0, || format!("exit status {status}: {:?}", outcome.text("unsynced.err")));
    let intervals = outcome.json_lines("unsynced.out")?;
    for measured in &intervals {
        let lost = &measured["lost"]["writeback_errors"];
        findings.check(lost == 0, || format!("{lost} changes are of unknown files"));
        let files = &measured["files"];
        findings.check(rows(files).count() == 0, || format!("something was synced: {files}"));
    }
    // Metadata fails as well: rows of the device.
    let told: Vec<(&Value, &Value)> = intervals
        .iter()
        .flat_map(|measured| rows(&measured["writeback_errors"]).map(move |row| (measured, row)))
        .filter(|(_, row)| row["target"] == "file")
        .collect();
    let [(interval, row)] = told[..] else {
        findings.fail(format!("one file should be told once: {told:?}"));
        return Ok(());
    };
    let pid: u64 = outcome.text("unsynced.pid")?.parse().context("the writer's PID")?;
    let expected = json!({
        "pid": pid, "role": "tablespace", "path": FILE, "filesystem": "ext4", "error": "EIO", "count": 1,
    });
    let same = expected.as_object().into_iter().flatten().all(|(field, value)| row[field] == *value);
    findings.check(same, || format!("it should be {expected} and is {row}"));

    let record = outcome.text("unsynced.trace")?;
    let of_file = format!(" ino=0x{:x} ", number(&row["inode"]));
    let events: Vec<f64> =
        record.lines().filter(|line| line.contains(&of_file)).filter_map(recorded_at).collect();
    let marked = record.lines().find(|line| line.ends_with(": now")).and_then(recorded_at);
    let (marked, first) = marked.zip(events.first()).context("the record lacks what happened")?;
    let now = outcome.text("unsynced.now")?;
    let now = humantime::parse_rfc3339_weak(now.trim_end_matches(" +0000")).context("the guest's clock")?;
    let happened = now + Duration::from_secs_f64((first - marked).max(0.0));
    let time = |field: &str| humantime::parse_rfc3339(&text(&interval[field]));
    let (start, end) = (time("start")?, time("end")?);
    let length = end.duration_since(start)?.max(INTERVAL);
    let in_time = start <= happened + length && happened <= end + MARKED_BEFORE;
    findings.check(in_time, || format!("it happened at {happened:?} and was told of {start:?} to {end:?}"));
    findings.notes.push(format!("a file that nobody syncs: one EIO, recorded {} times", events.len()));
    Ok(())
}

/// The time of a line of ftrace's record, in seconds of its clock.
fn recorded_at(line: &str) -> Option<f64> {
    let (before, _) = line.split_once(": ")?;
    before.split_whitespace().last()?.parse().ok()
}
