//! Limits an interval to the rows that there is room for. Owners share the room; the rows that find none are
//! added up, so no sum changes except those of devices and of files that were only written.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::model::{
    FileInfo, FileRow, InFlight, Interval, NeighbourRow, OTHER_NEIGHBOURS, Owner, Role, RoleRow, Server,
    ServerId, Stats, Table, Target, Unsynced, UnsyncedRow, WaitRow, WholeDisks,
};
use crate::server::who::shares::fairly;

/// Rows by role at most; those with the least time are summed up under no server's name ([`ServerId::NONE`]).
const MOST_ROLES: usize = 256;
const MOST_SERVERS: usize = 128;
const MOST_NEIGHBOURS: usize = 16;
const MOST_IN_FLIGHT: usize = 32;
/// Files that were written, where all writes are watched; those that took least time are one for each server,
/// role and operation.
const MOST_WRITES: usize = 50;
/// Files of which something was unsynced; the others are one for each role, under no server's name.
const MOST_UNSYNCED: usize = 50;
/// Devices, those to which servers wrote most.
const MOST_DEVICES: usize = 16;
/// Files of which something beside a sync failed; those with the fewest failures are one for each role and
/// operation, under no server's name.
const MOST_FAILURES: usize = 50;
/// Rows of waits, those with most time. The others have no stack; where that is not enough, those with the
/// least time are under no server's name.
const MOST_WAITS: usize = 256;

/// `files`: how many rows by file are kept; those with failures first, then those that took most time.
pub(super) fn limited(interval: &Interval, files: usize) -> Interval {
    let owners = Owners::of(&interval.servers);
    let by_role = |rows: &Table<RoleRow>| {
        let kept = most_important(rows, MOST_ROLES, |row| &row.stats, |row| owners.owner(row.server));
        rows.limit(&kept, |row| RoleRow { server: ServerId::NONE, ..row.clone() })
    };
    let of_files = |rows: &[Cow<FileRow>], most| {
        most_important(rows, most, |row| &row.stats, |row| owners.owner(row.server))
    };
    let (roles, write_roles) = (by_role(&interval.roles), by_role(&interval.write_roles));
    let in_flight = oldest_of_each_role(&interval.in_flight, &owners);
    let with_rows: BTreeSet<ServerId> = (roles.iter().chain(&write_roles).map(|row| row.server))
        .chain(in_flight.iter().map(|sync| sync.server))
        .chain(interval.unwatched.iter().filter(|(_, number)| *number > 0).map(|(server, _)| *server))
        .chain(interval.failures.iter().map(|row| row.server))
        .chain(interval.unsynced.rows.iter().map(|row| row.server))
        .collect();
    let has_rows = |id: ServerId| with_rows.contains(&id);
    let mut servers: Vec<_> =
        interval.servers.iter().filter(|server| server.alive || has_rows(server.id)).cloned().collect();
    servers.sort_by_key(|server| Reverse(has_rows(server.id)));
    let servers: Table<_> = fairly(servers, MOST_SERVERS, |server| server.known_by.whose).into();
    let is_kept = |id: ServerId| servers.binary_search_by_key(&id, |server| server.id).is_ok();

    let all = one_for_each_path_of_gone(&interval.files, files);
    let kept = of_files(&all, files);
    let mut rest = interval.rest.clone();
    let mut kept_files = Vec::with_capacity(kept.len());
    for (at, row) in all.iter().enumerate() {
        if kept.binary_search(&at).is_ok() {
            kept_files.push(row.clone().into_owned());
        } else {
            rest.add(row);
        }
    }
    let failures = &interval.failures;
    let important_failures =
        most_important(failures, MOST_FAILURES, |row| &row.stats, |row| owners.owner(row.server));
    let all_writes = one_for_each_path_of_gone(&interval.writes, MOST_WRITES);
    let all_writes: Table<FileRow> = all_writes.into_iter().map(Cow::into_owned).collect();
    let owner = |row: &FileRow| owners.owner(row.server);
    let written = most_important(&all_writes, MOST_WRITES, |row| &row.stats, owner);
    let mut devices = Vec::from_iter(interval.devices.iter().cloned());
    devices.sort_by_key(|row| Reverse((row.submitted_bytes, row.written_bytes)));
    devices.truncate(MOST_DEVICES);
    // Of logs alone: for what else is kept, the sum of the files' own is good enough.
    let together = interval.unsynced.together.iter();
    let together = together.filter(|((server, role), _)| role.is_serial() && is_kept(*server));
    let unsynced = Unsynced {
        rows: of_unsynced(&interval.unsynced.rows, &owners),
        together: together.map(|(key, bytes)| (*key, *bytes)).collect(),
        dropped: interval.unsynced.dropped,
    };
    Interval {
        span: interval.span,
        setup: interval.setup.clone(),
        lost: interval.lost,
        roles,
        files: kept_files.into(),
        rest,
        failures: failures.limit(&important_failures, |row| FileRow {
            server: ServerId::NONE,
            target: Target::Gone(row.info.role),
            info: nameless(row.info.role),
            ..row.clone()
        }),
        writes: all_writes.limit(&written, |row| FileRow {
            target: Target::Gone(row.info.role),
            info: nameless(row.info.role),
            ..row.clone()
        }),
        write_roles,
        threads: Table::default(),
        in_flight,
        neighbours: of_neighbours(&interval.neighbours),
        // Of now, and not of the interval.
        whole_disks: WholeDisks::default(),
        unwatched: interval.unwatched.iter().filter(|(id, _)| is_kept(*id)).copied().collect(),
        devices: devices.into(),
        verdicts: interval.verdicts.iter().filter(|row| is_kept(row.server)).cloned().collect(),
        counters: interval.counters.iter().filter(|row| is_kept(row.server)).cloned().collect(),
        io: interval.io.iter().filter(|row| is_kept(row.server)).copied().collect(),
        unsynced,
        waits: of_waits(&interval.waits, &owners),
        wait_losses: interval.wait_losses,
        servers,
    }
}

/// Where there are more than `most`: files that had one path one after the other and are gone, as one. A
/// journal that is made anew for each transaction is as important as all of them.
fn one_for_each_path_of_gone(files: &[FileRow], most: usize) -> Vec<Cow<'_, FileRow>> {
    let mut all: Vec<Cow<FileRow>> = Vec::with_capacity(files.len());
    let mut places = HashMap::new();
    let are_too_many = files.len() > most;
    for row in files {
        let is_gone = are_too_many && row.info.unlinked && matches!(row.target, Target::File(_));
        if let Some(path) = row.info.path.as_deref().filter(|_| is_gone) {
            match places.entry((row.server, row.op, row.info.role, path)) {
                Entry::Occupied(place) => {
                    let place: &usize = place.get();
                    all[*place].to_mut().stats.merge(&row.stats);
                    continue;
                }
                Entry::Vacant(place) => _ = place.insert(all.len()),
            }
        }
        all.push(Cow::Borrowed(row));
    }
    all
}

/// Who answers for each server.
struct Owners(BTreeMap<ServerId, Owner>);

impl Owners {
    fn of(servers: &[Arc<Server>]) -> Owners {
        Owners(servers.iter().map(|server| (server.id, server.known_by.whose)).collect())
    }

    fn owner(&self, server: ServerId) -> Owner {
        self.0.get(&server).copied().unwrap_or_default()
    }
}

/// The indexes of the `most` rows to keep, in their order: those with failures first, then those that took
/// most time.
fn most_important<R>(
    rows: &[R],
    most: usize,
    stats: impl Fn(&R) -> &Stats,
    owner: impl Fn(&R) -> Owner,
) -> Vec<usize> {
    let importance = |row: &R| {
        let stats = stats(row);
        (stats.errors.len().min(1), stats.sum_ns, stats.count)
    };
    first(rows, most, importance, owner)
}

/// The indexes of the `most` rows to keep, in their order.
fn first<R, Importance: Ord>(
    rows: &[R],
    most: usize,
    importance: impl Fn(&R) -> Importance,
    owner: impl Fn(&R) -> Owner,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    if rows.len() <= most {
        return order;
    }
    order.sort_by_key(|&at| Reverse(importance(&rows[at])));
    let mut kept = fairly(order, most, |&at| owner(&rows[at]));
    kept.sort_unstable();
    kept
}

fn nameless(role: Role) -> Arc<FileInfo> {
    Arc::new(FileInfo { open: false, unlinked: true, ..FileInfo::nameless(role) })
}

/// Logs first, then files of which a sync failed, then those with most.
fn of_unsynced(rows: &Table<UnsyncedRow>, owners: &Owners) -> Table<UnsyncedRow> {
    let importance = |row: &UnsyncedRow| (row.info.role.is_serial(), row.possibly_lost > 0, row.most.bytes);
    let kept = first(rows, MOST_UNSYNCED, importance, |row| owners.owner(row.server));
    rows.limit(&kept, |row| {
        let role = row.info.role;
        let (server, target, info) = (ServerId::NONE, Target::Gone(role), nameless(role));
        UnsyncedRow { server, target, info, ..row.clone() }
    })
}

fn of_waits(rows: &Table<WaitRow>, owners: &Owners) -> Table<WaitRow> {
    let most = |rows: &Table<WaitRow>| {
        let importance = |row: &WaitRow| (row.phase.is_none(), row.ns);
        first(rows, MOST_WAITS, importance, |row| owners.owner(row.server))
    };
    let limited = rows.limit(&most(rows), |row| WaitRow { stack: Arc::default(), ..row.clone() });
    limited.limit(&most(&limited), |row| WaitRow {
        server: ServerId::NONE,
        stack: Arc::default(),
        ..row.clone()
    })
}

fn of_neighbours(rows: &Table<NeighbourRow>) -> Table<NeighbourRow> {
    // Whose they are is not known.
    let kept = most_important(rows, MOST_NEIGHBOURS, |row| &row.stats, |_| Owner::Unknown);
    let kept = rows.limit(&kept, |row| NeighbourRow {
        device_number: 0,
        device: String::new(),
        mount: None,
        comm: OTHER_NEIGHBOURS.into(),
        stats: row.stats.clone(),
    });
    // Where a device is mounted may change.
    kept.into_iter().map(|row| NeighbourRow { mount: None, ..row }).collect()
}

fn oldest_of_each_role(in_flight: &[InFlight], owners: &Owners) -> Vec<InFlight> {
    let mut by_role: BTreeMap<(ServerId, Role), InFlight> = BTreeMap::new();
    for sync in in_flight {
        by_role
            .entry((sync.server, sync.role))
            .and_modify(|oldest| {
                let count = oldest.count.saturating_add(sync.count);
                if sync.age > oldest.age {
                    *oldest = sync.clone();
                }
                oldest.count = count;
            })
            .or_insert_with(|| sync.clone());
    }
    let mut oldest: Vec<_> = by_role.into_values().collect();
    oldest.sort_by_key(|sync| Reverse(sync.age));
    let mut oldest = fairly(oldest, MOST_IN_FLIGHT, |sync| owners.owner(sync.server));
    oldest.sort_by_key(|sync| Reverse(sync.age));
    oldest
}
