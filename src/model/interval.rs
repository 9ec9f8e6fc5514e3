//! What happened in a span of time, as data, and how such intervals are put together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{
    DeviceRow, FileRow, InFlight, Lost, NeighbourRow, Op, OwnCounters, Role, RoleRow, Server, ServerId,
    ServerIo, Setup, Stats, Table, ThreadRow, Unsynced, UnsyncedRow, VerdictRow, WaitLosses, WaitRow,
    WholeDisks,
};

/// When an interval was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// By the wall clock of the time: if that was set, the two differ by another time than `duration`.
    pub start: SystemTime,
    pub end: SystemTime,
    /// By the monotonic clock.
    pub duration: Duration,
    /// The end by the monotonic clock, since the host was started. Zero: not known.
    pub monotonic: Duration,
    /// The number of the snapshot at the end.
    pub sequence: u64,
    /// How many intervals this is made of. Zero: none, nothing is known of any time.
    pub parts: u64,
}

impl Span {
    /// Of nothing.
    pub(crate) const NONE: Span = Span {
        start: SystemTime::UNIX_EPOCH,
        end: SystemTime::UNIX_EPOCH,
        duration: Duration::ZERO,
        monotonic: Duration::ZERO,
        sequence: 0,
        parts: 0,
    };
}

/// One interval: the difference of two snapshots. Rows without any activity are omitted.
///
/// [`append`](Interval::append) puts intervals that follow each other together, and is associative. The
/// interval [`between`](Interval::between) the first and the last of several snapshots is the sum of those in
/// between, except for maxima: a short interval may know only the bucket of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    pub span: Span,
    pub setup: Arc<Setup>,
    pub lost: Lost,
    pub servers: Table<Arc<Server>>,
    pub roles: Table<RoleRow>,
    pub files: Table<FileRow>,
    /// The files that are not kept apart in `files`.
    pub rest: Rest,
    /// What failed beside the syncs, by file: writes, and writeback. Of each only the count and the errors
    /// say something.
    pub failures: Table<FileRow>,
    /// Writes that are not durable, where all are watched; in no sum of syncs.
    pub writes: Table<FileRow>,
    /// The same by role.
    pub write_roles: Table<RoleRow>,
    pub threads: Table<ThreadRow>,
    /// In flight at the end of the interval, oldest first.
    pub in_flight: Vec<InFlight>,
    pub neighbours: Table<NeighbourRow>,
    pub whole_disks: WholeDisks,
    /// [`Lost::unwatched`] by server, as far as the server is known.
    pub unwatched: Table<(ServerId, u64)>,
    /// The devices that the files are on.
    pub devices: Table<DeviceRow>,
    /// What servers moved to and from storage, as far as the kernel told.
    pub io: Table<ServerIo>,
    /// What servers counted themselves, where they were asked (`fsynctop record --counters`).
    pub counters: Table<OwnCounters>,
    /// What was told of servers at the end, where an exporter recorded.
    pub verdicts: Table<VerdictRow>,
    /// Where all writes are watched.
    pub unsynced: Unsynced<Table<UnsyncedRow>>,
    /// What syncs waited for, where that is watched.
    pub waits: Table<WaitRow>,
    pub wait_losses: WaitLosses,
}

/// Files that are not kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Rows: a file with two operations counts twice. Of several intervals, those of the one that had most.
    pub rows: u64,
    pub stats: Stats,
}

impl Rest {
    pub(crate) fn add(&mut self, row: &FileRow) {
        self.rows = self.rows.saturating_add(1);
        self.stats.merge(&row.stats);
    }

    fn append(&mut self, later: &Rest) {
        self.rows = self.rows.max(later.rows);
        self.stats.merge(&later.stats);
    }
}

impl Interval {
    /// The interval without length, with which sums begin.
    #[cfg(test)]
    pub(crate) fn empty(setup: Arc<Setup>) -> Interval {
        Interval {
            span: Span::NONE,
            setup,
            lost: Lost::default(),
            servers: Table::default(),
            roles: Table::default(),
            files: Table::default(),
            rest: Rest::default(),
            failures: Table::default(),
            writes: Table::default(),
            write_roles: Table::default(),
            threads: Table::default(),
            in_flight: Vec::new(),
            neighbours: Table::default(),
            whole_disks: WholeDisks::default(),
            unwatched: Table::default(),
            devices: Table::default(),
            io: Table::default(),
            counters: Table::default(),
            verdicts: Table::default(),
            unsynced: Unsynced::default(),
            waits: Table::default(),
            wait_losses: WaitLosses::default(),
        }
    }

    /// Makes this the interval that ends with `later`, which follows it.
    pub fn append(&mut self, later: Interval) {
        if self.span.parts == 0 {
            *self = later;
            return;
        }
        if later.span.parts == 0 {
            return;
        }
        self.span = Span {
            start: self.span.start,
            duration: self.span.duration.saturating_add(later.span.duration),
            parts: self.span.parts.saturating_add(later.span.parts),
            ..later.span
        };
        self.setup = later.setup;
        self.lost = self.lost.plus(&later.lost);
        self.servers.append(later.servers);
        self.roles.append(later.roles);
        self.files.append(later.files);
        self.rest.append(&later.rest);
        self.failures.append(later.failures);
        self.writes.append(later.writes);
        self.write_roles.append(later.write_roles);
        self.threads.append(later.threads);
        self.in_flight = later.in_flight;
        self.neighbours.append(later.neighbours);
        self.whole_disks = later.whole_disks;
        self.unwatched.append(later.unwatched);
        self.devices.append(later.devices);
        self.io.append(later.io);
        self.counters.append(later.counters);
        self.verdicts = later.verdicts;
        self.unsynced.append(later.unsynced);
        self.waits.append(later.waits);
        self.wait_losses = self.wait_losses.plus(&later.wait_losses);
    }

    /// As far as it is known.
    pub(crate) fn server(&self, id: ServerId) -> Option<&Arc<Server>> {
        let at = self.servers.binary_search_by_key(&id, |server| server.id);
        at.ok().map(|at| &self.servers[at])
    }

    pub(crate) fn roles_of(&self, server: ServerId) -> &[RoleRow] {
        of_server(&self.roles, server, |row| row.server)
    }

    pub(crate) fn files_of(&self, server: ServerId) -> &[FileRow] {
        of_server(&self.files, server, |row| row.server)
    }

    /// The syncs of each log that commits wait for.
    pub(crate) fn logs_of(&self, server: ServerId) -> BTreeMap<Role, Stats> {
        let mut logs: BTreeMap<Role, Stats> = BTreeMap::new();
        for row in self.roles_of(server).iter().filter(|row| row.role.is_serial()) {
            logs.entry(row.role).or_default().merge(&row.stats);
        }
        logs
    }

    pub(crate) fn io_of(&self, server: ServerId) -> Option<&ServerIo> {
        let at = self.io.binary_search_by_key(&server, |row| row.server);
        at.ok().map(|at| &self.io[at])
    }

    /// Of this server.
    pub(crate) fn unwatched_of(&self, server: ServerId) -> u64 {
        self.unwatched.iter().find(|(id, _)| *id == server).map_or(0, |&(_, n)| n)
    }

    /// Whether in all of this time each write to this server's doublewrite buffer, which is a part of its
    /// system tablespace, was told from the other writes to that file: by its offset, which durable writes
    /// are not.
    pub(crate) fn tells_doublewrite_apart(&self, server: ServerId) -> bool {
        let since = self.server(server).and_then(|server| server.doublewrite_apart_since);
        let begin = self.span.monotonic.checked_sub(self.span.duration);
        let is_told = since.zip(begin).is_some_and(|(since, begin)| since <= begin);
        let ways = [Op::Write, Op::IoUringWrite, Op::AioWrite];
        let is_durable = |row: &RoleRow| row.role == Role::SystemTablespace && row.op.writes();
        is_told
            && ways.iter().all(|op| self.setup.ops.contains(op))
            && !self.roles_of(server).iter().any(is_durable)
    }

    /// All writes, by file: durable ones, which are rows of syncs as well, and the others. Room that is made
    /// for what is written later is among them, without bytes.
    pub(crate) fn all_writes(&self) -> impl Iterator<Item = &FileRow> {
        self.files.iter().filter(|row| row.op.writes()).chain(&self.writes)
    }

    /// The same by role.
    pub(crate) fn all_write_roles(&self) -> impl Iterator<Item = &RoleRow> {
        self.roles.iter().filter(|row| row.op.writes()).chain(&self.write_roles)
    }

    /// Removes the rows of other servers. Neighbours stay: they belong to no server.
    pub(crate) fn retain_servers(&mut self, wanted: impl Fn(ServerId) -> bool) {
        let others = self.unwatched.iter().filter(|(server, _)| !wanted(*server)).map(|(_, n)| n);
        self.lost.unwatched = others.fold(self.lost.unwatched, |all, n| all.saturating_sub(*n));
        self.unwatched.retain(|(server, _)| wanted(*server));
        self.servers.retain(|server| wanted(server.id));
        self.roles.retain(|row| wanted(row.server));
        self.files.retain(|row| wanted(row.server));
        // A device's errors, and those of files that are no server's, concern whoever is there.
        self.failures.retain(|row| wanted(row.server) || row.is_nobodys());
        self.writes.retain(|row| wanted(row.server));
        self.write_roles.retain(|row| wanted(row.server));
        self.threads.retain(|row| wanted(row.server));
        self.waits.retain(|row| wanted(row.server));
        self.in_flight.retain(|sync| wanted(sync.server));
        self.io.retain(|row| wanted(row.server));
        self.counters.retain(|row| wanted(row.server));
        self.verdicts.retain(|row| wanted(row.server));
        // Those of files that are not kept apart may be of any server.
        let wanted = |server| wanted(server) || server == ServerId::NONE;
        self.unsynced.rows.retain(|row| wanted(row.server));
        self.unsynced.together.retain(|&(server, _), _| wanted(server));
    }

    /// The sum of all traced syncs of the interval.
    pub fn total(&self) -> Stats {
        self.total_of(|_| true)
    }

    pub(crate) fn total_of(&self, wanted: impl Fn(&RoleRow) -> bool) -> Stats {
        let mut total = Stats::default();
        self.roles.iter().filter(|row| wanted(row)).for_each(|row| total.merge(&row.stats));
        total
    }
}

/// The rows of one server in a table whose keys begin with it.
fn of_server<R>(rows: &[R], server: ServerId, of: impl Fn(&R) -> ServerId) -> &[R] {
    let begin = rows.partition_point(|row| of(row) < server);
    let length = rows[begin..].partition_point(|row| of(row) == server);
    &rows[begin..begin + length]
}

/// Sums up files by server, role and operation, in that order.
pub(crate) fn roles_of(files: &[FileRow]) -> Table<RoleRow> {
    let mut roles: BTreeMap<(ServerId, Role, Op), Stats> = BTreeMap::new();
    for row in files {
        roles.entry((row.server, row.info.role, row.op)).or_default().merge(&row.stats);
    }
    roles.into_iter().map(|((server, role, op), stats)| RoleRow { server, role, op, stats }).collect()
}

#[cfg(test)]
#[path = "interval_laws.rs"]
mod laws;
