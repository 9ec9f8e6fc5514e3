//! `explain --output json`: one object (docs/json.md).

use serde::Serialize;

use super::Explanation;
use super::waits::{Account, Who};

#[derive(Serialize)]
struct Object {
    schema: u32,
    start: String,
    end: String,
    duration_seconds: f64,
    phases: Vec<PhaseRow>,
    measured_seconds: f64,
    accounted_share: Option<f64>,
    lost: Lost,
}

#[derive(Serialize)]
struct PhaseRow {
    pid: u32,
    role: &'static str,
    op: &'static str,
    phase: &'static str,
    under: Option<&'static str>,
    seconds: f64,
    share: f64,
}

#[derive(Serialize)]
struct Lost {
    stacks: u64,
    waits: u64,
    waits_seconds: f64,
    syncs: u64,
    preempted: u64,
}

pub fn json(explanation: &Explanation) -> serde_json::Result<String> {
    let m = &explanation.measurement;
    let waits = &explanation.waits;
    let object = Object {
        schema: 1,
        start: humantime::format_rfc3339_millis(m.start).to_string(),
        end: humantime::format_rfc3339_millis(m.end).to_string(),
        duration_seconds: waits.window.as_secs_f64(),
        phases: phases(waits),
        measured_seconds: seconds(waits.total().measured),
        accounted_share: waits.accounted_share(),
        lost: Lost {
            stacks: waits.lost.stacks,
            waits: waits.lost.waits,
            waits_seconds: seconds(waits.lost.waits_ns),
            syncs: waits.syncs_unseen,
            preempted: waits.lost.skipped,
        },
    };
    Ok(serde_json::to_string(&object)? + "\n")
}

fn phases(waits: &Account) -> Vec<PhaseRow> {
    let mut rows = Vec::new();
    for (who, part) in &waits.parts {
        let row = |phase, under, ns: u64, of: u64| {
            let Who { server, role, op } = who;
            let (pid, role, op) = (server.pid, role.name(), op.name());
            PhaseRow { pid, role, op, phase, under, seconds: seconds(ns), share: ns as f64 / of.max(1) as f64 }
        };
        for (&phase, &ns) in &part.phases {
            rows.push(row(phase.name(), None, ns, part.accounted()));
            let under = part.under.iter().filter(|((wait, _), _)| *wait == phase);
            let of = under.clone().map(|(_, ns)| ns).sum();
            rows.extend(under.map(|((_, state), &ns)| row(state.name(), Some(phase.name()), ns, of)));
        }
    }
    rows
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
