//! Temporary files for the writes. They have names, because some filesystems (btrfs) do not make a nameless
//! file durable, and are removed on drop.

use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::NamedTempFile;

use crate::sync_cost::CalibrateError;
use crate::sync_cost::plan::Method;

const PREFIX: &str = ".fsynctop-calibrate-";
/// Length of the random suffix: in a directory that others can write to, nobody can create the name first.
const RANDOM: usize = 12;

/// A file that is removed on drop. It stays locked until then, so that a later run can recognise files left
/// by killed runs.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// None: it is being removed.
    file: Option<NamedTempFile>,
}

impl Scratch {
    /// Creates an empty file that only its owner can open.
    pub fn create(directory: &Path) -> Result<Scratch, CalibrateError> {
        let mut name = tempfile::Builder::new();
        // O_EXCL, mode 0600; if the name exists, another one is tried.
        let file = name.prefix(PREFIX).rand_bytes(RANDOM).tempfile_in(directory);
        let file = file.map_err(CalibrateError::io(directory, "create a scratch file in it"))?;
        let locked = flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
        locked.map_err(|error| CalibrateError::io(file.path(), "lock it")(error.into()))?;
        Ok(Scratch { file: Some(file) })
    }

    /// Reopens the file with the flags of a method. By descriptor, because the name may refer to another
    /// file by now.
    pub(crate) fn open_for(&self, method: Method) -> std::io::Result<File> {
        let flags = match method {
            Method::Fsync | Method::Fdatasync => OFlags::empty(),
            Method::ODsync => OFlags::DSYNC,
            Method::OSync => OFlags::SYNC,
            Method::ODirect => OFlags::DIRECT,
        };
        let file = self.file.as_ref().ok_or(std::io::ErrorKind::NotFound)?;
        let itself = format!("/proc/self/fd/{}", file.as_file().as_raw_fd());
        OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(itself)
    }

    pub fn path(&self) -> &Path {
        self.file.as_ref().map_or(Path::new(""), |file| file.path())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let path = file.path().to_owned();
        if let Err(error) = file.close() {
            eprintln!("fsynctop: cannot remove {}: {error}", path.display());
        }
    }
}

/// Removes scratch files of this user's killed runs. Files that cannot be removed stay; they are harmless.
pub(crate) fn remove_leftovers(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_named_so = is_ours_by_name(entry.file_name().as_bytes());
        if !is_named_so || !entry.metadata().is_ok_and(|found| is_ours(&found)) {
            continue;
        }
        let mut open = OpenOptions::new();
        open.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let Ok(file) = open.open(entry.path()) else { continue };
        // The name may refer to another file by now.
        let is_ours = file.metadata().is_ok_and(|opened| is_ours(&opened));
        if is_ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_ours_by_name(name: &[u8]) -> bool {
    let random = name.strip_prefix(PREFIX.as_bytes());
    random.is_some_and(|random| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric))
}

fn is_ours(file: &Metadata) -> bool {
    file.is_file() && file.uid() == rustix::process::geteuid().as_raw()
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
        let scratch = Scratch::create(directory.path()).unwrap();
        let mine = names(directory.path());
        assert_eq!(mine.len(), 1);
        // A file left by a killed run, unrelated files, and a misleading symlink.
        let at = |name: &str| directory.path().join(name);
        let others = [".fsynctop-calibrate-", ".fsynctop-calibrate-notes.txt", "other"];
        for name in others.iter().chain(&[".fsynctop-calibrate-0123456789aB"]) {
            std::fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("other", at(".fsynctop-calibrate-AAAAAAAAAAAA")).unwrap();
        remove_leftovers(directory.path());
        let left = names(directory.path());
        assert!(left.contains(&mine[0]), "one that is in use stays: {left:?}");
        assert!(!left.contains(&".fsynctop-calibrate-0123456789aB".to_owned()), "{left:?}");
        drop(scratch);
        let mut expected = [&others[..], &[".fsynctop-calibrate-AAAAAAAAAAAA"]].concat();
        expected.sort();
        assert_eq!(names(directory.path()), expected);
    }

    #[test]
    fn a_file_has_a_name_that_nobody_can_know_and_only_its_owner_opens_it() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<Scratch> = (0..64).map(|_| Scratch::create(directory.path()).unwrap()).collect();
        for (at, file) in files.iter().enumerate() {
            let name = file.path().file_name().unwrap().as_bytes();
            assert!(is_ours_by_name(name), "{file:?}");
            let random = &name[PREFIX.len()..];
            let is_like = |other: &&Scratch| {
                let other = other.path().file_name().unwrap().as_bytes();
                // Of 12 letters, one may be equal by chance, but not half of them.
                std::iter::zip(random, &other[PREFIX.len()..]).filter(|(a, b)| a == b).count() > RANDOM / 2
            };
            assert!(!files[..at].iter().any(|other| is_like(&other)), "{files:?}");
            assert_eq!(std::fs::metadata(file.path()).unwrap().mode() & 0o7777, 0o600);
        }
    }

    #[test]
    fn a_file_is_opened_anew_whoever_has_its_name_by_now() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(directory.path()).unwrap();
        std::fs::remove_file(scratch.path()).unwrap();
        std::fs::write(scratch.path(), "another's").unwrap();
        scratch.open_for(Method::ODsync).unwrap().set_len(7).unwrap();
        assert_eq!(std::fs::read(scratch.path()).unwrap(), b"another's");
    }
}
