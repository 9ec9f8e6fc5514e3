//! The files that are written: under names of their own, because some filesystems (btrfs) do nothing to make a file
//! without a name durable, and gone when the last holder lets go.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::CalibrateError;
use super::plan::Method;

const PREFIX: &str = ".fsynctop-calibrate-";

/// A file that is removed with this. It is locked meanwhile, so that a later run knows what was left by one that was
/// killed.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    /// A new, empty file.
    pub fn create(directory: &Path, number: u32) -> Result<Scratch, CalibrateError> {
        let path = directory.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let mut open = OpenOptions::new();
        open.read(true).write(true).create_new(true).mode(0o600);
        let file = open.open(&path).map_err(CalibrateError::io(&path, "create the file to write"))?;
        // From here on, it is removed.
        let scratch = Scratch { path, file };
        let locked = flock(&scratch.file, FlockOperation::NonBlockingLockExclusive);
        locked.map_err(|error| CalibrateError::io(&scratch.path, "lock it")(error.into()))?;
        Ok(scratch)
    }

    /// Opened anew for a method's kind of writes.
    pub fn open_for(&self, method: Method) -> std::io::Result<File> {
        let flags = match method {
            Method::Fsync | Method::Fdatasync => OFlags::empty(),
            Method::ODsync => OFlags::DSYNC,
            Method::OSync => OFlags::SYNC,
            Method::ODirect => OFlags::DIRECT,
        };
        let flags = (flags | OFlags::NOFOLLOW).bits().cast_signed();
        OpenOptions::new().write(true).custom_flags(flags).open(&self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            eprintln!("fsynctop: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes what runs left behind that were killed.
pub fn remove_leftovers(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let mut open = OpenOptions::new();
        open.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let Ok(file) = open.open(entry.path()) else { continue };
        let is_plain = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_plain && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // What cannot be removed stays: it harms nothing.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_made_is_removed_and_what_was_left_behind_too() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(directory.path(), 1).unwrap();
        let mine = names(directory.path());
        assert_eq!(mine.len(), 1);
        // A file that a killed run left, one that has nothing to do with it, and a link that leads astray.
        std::fs::write(directory.path().join(".fsynctop-calibrate-1-1"), "x").unwrap();
        std::fs::write(directory.path().join("other"), "x").unwrap();
        std::os::unix::fs::symlink("other", directory.path().join(".fsynctop-calibrate-link")).unwrap();
        remove_leftovers(directory.path());
        let left = names(directory.path());
        assert!(left.contains(&mine[0]), "one that is in use stays: {left:?}");
        assert!(left.contains(&"other".to_owned()) && !left.contains(&".fsynctop-calibrate-1-1".to_owned()));
        drop(scratch);
        assert_eq!(names(directory.path()), [".fsynctop-calibrate-link", "other"]);
    }
}
