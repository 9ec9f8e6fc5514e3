//! One interval of the history: what a measurement says, with no more rows than there is room for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::model::{
    Backlog, DeviceRow, FileInfo, FileRow, InFlight, Lost, Measurement, NeighbourRow, OTHER_NEIGHBOURS,
    Owner, Role, RoleRow, Server, ServerId, Stats, Target, Unsynced, UnsyncedRow,
};
use crate::server::who::shares::fairly;

/// Rows by role at most; those with the least time are summed up under no server's name ([`ServerId::NONE`]).
const MOST_ROLES: usize = 256;
const MOST_SERVERS: usize = 128;
const MOST_NEIGHBOURS: usize = 16;
const MOST_PENDING: usize = 32;
/// Files that were written, where all writes are watched; those that took least time are left out.
const MOST_WRITES: usize = 50;
/// Files of which something was unsynced.
const MOST_UNSYNCED: usize = 50;
const MOST_DEVICES: usize = 16;
/// Files of which something beside a sync failed.
const MOST_FAILURES: usize = 50;

/// One interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// By the wall clock of the time: if that was set, the two differ by another time than `duration`.
    pub start: SystemTime,
    pub end: SystemTime,
    /// By the monotonic clock.
    pub duration: Duration,
    pub lost: Lost,
    /// Those that were alive or synced something.
    pub servers: Vec<Arc<Server>>,
    /// Everything that was traced, by server, role and operation.
    pub roles: Vec<RoleRow>,
    /// Those with failures first, then those that took most time; a part of `roles`. By server, target and
    /// operation.
    pub files: Vec<FileRow>,
    /// The other files that were synced.
    pub rest: Rest,
    /// What failed beside the syncs. Those with the fewest failures are one for each role and operation,
    /// under no server's name.
    pub failures: Vec<FileRow>,
    /// Writes that are not durable, where all are watched: by role all, by file a part.
    pub write_roles: Vec<RoleRow>,
    pub writes: Vec<FileRow>,
    /// Files of which a sync failed first, then logs, then those with most; the others are one for each role,
    /// under no server's name.
    pub unsynced: Unsynced<UnsyncedRow>,
    /// Those to which servers wrote most.
    pub devices: Vec<DeviceRow>,
    /// At the end of the interval; oldest first.
    pub pending: Vec<Pending>,
    /// Those that took most time; the others under the name "other".
    pub neighbours: Vec<NeighbourRow>,
    /// [`Lost::unwatched`] by server, as far as these are among `servers`.
    pub unwatched: Vec<(ServerId, u64)>,
}

/// Files that are not kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Rows: a file with two operations counts twice.
    pub rows: u64,
    pub stats: Stats,
}

/// The syncs in flight of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub count: u64,
    pub oldest: InFlight,
}

impl Moment {
    /// `files`: how many rows by file are kept.
    pub fn of(measurement: &Measurement, files: usize) -> Moment {
        let owners = Owners::of(&measurement.servers);
        let (files, rest) = most_important_files(&measurement.files, files, &owners);
        let roles = most_important_roles(&measurement.roles, &owners);
        let write_roles = most_important_roles(&measurement.write_roles, &owners);
        let (writes, _) = most_important_files(&measurement.writes, MOST_WRITES, &owners);
        let pending = pending_of(&measurement.in_flight, &owners);
        let with_rows: BTreeSet<ServerId> = (roles.iter().chain(&write_roles).map(|row| row.server))
            .chain(pending.iter().map(|role| role.oldest.server))
            .chain(measurement.unwatched.iter().filter(|(_, number)| *number > 0).map(|(server, _)| *server))
            .chain(measurement.failures.iter().map(|row| row.server))
            .chain(measurement.unsynced.rows.iter().map(|row| row.server))
            .collect();
        let has_rows = |id: ServerId| with_rows.contains(&id);
        let mut servers: Vec<_> =
            measurement.servers.iter().filter(|server| server.alive || has_rows(server.id)).collect();
        servers.sort_by_key(|server| Reverse(has_rows(server.id)));
        let mut servers = fairly(servers, MOST_SERVERS, |server| server.known_by.whose);
        servers.sort_by_key(|server| server.id);
        let is_kept = |id: ServerId| servers.iter().any(|server| server.id == id);
        let unwatched = measurement.unwatched.iter().filter(|(id, _)| is_kept(*id)).copied().collect();
        let together = logs_together(&measurement.unsynced, is_kept);
        Moment {
            start: measurement.start,
            end: measurement.end,
            duration: measurement.duration,
            lost: measurement.lost,
            servers: servers.into_iter().cloned().collect(),
            roles,
            files,
            rest,
            failures: most_important_failures(&measurement.failures, &owners),
            write_roles,
            writes,
            unsynced: Unsynced {
                rows: most_important_unsynced(&measurement.unsynced.rows, &owners),
                together,
                dropped: measurement.unsynced.dropped,
            },
            devices: most_important_devices(&measurement.devices),
            pending,
            neighbours: most_important_neighbours(&measurement.neighbours),
            unwatched,
        }
    }

    /// What was lost, without what servers did that are not wanted.
    pub(crate) fn lost_of(&self, wanted: impl Fn(ServerId) -> bool) -> Lost {
        let others = self.unwatched.iter().filter(|(server, _)| !wanted(*server)).map(|(_, n)| n);
        Lost { unwatched: others.fold(self.lost.unwatched, |all, n| all.saturating_sub(*n)), ..self.lost }
    }

    /// What a role did, or all of them, of one server or of all.
    pub fn total(&self, server: Option<ServerId>, role: Option<Role>) -> Stats {
        let mut total = Stats::default();
        self.roles
            .iter()
            .filter(|row| {
                server.is_none_or(|id| row.server == id) && role.is_none_or(|role| row.role == role)
            })
            .for_each(|row| total.merge(&row.stats));
        total
    }
}

/// Who answers for each server: what is kept is shared out among them.
struct Owners(BTreeMap<ServerId, Owner>);

impl Owners {
    fn of(servers: &[Arc<Server>]) -> Owners {
        Owners(servers.iter().map(|server| (server.id, server.known_by.whose)).collect())
    }

    fn owner(&self, server: ServerId) -> Owner {
        self.0.get(&server).copied().unwrap_or_default()
    }
}

/// The indexes of the `most` rows to keep, in their order, and of the others.
fn split<T>(
    rows: &[T],
    most: usize,
    stats: impl Fn(&T) -> &Stats,
    owner: impl Fn(&T) -> Owner,
) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    if rows.len() <= most {
        return (order, Vec::new());
    }
    let importance = |&at: &usize| {
        let stats = stats(&rows[at]);
        Reverse((stats.errors.len().min(1), stats.sum_ns, stats.count))
    };
    order.sort_by_key(importance);
    let mut kept = fairly(order, most, |&at| owner(&rows[at]));
    kept.sort_unstable();
    let rest = (0..rows.len()).filter(|at| kept.binary_search(at).is_err()).collect();
    (kept, rest)
}

fn most_important_files(rows: &[FileRow], most: usize, owners: &Owners) -> (Vec<FileRow>, Rest) {
    let (kept, others) = split(rows, most, |row| &row.stats, |row| owners.owner(row.server));
    let mut rest = Rest::default();
    for at in others {
        rest.rows += 1;
        rest.stats.merge(&rows[at].stats);
    }
    (kept.into_iter().map(|at| rows[at].clone()).collect(), rest)
}

fn most_important_failures(rows: &[FileRow], owners: &Owners) -> Vec<FileRow> {
    let (kept, others) = split(rows, MOST_FAILURES, |row| &row.stats, |row| owners.owner(row.server));
    let mut rest: BTreeMap<_, Stats> = BTreeMap::new();
    for at in others {
        rest.entry((rows[at].info.role, rows[at].op)).or_default().merge(&rows[at].stats);
    }
    let rest = rest.into_iter().map(|((role, op), stats)| FileRow {
        server: ServerId::NONE,
        target: Target::Gone(role),
        op,
        info: Arc::new(FileInfo { open: false, unlinked: true, ..FileInfo::nameless(role) }),
        stats,
    });
    let mut all: Vec<_> = rest.chain(kept.into_iter().map(|at| rows[at].clone())).collect();
    all.sort_by_key(|row| (row.server, row.target, row.op));
    all
}

/// Of logs alone: for what else is kept, the sum of the files' own is good enough.
fn logs_together(
    unsynced: &Unsynced<UnsyncedRow>,
    is_kept: impl Fn(ServerId) -> bool,
) -> BTreeMap<(ServerId, Role), u64> {
    let is_wanted = |(server, role): &(ServerId, Role)| role.is_serial() && is_kept(*server);
    unsynced.together.iter().filter(|(key, _)| is_wanted(key)).map(|(&key, &bytes)| (key, bytes)).collect()
}

fn most_important_unsynced(rows: &[UnsyncedRow], owners: &Owners) -> Vec<UnsyncedRow> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let importance = |&at: &usize| {
        let row = &rows[at];
        Reverse((row.info.role.is_serial(), row.possibly_lost > 0, row.most.bytes))
    };
    order.sort_by_key(importance);
    let order = fairly(order, MOST_UNSYNCED, |&at| owners.owner(rows[at].server));
    let rest = (0..rows.len()).filter(|at| !order.contains(at));
    let mut rest_of_roles: BTreeMap<Role, UnsyncedRow> = BTreeMap::new();
    for at in rest {
        let (row, role) = (&rows[at], rows[at].info.role);
        let sum = rest_of_roles.entry(role).or_insert_with(|| UnsyncedRow {
            server: ServerId::NONE,
            target: Target::Gone(role),
            info: Arc::new(FileInfo { open: false, unlinked: true, ..FileInfo::nameless(role) }),
            now: Backlog::default(),
            most: Backlog::default(),
            possibly_lost: 0,
        });
        sum.now = sum.now.and(row.now);
        sum.most = sum.most.and(row.most);
        sum.possibly_lost = sum.possibly_lost.saturating_add(row.possibly_lost);
    }
    let kept = order.into_iter().map(|at| rows[at].clone());
    let mut all: Vec<_> = rest_of_roles.into_values().chain(kept).collect();
    all.sort_by_key(|row| (row.server, row.target));
    all
}

fn most_important_devices(rows: &[DeviceRow]) -> Vec<DeviceRow> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| Reverse(row.submitted_bytes));
    rows.truncate(MOST_DEVICES);
    rows
}

fn most_important_roles(rows: &[RoleRow], owners: &Owners) -> Vec<RoleRow> {
    let (kept, others) = split(rows, MOST_ROLES, |row| &row.stats, |row| owners.owner(row.server));
    let mut rest: BTreeMap<_, Stats> = BTreeMap::new();
    for at in others {
        rest.entry((rows[at].role, rows[at].op)).or_default().merge(&rows[at].stats);
    }
    let rest =
        rest.into_iter().map(|((role, op), stats)| RoleRow { server: ServerId::NONE, role, op, stats });
    rest.chain(kept.into_iter().map(|at| rows[at].clone())).collect()
}

fn most_important_neighbours(rows: &[NeighbourRow]) -> Vec<NeighbourRow> {
    // Whose they are is not known.
    let (kept, others) = split(rows, MOST_NEIGHBOURS, |row| &row.stats, |_| Owner::Unknown);
    let mut kept: Vec<_> = kept.into_iter().map(|at| rows[at].clone()).collect();
    let is_other = |row: &NeighbourRow| row.device_number == 0 && row.comm == OTHER_NEIGHBOURS;
    for at in others {
        match kept.iter_mut().find(|row| is_other(row)) {
            Some(other) => other.stats.merge(&rows[at].stats),
            None => kept.push(NeighbourRow {
                device_number: 0,
                device: String::new(),
                mount: None,
                comm: OTHER_NEIGHBOURS.into(),
                stats: rows[at].stats.clone(),
            }),
        }
    }
    kept
}

fn pending_of(in_flight: &[InFlight], owners: &Owners) -> Vec<Pending> {
    let mut by_role: BTreeMap<(ServerId, Role), Pending> = BTreeMap::new();
    for sync in in_flight {
        by_role
            .entry((sync.server, sync.role))
            .and_modify(|pending| {
                pending.count += 1;
                if sync.age > pending.oldest.age {
                    pending.oldest = sync.clone();
                }
            })
            .or_insert_with(|| Pending { count: 1, oldest: sync.clone() });
    }
    let mut pending: Vec<_> = by_role.into_values().collect();
    pending.sort_by_key(|pending| Reverse(pending.oldest.age));
    let mut pending = fairly(pending, MOST_PENDING, |pending| owners.owner(pending.oldest.server));
    pending.sort_by_key(|pending| Reverse(pending.oldest.age));
    pending
}
