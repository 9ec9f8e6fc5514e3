//! The folder of a recording: its segments' files, opened by one descriptor of the folder, so that nothing
//! outside of it is ever touched. Files and links that are no segments are passed over.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, accessat, fchown, flock, fstat, fstatvfs,
    major, minor, mkdir, open, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

/// So many files of a recording are read, which somebody may have sent.
pub(super) const MAX_FILES: usize = 20_000;
/// A segment's file is never longer; of a longer one this much is read.
const MAX_SEGMENT_FILE: u64 = 64 << 20;
const MODE: Mode = Mode::from_raw_mode(0o750);
const LOCK: &str = "lock";
const SUFFIX: &str = ".fst";
const PLAIN: &str = "-plain";

/// How fine the intervals of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tier {
    /// As they were taken.
    All,
    TenSeconds,
    Minute,
}

impl Tier {
    pub const ALL: [Tier; 3] = [Tier::All, Tier::TenSeconds, Tier::Minute];

    /// In files' names.
    pub fn name(self) -> &'static str {
        match self {
            Tier::All => "all",
            Tier::TenSeconds => "10s",
            Tier::Minute => "1m",
        }
    }
}

/// A segment's file: "all-00000042.fst", or "all-00000042-plain.fst" while it is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub tier: Tier,
    pub number: u32,
    pub is_plain: bool,
}

impl Name {
    fn parse(text: &str) -> Option<Name> {
        let stem = text.strip_suffix(SUFFIX)?;
        let (stem, is_plain) = stem.strip_suffix(PLAIN).map_or((stem, false), |stem| (stem, true));
        let (tier, number) = stem.split_once('-')?;
        let tier = Tier::ALL.into_iter().find(|known| known.name() == tier)?;
        let name = Name { tier, number: number.parse().ok()?, is_plain };
        (name.to_string() == text).then_some(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plain = if self.is_plain { PLAIN } else { "" };
        write!(f, "{}-{:08}{plain}{SUFFIX}", self.tier.name(), self.number)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = unlinkat(&self.descriptor, LOCK, AtFlags::empty());
        }
    }
}

/// What is in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// In their order, with their lengths in bytes.
    pub files: Vec<(Name, u64)>,
    /// Segments that are more than are read.
    pub left_out: usize,
}

#[derive(Debug)]
pub(crate) struct Folder {
    descriptor: OwnedFd,
    /// Of a writer: held until it ends.
    lock: Option<OwnedFd>,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Folder {
    /// For a writer: made if need be, for its owner and group alone, and this process's until it ends.
    pub fn create(path: &Path) -> io::Result<Folder> {
        let mut folder = match mkdir(path, MODE) {
            Ok(()) | Err(Errno::EXIST) => Folder::open(path)?,
            Err(errno) => return Err(errno.into()),
        };
        folder.lock()?;
        Ok(folder)
    }

    /// The same for a process that is to become this user, and to lock it then: a folder that root makes is
    /// that user's.
    pub fn create_for(path: &Path, uid: u32, gid: u32) -> io::Result<Folder> {
        let is_new = match mkdir(path, MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        // Of a link that has taken its place nobody becomes the owner of anything.
        let more = if is_new { OFlags::NOFOLLOW } else { OFlags::empty() };
        let folder = Folder::open_with(path, more)?;
        if is_new && geteuid().is_root() {
            fchown(&folder.descriptor, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(folder)
    }

    /// Makes it this process's, for as long as it lives: by a file that nobody else may open, because whoever
    /// may read the folder could lock that, and keep others from recording.
    pub fn lock(&mut self) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = loop {
            let lock = openat(&self.descriptor, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
                Errno::WOULDBLOCK => {
                    io::Error::new(io::ErrorKind::ResourceBusy, "another process records there")
                }
                errno => errno.into(),
            })?;
            // Whoever had it may have removed it meanwhile.
            if fstat(&lock)?.st_nlink > 0 {
                break lock;
            }
        };
        self.lock = Some(lock);
        Ok(())
    }

    /// Its filesystem's device, as files are known by.
    pub fn device(&self) -> io::Result<u32> {
        let device = fstat(&self.descriptor)?.st_dev;
        Ok(major(device) << 20 | minor(device))
    }

    /// By this process as it is now.
    pub fn may_be_written(&self) -> io::Result<()> {
        Ok(accessat(&self.descriptor, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
    }

    pub fn open(path: &Path) -> io::Result<Folder> {
        Folder::open_with(path, OFlags::empty())
    }

    fn open_with(path: &Path, more: OFlags) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
        Ok(Folder { descriptor: open(path, flags, Mode::empty())?, lock: None })
    }

    /// `most`: how many files at most.
    pub fn list(&self, most: usize) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().ok().and_then(Name::parse) else { continue };
            let Ok(stat) = statat(&self.descriptor, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            match listing.files.len() < most {
                true => listing.files.push((name, stat.st_size as u64)),
                false => listing.left_out += 1,
            }
        }
        listing.files.sort_unstable();
        Ok(listing)
    }

    pub fn read(&self, name: Name) -> io::Result<Vec<u8>> {
        // Neither a link nor a pipe that took the file's place makes this wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.descriptor, name.to_string(), flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_SEGMENT_FILE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A new file, to which is only ever appended.
    pub fn make(&self, name: Name) -> io::Result<File> {
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        Ok(openat(&self.descriptor, name.to_string(), flags, Mode::from_raw_mode(0o640))?.into())
    }

    pub fn remove(&self, name: Name) -> io::Result<()> {
        match unlinkat(&self.descriptor, name.to_string(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Bytes of the filesystem that are free for users, and all that it has.
    pub fn free_and_all(&self) -> io::Result<(u64, u64)> {
        let stat = fstatvfs(self.descriptor.as_fd())?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok((bytes(stat.f_bavail), bytes(stat.f_blocks)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_nothing_else_is_one() {
        for (text, tier, number, is_plain) in [
            ("all-00000042.fst", Tier::All, 42, false),
            ("10s-00000000-plain.fst", Tier::TenSeconds, 0, true),
            ("1m-4294967295.fst", Tier::Minute, u32::MAX, false),
        ] {
            let name = Name { tier, number, is_plain };
            assert_eq!((Name::parse(text), name.to_string()), (Some(name), text.to_owned()));
        }
        for other in
            ["", "all-42.fst", "all-00000042", "1h-00000042.fst", "all-+0000042.fst", "all-00000042.fst~"]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_files_of_segments_are_listed_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let folder = Folder::create(path).unwrap();
        let error = Folder::create(path).unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        let name = |number| Name { tier: Tier::All, number, is_plain: false };
        std::fs::write(path.join("secret"), "of somebody else").unwrap();
        symlink(path.join("secret"), path.join(name(1).to_string())).unwrap();
        std::fs::create_dir(path.join(name(2).to_string())).unwrap();
        nix::unistd::mkfifo(&path.join(name(3).to_string()), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::io::Write::write_all(&mut folder.make(name(4)).unwrap(), b"four").unwrap();
        assert_eq!(folder.list(MAX_FILES).unwrap(), Listing { files: vec![(name(4), 4)], left_out: 0 });
        assert_eq!(folder.read(name(4)).unwrap(), b"four");
        for number in [1, 2, 3] {
            assert!(folder.read(name(number)).is_err(), "{number}");
            assert!(folder.make(name(number)).is_err(), "{number}");
        }
        folder.remove(name(4)).unwrap();
        folder.remove(name(4)).unwrap();
        assert_eq!(folder.list(MAX_FILES).unwrap(), Listing::default());
    }
}
