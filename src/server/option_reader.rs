//! Reads option files and those that they include, within bounds: whoever starts a process called `mysqld`
//! chooses these files, and files that include themselves or each other would otherwise be read for ever.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::rooted::{self, Root, attributes};
use crate::server::option_file::{self, Line};

/// As in the servers' own reader.
const INCLUDE_DEPTH: u32 = 10;
/// Option files of one server, those that are included among them.
const MAX_FILES: usize = 256;
/// Bytes of all of them together; the largest that distributions ship has 6 kB.
const MAX_BYTES: u64 = 2 << 20;
/// Entries of a directory that is included.
const MAX_ENTRIES: usize = 1_024;
/// Lines between two looks at whether reading is to end.
const LINES_AT_A_TIME: usize = 1_024;

/// Whether a file or a directory that has been opened may be used; asked before any of it is read.
pub(crate) type Check<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<()>;

/// Takes an option's name and its value, if it has one.
pub type Set<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>);

/// Hands the options of some groups over, in the order in which the server takes them.
pub(crate) struct Reader<'a> {
    root: &'a Root,
    groups: &'a [Vec<u8>],
    /// True: reading is to end, because it has taken too long or because the process has.
    over: &'a dyn Fn() -> bool,
    check: Option<Check<'a>>,
    set: Set<'a>,
    files: usize,
    bytes: u64,
    /// Device and inode of the files that were read. A server reads a file twice that is included twice; the
    /// second time can change nothing but the order in which values win.
    seen: HashSet<(u32, u64)>,
    failed: Option<(PathBuf, io::Error)>,
}

impl<'a> Reader<'a> {
    pub fn new(
        root: &'a Root,
        groups: &'a [Vec<u8>],
        over: &'a dyn Fn() -> bool,
        set: Set<'a>,
    ) -> Reader<'a> {
        let seen = HashSet::new();
        Reader {
            root,
            groups,
            over,
            check: None,
            set,
            files: MAX_FILES,
            bytes: MAX_BYTES,
            seen,
            failed: None,
        }
    }

    /// Uses only files and directories that pass a check. The first that does not ends the reading, and so
    /// does one that is there and cannot be read.
    pub fn checked(self, check: Check<'a>) -> Reader<'a> {
        Reader { check: Some(check), ..self }
    }

    /// Reads a file and what it includes. As the servers do, it goes on without a file that cannot be read.
    pub fn read(&mut self, path: &Path) {
        self.file(path, INCLUDE_DEPTH);
    }

    /// Which file ended the reading, and why.
    pub fn failed(self) -> Option<(PathBuf, io::Error)> {
        self.failed
    }

    fn file(&mut self, path: &Path, depth: u32) {
        if self.is_over() {
            return;
        }
        let Some(contents) = self.contents(path).unwrap_or_else(|error| self.note(path, error)) else {
            return;
        };
        self.bytes -= contents.len() as u64;
        let mut in_group = false;
        for (number, line) in option_file::parse(&contents).enumerate() {
            let is_time_to_look = number % LINES_AT_A_TIME == LINES_AT_A_TIME - 1;
            if self.failed.is_some() || is_time_to_look && self.is_over() {
                return;
            }
            match line {
                Line::Group(name) => in_group = self.groups.contains(&name),
                Line::Option { name, value } if in_group => (self.set)(&name, value.as_deref()),
                Line::Option { .. } => {}
                Line::Include(_) | Line::IncludeDirectory(_) if depth == 0 => {}
                Line::Include(file) => self.file(&included(path, &file), depth - 1),
                Line::IncludeDirectory(name) => self.directory(&included(path, &name), depth - 1),
            }
        }
    }

    /// None: it was read before.
    fn contents(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
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

    fn directory(&mut self, directory: &Path, depth: u32) {
        if self.is_over() {
            return;
        }
        // Listing it is work as well, and the same directory may be included again and again.
        self.files -= 1;
        let names = self.names(directory).map(Some).unwrap_or_else(|error| self.note(directory, error));
        let mut names = names.unwrap_or_default();
        names.retain(|name| name.as_bytes().ends_with(b".cnf"));
        names.sort();
        for name in names {
            self.file(&directory.join(name), depth);
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
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

    fn is_over(&self) -> bool {
        self.failed.is_some() || self.files == 0 || self.bytes == 0 || (self.over)()
    }
}

/// An included path; a relative one is taken from beside the file that names it.
fn included(from: &Path, name: &[u8]) -> PathBuf {
    from.parent().unwrap_or(Path::new("/")).join(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    struct Found {
        names: Vec<String>,
        looks: usize,
    }

    /// Reads `/my.cnf` below a directory. `looks`: after so many looks it is to end.
    fn read(directory: &Path, looks: usize) -> Found {
        let root = Root::at(directory).unwrap();
        let (mut names, looked) = (Vec::new(), Cell::new(0));
        let over = || {
            looked.set(looked.get() + 1);
            looked.get() > looks
        };
        let mut set = |name: &[u8], _: Option<&[u8]>| names.push(String::from_utf8_lossy(name).into_owned());
        Reader::new(&root, &[b"mysqld".to_vec()], &over, &mut set).read(Path::new("/my.cnf"));
        Found { names, looks: looked.get() }
    }

    #[test]
    fn files_that_include_themselves_and_each_other_are_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let include: String = (0..30).map(|number| format!("!include /{number}.cnf\n")).collect();
        let text = |name: &str| format!("[mysqld]\n{name}\n{include}!includedir /\n!include /my.cnf\n");
        std::fs::write(directory.path().join("my.cnf"), text("top")).unwrap();
        for number in 0..30 {
            std::fs::write(directory.path().join(format!("{number}.cnf")), text("a")).unwrap();
        }
        // Without the set of files that were read, 31 to the power of 10.
        let found = read(directory.path(), usize::MAX);
        assert_eq!(found.names.len(), 31, "{:?}", found.names);
        assert!(found.looks < 10_000, "{}", found.looks);
    }

    #[test]
    fn files_and_bytes_are_limited() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        std::fs::write(directory.path().join("my.cnf"), "!includedir /d\n").unwrap();
        for number in 0..2 * MAX_FILES {
            std::fs::write(directory.path().join(format!("d/{number:04}.cnf")), "[mysqld]\na\n").unwrap();
        }
        // One is the directory itself, and one the file that names it.
        assert_eq!(read(directory.path(), usize::MAX).names.len(), MAX_FILES - 2);
        for number in 0..8 {
            let large = "[mysqld]\n".to_owned() + &"a\n".repeat(1 << 19);
            std::fs::write(directory.path().join(format!("d/{number:04}.cnf")), large).unwrap();
        }
        assert!(read(directory.path(), usize::MAX).names.len() as u64 <= MAX_BYTES / 2);
    }

    #[test]
    fn reading_ends_in_the_middle_of_a_file_when_it_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let lines = 20 * LINES_AT_A_TIME;
        let text = "[mysqld]\n".to_owned() + &"a\n".repeat(lines);
        std::fs::write(directory.path().join("my.cnf"), text).unwrap();
        assert_eq!(read(directory.path(), usize::MAX).names.len(), lines);
        assert!(read(directory.path(), 3).names.len() < 4 * LINES_AT_A_TIME);
        assert!(read(directory.path(), 0).names.is_empty());
    }

    #[test]
    fn a_file_that_does_not_pass_the_check_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("my.cnf"), "!include /bad.cnf\n[mysqld]\ngood\n").unwrap();
        std::fs::write(directory.path().join("bad.cnf"), "[mysqld]\nbad\n").unwrap();
        let root = Root::at(directory.path()).unwrap();
        let mut names = Vec::new();
        let mut set = |name: &[u8], _: Option<&[u8]>| names.push(name.to_vec());
        let bad = std::fs::metadata(directory.path().join("bad.cnf")).unwrap().ino();
        let check = |open: BorrowedFd<'_>| match rustix::fs::fstat(open)?.st_ino == bad {
            true => Err(io::Error::other("bad")),
            false => Ok(()),
        };
        let groups = [b"mysqld".to_vec()];
        let mut reader = Reader::new(&root, &groups, &|| false, &mut set).checked(&check);
        reader.read(Path::new("/my.cnf"));
        let (path, error) = reader.failed().unwrap();
        assert_eq!((path.as_path(), error.to_string().as_str()), (Path::new("/bad.cnf"), "bad"));
        assert!(names.is_empty(), "it ended the reading");
    }
}
