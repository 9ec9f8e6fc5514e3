//! What is written and not synced: what a power failure would take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::table::Row;
use super::{FileId, FileInfo, Role, ServerId, Table, Target};

/// The greatest backlogs are remembered for so long. In a longer interval that is made of several (the live
/// view's, since its beginning) there may have been greater ones.
pub(crate) const PEAKS_REMEMBERED: Duration = Duration::from_secs(600);

/// Bytes that no successful sync has covered, and how long ago the oldest of them was written. Where either
/// is inexact, it is never too small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub bytes: u64,
    /// Since that write began. Zero where there are no bytes.
    pub age: Duration,
}

impl Backlog {
    /// The greater of both figures, each by itself.
    #[must_use]
    pub fn or_greater(self, other: Backlog) -> Backlog {
        Backlog { bytes: self.bytes.max(other.bytes), age: self.age.max(other.age) }
    }

    /// Of two files together.
    #[must_use]
    pub(crate) fn and(self, other: Backlog) -> Backlog {
        Backlog { bytes: self.bytes.saturating_add(other.bytes), age: self.age.max(other.age) }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Backlog::default()
    }
}

/// By file, and what could not be told by file. `Most`: the greatest number of bytes of an interval, or the
/// peaks from which it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsynced<Rows, Most = u64> {
    pub rows: Rows,
    /// What the files of a role had at once, at most: their greatest within one look, of which there are many
    /// in an interval.
    pub together: BTreeMap<(ServerId, Role), Most>,
    /// Bytes of files for which there was no room: whether they are synced is not known.
    pub dropped: u64,
}

impl<Rows: Default, Most> Default for Unsynced<Rows, Most> {
    fn default() -> Self {
        Unsynced { rows: Rows::default(), together: BTreeMap::new(), dropped: 0 }
    }
}

impl Unsynced<Vec<UnsyncedFile>, Vec<Peak>> {
    /// What is to be said of the interval since a moment; files that were synced all the time are left out.
    pub(super) fn since(&self, earlier: Instant) -> Unsynced<Table<UnsyncedRow>> {
        let most = |peaks: &[Peak]| greatest(peaks, earlier).bytes;
        Unsynced {
            rows: since(earlier, &self.rows).into(),
            together: self.together.iter().map(|(&role, peaks)| (role, most(peaks))).collect(),
            dropped: self.dropped,
        }
    }
}

impl Unsynced<Table<UnsyncedRow>> {
    /// Takes in those of the time that follows. What is unsynced is what was at its end, the most is that of
    /// both.
    pub(super) fn append(&mut self, later: Unsynced<Table<UnsyncedRow>>) {
        let mut together: BTreeMap<(ServerId, Role), u64> = BTreeMap::new();
        for role in self.roles().into_iter().chain(later.roles()) {
            let most = together.entry((role.server, role.role)).or_default();
            *most = role.most.bytes.max(*most);
        }
        self.together = together;
        self.rows.append(later.rows);
        self.dropped = self.dropped.saturating_add(later.dropped);
    }

    /// Sums up files by server and role. The most of a role is what they had together; never less than what
    /// one of them had alone, which it still may be where the role of a file was learnt late.
    pub(crate) fn roles(&self) -> Vec<UnsyncedRole> {
        let mut roles = unsynced_roles(&self.rows);
        for role in &mut roles {
            let Some(&together) = self.together.get(&(role.server, role.role)) else { continue };
            let its = self.rows.iter().filter(|row| (row.server, row.info.role) == (role.server, role.role));
            let alone = its.map(|row| row.most.bytes).fold(role.now.bytes, u64::max);
            role.most.bytes = role.most.bytes.min(together.max(alone));
        }
        roles
    }
}

/// The greatest backlog between two looks at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// When the second of them was.
    pub at: Instant,
    pub most: Backlog,
}

/// Of one file of a server, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsyncedFile {
    pub server: ServerId,
    pub file: FileId,
    pub info: Arc<FileInfo>,
    pub now: Backlog,
    /// In their order; the first may be of more time than one interval.
    pub peaks: Vec<Peak>,
    /// Bytes that a sync should have covered that failed, for as long as the server has the file open: a sync
    /// that succeeds later need not have written them (fsync(2)).
    pub possibly_lost: u64,
}

/// Of one file in one interval; in the history, also of all files of a role that are not kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsyncedRow {
    pub server: ServerId,
    pub target: Target,
    pub info: Arc<FileInfo>,
    /// At its end.
    pub now: Backlog,
    /// The greatest of the interval.
    pub most: Backlog,
    /// As in [`UnsyncedFile`].
    pub possibly_lost: u64,
}

impl Row for UnsyncedRow {
    type Key = (ServerId, Target);

    fn key(&self) -> Self::Key {
        (self.server, self.target)
    }

    fn add(&mut self, other: Self) {
        self.now = self.now.and(other.now);
        self.most = self.most.and(other.most);
        self.possibly_lost = self.possibly_lost.saturating_add(other.possibly_lost);
    }

    fn append(&mut self, later: Self) {
        let most = later.most.or_greater(self.most);
        *self = UnsyncedRow { most, ..later };
    }

    /// A file without a row was synced all the time.
    fn close(&mut self) {
        (self.now, self.possibly_lost) = (Backlog::default(), 0);
    }
}

/// Of all files of one role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsyncedRole {
    pub server: ServerId,
    pub role: Role,
    /// The sum of the bytes, and the greatest age.
    pub now: Backlog,
    /// The greatest of both, each by itself: never too small.
    pub most: Backlog,
    pub possibly_lost: u64,
}

fn greatest(peaks: &[Peak], since: Instant) -> Backlog {
    let peaks = peaks.iter().filter(|peak| peak.at > since).map(|peak| peak.most);
    peaks.fold(Backlog::default(), Backlog::or_greater)
}

fn since(earlier: Instant, later: &[UnsyncedFile]) -> Vec<UnsyncedRow> {
    let row = |file: &UnsyncedFile| UnsyncedRow {
        server: file.server,
        target: Target::File(file.file),
        info: file.info.clone(),
        now: file.now,
        most: file.now.or_greater(greatest(&file.peaks, earlier)),
        possibly_lost: file.possibly_lost,
    };
    let is_worth_it = |row: &UnsyncedRow| !row.most.is_none() || row.possibly_lost > 0;
    later.iter().map(row).filter(is_worth_it).collect()
}

/// Sums up files by server and role, in that order; the most of a role is the sum of the most of each file,
/// which they need not have had at once.
pub(crate) fn unsynced_roles<'a>(files: impl IntoIterator<Item = &'a UnsyncedRow>) -> Vec<UnsyncedRole> {
    let mut roles: BTreeMap<(ServerId, Role), UnsyncedRole> = BTreeMap::new();
    for row in files {
        let (server, role) = (row.server, row.info.role);
        let none = Backlog::default();
        let empty = UnsyncedRole { server, role, now: none, most: none, possibly_lost: 0 };
        let sum = roles.entry((server, role)).or_insert(empty);
        sum.now = sum.now.and(row.now);
        sum.most = sum.most.and(row.most);
        sum.possibly_lost = sum.possibly_lost.saturating_add(row.possibly_lost);
    }
    roles.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MARIADB, MYSQL};

    fn backlog(bytes: u64, milliseconds: u64) -> Backlog {
        Backlog { bytes, age: Duration::from_millis(milliseconds) }
    }

    #[test]
    fn an_interval_has_the_peaks_that_lie_in_it_and_what_is_left_at_its_end() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let peak = |seconds, most| Peak { at: at(seconds), most };
        let file = UnsyncedFile {
            server: MYSQL,
            file: FileId { device: 1, inode: 2, generation: 3, weak: false, part: false },
            info: Arc::new(FileInfo::nameless(Role::Redo)),
            now: backlog(700, 3),
            peaks: vec![peak(1, backlog(9_000, 1)), peak(2, backlog(800, 40)), peak(3, backlog(900, 5))],
            possibly_lost: 0,
        };
        let most = |seconds| since(at(seconds), std::slice::from_ref(&file))[0].most;
        assert_eq!(most(0), backlog(9_000, 40));
        assert_eq!(most(1), backlog(900, 40));
        assert_eq!(most(2), backlog(900, 5));
        assert_eq!(most(3), backlog(700, 3));
        let synced = UnsyncedFile { now: Backlog::default(), ..file.clone() };
        assert_eq!(since(at(3), std::slice::from_ref(&synced)), []);
        let failed = UnsyncedFile { possibly_lost: 1, ..synced };
        assert_eq!(since(at(3), &[failed]).len(), 1);
    }

    #[test]
    fn the_most_of_a_role_is_what_its_files_had_at_once_and_no_sum_of_different_moments() {
        let row = |inode, now, most| UnsyncedRow {
            server: MYSQL,
            target: Target::File(FileId { device: 1, inode, generation: 3, weak: false, part: false }),
            info: Arc::new(FileInfo::nameless(Role::Redo)),
            now,
            most,
            possibly_lost: 0,
        };
        // A log that went from one file to the next, twice.
        let none = Backlog::default();
        let rows: Vec<_> = (1..=3).map(|inode| row(inode, none, backlog(100, 5))).collect();
        let most = |together: &[u64]| {
            let together = together.iter().map(|&bytes| ((MYSQL, Role::Redo), bytes)).collect();
            let unsynced = Unsynced { rows: Table::from(rows.clone()), together, dropped: 0 };
            unsynced.roles()[0].most
        };
        assert_eq!(most(&[]), backlog(300, 5), "nothing is known of the moments");
        assert_eq!(most(&[120]), backlog(120, 5));
        assert_eq!(most(&[60]), backlog(100, 5), "one file alone had more");
        assert_eq!(most(&[900]), backlog(300, 5));
    }

    #[test]
    fn a_roles_bytes_are_a_sum_and_its_age_is_that_of_the_oldest() {
        let row = |server, role, now, possibly_lost| UnsyncedRow {
            server,
            target: Target::Gone(role),
            info: Arc::new(FileInfo::nameless(role)),
            now,
            most: now.and(now),
            possibly_lost,
        };
        let roles = unsynced_roles(&[
            row(MYSQL, Role::Redo, backlog(100, 9), 0),
            row(MYSQL, Role::Redo, backlog(20, 30), 7),
            row(MYSQL, Role::Binlog, backlog(1, 1), 0),
            row(MARIADB, Role::Redo, backlog(5, 5), 0),
        ]);
        let shown: Vec<_> =
            roles.iter().map(|role| (role.server, role.role, role.now, role.possibly_lost)).collect();
        let redo = (MYSQL, Role::Redo, backlog(120, 30), 7);
        let mut expected =
            vec![redo, (MYSQL, Role::Binlog, backlog(1, 1), 0), (MARIADB, Role::Redo, backlog(5, 5), 0)];
        expected.sort_by_key(|row| (row.0, row.1));
        assert_eq!(shown, expected);
        assert_eq!(roles.iter().find(|role| role.role == Role::Redo).unwrap().most, backlog(240, 30));
    }
}
