//! A moment as it is kept and sent: rows refer to servers, files and neighbours by number. The same types are
//! packed (postcard, a few bytes a number) and written as JSON.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::dictionary::Dictionary;
use crate::model::histogram::{BUCKETS, Histogram};
use crate::model::{
    Backlog, Completions, DeviceRow, FileInfo, FileRow, InFlight, Interval, Lost, Max, NeighbourRow, Op,
    Rest, Role, RoleRow, Row, Server, ServerId, Setup, Span, Stats, Table, Target, Unsynced, UnsyncedRow,
    WholeDisks,
};

/// What moments refer to.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub servers: Dictionary<ServerId, Arc<Server>>,
    pub files: Dictionary<(ServerId, Target), Arc<FileInfo>>,
    pub neighbours: Dictionary<(u32, String), String>,
}

/// Times in nanoseconds; those of the wall clock since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Packed {
    pub start_ns: u64,
    pub end_ns: u64,
    pub duration_ns: u64,
    pub lost: Lost,
    pub servers: Vec<u32>,
    pub roles: Vec<PackedRole>,
    pub files: Vec<PackedFile>,
    pub rest: PackedRest,
    pub pending: Vec<PackedPending>,
    pub neighbours: Vec<PackedNeighbour>,
    /// Not in the history of earlier versions.
    #[serde(default)]
    pub unwatched: Vec<PackedUnwatched>,
    #[serde(default)]
    pub failures: Vec<PackedFile>,
    #[serde(default)]
    pub write_roles: Vec<PackedRole>,
    #[serde(default)]
    pub writes: Vec<PackedFile>,
    #[serde(default)]
    pub unsynced: Vec<PackedUnsynced>,
    #[serde(default)]
    pub unsynced_dropped: u64,
    #[serde(default)]
    pub unsynced_together: Vec<PackedTogether>,
    #[serde(default)]
    pub devices: Vec<PackedDevice>,
    #[serde(default)]
    pub monotonic_ns: u64,
    #[serde(default)]
    pub sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedRole {
    pub server: u32,
    pub role: Role,
    pub op: Op,
    pub stats: PackedStats,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedFile {
    pub file: u32,
    pub op: Op,
    pub stats: PackedStats,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedRest {
    pub rows: u64,
    pub stats: PackedStats,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedPending {
    pub count: u64,
    pub server: u32,
    pub tid: u32,
    pub thread: String,
    pub op: Op,
    pub role: Role,
    #[serde(with = "super::bytes::optional_path")]
    pub path: Option<PathBuf>,
    pub age_ns: u64,
    pub age_is_minimum: bool,
    #[serde(default)]
    pub waits_for: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedNeighbour {
    pub neighbour: u32,
    pub stats: PackedStats,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedUnwatched {
    pub server: u32,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedUnsynced {
    pub file: u32,
    pub now: PackedBacklog,
    pub most: PackedBacklog,
    pub possibly_lost: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedTogether {
    pub server: u32,
    pub role: Role,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedBacklog {
    pub bytes: u64,
    pub age_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedDevice {
    pub number: u32,
    pub name: String,
    #[serde(with = "super::bytes::optional_path")]
    pub mount: Option<PathBuf>,
    pub written_bytes: u64,
    pub submitted_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedStats {
    pub count: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub max_exact: bool,
    /// (bucket, count), ascending; the buckets of [`crate::model::histogram`].
    pub histogram: Vec<(u16, u64)>,
    /// (errno, count)
    pub errors: Vec<(i32, u64)>,
    pub bytes: u64,
    #[serde(default)]
    pub completions: Completions,
    #[serde(default)]
    pub untimed: u64,
}

/// A moment that does not hold together: it refers to what is not there, or its buckets are out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a moment refers to what is not there, or its buckets are out of order")]
pub struct Inconsistent;

impl Tables {
    /// Packs a moment; what it refers to is held until it is released.
    pub fn pack(&mut self, moment: &Interval) -> Packed {
        let Tables { servers, files, neighbours } = self;
        let packed_unsynced = |row: &UnsyncedRow| PackedUnsynced {
            file: files.hold(&(row.server, row.target), || row.info.clone()),
            now: row.now.into(),
            most: row.most.into(),
            possibly_lost: row.possibly_lost,
        };
        let unsynced = moment.unsynced.rows.iter().map(packed_unsynced).collect();
        let mut packed_file = |row: &FileRow| PackedFile {
            file: files.hold(&(row.server, row.target), || row.info.clone()),
            op: row.op,
            stats: (&row.stats).into(),
        };
        let unknown = |id| move || Arc::new(Server::new(id, String::new()));
        let mut packed_role = |row: &RoleRow| PackedRole {
            server: servers.hold(&row.server, unknown(row.server)),
            role: row.role,
            op: row.op,
            stats: (&row.stats).into(),
        };
        let roles = moment.roles.iter().map(&mut packed_role).collect();
        let write_roles = moment.write_roles.iter().map(&mut packed_role).collect();
        let packed_together = |(&(server, role), &bytes): (&(ServerId, Role), &u64)| PackedTogether {
            server: servers.hold(&server, unknown(server)),
            role,
            bytes,
        };
        let unsynced_together = moment.unsynced.together.iter().map(packed_together).collect();
        Packed {
            start_ns: since_epoch(moment.span.start),
            end_ns: since_epoch(moment.span.end),
            duration_ns: nanoseconds(moment.span.duration),
            monotonic_ns: nanoseconds(moment.span.monotonic),
            sequence: moment.span.sequence,
            lost: moment.lost,
            servers: moment
                .servers
                .iter()
                .map(|server| servers.hold(&server.id, || server.clone()))
                .collect(),
            roles,
            write_roles,
            files: moment.files.iter().map(&mut packed_file).collect(),
            failures: moment.failures.iter().map(&mut packed_file).collect(),
            writes: moment.writes.iter().map(&mut packed_file).collect(),
            unsynced,
            unsynced_dropped: moment.unsynced.dropped,
            unsynced_together,
            devices: moment.devices.iter().map(PackedDevice::from).collect(),
            rest: PackedRest { rows: moment.rest.rows, stats: (&moment.rest.stats).into() },
            pending: moment
                .in_flight
                .iter()
                .map(|sync| {
                    let InFlight {
                        server,
                        tid,
                        thread,
                        op,
                        role,
                        path,
                        age,
                        age_is_minimum,
                        count,
                        waits_for,
                    } = sync;
                    PackedPending {
                        count: *count,
                        server: servers.hold(server, unknown(*server)),
                        tid: *tid,
                        thread: thread.clone(),
                        op: *op,
                        role: *role,
                        path: path.clone(),
                        age_ns: nanoseconds(*age),
                        age_is_minimum: *age_is_minimum,
                        waits_for: waits_for.clone(),
                    }
                })
                .collect(),
            neighbours: moment
                .neighbours
                .iter()
                .map(|row| PackedNeighbour {
                    neighbour: neighbours.hold(&(row.device_number, row.comm.clone()), || row.device.clone()),
                    stats: (&row.stats).into(),
                })
                .collect(),
            unwatched: moment
                .unwatched
                .iter()
                .map(|&(id, count)| PackedUnwatched { server: servers.hold(&id, unknown(id)), count })
                .collect(),
        }
    }

    pub(crate) fn unpack(&self, packed: Packed, setup: Arc<Setup>) -> Result<Interval, Inconsistent> {
        let server = |id| self.servers.get(id).ok_or(Inconsistent);
        let role = |row: PackedRole| {
            Ok(RoleRow {
                server: *server(row.server)?.0,
                role: row.role,
                op: row.op,
                stats: row.stats.try_into()?,
            })
        };
        let file = |row: PackedFile| {
            let (&(server, target), info) = self.files.get(row.file).ok_or(Inconsistent)?;
            Ok(FileRow { server, target, op: row.op, info: info.clone(), stats: row.stats.try_into()? })
        };
        let unsynced = packed.unsynced.into_iter().map(|row| {
            let (&(server, target), info) = self.files.get(row.file).ok_or(Inconsistent)?;
            Ok(UnsyncedRow {
                server,
                target,
                info: info.clone(),
                now: row.now.into(),
                most: row.most.into(),
                possibly_lost: row.possibly_lost,
            })
        });
        let together = packed
            .unsynced_together
            .into_iter()
            .map(|row| Ok(((*server(row.server)?.0, row.role), row.bytes)));
        let pending = packed.pending.into_iter().map(|row| {
            Ok(InFlight {
                server: *server(row.server)?.0,
                tid: row.tid,
                thread: row.thread,
                op: row.op,
                role: row.role,
                path: row.path,
                age: Duration::from_nanos(row.age_ns),
                age_is_minimum: row.age_is_minimum,
                count: row.count,
                waits_for: row.waits_for,
            })
        });
        let neighbours = packed.neighbours.into_iter().map(|row| {
            let ((device_number, comm), device) = self.neighbours.get(row.neighbour).ok_or(Inconsistent)?;
            Ok(NeighbourRow {
                device_number: *device_number,
                device: device.clone(),
                mount: None,
                comm: comm.clone(),
                stats: row.stats.try_into()?,
            })
        });
        let unwatched = packed.unwatched.into_iter().map(|row| Ok((*server(row.server)?.0, row.count)));
        let servers = packed.servers.into_iter().map(|id| Ok(server(id)?.1.clone()));
        Ok(Interval {
            span: Span {
                start: wall_clock(packed.start_ns),
                end: wall_clock(packed.end_ns),
                duration: Duration::from_nanos(packed.duration_ns),
                monotonic: Duration::from_nanos(packed.monotonic_ns),
                sequence: packed.sequence,
                parts: 1,
            },
            setup,
            lost: packed.lost,
            servers: table(servers)?,
            roles: table(packed.roles.into_iter().map(role))?,
            write_roles: table(packed.write_roles.into_iter().map(role))?,
            files: table(packed.files.into_iter().map(file))?,
            rest: Rest { rows: packed.rest.rows, stats: packed.rest.stats.try_into()? },
            failures: table(packed.failures.into_iter().map(file))?,
            writes: table(packed.writes.into_iter().map(file))?,
            threads: Table::default(),
            in_flight: pending.collect::<Result<_, Inconsistent>>()?,
            neighbours: table(neighbours)?,
            whole_disks: WholeDisks::default(),
            unwatched: table(unwatched)?,
            devices: packed.devices.into_iter().map(DeviceRow::from).collect(),
            unsynced: Unsynced {
                rows: table(unsynced)?,
                together: together.collect::<Result<_, Inconsistent>>()?,
                dropped: packed.unsynced_dropped,
            },
        })
    }

    /// The moment is forgotten, and with it what no other one refers to.
    pub fn release(&mut self, mut packed: Packed) {
        packed.servers().for_each(|number| self.servers.release(*number));
        packed.files().for_each(|number| self.files.release(*number));
        packed.neighbours().for_each(|number| self.neighbours.release(*number));
    }

    pub fn bytes(&self) -> usize {
        self.servers.bytes() + self.files.bytes() + self.neighbours.bytes()
    }
}

fn table<R: Row>(rows: impl Iterator<Item = Result<R, Inconsistent>>) -> Result<Table<R>, Inconsistent> {
    rows.collect()
}

/// The numbers by which a moment refers to entries of each table.
impl Packed {
    pub fn servers(&mut self) -> impl Iterator<Item = &mut u32> {
        let roles = self.roles.iter_mut().chain(&mut self.write_roles).map(|row| &mut row.server);
        let pending = self.pending.iter_mut().map(|row| &mut row.server);
        let unwatched = self.unwatched.iter_mut().map(|row| &mut row.server);
        let together = self.unsynced_together.iter_mut().map(|row| &mut row.server);
        self.servers.iter_mut().chain(roles).chain(pending).chain(unwatched).chain(together)
    }

    pub fn files(&mut self) -> impl Iterator<Item = &mut u32> {
        let files = self.files.iter_mut().chain(&mut self.failures).chain(&mut self.writes);
        files.map(|row| &mut row.file).chain(self.unsynced.iter_mut().map(|row| &mut row.file))
    }

    pub fn neighbours(&mut self) -> impl Iterator<Item = &mut u32> {
        self.neighbours.iter_mut().map(|row| &mut row.neighbour)
    }
}

impl From<Backlog> for PackedBacklog {
    fn from(backlog: Backlog) -> Self {
        PackedBacklog { bytes: backlog.bytes, age_ns: nanoseconds(backlog.age) }
    }
}

impl From<PackedBacklog> for Backlog {
    fn from(packed: PackedBacklog) -> Self {
        Backlog { bytes: packed.bytes, age: Duration::from_nanos(packed.age_ns) }
    }
}

impl From<&DeviceRow> for PackedDevice {
    fn from(row: &DeviceRow) -> Self {
        PackedDevice {
            number: row.number,
            name: row.name.to_string(),
            mount: row.mount.as_deref().map(Into::into),
            written_bytes: row.written_bytes,
            submitted_bytes: row.submitted_bytes,
        }
    }
}

impl From<PackedDevice> for DeviceRow {
    fn from(packed: PackedDevice) -> Self {
        DeviceRow {
            number: packed.number,
            name: packed.name.into(),
            mount: packed.mount.map(Into::into),
            written_bytes: packed.written_bytes,
            submitted_bytes: packed.submitted_bytes,
        }
    }
}

impl From<&Stats> for PackedStats {
    fn from(stats: &Stats) -> Self {
        PackedStats {
            count: stats.count,
            sum_ns: stats.sum_ns,
            max_ns: stats.max.ns,
            max_exact: stats.max.exact,
            histogram: stats.histogram.iter().map(|(bucket, n)| (bucket as u16, n)).collect(),
            errors: stats.errors.iter().map(|(&errno, &n)| (errno, n)).collect(),
            bytes: stats.bytes,
            completions: stats.completions,
            untimed: stats.untimed,
        }
    }
}

impl TryFrom<PackedStats> for Stats {
    type Error = Inconsistent;

    fn try_from(packed: PackedStats) -> Result<Self, Inconsistent> {
        let buckets = &packed.histogram;
        let in_order = buckets.is_sorted_by(|(a, _), (b, _)| a < b);
        if !in_order || buckets.last().is_some_and(|&(bucket, _)| usize::from(bucket) >= BUCKETS) {
            return Err(Inconsistent);
        }
        let buckets = packed.histogram.into_iter().map(|(bucket, n)| (usize::from(bucket), n));
        Ok(Stats {
            count: packed.count,
            sum_ns: packed.sum_ns,
            max: Max { ns: packed.max_ns, exact: packed.max_exact },
            histogram: Histogram::from_sorted(buckets),
            errors: packed.errors.into_iter().collect(),
            bytes: packed.bytes,
            completions: packed.completions,
            untimed: packed.untimed,
            ..Stats::default()
        })
    }
}

/// A clock that was never set stands at 1970.
fn since_epoch(time: SystemTime) -> u64 {
    nanoseconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn wall_clock(ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(ns)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
