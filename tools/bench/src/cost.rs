//! What tracing a server takes of the processors: how often it is paid for, times what each costs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use fsynctop::model::AttachMode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::section::Section;
use crate::stats::Estimate;
use crate::tracer::Tracer;

const SECONDS: u32 = 2;
/// What the kernel counts by itself: all system calls, and the two that a database syncs by.
const EVENTS: [&str; 3] =
    ["raw_syscalls:sys_enter", "syscalls:sys_enter_fsync", "syscalls:sys_enter_fdatasync"];
/// One of the shapes that the costs of a call are measured in.
const SHAPE: &str = "traced, 1 CPU";

/// A second of a server under load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// System calls of everybody on the host.
    pub calls: f64,
    /// Of these.
    pub syncs: f64,
    /// Of fsynctop's own process, in processors.
    pub own_time: f64,
}

impl Cost {
    /// Counts the calls of the next seconds, while nothing else is attached.
    pub fn measure(own_time: f64) -> Result<Cost> {
        let mut command = Command::new("perf");
        command.args(["stat", "-a", "-x", ",", "-e", &EVENTS.join(","), "sleep", &SECONDS.to_string()]);
        let output = command.output().context("cannot run perf; `tools/dependencies bench` installs it")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "perf: {}", said.trim());
        let counts = counts(&said);
        let per_second = |event: &str| -> Result<f64> {
            let found = counts.iter().find(|(name, _)| name == event);
            let (_, count) = found.with_context(|| format!("perf did not count {event}: {said}"))?;
            Ok(*count as f64 / f64::from(SECONDS))
        };
        let [calls, fsyncs, fdatasyncs] = EVENTS;
        let syncs = per_second(fsyncs)? + per_second(fdatasyncs)?;
        Ok(Cost { calls: per_second(calls)?, syncs, own_time })
    }

    /// In processors: the process, and what its programs and hooks add to the calls.
    pub fn in_all(&self, of_calls: CallCost) -> f64 {
        self.own_time + self.programs(of_calls)
    }

    /// The same without the process.
    pub fn programs(&self, of_calls: CallCost) -> f64 {
        let others = self.calls - self.syncs;
        (self.syncs * of_calls.sync_ns + others * of_calls.other_ns) / 1e9
    }
}

/// The lines that `perf stat -x ,` prints, as (event, count).
fn counts(said: &str) -> Vec<(String, u64)> {
    let fields = said.lines().map(|line| line.split(',').collect::<Vec<_>>());
    fields.filter_map(|fields| Some((fields.get(2)?.to_string(), fields[0].parse().ok()?))).collect()
}

/// Nanoseconds that fsynctop adds, as the parts before have measured them on this machine.
#[derive(Clone, Copy, Debug)]
pub struct CallCost {
    pub sync_ns: f64,
    pub other_ns: f64,
}

impl CallCost {
    /// None where they were not measured.
    pub fn read(out: &Path, mode: AttachMode) -> Option<CallCost> {
        let of = |part: &str| Some(Section::read(&out.join(part)).ok()?.values);
        CallCost::of(&of("sync.json")?, &of("getppid.json")?, mode)
    }

    /// From what the two parts have measured. None where they have not measured this mode.
    pub fn of(sync: &Value, getppid: &Value, mode: AttachMode) -> Option<CallCost> {
        Some(CallCost { sync_ns: added(sync, mode)?, other_ns: added(getppid, mode)? })
    }
}

fn added(values: &Value, mode: AttachMode) -> Option<f64> {
    let own = Tracer::Fsynctop(mode).name();
    let at = values["tracers"].as_array()?.iter().position(|tracer| *tracer == *own)?;
    let added = values["nanoseconds"][SHAPE]["added"][at].as_array()?;
    let added: Vec<f64> = added.iter().filter_map(Value::as_f64).collect();
    (!added.is_empty()).then(|| Estimate::of(&added).median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_prints_is_understood() {
        let said = "395889,,raw_syscalls:sys_enter,8004212,100.00,,\n<not counted>,,x,0,0.00,,\n";
        assert_eq!(counts(said), [("raw_syscalls:sys_enter".to_owned(), 395_889)]);
    }

    #[test]
    fn what_a_call_costs_is_that_of_fsynctop_alone() {
        let values = serde_json::json!({
            "tracers": ["two empty programs, tracepoint", "fsynctop, tracepoint"],
            "nanoseconds": { "traced, 1 CPU": { "added": [[70.0], [150.0, 160.0, 170.0]] } },
        });
        assert_eq!(added(&values, AttachMode::Tracepoint), Some(160.0));
        assert_eq!(added(&values, AttachMode::Fentry), None);
    }

    #[test]
    fn a_sync_is_not_paid_for_twice() {
        let cost = Cost { calls: 1_000_100.0, syncs: 100.0, own_time: 0.002 };
        let in_all = cost.in_all(CallCost { sync_ns: 10_000.0, other_ns: 10.0 });
        assert!((in_all - 0.013).abs() < 1e-9, "{in_all}");
    }
}
