//! How the interval between two snapshots is made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::interval::{Interval, Rest, Span, roles_of};
use super::waits::waits_between;
use super::{
    DeviceRow, DiskBytes, FileRow, NeighbourRow, OTHER_NEIGHBOURS, Op, Role, RoleRow, Row, Server, ServerId,
    ServerIo, Snapshot, Stats, Table, Target, ThreadRow, Unsynced,
};

impl Interval {
    /// What happened between two snapshots of the same tracing session.
    pub fn between(earlier: &Snapshot, later: &Snapshot) -> Interval {
        let known: BTreeSet<ServerId> = later.servers.iter().map(|server| server.id).collect();
        // A server that has been forgotten was merged as well.
        let heir = |server| if known.contains(&server) { server } else { ServerId::ENDED };
        let of_files = |earlier, later| {
            difference(
                earlier,
                later,
                |row: &FileRow| (heir(row.server), Target::Gone(row.info.role), row.op),
                |row| &row.stats,
                |row, stats| FileRow { stats, ..row.clone() },
            )
        };
        let mut files = of_files(&earlier.files, &later.files);
        let failures = of_files(&earlier.failures, &later.failures);
        let mut writes = of_files(&earlier.writes, &later.writes);
        let (syncs, others): (Vec<_>, Vec<_>) =
            pending(earlier, later).into_iter().partition(|(operation, _)| operation.op.makes_durable());
        let nameless = add_pending(&mut files, &later.files, &syncs);
        add_pending(&mut writes, &later.writes, &others);
        let threads = difference(
            &earlier.threads,
            &later.threads,
            |row: &ThreadRow| (heir(row.server), 0, 0, row.op),
            |row| &row.stats,
            |row, stats| ThreadRow { stats, ..row.clone() },
        );
        let neighbours = difference(
            &earlier.neighbours,
            &later.neighbours,
            |_: &NeighbourRow| (0, OTHER_NEIGHBOURS.to_owned()),
            |row| &row.stats,
            |row, stats| NeighbourRow { stats, ..row.clone() },
        );
        let mut roles = roles_of(&files);
        let write_roles = roles_of(&writes);
        roles.extend(nameless.into_iter().map(|(operation, ns)| {
            let &Operation { server, role, op, .. } = operation;
            RoleRow { server, role, op, stats: Stats { pending_ns: ns, ..Stats::default() } }
        }));
        let is_active = |row: &FileRow| row.stats.count > 0 || row.stats.pending_ns != 0;
        files.retain(is_active);
        writes.retain(is_active);
        let devices = devices_between(&earlier.disks, &later.disks, files.iter().chain(&writes));
        // Rows that stand for several servers are not listed as servers.
        let is_shown = |server: &&Arc<Server>| {
            server.id != ServerId::ENDED || roles.iter().any(|row| row.server == ServerId::ENDED)
        };
        let mut in_flight = later.in_flight.clone();
        in_flight.sort_by_key(|sync| std::cmp::Reverse(sync.age));
        Interval {
            span: Span {
                start: earlier.taken_wall,
                end: later.taken_wall,
                duration: later.taken.saturating_duration_since(earlier.taken),
                monotonic: later.monotonic,
                sequence: later.number,
                parts: 1,
            },
            setup: later.setup.clone(),
            lost: later.lost.since(&earlier.lost),
            servers: later.servers.iter().filter(is_shown).cloned().collect(),
            roles,
            files: files.into(),
            rest: Rest::default(),
            failures: failures.into(),
            writes: writes.into(),
            write_roles,
            threads: threads.into(),
            in_flight,
            neighbours: neighbours.into(),
            whole_disks: later.whole_disks.clone(),
            unwatched: unwatched_between(&earlier.unwatched, &later.unwatched),
            devices,
            io: io_between(&earlier.io, &later.io),
            counters: Table::default(),
            verdicts: Table::default(),
            unsynced: Unsynced {
                dropped: later.unsynced.dropped.saturating_sub(earlier.unsynced.dropped),
                ..later.unsynced.since(earlier.taken)
            },
            waits: waits_between(&earlier.waits, &later.waits),
            wait_losses: later.wait_losses.since(&earlier.wait_losses),
        }
    }
}

/// Operations in flight for less than this are not counted before they end: the list of those in flight and
/// the counts are not of the same instant.
const LONG: Duration = Duration::from_millis(100);

/// What is done, to which file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Operation {
    server: ServerId,
    role: Role,
    op: Op,
    path: Option<PathBuf>,
}

/// The time in operations that the latencies of those that ended in the interval lack, or have too much; see
/// [`Stats::pending_ns`].
fn pending(earlier: &Snapshot, later: &Snapshot) -> BTreeMap<Operation, i64> {
    let of = |snapshot: &Snapshot| {
        let mut ages: BTreeMap<Operation, (u32, Duration)> = BTreeMap::new();
        for sync in snapshot.in_flight.iter().filter(|sync| sync.age >= LONG) {
            let operation =
                Operation { server: sync.server, role: sync.role, op: sync.op, path: sync.path.clone() };
            let (n, sum) = ages.entry(operation).or_default();
            *n += 1;
            *sum = sum.saturating_add(sync.age);
        }
        ages
    };
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let duration = later.taken.saturating_duration_since(earlier.taken);
    let mut pending: BTreeMap<Operation, i64> = BTreeMap::new();
    let before = of(earlier);
    for (operation, (n, sum)) in of(later) {
        let sum_before = before.get(&operation).map_or(0, |&(_, sum)| ns(sum));
        // One that is found late has been there for longer than the interval.
        pending.insert(operation, (ns(sum) - sum_before).min(ns(duration.saturating_mul(n))));
    }
    for (operation, (_, sum)) in before {
        pending.entry(operation).or_insert(-ns(sum));
    }
    pending
}

/// To the rows of their files; to one without any operation that has ended, if there is none in the interval.
/// Returns those whose file is not known. Each row is looked at once, however many operations hang.
fn add_pending<'a>(
    rows: &mut Vec<FileRow>,
    all: &[FileRow],
    pending: &'a [(Operation, i64)],
) -> Vec<(&'a Operation, i64)> {
    if pending.is_empty() {
        return Vec::new();
    }
    let mut wanted: HashMap<(ServerId, Op, Option<&Path>), usize> = HashMap::new();
    for (at, (of, _)) in pending.iter().enumerate() {
        wanted.insert((of.server, of.op, of.path.as_deref()), at);
    }
    let found = |rows: &[FileRow]| -> HashMap<usize, usize> {
        let which = |row: &FileRow| wanted.get(&(row.server, row.op, row.info.path.as_deref())).copied();
        rows.iter().enumerate().filter_map(|(row, it)| Some((which(it)?, row))).collect()
    };
    let (here, anywhere) = (found(rows), found(all));
    let mut nameless = Vec::new();
    for (at, (of, ns)) in pending.iter().enumerate() {
        if let Some(&row) = here.get(&at) {
            let stats = &mut rows[row].stats;
            stats.pending_ns = stats.pending_ns.saturating_add(*ns);
        } else if *ns > 0 {
            match anywhere.get(&at) {
                Some(&row) => rows.push(FileRow {
                    stats: Stats { pending_ns: *ns, ..Stats::default() },
                    ..all[row].clone()
                }),
                None => nameless.push((of, *ns)),
            }
        }
    }
    nameless
}

/// A server that has been forgotten, or was not known before, has no earlier figure.
fn unwatched_between(earlier: &[(ServerId, u64)], later: &[(ServerId, u64)]) -> Table<(ServerId, u64)> {
    let before = |server| earlier.iter().find(|(id, _)| *id == server).map_or(0, |&(_, n)| n);
    let new = later.iter().map(|&(server, n)| (server, n.saturating_sub(before(server))));
    new.filter(|(_, n)| *n > 0).collect()
}

/// Of servers that were there at both times.
fn io_between(earlier: &[ServerIo], later: &[ServerIo]) -> Table<ServerIo> {
    let since = |later: &ServerIo| {
        let before = earlier.iter().find(|row| row.server == later.server)?;
        Some(ServerIo {
            server: later.server,
            read_bytes: later.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: later.written_bytes.saturating_sub(before.written_bytes),
            cancelled_bytes: later.cancelled_bytes.saturating_sub(before.cancelled_bytes),
        })
    };
    later.iter().filter_map(since).collect()
}

/// The devices that are among `rows`, as far as the kernel tells what they did.
fn devices_between<'a>(
    earlier: &BTreeMap<u32, DiskBytes>,
    later: &BTreeMap<u32, DiskBytes>,
    rows: impl Iterator<Item = &'a FileRow>,
) -> Table<DeviceRow> {
    let mut devices: BTreeMap<u32, DeviceRow> = BTreeMap::new();
    for row in rows {
        let Some(number) = row.device_number() else { continue };
        let (Some(before), Some(after), Some(name)) =
            (earlier.get(&number), later.get(&number), &row.info.device)
        else {
            continue;
        };
        let device = devices.entry(number).or_insert_with(|| DeviceRow {
            number,
            name: name.clone(),
            mount: row.info.mount.clone(),
            written_bytes: after.written.saturating_sub(before.written),
            read_bytes: after.read.saturating_sub(before.read),
            submitted_bytes: 0,
        });
        if row.op.writes() {
            device.submitted_bytes += row.stats.bytes;
        }
    }
    devices.into_values().collect()
}

/// The rows of `later` with activity since `earlier`, ordered by identity, by which they are matched. Rows
/// that only `earlier` has were merged into their heir: the counts that they had then are not new there.
fn difference<R: Row>(
    earlier: &[R],
    later: &[R],
    heir: impl Fn(&R) -> R::Key,
    stats: impl Fn(&R) -> &Stats,
    with: impl Fn(&R, Stats) -> R,
) -> Vec<R> {
    let key = R::key;
    // Snapshots are already sorted, so this is cheap.
    let sorted = |rows| {
        let mut rows: Vec<&R> = Vec::from_iter(rows);
        rows.sort_by_key(|row| key(row));
        rows
    };
    let mut before = sorted(earlier).into_iter().peekable();
    let mut inherited: BTreeMap<R::Key, Stats> = BTreeMap::new();
    let mut gone = |row: &R| inherited.entry(heir(row)).or_default().merge(stats(row));
    let mut pairs = Vec::with_capacity(later.len());
    for row in sorted(later) {
        while let Some(old) = before.next_if(|old| key(old) < key(row)) {
            gone(old);
        }
        let mut old = before.next_if(|old| key(old) == key(row));
        // A row with a count that decreased was merged and came back.
        if let Some(folded) = old.take_if(|old| !stats(row).continues(stats(old))) {
            gone(folded);
        }
        pairs.push((row, old));
    }
    before.for_each(gone);
    let changed = pairs.into_iter().filter_map(|(row, old)| {
        let new = match (old.map(&stats), inherited.remove(&key(row))) {
            (Some(old), None) if old == stats(row) => return None,
            (Some(old), None) => stats(row).since(old),
            (None, None) => stats(row).clone(),
            (old, Some(mut inherited)) => {
                old.into_iter().for_each(|old| inherited.merge(old));
                stats(row).since(&inherited)
            }
        };
        (new.count > 0 || new.untimed > 0 || !new.histogram.is_empty()).then(|| with(row, new))
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::model::fixture::{MYSQL, quiet, row};
    use crate::model::stats::tests::stats;
    use crate::model::{InFlight, Lost};

    /// (identity, heir, stats)
    type Row = (u32, u32, Stats);

    impl crate::model::Row for Row {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn add(&mut self, other: Self) {
            self.2.merge(&other.2);
        }
    }

    fn since(earlier: &[Row], later: &[Row]) -> Vec<(u32, u64, u64)> {
        let with = |row: &Row, stats| (row.0, row.1, stats);
        let rows = difference(earlier, later, |row| row.1, |row| &row.2, with);
        rows.into_iter().map(|(id, _, stats)| (id, stats.count, stats.histogram.count())).collect()
    }

    #[test]
    fn an_operation_that_hangs_is_time_in_its_log_as_long_as_it_does_and_no_longer() {
        const SECOND: Duration = Duration::from_secs(1);
        let begin = std::time::Instant::now();
        let redo = row(MYSQL, 41, "/d/ib_redo1", Role::Redo, Op::Fdatasync, Stats::default());
        let at = |second: u32, stats: &Stats, ages: &[Duration]| {
            let sync = |&age: &Duration| InFlight {
                server: redo.server,
                tid: 7,
                thread: "log".into(),
                op: redo.op,
                role: redo.info.role,
                path: redo.info.path.clone(),
                age,
                age_is_minimum: false,
                count: 1,
                waits_for: None,
            };
            Snapshot {
                files: vec![FileRow { stats: stats.clone(), ..redo.clone() }],
                in_flight: ages.iter().map(sync).collect(),
                ..Snapshot::empty(begin + second * SECOND, SystemTime::UNIX_EPOCH, quiet().setup)
            }
        };
        let none = Stats::default();
        let ended = stats(&[3_500_000_000]);
        let snapshots = [
            at(0, &none, &[]),
            at(1, &none, &[SECOND / 2]),
            at(2, &none, &[3 * SECOND / 2]),
            at(3, &none, &[5 * SECOND / 2]),
            at(4, &ended, &[]),
        ];
        let shares: Vec<f64> = snapshots
            .windows(2)
            .map(|two| {
                let m = Interval::between(&two[0], &two[1]);
                assert_eq!((m.roles.len(), m.files.len()), (1, 1));
                assert_eq!(m.files[0].stats.pending_ns, m.roles[0].stats.pending_ns);
                m.roles[0].stats.in_flight_mean(m.span.duration)
            })
            .collect();
        assert_eq!(shares, [0.5, 1.0, 1.0, 1.0]);
        let whole = Interval::between(&snapshots[0], &snapshots[4]);
        assert_eq!(whole.roles[0].stats.in_flight_mean(whole.span.duration), 3.5 / 4.0);
        // One that began before anybody looked fills the interval; one that is new in the file's row, too.
        let late = Interval::between(&snapshots[0], &at(1, &none, &[9 * SECOND]));
        assert_eq!(late.total().in_flight_mean(late.span.duration), 1.0);
        let unknown = Snapshot { files: Vec::new(), ..at(1, &none, &[9 * SECOND]) };
        let unknown = Interval::between(&snapshots[0], &unknown);
        assert_eq!((unknown.files.len(), unknown.total().in_flight_mean(unknown.span.duration)), (0, 1.0));
        let short = Interval::between(&snapshots[0], &at(1, &none, &[SECOND / 20]));
        assert_eq!(short.roles.len(), 0, "what is in flight for a moment is counted when it ends");
    }

    #[test]
    fn what_was_folded_into_another_row_is_not_new_there() {
        let row = |id, latencies: &[u64]| (id, 0, stats(latencies));
        let earlier = [row(0, &[9_000]), row(1, &[1_000; 3]), row(2, &[2_000; 4]), row(3, &[3_000])];
        // 1 and 2 were merged, 2 after two more syncs.
        let all: Vec<u64> = [&[9_000][..], &[1_000; 3], &[2_000; 6]].concat();
        assert_eq!(since(&earlier, &[row(0, &all), row(3, &[3_000; 2])]), [(0, 2, 2), (3, 1, 1)]);
        // Rows first seen in between are new, and one that comes back starts from zero.
        assert_eq!(since(&earlier[1..2], &[row(0, &[1_000; 5]), row(9, &[7])]), [(0, 2, 2), (9, 1, 1)]);
        let back = [row(0, &[&[9_000][..], &[1_000; 3]].concat()), row(1, &[5_000])];
        assert_eq!(since(&earlier[..2], &back), [(1, 1, 1)]);
        // Also if it grew beyond its earlier count: each sync counts once, in whichever row it is.
        let back = [row(0, &[&[9_000][..], &[1_000; 3]].concat()), row(1, &[5_000; 7])];
        assert_eq!(since(&earlier[..2], &back), [(1, 7, 7)]);
        let back = [row(0, &[&[9_000][..], &[1_000; 3]].concat()), row(1, &[1_000; 5])];
        assert_eq!(since(&earlier[..2], &back), [(0, 3, 3), (1, 2, 2)]);
        assert_eq!(since(&earlier, &earlier), []);
    }

    #[test]
    fn what_servers_did_that_are_remembered_no_longer_is_not_new() {
        use crate::model::fixture::{MARIADB, MYSQL, busy, row, server};
        let snapshot = |servers: &[ServerId], files: Vec<FileRow>| Snapshot {
            servers: servers.iter().map(|&id| Arc::new(server(id, "mysqld", "MySQL 9.7.4", 1))).collect(),
            files,
            ..Snapshot::empty(std::time::Instant::now(), SystemTime::now(), busy().setup)
        };
        let of = |id, inode, n| row(id, inode, "/d/a", Role::Redo, Op::Fsync, stats(&vec![1_000; n]));
        let gone = |id, n| FileRow { target: Target::Gone(Role::Redo), ..of(id, 0, n) };
        let earlier = snapshot(
            &[MYSQL, MARIADB],
            vec![of(MYSQL, 1, 5), of(MYSQL, 2, 7), gone(MYSQL, 3), of(MARIADB, 1, 4)],
        );
        let counts = |later: &Snapshot| {
            let m = Interval::between(&earlier, later);
            let servers: Vec<_> = m.servers.iter().map(|server| server.id).collect();
            (m.files.iter().map(|row| (row.server, row.stats.count)).collect::<Vec<_>>(), servers)
        };
        let known = [MARIADB, ServerId::ENDED];
        let quiet = snapshot(&known, vec![gone(ServerId::ENDED, 15), of(MARIADB, 1, 4)]);
        assert_eq!(counts(&quiet), (vec![], vec![MARIADB]));
        // It synced twice more before it ended; another one appeared, synced and ended.
        let busy = snapshot(&known, vec![gone(ServerId::ENDED, 15 + 2 + 10), of(MARIADB, 1, 5)]);
        assert_eq!(
            counts(&busy),
            (vec![(ServerId::ENDED, 12), (MARIADB, 1)], vec![ServerId::ENDED, MARIADB])
        );
    }

    #[test]
    fn devices_are_those_that_files_were_written_on_and_the_kernel_knows() {
        use crate::model::fixture::{MYSQL, row};
        let written = |inode, op, bytes| {
            let stats = Stats { bytes, ..stats(&[1_000]) };
            row(MYSQL, inode, "/d/a", Role::Redo, op, stats)
        };
        let rows = [written(1, Op::Write, 4_096), written(2, Op::DsyncWrite, 512), written(3, Op::Fsync, 0)];
        let number = rows[0].device_number().unwrap();
        let [before, after] = [10_000, 25_000].map(|written| {
            let bytes = DiskBytes { read: written / 10, written };
            BTreeMap::from([(number, bytes), (7, bytes)])
        });
        let devices = devices_between(&before, &after, rows.iter());
        assert_eq!(devices.len(), 1, "{devices:?}");
        let row = &devices[0];
        assert_eq!((row.written_bytes, row.read_bytes, row.submitted_bytes), (15_000, 1_500, 4_608));
        assert_eq!(devices_between(&BTreeMap::new(), &after, rows.iter()), [], "since when is not known");
        let unwritten = devices_between(&before, &after, rows[2..].iter());
        assert_eq!((unwritten[0].written_bytes, unwritten[0].submitted_bytes), (15_000, 0), "only synced");
    }

    #[test]
    fn what_a_server_moved_is_known_of_a_time_at_whose_ends_it_was_read() {
        use crate::model::fixture::{MARIADB, MYSQL};
        let io =
            |server, n| ServerIo { server, read_bytes: n, written_bytes: 10 * n, cancelled_bytes: n / 2 };
        let earlier = [io(MYSQL, 4)];
        assert_eq!(io_between(&earlier, &[io(MYSQL, 10), io(MARIADB, 99)]), [io(MYSQL, 6)]);
        assert_eq!(io_between(&earlier, &[]), []);
        assert_eq!(io_between(&earlier, &[io(MYSQL, 2)]), [io(MYSQL, 0)]);
    }

    #[test]
    fn what_was_not_watched_is_of_the_interval_and_goes_with_its_server() {
        use crate::model::fixture::{MARIADB, MYSQL, two_servers};
        let earlier = [(MYSQL, 7), (ServerId::ENDED, 9)];
        let unwatched = unwatched_between(&earlier, &[(MYSQL, 12), (MARIADB, 4)]);
        assert_eq!(unwatched, [(MYSQL, 5), (MARIADB, 4)]);
        assert_eq!(unwatched_between(&[(MYSQL, 7)], &[(MYSQL, 7)]), []);
        // Two are of a process that is not known.
        let mut m = Interval {
            lost: Lost { unwatched: 11, preempted: 1, ..Lost::default() },
            unwatched,
            ..two_servers()
        };
        m.retain_servers(|server| server == MARIADB);
        assert_eq!(m.lost, Lost { unwatched: 6, preempted: 1, ..Lost::default() });
        assert_eq!((m.unwatched_of(MARIADB), m.unwatched_of(MYSQL)), (4, 0));
    }

    #[test]
    fn a_failure_of_a_row_that_was_folded_and_came_back_is_not_told_twice() {
        let failed = |mut stats: Stats, n| {
            stats.errors.insert(libc::EIO, n);
            stats
        };
        let earlier = [(0, 0, stats(&[])), (1, 0, failed(stats(&[1_000; 3]), 2))];
        let later = [(0, 0, failed(stats(&[1_000; 3]), 2)), (1, 0, stats(&[1_000; 9]))];
        let with = |row: &Row, stats| (row.0, row.1, stats);
        let rows = difference(&earlier, &later, |row| row.1, |row| &row.2, with);
        assert_eq!(rows.iter().map(|row| row.2.count).sum::<u64>(), 9);
        assert!(rows.iter().all(|row| row.2.error_count() == 0), "{rows:?}");
    }
}
