//! The rows of a measurement for one grouping, in one order: what the table and the CSV show, and what a
//! limit leaves in JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{By, Options, Sort};
use crate::linux::mountinfo::format_device;
use crate::model::histogram::LAST_EXPONENT;
use crate::model::{FileInfo, FileRow, Interval, Max, Op, Role, ServerId, Stats, Target, ThreadRow};
use crate::text::{duration_in_words, escape};

/// What a row stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    Role(Role),
    File(&'a FileRow),
    Thread(&'a ThreadRow),
    Server,
}

/// The syncs of one subject with one operation.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub server: ServerId,
    pub subject: Subject<'a>,
    pub op: Op,
    pub stats: Stats,
    /// More than one: files that had one path one after the other, the subject among them.
    pub files: usize,
}

impl Row<'_> {
    pub fn role(&self) -> Option<Role> {
        match self.subject {
            Subject::Role(role) => Some(role),
            Subject::File(row) => Some(row.info.role),
            Subject::Thread(_) | Subject::Server => None,
        }
    }

    /// What orders rows by name; ends with what tells two rows of one name apart.
    fn name_key(&self) -> (Vec<u8>, u32) {
        match self.subject {
            Subject::Role(role) => (vec![role as u8], 0),
            Subject::File(row) => (raw_path(row), 0),
            Subject::Thread(row) => (row.name.clone().into_bytes(), row.tid),
            Subject::Server => (Vec::new(), 0),
        }
    }
}

fn raw_path(row: &FileRow) -> Vec<u8> {
    row.info.path.as_ref().map(|path| path.as_os_str().as_encoded_bytes().to_vec()).unwrap_or_default()
}

/// The rows of these servers, sorted as the options say.
pub(crate) fn rows<'a>(m: &'a Interval, servers: &[ServerId], options: &Options) -> Vec<Row<'a>> {
    let mut rows = unsorted(m, servers, options.by);
    sort(&mut rows, options);
    rows
}

/// The same for people, to whom files that took each other's place are one row.
pub(crate) fn rows_for_people<'a>(m: &'a Interval, servers: &[ServerId], options: &Options) -> Vec<Row<'a>> {
    let mut rows = one_row_for_each_path(unsorted(m, servers, options.by));
    sort(&mut rows, options);
    rows
}

/// All servers of a measurement, also those that only their rows still know.
pub(crate) fn everyone(m: &Interval) -> Vec<ServerId> {
    m.servers.iter().map(|server| server.id).chain(m.roles.iter().map(|row| row.server)).collect()
}

fn unsorted<'a>(m: &'a Interval, servers: &[ServerId], by: By) -> Vec<Row<'a>> {
    let mine = |server: &ServerId| servers.contains(server);
    match by {
        By::Role => {
            let of = |row: &crate::model::RoleRow| Row {
                server: row.server,
                subject: Subject::Role(row.role),
                op: row.op,
                stats: row.stats.clone(),
                files: 1,
            };
            m.roles.iter().filter(|row| mine(&row.server)).map(of).collect()
        }
        By::File | By::Writes => {
            let of = |row: &'a FileRow| Row {
                server: row.server,
                subject: Subject::File(row),
                op: row.op,
                stats: row.stats.clone(),
                files: 1,
            };
            let files: Vec<&FileRow> =
                if by == By::File { m.files.iter().collect() } else { m.all_writes().collect() };
            files.into_iter().filter(|row| mine(&row.server)).map(of).collect()
        }
        By::Thread => {
            let of = |row: &'a ThreadRow| Row {
                server: row.server,
                subject: Subject::Thread(row),
                op: row.op,
                stats: row.stats.clone(),
                files: 1,
            };
            m.threads.iter().filter(|row| mine(&row.server)).map(of).collect()
        }
        By::Server => {
            let mut sums: BTreeMap<(ServerId, Op), Stats> = BTreeMap::new();
            for row in m.roles.iter().filter(|row| mine(&row.server)) {
                sums.entry((row.server, row.op)).or_default().merge(&row.stats);
            }
            let of = |((server, op), stats)| Row { server, subject: Subject::Server, op, stats, files: 1 };
            sums.into_iter().map(of).collect()
        }
    }
}

/// A file that is made anew for each transaction would fill a table with rows of one path. Those that are
/// gone become one row. Of several that are not known to be gone, all but one are, and nobody has noticed
/// yet which: then all of them do.
fn one_row_for_each_path(rows: Vec<Row<'_>>) -> Vec<Row<'_>> {
    #[derive(Default)]
    struct OfOnePath<'a> {
        here: Vec<Row<'a>>,
        gone: Vec<Row<'a>>,
    }
    let mut all = Vec::new();
    let mut paths: BTreeMap<_, OfOnePath> = BTreeMap::new();
    for row in rows {
        match row.subject {
            Subject::File(file) if matches!(file.target, Target::File(_)) && file.info.path.is_some() => {
                let key = (row.server, row.op, file.info.role, file.info.path.as_deref());
                let files = paths.entry(key).or_default();
                if file.info.unlinked { files.gone.push(row) } else { files.here.push(row) }
            }
            _ => all.push(row),
        }
    }
    for OfOnePath { mut here, gone } in paths.into_values() {
        if here.len() > 1 {
            here.extend(gone);
            all.extend(as_one(here));
        } else {
            all.extend(here);
            all.extend(as_one(gone));
        }
    }
    all
}

fn as_one(rows: Vec<Row<'_>>) -> Option<Row<'_>> {
    rows.into_iter().reduce(|mut one, other| {
        one.stats.merge(&other.stats);
        one.files += other.files;
        one
    })
}

fn sort(rows: &mut [Row], options: &Options) {
    let by = options.sort.unwrap_or(match options.by {
        By::Role | By::Server => Sort::Name,
        By::File | By::Thread => Sort::Time,
        By::Writes => Sort::Bytes,
    });
    // First by name, so that rows equal in the chosen column keep one order from interval to interval.
    rows.sort_by_cached_key(|row| (row.server, row.name_key(), row.op));
    let descending =
        |rows: &mut [Row], figure: fn(&Stats) -> u64| rows.sort_by_key(|row| Reverse(figure(&row.stats)));
    match by {
        Sort::Name => {}
        Sort::Role => rows.sort_by_key(Row::role),
        Sort::Op => rows.sort_by_key(|row| row.op),
        Sort::Syncs | Sort::Rate => descending(rows, |stats| stats.count),
        Sort::Mean => descending(rows, |stats| stats.mean_ns().unwrap_or(0)),
        Sort::P50 => rows.sort_by_cached_key(|row| Reverse(row.stats.quantile_ns(0.5))),
        // What the table shows: below a hundred syncs there is no p99, and such rows come last.
        Sort::P99 => rows.sort_by_cached_key(|row| Reverse(p99(&row.stats))),
        Sort::Max => descending(rows, |stats| stats.max.ns),
        Sort::Time => descending(rows, |stats| stats.sum_ns),
        Sort::Errors => descending(rows, Stats::error_count),
        Sort::Bytes => descending(rows, |stats| stats.bytes),
    }
}

/// The 99th percentile where there are enough syncs to speak of one: of fewer than a hundred it is the
/// maximum.
pub(crate) fn p99(stats: &Stats) -> Option<u64> {
    if stats.count < 100 { None } else { stats.quantile_ns(0.99) }
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
pub(crate) fn max_ns(stats: &Stats) -> Option<u64> {
    (stats.count > 0 && stats.max.ns < u64::MAX).then_some(stats.max.ns)
}

/// What to call a file that has no path of its own; None for one that has. The words in brackets are ours.
pub(crate) fn nameless(row: &FileRow) -> Option<String> {
    nameless_file(row.target, &row.info)
}

pub(crate) fn nameless_file(target: Target, info: &FileInfo) -> Option<String> {
    let device = || info.device.as_deref().map(|device| escape(device.as_bytes()));
    Some(match target {
        Target::File(_) if info.path.is_some() => return None,
        Target::File(id) => match device() {
            Some(device) => format!("(inode {} on {device})", id.inode),
            None => format!("(inode {} on {})", id.inode, format_device(id.device)),
        },
        Target::Filesystem(number) => {
            format!("(whole filesystem {})", device().unwrap_or_else(|| format_device(number)))
        }
        Target::NoFile => "(no file)".into(),
        Target::BadDescriptor => "(bad descriptor)".into(),
        Target::Unattributed => "(unattributed)".into(),
        Target::Gone(_) => "(files gone)".into(),
        Target::Shared(_) => "(shared)".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    fn order(by: By, sort: Option<Sort>) -> Vec<String> {
        let m = fixture::busy();
        let options = Options { by, sort, ..Options::default() };
        let name = |row: &Row| match row.subject {
            Subject::Role(role) => role.name().to_owned(),
            Subject::File(row) => row.info.path.as_ref().map_or_else(
                || nameless(row).unwrap(),
                |path| path.file_name().unwrap().to_string_lossy().into_owned(),
            ),
            Subject::Thread(row) => row.name.clone(),
            Subject::Server => "server".into(),
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
                let Subject::File(file) = row.subject else { panic!("{row:?}") };
                (file.info.unlinked, row.files, row.stats.count)
            })
            .collect()
    }

    #[test]
    fn files_that_took_each_others_place_are_one_row() {
        let (gone, here) = (true, false);
        assert_eq!(of_one_path(&[(gone, 3)]), [(gone, 1, 3)]);
        assert_eq!(of_one_path(&[(gone, 3), (gone, 4), (gone, 5)]), [(gone, 3, 12)]);
        assert_eq!(of_one_path(&[(gone, 3), (here, 1), (gone, 4)]), [(gone, 2, 7), (here, 1, 1)]);
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
        assert!(rows.iter().all(|row| row.files == 1));
    }

    #[test]
    fn every_column_sorts() {
        assert_eq!(order(By::Role, Some(Sort::Syncs))[0], "redo");
        assert_eq!(order(By::Role, Some(Sort::Rate))[0], "redo");
        assert_eq!(order(By::Role, Some(Sort::Time))[0], "binlog");
        assert_eq!(order(By::Role, Some(Sort::Max))[0], "binlog");
        assert_eq!(order(By::Role, Some(Sort::Mean))[0], "tablespace");
        assert_eq!(order(By::Role, Some(Sort::P50))[0], "tablespace");
        assert_eq!(order(By::Role, Some(Sort::P99))[..2], ["binlog", "redo"]);
        assert_eq!(order(By::Role, Some(Sort::Op))[0], "directory", "fsync comes before fdatasync");
        assert_eq!(order(By::Role, Some(Sort::Name)), order(By::Role, Some(Sort::Role)));
        assert_eq!(order(By::File, Some(Sort::Name))[..2], ["#ib_16384_0.dblwr", "#innodb_redo"]);
        assert_eq!(order(By::File, Some(Sort::Role))[..2], ["#ib_redo5", "#ib_redo6"]);
        assert_eq!(order(By::Role, Some(Sort::Errors))[0], "redo", "none failed: roles in their order");
    }

    #[test]
    fn a_maximum_without_an_upper_edge_is_no_figure() {
        let mut stats = fixture::stats(&[(1, 1 << 41)]);
        assert_eq!(max_ns(&stats), Some(1 << 41));
        assert_eq!(max_in_words(stats.max), "36m39s");
        stats.max = Max { ns: u64::MAX, exact: false };
        assert_eq!(max_ns(&stats), None);
        assert_eq!(max_in_words(stats.max), "18m20s or more");
        assert_eq!(max_in_words(Max { ns: 3_100_000_000, exact: false }), "up to 3.1 s");
    }

    #[test]
    fn what_has_no_path_has_a_readable_name() {
        let row = |target, device: Option<&str>| {
            let mut row = fixture::busy().files[0].clone();
            let mut info = (*row.info).clone();
            (info.path, info.device) = (None, device.map(Into::into));
            (row.target, row.info) = (target, info.into());
            nameless(&row).unwrap()
        };
        assert_eq!(row(fixture::file(77), Some("/dev/vda")), "(inode 77 on /dev/vda)");
        assert_eq!(row(fixture::file(77), None), "(inode 77 on 253:0)");
        assert_eq!(row(Target::Filesystem(8 << 20 | 1), Some("/dev/sda1")), "(whole filesystem /dev/sda1)");
        assert_eq!(row(Target::Filesystem(8 << 20 | 1), None), "(whole filesystem 8:1)");
        assert_eq!(row(Target::Filesystem(0), Some("fuse\n\x1b]0;")), "(whole filesystem fuse\\n\\x1b]0;)");
        assert_eq!(row(Target::NoFile, None), "(no file)");
        assert_eq!(row(Target::BadDescriptor, None), "(bad descriptor)");
        assert_eq!(row(Target::Unattributed, None), "(unattributed)");
        assert_eq!(row(Target::Gone(Role::Redo), None), "(files gone)");
    }
}
