//! Which files have series of their own: the busiest paths of a server up to a limit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::busiest::Busiest;
use super::rotation;
use crate::model::{FileInfo, FileRow, Op, Role, Target};
use crate::text;

/// The label of all files that have none of their own. No path is called that: paths begin with a slash.
pub(crate) const OTHER: &str = "other";
/// Columns of a label; a path may have 4,096 bytes.
const MAX_LENGTH: usize = 256;
/// A share of the paths that is kept for the logs and the few files that every server has, however many
/// tables are synced before them.
const RESERVED: usize = 8;

/// Syncs, and the time that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub count: u64,
    pub sum_ns: u64,
}

impl Work {
    pub fn add(&mut self, count: u64, sum_ns: u64) {
        self.count += count;
        self.sum_ns += sum_ns;
    }
}

/// Syncs of a file by one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Did<'a> {
    pub target: Target,
    pub op: Op,
    pub info: &'a FileInfo,
    pub work: Work,
}

impl<'a> From<&'a FileRow> for Did<'a> {
    fn from(row: &'a FileRow) -> Did<'a> {
        let work = Work { count: row.stats.count, sum_ns: row.stats.sum_ns };
        Did { target: row.target, op: row.op, info: &row.info, work }
    }
}

type ByOperation = BTreeMap<(Role, Op), Work>;

/// Syncs of a server's files.
#[derive(Clone, Debug)]
pub struct Files {
    /// By what [`rotation::shown`] says.
    paths: Busiest<PathBuf, ByOperation>,
    /// Of all files that had no series of their own at that time.
    others: ByOperation,
}

impl Files {
    pub fn new(limit: usize) -> Files {
        Files { paths: Busiest::new(limit, limit / RESERVED), others: ByOperation::new() }
    }

    /// Adds what files did. Of those that are new, the ones that took most time come first.
    pub fn add<'a>(&mut self, rows: impl Iterator<Item = Did<'a>>, now: Instant) {
        let mut unknown: Vec<(Did, PathBuf)> = Vec::new();
        for row in rows {
            let (Target::File(_), Some(path)) = (&row.target, &row.info.path) else {
                count(&mut self.others, &row);
                continue;
            };
            let path = rotation::shown(row.info.role, path);
            let few = row.info.role.is_few();
            let has_room = self.paths.has_room(few);
            match self.paths.spend(&*path, few, row.work.sum_ns, now) {
                Some(own) => count(own, &row),
                None if has_room => unknown.push((row, path.into_owned())),
                None => count(&mut self.others, &row),
            }
        }
        unknown.sort_by_key(|(row, _)| std::cmp::Reverse(row.work.sum_ns));
        for (row, path) in unknown {
            count(self.paths.series(&path).unwrap_or(&mut self.others), &row);
        }
    }

    /// Once for each snapshot, also where nothing was added: a series that is about to end does so.
    pub(crate) fn change_hands(&mut self, now: Instant) {
        self.paths.change_hands(now);
    }

    /// Adds what was counted under another name.
    pub(crate) fn merge(&mut self, other: &Files, now: Instant) {
        for (path, own) in other.paths.iter() {
            for (&(role, op), work) in own {
                self.paths.spend(path.as_path(), role.is_few(), work.sum_ns, now);
                let sum = self.paths.series(path.as_path()).unwrap_or(&mut self.others);
                sum.entry((role, op)).or_default().add(work.count, work.sum_ns);
            }
        }
        for (&by, work) in &other.others {
            self.others.entry(by).or_default().add(work.count, work.sum_ns);
        }
    }

    /// (role, operation, path's label, work), each combination once.
    pub fn iter(&self) -> impl Iterator<Item = (Role, Op, String, Work)> {
        let mut all: BTreeMap<(String, Role, Op), Work> = BTreeMap::new();
        let own = self.paths.iter().map(|(path, own)| (label_of(path), own));
        for (label, by_operation) in own.chain([(OTHER.to_owned(), &self.others)]) {
            for (&(role, op), work) in by_operation {
                // Names that are too long can be shortened to the same.
                all.entry((label.clone(), role, op)).or_default().add(work.count, work.sum_ns);
            }
        }
        all.into_iter().map(|((label, role, op), work)| (role, op, label, work))
    }
}

fn count(sum: &mut ByOperation, row: &Did) {
    sum.entry((row.info.role, row.op)).or_default().add(row.work.count, row.work.sum_ns);
}

fn label_of(path: &Path) -> String {
    let label = text::shorten_path(&text::escape(path.as_os_str().as_encoded_bytes()), MAX_LENGTH, "…");
    // A path that could not be found out whole may be a bare name.
    if label == OTHER { format!("./{label}") } else { label }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::fixture::{MYSQL, row, stats};

    fn files(limit: usize, rows: &[FileRow]) -> Files {
        let mut files = Files::new(limit);
        follow(&mut files, rows, Instant::now());
        files
    }

    /// A snapshot.
    fn follow(files: &mut Files, rows: &[FileRow], now: Instant) {
        files.add(rows.iter().map(Did::from), now);
        files.change_hands(now);
    }

    fn table(n: u64) -> FileRow {
        row(MYSQL, n, &format!("/d/shop/t{n}.ibd"), Role::Tablespace, Op::Fsync, stats(&[(1, 100_000 + n)]))
    }

    fn binlog(n: u64) -> FileRow {
        row(MYSQL, n, &format!("/d/binlog.{n:06}"), Role::Binlog, Op::Fdatasync, stats(&[(2, 50_000)]))
    }

    fn of(files: &Files, path: &str) -> u64 {
        files.iter().filter(|(_, _, label, _)| *label == path).map(|(.., work)| work.count).sum()
    }

    #[test]
    fn ten_thousand_tables_and_a_thousand_rotations_are_as_many_series_as_the_limit() {
        let mut files = Files::new(200);
        let start = Instant::now();
        for n in 0..10_000 {
            let now = start + Duration::from_secs(n);
            follow(&mut files, &[table(n), binlog(n / 10)], now);
        }
        // Those that are about to end are a few more.
        assert!(files.iter().count() <= 201 + 12, "{}", files.iter().count());
        assert_eq!(of(&files, "/d/binlog.*"), 20_000);
        assert_eq!(of(&files, "/d/shop/t0.ibd"), 1);
        assert_eq!(files.iter().map(|(.., work)| work.count).sum::<u64>(), 30_000);
    }

    /// `CREATE TABLE` a second for half an hour; then all time goes into one table of the two thousand.
    #[test]
    fn after_two_thousand_create_tables_the_one_that_is_slow_is_not_other() {
        let mut files = Files::new(200);
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        for n in 0..2_000 {
            follow(&mut files, &[table(n)], at(n));
        }
        assert_eq!(of(&files, "/d/shop/t1999.ibd"), 0);
        let slow = || FileRow { stats: stats(&[(10, 30_000_000)]), ..table(1_999) };
        (2_000..2_060).for_each(|second| follow(&mut files, &[slow()], at(second)));
        let shown = of(&files, "/d/shop/t1999.ibd");
        assert!(shown >= 500, "{shown} of 600 syncs have its name");
        let all: u64 = files.iter().map(|(.., work)| work.count).sum();
        assert_eq!(all, 2_600, "and the one that left is there for some time still");
    }

    #[test]
    fn those_that_took_most_time_come_first_and_logs_find_room() {
        let tables: Vec<_> = (0..100).map(table).collect();
        let mut files = files(16, &tables);
        assert_eq!(of(&files, "/d/shop/t99.ibd"), 1);
        assert_eq!(of(&files, "/d/shop/t0.ibd"), 0);
        files.add([binlog(1)].iter().map(Did::from), Instant::now());
        assert_eq!(of(&files, "/d/binlog.*"), 2);
        assert_eq!(files.iter().count(), 16, "14 tables, a log and the rest");
    }

    #[test]
    fn without_a_name_or_room_a_sync_is_counted_as_other() {
        let mut nameless = table(1);
        nameless.target = Target::Gone(Role::Tablespace);
        let files = files(0, &[nameless, table(2)]);
        let all: Vec<_> = files.iter().collect();
        let all: Vec<_> =
            all.iter().map(|(role, op, label, work)| (*role, *op, label.as_str(), *work)).collect();
        let work = Work { count: 2, sum_ns: 200_003 };
        assert_eq!(all, [(Role::Tablespace, Op::Fsync, OTHER, work)]);
    }

    #[test]
    fn no_two_series_have_the_same_label() {
        let long = |end: &str| format!("/d/{}/{}{end}.ibd", "a".repeat(2_000), "b".repeat(200));
        let rows: Vec<_> = ["x", "y", "\n", "\\n"]
            .into_iter()
            .enumerate()
            .map(|(n, end)| {
                row(MYSQL, n as u64, &long(end), Role::Tablespace, Op::Fsync, stats(&[(1, 1_000)]))
            })
            .collect();
        let files = files(200, &rows);
        let labels: Vec<_> = files.iter().map(|(_, _, label, _)| label).collect();
        assert!(labels.iter().all(|label| label.len() < 300), "{labels:?}");
        let distinct: std::collections::BTreeSet<_> = labels.iter().collect();
        assert_eq!(distinct.len(), labels.len());
        assert_eq!(files.iter().map(|(.., work)| work.count).sum::<u64>(), 4);
    }

    #[test]
    fn what_was_counted_before_the_server_had_a_name_is_added() {
        let mut all = files(10, &[table(1), binlog(1)]);
        let mut earlier = Files::new(10);
        let now = Instant::now();
        earlier.add([table(1), table(2), binlog(7)].iter().map(Did::from), now);
        all.merge(&earlier, now);
        assert_eq!(of(&all, "/d/shop/t1.ibd"), 2);
        assert_eq!(of(&all, "/d/shop/t2.ibd"), 1);
        assert_eq!(of(&all, "/d/binlog.*"), 4);
    }
}
