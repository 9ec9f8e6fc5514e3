//! Incidents as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{Interval, Role};
use crate::recording::{Incident, What};
use crate::render::json::split;
use crate::text::{errno, length, rfc3339, seconds};

/// What does not apply is null, or empty.
#[derive(Serialize)]
pub(super) struct JsonIncident {
    what: &'static str,
    start: String,
    end: String,
    goes_on: bool,
    pid: u32,
    server_name: Option<String>,
    roles: Vec<Role>,
    role: Role,
    op: Option<&'static str>,
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    wait_seconds: Option<f64>,
    wait_is_minimum: bool,
    quantile: Option<f64>,
    usual_seconds: Option<f64>,
    busy: Option<f64>,
    errors: BTreeMap<String, u64>,
    no_log_sync_seconds: f64,
    waited_for: Option<String>,
    neighbours: Vec<JsonNeighbour>,
}

#[derive(Serialize)]
struct JsonNeighbour {
    comm: String,
    pid: Option<u32>,
    device: String,
    count: u64,
}

pub(super) fn json(incident: &Incident, m: &Interval) -> JsonIncident {
    let worst = &incident.worst;
    let (path, path_bytes) = split(worst.path.as_deref());
    let neighbours = incident.neighbours.iter().map(|(beside, &count)| JsonNeighbour {
        comm: beside.comm.clone(),
        pid: beside.pid,
        device: beside.device.clone(),
        count,
    });
    JsonIncident {
        what: incident.what.name(),
        start: rfc3339(incident.begin),
        end: rfc3339(incident.end),
        goes_on: incident.goes_on,
        pid: incident.server.pid,
        server_name: m.server(incident.server).map(|server| server.name.to_string()),
        roles: incident.roles.iter().copied().collect(),
        role: worst.role,
        op: worst.op.map(|op| op.name()),
        path,
        path_bytes,
        // In the last bucket there is no upper edge.
        wait_seconds: worst.took.filter(|took| took.ns < u64::MAX).map(|took| seconds(took.ns)),
        wait_is_minimum: worst.is_minimum,
        quantile: (incident.what == What::Slow).then_some(if worst.is_tail { 0.99 } else { 0.5 }),
        usual_seconds: incident.usual_ns.map(seconds),
        busy: (incident.what == What::Saturated).then(|| incident.share()),
        errors: incident.errors.iter().map(|(&number, &n)| (errno(number), n)).collect(),
        no_log_sync_seconds: length(incident.no_log_sync),
        waited_for: incident.waited_for().map(str::to_owned),
        neighbours: neighbours.collect(),
    }
}
