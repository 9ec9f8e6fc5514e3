//! Reads files of settings, and those that they include, within bounds: whoever starts a process that looks
//! like a server chooses these files, and files that include themselves or each other would otherwise be
//! read for ever.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::rooted::{self, Root, attributes};

/// Files of one server, those that are included among them.
pub(in crate::server) const MAX_FILES: usize = 256;
/// Bytes of all of them together; the largest that distributions ship are MySQL's with 6 kB and PostgreSQL's
/// with 30 kB.
pub(in crate::server) const MAX_BYTES: u64 = 2 << 20;
/// Entries of a directory that is included.
const MAX_ENTRIES: usize = 1_024;

/// Whether a file or a directory that has been opened may be used; asked before any of it is read.
pub(crate) type Check<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<()>;

/// The files of one server, each of which is read once.
pub(in crate::server) struct SettingsFiles<'a> {
    root: &'a Root,
    /// True: reading is to end, because it has taken too long or because the process has.
    over: &'a dyn Fn() -> bool,
    check: Option<Check<'a>>,
    files: usize,
    bytes: u64,
    /// Device and inode of the files that were read.
    seen: HashSet<(u32, u64)>,
    /// What ended the reading, where there is a check.
    pub failed: Option<(PathBuf, io::Error)>,
}

impl<'a> SettingsFiles<'a> {
    pub fn new(root: &'a Root, over: &'a dyn Fn() -> bool) -> SettingsFiles<'a> {
        let seen = HashSet::new();
        SettingsFiles { root, over, check: None, files: MAX_FILES, bytes: MAX_BYTES, seen, failed: None }
    }

    pub fn checked(self, check: Check<'a>) -> SettingsFiles<'a> {
        SettingsFiles { check: Some(check), ..self }
    }

    /// No more is to be read.
    pub fn is_over(&self) -> bool {
        self.failed.is_some() || self.files == 0 || self.bytes == 0 || (self.over)()
    }

    /// None: it cannot be read, was read before, or no more is to be read.
    pub fn contents(&mut self, path: &Path) -> Option<Vec<u8>> {
        if self.is_over() {
            return None;
        }
        let contents = self.read(path).unwrap_or_else(|error| self.note(path, error))?;
        self.bytes -= contents.len() as u64;
        Some(contents)
    }

    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = self.root.open_file(path, OFlags::empty())?;
        let known = attributes(&file)?;
        if !self.seen.insert((known.device, known.inode)) {
            return Ok(None);
        }
        self.files -= 1;
        self.check.map_or(Ok(()), |check| check(file.as_fd()))?;
        let mut contents = Vec::new();
        file.take(self.bytes).read_to_end(&mut contents)?;
        Ok(Some(contents))
    }

    /// What lies in a directory, in no order. Listing it is work as well, and the same directory may be
    /// included again and again: it counts as a file.
    pub fn names(&mut self, directory: &Path) -> Vec<OsString> {
        if self.is_over() {
            return Vec::new();
        }
        self.files -= 1;
        self.list(directory).map(Some).unwrap_or_else(|error| self.note(directory, error)).unwrap_or_default()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let open = self.root.open_directory(directory)?;
        self.check.map_or(Ok(()), |check| check(open.as_fd()))?;
        rooted::names(&open, MAX_ENTRIES)
    }

    fn note<T>(&mut self, path: &Path, error: io::Error) -> Option<T> {
        if self.check.is_some() && error.kind() != io::ErrorKind::NotFound {
            self.failed.get_or_insert((path.to_owned(), error));
        }
        None
    }
}
