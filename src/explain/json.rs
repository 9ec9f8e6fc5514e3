//! `explain --output json`: one object (docs/json.md).

use std::io;

use serde::Serialize;

use super::Explanation;
use super::waits::{Account, Journal, Who};
use crate::explain::BytesPerTransaction;
use crate::model::{Op, RoleRow};
use crate::render::json::{device, failed, unsynced_roles, write_visible};
use crate::render::json_schema::{Device, Failed, UnsyncedRole};
use crate::text::rfc3339_millis;
use crate::text::seconds;

#[derive(Serialize)]
struct Object<'a> {
    schema: u32,
    host: &'a str,
    start: String,
    end: String,
    duration_seconds: f64,
    syncs: u64,
    #[serde(flatten)]
    failed: Failed,
    #[serde(flatten)]
    written: Option<Written>,
    phases: Vec<PhaseRow>,
    measured_seconds: f64,
    accounted_share: Option<f64>,
    device_flush_seconds: f64,
    journal: Vec<JournalRow<'a>>,
    #[serde(flatten)]
    commits: Option<&'a super::commits::Commits>,
    not_measurable: &'a [String],
    lost: Lost,
}

/// Where all writes were watched.
#[derive(Serialize)]
struct Written {
    writes: Vec<WriteRow>,
    bytes_per_transaction: Option<BytesPerTransaction>,
    devices: Vec<Device>,
    unsynced: Vec<UnsyncedRole>,
}

#[derive(Serialize)]
struct WriteRow {
    pid: u32,
    role: &'static str,
    op: &'static str,
    via: &'static str,
    count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct JournalRow<'a> {
    device: &'a str,
    filesystem: Option<&'a str>,
    mount: Option<String>,
    commits: Option<u64>,
    device_flushes: u64,
    log_writes: u64,
    syncs: u64,
    durable_writes: u64,
    neighbours: Vec<NeighbourRow<'a>>,
    unattributed: u64,
    syncs_per_commit: Option<f64>,
    syncs_per_device_flush: Option<f64>,
    writers: Option<Vec<WriterRow<'a>>>,
    traced_share: Option<f64>,
}

#[derive(Serialize)]
struct NeighbourRow<'a> {
    comm: &'a str,
    count: u64,
}

#[derive(Serialize)]
struct WriterRow<'a> {
    comm: &'a str,
    pid: Option<u32>,
    traced: bool,
    handles: u64,
}

#[derive(Serialize)]
struct PhaseRow {
    pid: u32,
    role: &'static str,
    op: &'static str,
    via: &'static str,
    phase: &'static str,
    under: Option<&'static str>,
    seconds: f64,
    share: f64,
}

#[derive(Serialize)]
struct Lost {
    stacks: u64,
    waits: u64,
    unplaced_waits: u64,
    unplaced_seconds: f64,
    writers: u64,
    syncs: u64,
    preempted: u64,
    writeback_errors: u64,
    unwatched: u64,
}

pub fn json(explanation: &Explanation) -> io::Result<String> {
    let m = &explanation.measurement;
    let waits = &explanation.waits;
    let object = Object {
        schema: 1,
        host: &m.setup.host,
        start: rfc3339_millis(m.span.start),
        end: rfc3339_millis(m.span.end),
        duration_seconds: waits.window.as_secs_f64(),
        syncs: m.total().count,
        failed: failed(m),
        written: m.setup.ops.contains(&Op::Write).then(|| written(explanation)),
        phases: phases(waits),
        measured_seconds: seconds(waits.total().measured),
        accounted_share: waits.accounted_share(),
        device_flush_seconds: seconds(waits.total().flush()),
        journal: explanation.journals.iter().map(journal).collect(),
        commits: explanation.commits.as_ref(),
        not_measurable: &explanation.not_measurable,
        lost: Lost {
            stacks: waits.lost.stacks,
            waits: waits.lost.waits,
            unplaced_waits: waits.lost.unplaced,
            unplaced_seconds: seconds(waits.lost.unplaced_ns),
            writers: waits.lost.writers,
            syncs: waits.lost.syncs,
            preempted: waits.lost.skipped,
            writeback_errors: m.lost.writeback_errors,
            unwatched: m.lost.unwatched,
        },
    };
    let mut text = Vec::new();
    write_visible(&object, &mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

fn written(explanation: &Explanation) -> Written {
    let m = &explanation.measurement;
    let row = |row: &RoleRow| WriteRow {
        pid: row.server.pid,
        role: row.role.name(),
        op: row.op.what(),
        via: row.op.via().name(),
        count: row.stats.count,
        bytes: row.stats.bytes,
    };
    Written {
        writes: m.all_write_roles().map(row).collect(),
        bytes_per_transaction: explanation.bytes_per_transaction(),
        devices: m.devices.iter().map(|row| device(row, m)).collect(),
        unsynced: unsynced_roles(m),
    }
}

fn journal(journal: &Journal) -> JournalRow<'_> {
    let neighbours = journal.neighbours.iter().map(|(comm, count)| NeighbourRow { comm, count: *count });
    let writers = journal.writers.as_ref().map(|writers| {
        let rows = writers.iter().map(|writer| WriterRow {
            comm: &writer.comm,
            pid: (writer.pid > 0).then_some(writer.pid),
            traced: writer.traced,
            handles: writer.handles,
        });
        rows.collect()
    });
    JournalRow {
        device: &journal.device,
        filesystem: journal.filesystem.as_deref(),
        mount: journal.mount.as_ref().map(|path| crate::text::escape(path.as_os_str().as_encoded_bytes())),
        commits: journal.commits,
        device_flushes: journal.device_flushes,
        log_writes: journal.log_writes,
        syncs: journal.syncs,
        durable_writes: journal.durable_writes,
        neighbours: neighbours.collect(),
        unattributed: journal.unattributed,
        syncs_per_commit: journal.syncs_per_commit(),
        syncs_per_device_flush: journal.syncs_per_device_flush(),
        writers,
        traced_share: journal.traced_share(),
    }
}

fn phases(waits: &Account) -> Vec<PhaseRow> {
    let mut rows = Vec::new();
    for (who, part) in &waits.parts {
        let row = |phase, under, ns: u64, of: u64| {
            let Who { server, role, op } = who;
            let via = op.via().name();
            let (pid, role, op) = (server.pid, role.name(), op.what());
            PhaseRow {
                pid,
                role,
                op,
                via,
                phase,
                under,
                seconds: seconds(ns),
                share: ns as f64 / of.max(1) as f64,
            }
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
