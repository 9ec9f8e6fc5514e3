//! An interval as the payload of a frame, and back. Figures refer to servers, files and neighbours by number.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use serde::{Deserialize, Serialize};

use super::counters;
use super::frame::{ns, since_epoch, wall_clock};
use super::names::{Names, Numbers};
use super::wire::{self, Inconsistent};
use crate::model::histogram::{self, BUCKETS, Histogram};
use crate::model::{
    Amount, Backlog, Committer, Completions, DeviceRow, FileRow, InFlight, Interval, Lost, Max, NeighbourRow,
    Op, Phase, Rest, Role, RoleRow, ServerId, ServerIo, Setup, Span, Stats, Table, Unsynced, UnsyncedRow,
    VerdictRow, WaitLosses, WaitRow, WholeDisks,
};
use crate::text::escape_sentence;

/// What a segment begins with: the words for its numbers. JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Preamble {
    /// The version of the program that recorded.
    pub program: String,
    pub ops: Vec<String>,
    pub roles: Vec<String>,
    /// Of waits, and the states of a committer.
    #[serde(default)]
    pub phases: Vec<String>,
    #[serde(default)]
    pub committers: Vec<String>,
    pub buckets: Buckets,
    /// How long its intervals are, if they were made of shorter ones.
    #[serde(default)]
    pub merged_ns: Option<u64>,
}

/// Log-linear: so many per power of two, between two powers of two of nanoseconds, and one at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Buckets {
    pub first_exponent: u32,
    pub last_exponent: u32,
    pub per_power_of_two: usize,
}

const BUCKETS_OF_THIS_VERSION: Buckets = Buckets {
    first_exponent: histogram::FIRST_EXPONENT,
    last_exponent: histogram::LAST_EXPONENT,
    per_power_of_two: histogram::STEPS,
};

impl Preamble {
    pub fn of_this_version() -> Preamble {
        Preamble {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            ops: Op::ALL.map(|op| op.name().to_owned()).to_vec(),
            roles: Role::ALL.map(|role| role.name().to_owned()).to_vec(),
            phases: Phase::ALL.map(|phase| phase.name().to_owned()).to_vec(),
            committers: Committer::ALL.map(|state| state.name().to_owned()).to_vec(),
            buckets: BUCKETS_OF_THIS_VERSION,
            merged_ns: None,
        }
    }
}

/// The meaning of the numbers in a segment.
#[derive(Clone, Debug)]
pub(super) struct Words {
    ops: Vec<Option<Op>>,
    roles: Vec<Role>,
    phases: Vec<Phase>,
    committers: Vec<Committer>,
}

impl Words {
    /// None: its histograms cannot be read by this version.
    pub fn of(preamble: &Preamble) -> Option<Words> {
        let op = |name: &String| Op::ALL.into_iter().find(|op| op.name() == name);
        let role = |name: &String| Role::ALL.into_iter().find(|role| role.name() == name);
        let phase = |name: &String| Phase::ALL.into_iter().find(|phase| phase.name() == name);
        let state = |name: &String| Committer::ALL.into_iter().find(|state| state.name() == name);
        (preamble.buckets == BUCKETS_OF_THIS_VERSION).then(|| Words {
            ops: preamble.ops.iter().map(op).collect(),
            roles: preamble.roles.iter().map(|name| role(name).unwrap_or(Role::Other)).collect(),
            phases: preamble.phases.iter().map(|name| phase(name).unwrap_or(Phase::Other)).collect(),
            committers: preamble
                .committers
                .iter()
                .map(|name| state(name).unwrap_or(Committer::Other))
                .collect(),
        })
    }

    /// None: a later version's.
    fn op(&self, number: u32) -> Option<Op> {
        self.ops.get(number as usize).copied().flatten()
    }

    fn role(&self, number: u32) -> Role {
        self.roles.get(number as usize).copied().unwrap_or(Role::Other)
    }

    fn phase(&self, number: usize) -> Phase {
        self.phases.get(number).copied().unwrap_or(Phase::Other)
    }

    fn committer(&self, number: usize) -> Committer {
        self.committers.get(number).copied().unwrap_or(Committer::Other)
    }
}

/// Counts, bytes and nanoseconds of one row that are beyond anything: sums of them must not overflow.
const MAX_FIGURE: u64 = 1 << 40;
const MAX_BYTES: u64 = 1 << 50;
const MAX_TIME: u64 = 1 << 53;
/// As the kernel has it.
const MAX_ERRNO: i32 = 4_095;

/// Top-level fields of a payload: each row is one, and takes more memory than it has bytes.
const MAX_ROWS: usize = 1 << 16;

pub(super) fn pack(interval: &Interval, numbers: &mut Numbers) -> Vec<u8> {
    let servers = interval.servers.iter().map(|server| numbers.known_server(server)).collect();
    let lost = interval.lost.losses().into_iter().filter(|loss| !loss.amount.is_zero());
    let role_row = |row: &RoleRow, numbers: &mut Numbers| wire::RoleRow {
        server: numbers.server(row.server),
        role: row.role as u32,
        op: row.op as u32,
        stats: Some((&row.stats).into()),
    };
    let file_row = |row: &FileRow, numbers: &mut Numbers| wire::FileRow {
        file: numbers.file(row.server, row.target, &row.info),
        op: row.op as u32,
        stats: Some((&row.stats).into()),
    };
    let in_flight = |sync: &InFlight, numbers: &mut Numbers| wire::InFlight {
        server: numbers.server(sync.server),
        tid: sync.tid,
        thread: sync.thread.clone(),
        op: sync.op as u32,
        role: sync.role as u32,
        path: sync.path.as_deref().map(bytes),
        age_ns: ns(sync.age),
        age_is_minimum: sync.age_is_minimum,
        count: sync.count,
        waits_for: sync.waits_for.clone(),
    };
    let unsynced = |row: &UnsyncedRow, numbers: &mut Numbers| wire::UnsyncedRow {
        file: numbers.file(row.server, row.target, &row.info),
        now: Some(row.now.into()),
        most: Some(row.most.into()),
        possibly_lost: row.possibly_lost,
    };
    let together = |(&(server, role), &bytes): (&(ServerId, Role), &u64), numbers: &mut Numbers| {
        wire::Together { server: numbers.server(server), role: role as u32, bytes }
    };
    let wait = |row: &WaitRow, numbers: &mut Numbers| {
        let known = row.under.iter().rposition(|ns| *ns > 0).map_or(0, |last| last + 1);
        wire::WaitRow {
            server: numbers.server(row.server),
            role: row.role as u32,
            op: row.op as u32,
            phase: row.phase.map_or(0, |phase| phase as u32 + 1),
            stack: if row.stack.is_empty() { 0 } else { numbers.stack(&row.stack) + 1 },
            ns: row.ns.min(MAX_TIME),
            under: row.under[..known].iter().map(|&ns| ns.min(MAX_TIME)).collect(),
        }
    };
    let packed = wire::Interval {
        lost: lost.map(|loss| wire::Loss { name: loss.name.into(), amount: amount(loss.amount) }).collect(),
        servers,
        roles: interval.roles.iter().map(|row| role_row(row, numbers)).collect(),
        files: interval.files.iter().map(|row| file_row(row, numbers)).collect(),
        rest: (interval.rest != Rest::default())
            .then(|| wire::Rest { rows: interval.rest.rows, stats: Some((&interval.rest.stats).into()) }),
        failures: interval.failures.iter().map(|row| file_row(row, numbers)).collect(),
        writes: interval.writes.iter().map(|row| file_row(row, numbers)).collect(),
        write_roles: interval.write_roles.iter().map(|row| role_row(row, numbers)).collect(),
        in_flight: interval.in_flight.iter().map(|sync| in_flight(sync, numbers)).collect(),
        neighbours: (interval.neighbours.iter())
            .map(|row| wire::NeighbourRow {
                neighbour: numbers.neighbour(row),
                stats: Some((&row.stats).into()),
            })
            .collect(),
        unwatched: (interval.unwatched.iter())
            .map(|&(server, count)| wire::OfServer { server: numbers.server(server), count })
            .collect(),
        devices: interval.devices.iter().map(wire::DeviceRow::from).collect(),
        unsynced: interval.unsynced.rows.iter().map(|row| unsynced(row, numbers)).collect(),
        unsynced_together: interval.unsynced.together.iter().map(|row| together(row, numbers)).collect(),
        unsynced_dropped: interval.unsynced.dropped,
        io: (interval.io.iter())
            .map(|row| wire::ServerIo {
                server: numbers.server(row.server),
                read_bytes: row.read_bytes,
                written_bytes: row.written_bytes,
                cancelled_bytes: row.cancelled_bytes,
            })
            .collect(),
        counters: interval.counters.iter().map(|row| counters::pack(row, numbers)).collect(),
        verdicts: (interval.verdicts.iter())
            .map(|row| wire::VerdictRow {
                server: numbers.server(row.server),
                state: row.state.clone(),
                since_ns: since_epoch(row.since),
                sentence: row.sentence.clone(),
            })
            .collect(),
        waits: interval.waits.iter().map(|row| wait(row, numbers)).collect(),
        wait_losses: (interval.wait_losses != WaitLosses::default()).then(|| interval.wait_losses.into()),
    };
    packed.encode_to_vec()
}

pub(super) fn unpack(
    payload: &[u8],
    span: Span,
    setup: Arc<Setup>,
    words: &Words,
    names: &Names,
) -> Result<Interval, Inconsistent> {
    if rows_in(payload) > MAX_ROWS {
        return Err(Inconsistent);
    }
    let packed = wire::Interval::decode(payload).map_err(|_| Inconsistent)?;
    let role_row = |row: wire::RoleRow| {
        let (server, role) = (names.server_id(row.server), words.role(row.role));
        let stats = || stats(row.stats.unwrap_or_default());
        words.op(row.op).map(|op| Ok(RoleRow { server, role, op, stats: stats()? }))
    };
    let file_row = |row: wire::FileRow| {
        let (server, target, info) = names.file(row.file);
        let stats = || stats(row.stats.unwrap_or_default());
        words.op(row.op).map(|op| Ok(FileRow { server, target, op, info, stats: stats()? }))
    };
    let in_flight = |row: wire::InFlight| {
        Some(InFlight {
            server: names.server_id(row.server),
            tid: row.tid,
            thread: row.thread,
            op: words.op(row.op)?,
            role: words.role(row.role),
            path: row.path.map(path),
            age: Duration::from_nanos(row.age_ns),
            age_is_minimum: row.age_is_minimum,
            count: row.count,
            waits_for: row.waits_for,
        })
    };
    let neighbour = |row: wire::NeighbourRow| {
        let (device_number, device, comm) = names.neighbour(row.neighbour);
        let stats = stats(row.stats.unwrap_or_default())?;
        Ok(NeighbourRow { device_number, device, mount: None, comm, stats })
    };
    let unsynced = |row: wire::UnsyncedRow| {
        let (server, target, info) = names.file(row.file);
        let [now, most] = [row.now, row.most].map(|backlog| backlog.unwrap_or_default().into());
        UnsyncedRow { server, target, info, now, most, possibly_lost: row.possibly_lost }
    };
    let wait = |row: wire::WaitRow| {
        let mut under = [0u64; Committer::ALL.len()];
        for (number, ns) in row.under.iter().enumerate() {
            let sum = &mut under[words.committer(number) as usize];
            *sum = sum.saturating_add(*ns);
        }
        let is_sane = under.iter().chain([&row.ns]).all(|ns| *ns <= MAX_TIME);
        let of = |op| WaitRow {
            server: names.server_id(row.server),
            role: words.role(row.role),
            op,
            phase: row.phase.checked_sub(1).map(|number| words.phase(number as usize)),
            stack: row.stack.checked_sub(1).map(|number| names.stack(number)).unwrap_or_default(),
            ns: row.ns,
            under,
        };
        words.op(row.op).map(|op| if is_sane { Ok(of(op)) } else { Err(Inconsistent) })
    };
    let mut together = BTreeMap::new();
    for row in packed.unsynced_together {
        let most: &mut u64 = together.entry((names.server_id(row.server), words.role(row.role))).or_default();
        *most = row.bytes.max(*most);
    }
    let rest = packed.rest.unwrap_or_default();
    Ok(Interval {
        span,
        setup,
        lost: lost(packed.lost),
        servers: packed.servers.iter().filter_map(|&number| names.server(number).cloned()).collect(),
        roles: table(packed.roles.into_iter().filter_map(role_row))?,
        files: table(packed.files.into_iter().filter_map(file_row))?,
        rest: Rest { rows: rest.rows.min(MAX_FIGURE), stats: stats(rest.stats.unwrap_or_default())? },
        failures: table(packed.failures.into_iter().filter_map(file_row))?,
        writes: table(packed.writes.into_iter().filter_map(file_row))?,
        write_roles: table(packed.write_roles.into_iter().filter_map(role_row))?,
        threads: Table::default(),
        in_flight: packed.in_flight.into_iter().filter_map(in_flight).collect(),
        neighbours: table(packed.neighbours.into_iter().map(neighbour))?,
        whole_disks: WholeDisks::default(),
        unwatched: (packed.unwatched.iter()).map(|row| (names.server_id(row.server), row.count)).collect(),
        devices: packed.devices.into_iter().map(DeviceRow::from).collect(),
        io: (packed.io.iter())
            .map(|row| ServerIo {
                server: names.server_id(row.server),
                read_bytes: row.read_bytes,
                written_bytes: row.written_bytes,
                cancelled_bytes: row.cancelled_bytes,
            })
            .collect(),
        verdicts: (packed.verdicts.into_iter())
            .map(|row| VerdictRow {
                server: names.server_id(row.server),
                state: escape_sentence(&row.state),
                since: wall_clock(row.since_ns),
                sentence: escape_sentence(&row.sentence),
            })
            .collect(),
        counters: table(packed.counters.into_iter().map(|row| counters::unpack(row, names)))?,
        unsynced: Unsynced {
            rows: packed.unsynced.into_iter().map(unsynced).collect(),
            together,
            dropped: packed.unsynced_dropped,
        },
        waits: table(packed.waits.into_iter().filter_map(wait))?,
        wait_losses: packed.wait_losses.unwrap_or_default().into(),
    })
}

fn table<R: crate::model::Row>(
    rows: impl Iterator<Item = Result<R, Inconsistent>>,
) -> Result<Table<R>, Inconsistent> {
    rows.collect()
}

/// Fields of the message itself: counted before anything is made of them.
fn rows_in(mut payload: &[u8]) -> usize {
    let mut rows = 0;
    while let Ok((tag, wire_type)) = prost::encoding::decode_key(&mut payload) {
        rows += 1;
        let context = prost::encoding::DecodeContext::default();
        if prost::encoding::skip_field(wire_type, tag, &mut payload, context).is_err() {
            break;
        }
    }
    rows
}

fn amount(amount: Amount) -> u64 {
    match amount {
        Amount::Count(count) => count,
        Amount::Time(time) => ns(time),
    }
}

fn lost(told: Vec<wire::Loss>) -> Lost {
    let mut lost = Lost::default();
    told.into_iter().for_each(|loss| lost.set(&loss.name, loss.amount));
    lost
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn stats(packed: wire::Stats) -> Result<Stats, Inconsistent> {
    let (pairs, rest) = packed.histogram.as_chunks::<2>();
    let mut bucket = 0usize;
    let mut counts = Vec::with_capacity(pairs.len());
    for (at, &[gap, count]) in pairs.iter().enumerate() {
        let is_behind = at == 0 || gap > 0;
        bucket = usize::try_from(gap).ok().and_then(|gap| bucket.checked_add(gap)).ok_or(Inconsistent)?;
        if !is_behind || bucket >= BUCKETS {
            return Err(Inconsistent);
        }
        counts.push((bucket, count));
    }
    let is_failure =
        |failed: &wire::Failed| (0..=MAX_ERRNO).contains(&failed.errno) && failed.count <= MAX_FIGURE;
    let figures = [packed.count, packed.untimed];
    let is_sane = figures.iter().all(|figure| *figure <= MAX_FIGURE)
        && packed.bytes <= MAX_BYTES
        && packed.sum_ns <= MAX_TIME
        && packed.pending_ns.unsigned_abs() <= MAX_TIME;
    if !rest.is_empty() || !is_sane || !packed.errors.iter().all(is_failure) {
        return Err(Inconsistent);
    }
    Ok(Stats {
        count: packed.count,
        sum_ns: packed.sum_ns,
        max: Max { ns: packed.max_ns, exact: packed.max_is_exact },
        histogram: Histogram::from_sorted(counts),
        errors: packed.errors.iter().map(|failed| (failed.errno, failed.count)).collect(),
        bytes: packed.bytes,
        completions: Completions { posted: packed.posted, reaped: packed.reaped },
        untimed: packed.untimed,
        pending_ns: packed.pending_ns,
    })
}

impl From<&Stats> for wire::Stats {
    fn from(stats: &Stats) -> wire::Stats {
        let mut before = 0;
        let pair =
            |(bucket, count): (usize, u64)| [(bucket - std::mem::replace(&mut before, bucket)) as u64, count];
        wire::Stats {
            count: stats.count,
            // A hang of days by many threads is more than a reader takes.
            sum_ns: stats.sum_ns.min(MAX_TIME),
            max_ns: stats.max.ns,
            max_is_exact: stats.max.exact,
            histogram: stats.histogram.iter().flat_map(pair).collect(),
            errors: (stats.errors.iter()).map(|(&errno, &count)| wire::Failed { errno, count }).collect(),
            bytes: stats.bytes,
            posted: stats.completions.posted,
            reaped: stats.completions.reaped,
            untimed: stats.untimed,
            pending_ns: stats.pending_ns,
        }
    }
}

impl From<WaitLosses> for wire::WaitLosses {
    fn from(lost: WaitLosses) -> wire::WaitLosses {
        // Of journals nothing is recorded.
        let WaitLosses { stacks, waits, unplaced, unplaced_ns, writers: _, skipped, syncs } = lost;
        wire::WaitLosses { stacks, waits, unplaced, unplaced_ns, skipped, syncs }
    }
}

impl From<wire::WaitLosses> for WaitLosses {
    fn from(lost: wire::WaitLosses) -> WaitLosses {
        let wire::WaitLosses { stacks, waits, unplaced, unplaced_ns, skipped, syncs } = lost;
        WaitLosses { stacks, waits, unplaced, unplaced_ns, writers: 0, skipped, syncs }
    }
}

impl From<Backlog> for wire::Backlog {
    fn from(backlog: Backlog) -> wire::Backlog {
        wire::Backlog { bytes: backlog.bytes, age_ns: ns(backlog.age) }
    }
}

impl From<wire::Backlog> for Backlog {
    fn from(backlog: wire::Backlog) -> Backlog {
        Backlog { bytes: backlog.bytes, age: Duration::from_nanos(backlog.age_ns) }
    }
}

impl From<&DeviceRow> for wire::DeviceRow {
    fn from(row: &DeviceRow) -> wire::DeviceRow {
        wire::DeviceRow {
            number: row.number,
            name: row.name.to_string(),
            mount: row.mount.as_deref().map(bytes),
            written_bytes: row.written_bytes,
            submitted_bytes: row.submitted_bytes,
            read_bytes: row.read_bytes,
        }
    }
}

impl From<wire::DeviceRow> for DeviceRow {
    fn from(row: wire::DeviceRow) -> DeviceRow {
        DeviceRow {
            number: row.number,
            name: row.name.into(),
            mount: row.mount.map(|mount| path(mount).into()),
            written_bytes: row.written_bytes,
            submitted_bytes: row.submitted_bytes,
            read_bytes: row.read_bytes,
        }
    }
}
