//! The rows of an interval for one grouping: what the table, the live view and the CSV show, and what a limit
//! leaves in JSON.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::columns::{Column, Sort};
use super::row::{About, Key, Row};
use super::{By, Options};
use crate::model::figures::{Figure, is_told};
use crate::model::histogram::LAST_EXPONENT;
use crate::model::{FileRow, Interval, Max, NeighbourRow, Op, RoleRow, ServerId, Stats, ThreadRow};
use crate::text::duration_in_words;

/// Sorts by a column: figures the greatest first, text in its own order; `reverse`: the other way round. Rows
/// that are equal in it keep one order: by what they stand for.
pub(crate) fn sort(rows: &mut [Row], by: Column, reverse: bool) {
    fn ascending<K: Ord>(rows: &mut [Row], reverse: bool, key: impl Fn(&Row) -> K) {
        if reverse {
            rows.sort_by_cached_key(|row| std::cmp::Reverse(key(row)));
        } else {
            rows.sort_by_cached_key(key);
        }
    }
    rows.sort_by(Row::natural_order);
    match by {
        Column::Name if reverse => rows.reverse(),
        Column::Name | Column::Graph | Column::Unsynced => {}
        Column::Time => ascending(rows, !reverse, Row::time),
        Column::Server => ascending(rows, reverse, Row::server),
        Column::Tid => ascending(rows, reverse, |row| row.key.tid()),
        Column::Role => ascending(rows, reverse, Row::role),
        Column::Op => ascending(rows, reverse, Row::op),
        Column::Device => ascending(rows, reverse, |row| match &row.about {
            About::Neighbour { device, .. } => device.clone(),
            _ => String::new(),
        }),
        Column::Shared => ascending(rows, !reverse, |row| row.shared),
        Column::Busy => {
            let is_serial = |row: &Row| row.role().is_some_and(|role| role.is_serial());
            ascending(rows, !reverse, |row| is_serial(row).then_some((row.oldest, row.stats.sum_ns)));
        }
        // A sync that hangs comes first.
        Column::Figure(Figure::InFlight) => {
            ascending(rows, !reverse, |row| (row.oldest, row.stats.sum_ns));
        }
        Column::Figure(figure) => {
            ascending(rows, !reverse, |row| row.figure(figure, Duration::ZERO).rank());
        }
    }
}

/// The rows of these servers, sorted as the options say.
pub(crate) fn rows(m: &Interval, servers: &[ServerId], options: &Options) -> Vec<Row> {
    sorted(unsorted(m, servers, options.by), options)
}

/// The same for people, to whom files that took each other's place are one row.
pub(crate) fn rows_for_people(m: &Interval, servers: &[ServerId], options: &Options) -> Vec<Row> {
    sorted(one_row_for_each_path(unsorted(m, servers, options.by)), options)
}

fn sorted(mut rows: Vec<Row>, options: &Options) -> Vec<Row> {
    let by = options.sort.unwrap_or(match options.by {
        By::Role | By::Server => Sort::Name,
        By::File | By::Thread => Sort::Figure(Figure::Time),
        By::Writes => Sort::Figure(Figure::Bytes),
    });
    sort(&mut rows, by.column(), false);
    rows
}

/// All servers of a measurement, also those that only their rows still know.
pub(crate) fn everyone(m: &Interval) -> Vec<ServerId> {
    m.servers.iter().map(|server| server.id).chain(m.roles.iter().map(|row| row.server)).collect()
}

fn unsorted(m: &Interval, servers: &[ServerId], by: By) -> Vec<Row> {
    let mine: Wanted = &|server| servers.contains(&server);
    match by {
        By::Role => by_role(m, mine),
        By::File => by_file(m, mine),
        By::Writes => by_write(m, mine),
        By::Thread => by_thread(m, mine),
        By::Server => by_server_and_op(m, mine),
    }
}

/// Whose rows.
pub(crate) type Wanted<'a> = &'a dyn Fn(ServerId) -> bool;

pub(crate) fn by_role(m: &Interval, mine: Wanted) -> Vec<Row> {
    let row = |row: &RoleRow| Row::new(Key::of_role(row), About::Role(row.role), row.stats.clone());
    m.roles.iter().filter(|row| mine(row.server)).map(row).collect()
}

/// Each file by itself.
fn by_file(m: &Interval, mine: Wanted) -> Vec<Row> {
    let row = |row| Row::of_file(row, Key::of_file(row));
    m.files.iter().filter(|row| mine(row.server)).map(row).collect()
}

fn by_write(m: &Interval, mine: Wanted) -> Vec<Row> {
    m.all_writes().filter(|row| mine(row.server)).map(|row| Row::of_file(row, Key::of_write(row))).collect()
}

/// Files that had one path are one row.
pub(crate) fn by_path<'a>(files: impl Iterator<Item = &'a FileRow>, key: fn(&FileRow) -> Key) -> Vec<Row> {
    one_row_for_each_path(files.map(|row| Row::of_file(row, key(row))).collect())
}

pub(crate) fn by_thread(m: &Interval, mine: Wanted) -> Vec<Row> {
    let row =
        |row: &ThreadRow| Row::new(Key::of_thread(row), About::Thread(row.name.clone()), row.stats.clone());
    m.threads.iter().filter(|row| mine(row.server)).map(row).collect()
}

pub(crate) fn by_neighbour(m: &Interval) -> Vec<Row> {
    let row = |row: &NeighbourRow| {
        let about = About::Neighbour { device: row.device.clone(), comm: row.comm.clone() };
        Row::new(Key::of_neighbour(row), about, row.stats.clone())
    };
    m.neighbours.iter().map(row).collect()
}

fn by_server_and_op(m: &Interval, mine: Wanted) -> Vec<Row> {
    let mut sums: BTreeMap<(ServerId, Op), Stats> = BTreeMap::new();
    for row in m.roles.iter().filter(|row| mine(row.server)) {
        sums.entry((row.server, row.op)).or_default().merge(&row.stats);
    }
    sums.into_iter().map(|((server, op), stats)| of_server(m, server, Some(op), stats)).collect()
}

/// All servers, those that synced nothing as well.
pub(crate) fn by_server(m: &Interval, mine: Wanted) -> Vec<Row> {
    let mut sums: BTreeMap<ServerId, Stats> = m.servers.iter().map(|s| (s.id, Stats::default())).collect();
    for row in &m.roles {
        sums.entry(row.server).or_default().merge(&row.stats);
    }
    sums.retain(|server, _| mine(*server));
    sums.into_iter().map(|(server, stats)| of_server(m, server, None, stats)).collect()
}

fn of_server(m: &Interval, id: ServerId, op: Option<Op>, stats: Stats) -> Row {
    Row::new(Key::Server(id, op), About::Server(m.server(id).cloned()), stats)
}

/// A file that is made anew for each transaction would fill a table with rows of one path. Other rows have
/// keys of their own.
fn one_row_for_each_path(rows: Vec<Row>) -> Vec<Row> {
    let mut all: Vec<Row> = Vec::with_capacity(rows.len());
    let mut places: HashMap<Key, usize> = HashMap::with_capacity(rows.len());
    for row in rows {
        match places.entry(row.key.clone()) {
            Entry::Occupied(place) => all[*place.get()].take_in(row),
            Entry::Vacant(place) => {
                place.insert(all.len());
                all.push(row);
            }
        }
    }
    all
}

/// The 99th percentile where there are enough syncs to speak of one: of fewer than a hundred it is the
/// maximum.
pub(crate) fn p99(stats: &Stats) -> Option<u64> {
    if is_told(0.99, stats.count) { stats.quantile_ns(0.99) } else { None }
}

/// The greatest latency in a sentence. The bucket over all others has no upper edge.
pub(crate) fn max_in_words(max: Max) -> String {
    match max {
        Max { ns: u64::MAX, .. } => format!("{} or more", duration_in_words(1 << LAST_EXPONENT)),
        Max { ns, exact: true } => duration_in_words(ns),
        Max { ns, exact: false } => format!("up to {}", duration_in_words(ns)),
    }
}

/// The greatest latency as a figure; None where it fell into the bucket that has no upper edge.
pub(crate) fn max_ns(max: Max) -> Option<u64> {
    (max.ns < u64::MAX).then_some(max.ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use crate::model::fixture;
    use crate::render::row::nameless_file;

    fn order(by: By, sort: Option<Sort>) -> Vec<String> {
        let m = fixture::busy();
        let options = Options { by, sort, ..Options::default() };
        let name = |row: &Row| match &row.about {
            About::Role(role) => role.name().to_owned(),
            About::File(file) => file.info.path.as_ref().map_or_else(
                || nameless_file(file.target, &file.info).unwrap(),
                |path| path.file_name().unwrap().to_string_lossy().into_owned(),
            ),
            About::Thread(name) => name.clone(),
            _ => "server".into(),
        };
        rows(&m, &[fixture::MYSQL], &options).iter().map(name).collect()
    }

    #[test]
    fn roles_keep_their_own_order_and_files_come_by_time() {
        assert_eq!(order(By::Role, None), ["redo", "binlog", "doublewrite", "tablespace", "directory"]);
        assert_eq!(order(By::File, None)[..3], ["binlog.000003", "#ib_redo5", "#ib_redo6"]);
        assert_eq!(order(By::Server, None), ["server", "server"], "fsync and fdatasync");
    }

    /// Path, gone, files and syncs of the rows for people, of files with that path that are gone or not.
    fn of_one_path(files: &[(bool, u64)]) -> Vec<(bool, usize, u64)> {
        let mut m = fixture::quiet();
        for (at, &(unlinked, syncs)) in files.iter().enumerate() {
            let stats = fixture::stats(&[(syncs, 1_000)]);
            let mut row =
                fixture::row(fixture::MYSQL, at as u64, "/d/a-journal", Role::Other, Op::Fsync, stats);
            std::sync::Arc::make_mut(&mut row.info).unlinked = unlinked;
            m.files.push(row);
        }
        let options = Options { by: By::File, ..Options::default() };
        let rows = rows_for_people(&m, &[fixture::MYSQL], &options);
        rows.iter()
            .map(|row| {
                let About::File(file) = &row.about else { panic!("{row:?}") };
                (file.is_gone, file.files, row.stats.count)
            })
            .collect()
    }

    #[test]
    fn files_that_took_each_others_place_are_one_row() {
        let (gone, here) = (true, false);
        assert_eq!(of_one_path(&[(gone, 3)]), [(gone, 1, 3)]);
        assert_eq!(of_one_path(&[(gone, 3), (gone, 4), (gone, 5)]), [(gone, 3, 12)]);
        assert_eq!(of_one_path(&[(gone, 3), (here, 1), (gone, 4)]), [(here, 3, 8)]);
        // At most one of these is there; which, nobody knows yet.
        assert_eq!(of_one_path(&[(gone, 3), (here, 1), (here, 2)]), [(here, 3, 6)]);
    }

    #[test]
    fn files_of_another_path_call_role_or_server_keep_their_rows() {
        let mut m = fixture::two_servers();
        m.files.iter_mut().for_each(|row| std::sync::Arc::make_mut(&mut row.info).unlinked = true);
        let mut other_call = m.files[0].clone();
        other_call.op = Op::Fsync;
        let mut other_server = m.files[0].clone();
        other_server.server = fixture::MARIADB;
        let mut other_role = m.files[0].clone();
        std::sync::Arc::make_mut(&mut other_role.info).role = Role::Other;
        m.files.extend([other_call, other_server, other_role]);
        let options = Options { by: By::File, ..Options::default() };
        let rows = rows_for_people(&m, &[fixture::MYSQL, fixture::MARIADB], &options);
        assert_eq!(rows.len(), m.files.len());
        assert!(rows.iter().all(|row| matches!(&row.about, About::File(file) if file.files == 1)));
    }

    #[test]
    fn every_column_sorts() {
        assert_eq!(order(By::Role, Some(Sort::Figure(Figure::Syncs)))[0], "redo");
        assert_eq!(order(By::Role, Some(Sort::Figure(Figure::Rate)))[0], "redo");
        assert_eq!(order(By::Role, Some(Sort::Figure(Figure::Time)))[0], "binlog");
        assert_eq!(order(By::Role, Some(Sort::Figure(Figure::Max)))[0], "binlog");
        assert_eq!(order(By::Role, Some(Sort::Figure(Figure::Mean)))[0], "tablespace");
        assert_eq!(order(By::Role, Some(Sort::Figure(Figure::P50)))[0], "tablespace");
        assert_eq!(order(By::Role, Some(Sort::Figure(Figure::P99)))[..2], ["binlog", "redo"]);
        assert_eq!(order(By::Role, Some(Sort::Op))[0], "directory", "fsync comes before fdatasync");
        assert_eq!(order(By::Role, Some(Sort::Name)), order(By::Role, Some(Sort::Role)));
        assert_eq!(order(By::File, Some(Sort::Name))[..2], ["#ib_16384_0.dblwr", "#innodb_redo"]);
        assert_eq!(order(By::File, Some(Sort::Role))[..2], ["#ib_redo5", "#ib_redo6"]);
        assert_eq!(
            order(By::Role, Some(Sort::Figure(Figure::Errors)))[0],
            "redo",
            "none failed: roles in their order"
        );
    }

    #[test]
    fn servers_are_sorted_by_what_they_wrote_whatever_they_wrote_it_with() {
        let mut m = fixture::two_servers();
        let written = |server, bytes| {
            let mut role = m.roles[0].clone();
            (role.server, role.op, role.stats.bytes) = (server, Op::DsyncWrite, bytes);
            role
        };
        let (first, second) = (m.servers[0].id, m.servers[1].id);
        m.roles = vec![written(first, 1), written(second, 2)].into();
        let mut rows = by_server(&m, &|_| true);
        sort(&mut rows, Column::Figure(Figure::Bytes), false);
        assert_eq!(rows[0].server(), Some(second));
        sort(&mut rows, Column::Figure(Figure::Bytes), true);
        assert_eq!(rows[0].server(), Some(first));
    }

    #[test]
    fn a_maximum_without_an_upper_edge_is_no_figure() {
        let mut stats = fixture::stats(&[(1, 1 << 41)]);
        assert_eq!(max_ns(stats.max), Some(1 << 41));
        assert_eq!(max_in_words(stats.max), "36m39s");
        stats.max = Max { ns: u64::MAX, exact: false };
        assert_eq!(max_ns(stats.max), None);
        assert_eq!(max_in_words(stats.max), "18m20s or more");
        assert_eq!(max_in_words(Max { ns: 3_100_000_000, exact: false }), "up to 3.1 s");
    }
}
