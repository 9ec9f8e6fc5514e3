//! What the devices below ext4 and XFS do to syncs, by the device mapper: errors, delays, and syncs that hang
//! and go on.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::expect::attached_as;
use crate::guests::Guest;
use crate::measured::{compare_loads, counted, number, rows, text};
use crate::outcome::{Findings, Outcome};

const FILESYSTEMS: [&str; 2] = ["ext4", "xfs"];
/// What guest/faults.sh puts into each write or flush, less one tick of the kernel's clock.
const DELAY: f64 = 0.060 - 0.004;
const REDO_LOG: &str = "#innodb_redo/#ib_redo7";

pub fn expect(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    for mode in guest.modes() {
        let named = |what: &str| format!("{what}-{mode}");
        findings.run(&named("failing"), |findings| failing(outcome, mode, findings));
        findings.run(&named("delayed"), |findings| delayed(outcome, mode, findings));
        findings.run(&named("stalled"), |findings| stalled(outcome, mode, findings));
    }
}

/// By file, operation and errno as the load saw it, which has seen syncs succeed and fail on each filesystem.
fn failing(outcome: &Outcome, mode: &str, findings: &mut Findings) -> Result<()> {
    let name = format!("failing-{mode}");
    attached_as(mode, &compare_loads(outcome, &name, &FILESYSTEMS, findings)?, findings)?;
    let mut note = Vec::new();
    for filesystem in FILESYSTEMS {
        let load = outcome.load(&format!("{name}.{filesystem}"))?;
        let mut saw_eio = false;
        for op in ["fsync", "fdatasync"] {
            let count = &load["ops"][op];
            let failed = count["errors"].as_object().is_some_and(|errors| !errors.is_empty());
            let tried = failed && number(&count["succeeded"]) > 0;
            findings.check(tried, || format!("{filesystem}: no trial of {op}: {count}"));
            saw_eio |= count["errors"]["EIO"].as_u64().unwrap_or(0) > 0;
            note.push(format!("{filesystem} {op} {}", count["errors"]));
        }
        // ext4 may turn read-only at its first failure: from then on it is EROFS, for whichever operation
        // comes next.
        findings.check(saw_eio, || format!("{filesystem}: no sync failed with EIO"));
    }
    findings.notes.push(format!("{mode} and the load saw {}", note.join(", ")));
    Ok(())
}

/// The distribution is the one that the load measured around its calls, and begins at what the device took.
fn delayed(outcome: &Outcome, mode: &str, findings: &mut Findings) -> Result<()> {
    let name = format!("delayed-{mode}");
    attached_as(mode, &compare_loads(outcome, &name, &FILESYSTEMS, findings)?, findings)?;
    let measured = outcome.json(&format!("{name}.out"))?;
    for filesystem in FILESYSTEMS {
        let load = outcome.load(&format!("{name}.{filesystem}"))?;
        for op in ["fsync", "fdatasync"] {
            let row = rows(&measured["files"])
                .find(|row| row["pid"] == load["pid"] && row["op"] == op)
                .with_context(|| format!("{filesystem}: no row of {op}"))?;
            let (seen, own) = (Latency::of(row)?, Latency::of_load(&load, op)?);
            // The lower edge of a bucket, one step of 16 wide.
            findings.check(seen.min > DELAY * 15.0 / 16.0, || {
                format!("{filesystem}: an {op} of {} s on a device that takes {DELAY} s", seen.min)
            });
            // The load's clock runs around the call, so it shows more, and on a busy host much more in single
            // calls. 3.2 % is what the midpoint of a bucket may be off.
            for (what, seen, least, most) in [
                ("p50", seen.p50, own.p50 * 0.9 - 0.01, own.p50 * 1.033),
                ("mean", seen.mean, own.mean * 0.9 - 0.01, own.mean * 1.001),
                ("max", seen.max, own.p50 * 0.9 - 0.01, own.max),
            ] {
                findings.check((least..=most).contains(&seen), || {
                    format!("{filesystem} {op}: {what} is {seen} s, and by the load {least} to {most} s")
                });
            }
        }
    }
    Ok(())
}

struct Latency {
    min: f64,
    mean: f64,
    p50: f64,
    max: f64,
}

impl Latency {
    fn of(row: &Value) -> Result<Self> {
        let of =
            |name: &str| row["latency_seconds"][name].as_f64().with_context(|| format!("no {name}: {row}"));
        Ok(Latency { min: of("min")?, mean: of("mean")?, p50: of("p50")?, max: of("max")? })
    }

    fn of_load(load: &Value, op: &str) -> Result<Self> {
        Latency::of(&json!({ "latency_seconds": load["latency_seconds"][op] }))
    }
}

/// While it hangs it is in flight, older in each interval; when the device goes on it is counted once, with
/// all the time that it took.
fn stalled(outcome: &Outcome, mode: &str, findings: &mut Findings) -> Result<()> {
    let name = format!("stalled-{mode}");
    let status = outcome.status(&name)?;
    findings.check(status == 0, || format!("exit status {status}"));
    let load = outcome.load(&format!("{name}.xfs"))?;
    let intervals = outcome.json_lines(&format!("{name}.out"))?;
    let (path, early_path) = (format!("/mnt/xfs/{REDO_LOG}"), format!("/{REDO_LOG}"));
    let mut ages: Vec<f64> = Vec::new();
    for measured in &intervals {
        attached_as(mode, &text(&measured["attach"]), findings)?;
        for sync in rows(&measured["in_flight"]) {
            let expected = json!({
                "pid": load["pid"], "tid": load["threads"][0]["tid"], "thread": "sync-0", "op": "fdatasync", "role": "redo", "path": path,
                "age_is_minimum": false,
            });
            let same = expected.as_object().into_iter().flatten().all(|(field, value)| {
                // Until /proc has been looked at, the path is the one that the kernel sent: from the mount's
                // root.
                let is_early = field == "path" && ages.is_empty() && sync[field] == early_path;
                is_early || sync[field] == *value
            });
            findings.check(same, || format!("in flight should be {expected} and is {sync}"));
            ages.push(sync["age_seconds"].as_f64().unwrap_or(f64::NAN));
        }
    }
    findings.check(ages.len() > 2 && ages.is_sorted_by(|earlier, later| earlier < later), || {
        format!("its ages, interval by interval: {ages:?}")
    });
    let last = intervals.last().context("no intervals")?;
    findings
        .check(rows(&last["in_flight"]).count() == 0, || format!("still in flight: {}", last["in_flight"]));
    let counted: Vec<_> = intervals.iter().flat_map(|measured| counted(&measured["files"])).collect();
    let [row] = counted[..] else {
        findings.fail(format!("it should be counted once: {counted:?}"));
        return Ok(());
    };
    let same = row["path"] == path.as_str() && row["count"] == 1 && row["op"] == "fdatasync";
    findings.check(same, || format!("it was counted as {row}"));
    let (seen, own) = (Latency::of(row)?.max, Latency::of_load(&load, "fdatasync")?.max);
    let oldest = ages.last().copied().unwrap_or(f64::NAN);
    findings.check(oldest <= seen && seen <= own && own > 0.8, || {
        format!("it took {seen} s; it was {oldest} s old in flight, and the load measured {own} s")
    });
    Ok(())
}
