//! The failures of one server that are not over: bounded, and kept for as long as the file is open.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::SystemTime;

use super::Because;
use super::errors::of_row;
use super::remembered::{MAX_PATH, OfFile};
use crate::model::{FileId, FileInfo, FileRow, Op, Target};

/// Files of one server that are told apart. Of a device that fails, a few are as good as all.
const MOST: usize = 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    files: BTreeMap<Target, Failure>,
    /// Of what is beyond these, or no file that is known, the last one: over when it is acknowledged.
    last: Option<Failure>,
    /// When the first of them was seen, without a break.
    since: Option<SystemTime>,
}

#[derive(Clone, Debug)]
struct Failure {
    info: Arc<FileInfo>,
    op: Op,
    errno: i32,
    at: SystemTime,
}

impl Failure {
    fn because(&self, more: u64) -> Because {
        Because {
            role: Some(self.info.role),
            path: self.info.path.clone(),
            op: Some(self.op),
            errno: Some(self.errno),
            failed_at: Some(self.at),
            more,
            ..Because::default()
        }
    }
}

impl Failures {
    /// A row of the interval that ended then. True if something in it failed.
    pub fn add(&mut self, row: &FileRow, at: SystemTime) -> bool {
        let Some(errors) = of_row(row) else { return false };
        // Of several kinds, the one that happened most; the number of an error can be unknown at first.
        let worst = errors.iter().max_by_key(|&(&errno, &n)| (errno != 0, n));
        let Some((&errno, _)) = worst else { return false };
        if self.is_empty() {
            self.since = Some(at);
        }
        let failure = Failure { info: row.info.clone(), op: row.op, errno, at };
        let is_file = matches!(row.target, Target::File(_));
        if is_file && (self.files.contains_key(&row.target) || self.files.len() < MOST) {
            self.files.insert(row.target, failure);
        } else {
            self.last = Some(failure);
        }
        true
    }

    /// What is known of the files may be learnt later than that they failed.
    pub fn learn<'a>(&mut self, rows: impl Iterator<Item = &'a FileRow>) {
        if self.files.values().all(|failure| failure.info.path.is_some()) {
            return;
        }
        for row in rows {
            if let Some(failure) = self.files.get_mut(&row.target)
                && failure.info.path.is_none()
                && row.info.path.is_some()
            {
                failure.info = row.info.clone();
            }
        }
    }

    pub fn files(&self) -> impl Iterator<Item = FileId> {
        self.files
            .keys()
            .filter_map(|target| if let Target::File(file) = target { Some(*file) } else { None })
    }

    pub fn close(&mut self, file: FileId) {
        self.files.remove(&Target::File(file));
    }

    /// Of the most important file: a log's rather than another's, the latest of these.
    pub fn because(&self) -> Option<Because> {
        let rank = |failure: &&Failure| {
            let role = failure.info.role;
            (role.is_serial(), crate::model::Role::DURABLE.contains(&role), failure.at)
        };
        let all = self.files.values().chain(&self.last);
        let first = all.max_by_key(rank)?;
        Some(first.because(self.len().saturating_sub(1) as u64))
    }

    /// In a form that outlives this process.
    pub fn remembered(&self) -> Vec<OfFile> {
        let path = |failure: &Failure| {
            let path = failure.info.path.as_ref()?.as_os_str().as_bytes();
            (path.len() <= MAX_PATH).then(|| path.to_vec())
        };
        let of = |target: Target, failure: &Failure| OfFile {
            target,
            role: failure.info.role,
            path: path(failure),
            op: failure.op,
            errno: failure.errno,
            at: failure.at,
        };
        let files = self.files.iter().map(|(&target, failure)| of(target, failure));
        files.chain(self.last.iter().map(|failure| of(Target::NoFile, failure))).collect()
    }

    /// Those that another process has seen; what has failed since stays.
    pub fn restore(&mut self, since: SystemTime, remembered: Vec<OfFile>) {
        self.since = Some(since);
        for OfFile { target, role, path, op, errno, at } in remembered {
            let path = path.filter(|path| path.len() <= MAX_PATH).map(|path| OsString::from_vec(path).into());
            let info = Arc::new(FileInfo { path, ..FileInfo::nameless(role) });
            let failure = Failure { info, op, errno, at };
            if matches!(target, Target::File(_)) && self.files.len() < MOST {
                self.files.entry(target).or_insert(failure);
            } else {
                self.last.get_or_insert(failure);
            }
        }
    }

    pub fn since(&self) -> Option<SystemTime> {
        self.since.filter(|_| !self.is_empty())
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.last.is_none()
    }

    pub fn len(&self) -> usize {
        self.files.len() + usize::from(self.last.is_some())
    }
}
