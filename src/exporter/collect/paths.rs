//! Which files have series of their own: the first paths of a server up to a limit, for as long as the
//! exporter runs.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

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

/// Syncs of a server's files.
#[derive(Clone, Debug)]
pub struct Files {
    limit: usize,
    /// From what [`rotation::shown`] says to the number of its label.
    known: HashMap<PathBuf, u32>,
    /// Of the known ones, those that took none of the reserved places.
    common: usize,
    labels: Vec<String>,
    work: BTreeMap<(Option<u32>, Role, Op), Work>,
}

impl Files {
    pub fn new(limit: usize) -> Files {
        Files { limit, known: HashMap::new(), common: 0, labels: Vec::new(), work: BTreeMap::new() }
    }

    /// Adds what files did. Of those that are new, the ones that took most time come first.
    pub fn add<'a>(&mut self, rows: impl Iterator<Item = Did<'a>>) {
        let mut unknown: Vec<(Did, PathBuf)> = Vec::new();
        for row in rows {
            let path = match (&row.target, &row.info.path) {
                (Target::File(_), Some(path)) => rotation::shown(row.info.role, path),
                _ => {
                    self.count(None, &row);
                    continue;
                }
            };
            match self.known.get(&*path) {
                Some(&number) => self.count(Some(number), &row),
                None if self.is_full_for(row.info.role) => self.count(None, &row),
                None => unknown.push((row, path.into_owned())),
            }
        }
        unknown.sort_by_key(|(row, _)| std::cmp::Reverse(row.work.sum_ns));
        for (row, path) in unknown {
            let number = self.number_of(&path, row.info.role);
            self.count(number, &row);
        }
    }

    fn count(&mut self, number: Option<u32>, row: &Did) {
        let work = self.work.entry((number, row.info.role, row.op)).or_default();
        work.add(row.work.count, row.work.sum_ns);
    }

    fn is_full_for(&self, role: Role) -> bool {
        self.known.len() >= self.limit
            || (!role.is_few() && self.common >= self.limit - self.limit / RESERVED)
    }

    /// The label's number; None where there is no room for another one.
    fn number_of(&mut self, path: &Path, role: Role) -> Option<u32> {
        if let Some(&number) = self.known.get(path) {
            return Some(number);
        }
        if self.is_full_for(role) {
            return None;
        }
        let label = label_of(path);
        // Names that are too long can be shortened to the same.
        let number = self.labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            self.labels.push(label);
            self.labels.len() - 1
        });
        self.known.insert(path.to_owned(), number as u32);
        self.common += usize::from(!role.is_few());
        Some(number as u32)
    }

    /// Adds what was counted under another name.
    pub(crate) fn merge(&mut self, other: &Files) {
        let paths: HashMap<u32, &PathBuf> =
            other.known.iter().map(|(path, &number)| (number, path)).collect();
        for (&(number, role, op), work) in &other.work {
            let number =
                number.and_then(|number| paths.get(&number)).and_then(|path| self.number_of(path, role));
            self.work.entry((number, role, op)).or_default().add(work.count, work.sum_ns);
        }
    }

    /// (role, operation, path's label, work), each combination once.
    pub fn iter(&self) -> impl Iterator<Item = (Role, Op, &str, Work)> {
        self.work.iter().map(|(&(number, role, op), &work)| {
            let label = number.and_then(|number| self.labels.get(number as usize));
            (role, op, label.map_or(OTHER, String::as_str), work)
        })
    }
}

fn label_of(path: &Path) -> String {
    let label = text::shorten_path(&text::escape(path.as_os_str().as_encoded_bytes()), MAX_LENGTH, "…");
    // A path that could not be found out whole may be a bare name.
    if label == OTHER { format!("./{label}") } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MYSQL, row, stats};

    fn files(limit: usize, rows: &[FileRow]) -> Files {
        let mut files = Files::new(limit);
        files.add(rows.iter().map(Did::from));
        files
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
        for n in 0..10_000 {
            files.add([table(n), binlog(n / 10)].iter().map(Did::from));
        }
        assert!(files.iter().count() <= 201, "{}", files.iter().count());
        assert_eq!(of(&files, "/d/binlog.*"), 20_000);
        assert_eq!(of(&files, "/d/shop/t0.ibd"), 1);
        assert_eq!(files.iter().map(|(.., work)| work.count).sum::<u64>(), 30_000);
        assert!(files.known.len() <= 200);
        // The first ones stay.
        files.add([table(0), table(9_999)].iter().map(Did::from));
        assert_eq!((of(&files, "/d/shop/t0.ibd"), of(&files, "/d/shop/t9999.ibd")), (2, 0));
    }

    #[test]
    fn those_that_took_most_time_come_first_and_logs_find_room() {
        let tables: Vec<_> = (0..100).map(table).collect();
        let mut files = files(16, &tables);
        assert_eq!(of(&files, "/d/shop/t99.ibd"), 1);
        assert_eq!(of(&files, "/d/shop/t0.ibd"), 0);
        files.add([binlog(1)].iter().map(Did::from));
        assert_eq!(of(&files, "/d/binlog.*"), 2);
        assert_eq!(files.known.len(), 15);
    }

    #[test]
    fn without_a_name_or_room_a_sync_is_counted_as_other() {
        let mut nameless = table(1);
        nameless.target = Target::Gone(Role::Tablespace);
        let files = files(0, &[nameless, table(2)]);
        let all: Vec<_> = files.iter().collect();
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
        earlier.add([table(1), table(2), binlog(7)].iter().map(Did::from));
        all.merge(&earlier);
        assert_eq!(of(&all, "/d/shop/t1.ibd"), 2);
        assert_eq!(of(&all, "/d/shop/t2.ibd"), 1);
        assert_eq!(of(&all, "/d/binlog.*"), 4);
    }
}
