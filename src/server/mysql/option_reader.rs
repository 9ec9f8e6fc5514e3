//! Reads option files and those that they include, within the bounds of
//! [`settings_files`](crate::server::what::settings_files).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::option_file::{self, Line};
use crate::linux::rooted::Root;
use crate::server::what::settings_files::{Check, SettingsFiles};

/// As in the servers' own reader.
const INCLUDE_DEPTH: u32 = 10;
/// Lines between two looks at whether reading is to end.
const LINES_AT_A_TIME: usize = 1_024;

/// Takes an option's name and its value, if it has one.
pub type Set<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>);

/// Hands the options of some groups over, in the order in which the server takes them.
pub(crate) struct Reader<'a> {
    groups: &'a [Vec<u8>],
    set: Set<'a>,
    /// A server reads a file twice that is included twice; the second time can change nothing but the order
    /// in which values win.
    files: SettingsFiles<'a>,
}

impl<'a> Reader<'a> {
    pub fn new(
        root: &'a Root,
        groups: &'a [Vec<u8>],
        over: &'a dyn Fn() -> bool,
        set: Set<'a>,
    ) -> Reader<'a> {
        Reader { groups, set, files: SettingsFiles::new(root, over) }
    }

    /// Uses only files and directories that pass a check. The first that does not ends the reading, and so
    /// does one that is there and cannot be read.
    pub fn checked(self, check: Check<'a>) -> Reader<'a> {
        Reader { files: self.files.checked(check), ..self }
    }

    /// Reads a file and what it includes. As the servers do, it goes on without a file that cannot be read.
    pub fn read(&mut self, path: &Path) {
        self.file(path, INCLUDE_DEPTH);
    }

    /// Which file ended the reading, and why.
    pub fn failed(self) -> Option<(PathBuf, io::Error)> {
        self.files.failed
    }

    fn file(&mut self, path: &Path, depth: u32) {
        let Some(contents) = self.files.contents(path) else { return };
        let mut in_group = false;
        for (number, line) in option_file::parse(&contents).enumerate() {
            let is_time_to_look = number % LINES_AT_A_TIME == LINES_AT_A_TIME - 1;
            if self.files.failed.is_some() || is_time_to_look && self.files.is_over() {
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

    fn directory(&mut self, directory: &Path, depth: u32) {
        let mut names = self.files.names(directory);
        names.retain(|name| name.as_bytes().ends_with(b".cnf"));
        names.sort();
        for name in names {
            self.file(&directory.join(name), depth);
        }
    }
}

/// An included path; a relative one is taken from beside the file that names it.
fn included(from: &Path, name: &[u8]) -> PathBuf {
    from.parent().unwrap_or(Path::new("/")).join(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::fd::BorrowedFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::server::what::settings_files::{MAX_BYTES, MAX_FILES};

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
