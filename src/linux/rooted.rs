//! Opens files inside another process's root. A plain look-up through /proc/PID/root would follow an absolute
//! symlink (Debian's /etc/mysql/my.cnf is one) out of a container into our own root; openat2 keeps it inside
//! (Linux 5.6).
//!
//! The process chooses the paths, and we are root: to open a device or a FIFO has effects (a tape rewinds, a
//! watchdog starts, a writer is let through), and so has reading some files of /proc or tracefs. So each path
//! is looked up with O_PATH, which opens nothing, and opened only where that is a regular file on a
//! filesystem that stores files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// A directory that is taken for `/`.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
}

/// An open file's identity and type, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub inode: u64,
    pub links: u32,
    pub is_directory: bool,
    pub is_regular: bool,
    /// As `stat` gives it, (major << 20) | minor: on btrfs and overlayfs not the superblock's.
    pub device: u32,
}

impl Root {
    /// The root of a process.
    pub fn of_process(proc_root: &Path, pid: u32) -> io::Result<Root> {
        Root::at(&proc_root.join(pid.to_string()).join("root"))
    }

    pub fn at(directory: &Path) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root { directory: rustix::fs::open(directory, flags, Mode::empty())? })
    }

    /// Looks a path of that root up, without opening what is there. `flags`: O_DIRECTORY, O_NOFOLLOW or none.
    pub fn look_up(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                // A rename raced with a ".." of the path.
                Err(Errno::AGAIN) if tries < 8 => tries += 1,
                other => return Ok(other?),
            }
        }
    }

    /// Opens a regular file for reading. `flags`: O_NOFOLLOW, O_NOATIME or none.
    pub fn open_file(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let found = self.look_up(path, flags & OFlags::NOFOLLOW)?;
        if !attributes(&found)?.is_regular {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(reopen(&found, flags & OFlags::NOATIME)?.into())
    }

    /// The contents of a regular file, at most `limit` bytes of it.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        self.open_file(path, OFlags::empty())?.take(limit).read_to_end(&mut contents)?;
        Ok(contents)
    }

    /// Opens a directory, for [`names`].
    pub(crate) fn open_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        reopen(&self.look_up(path, OFlags::DIRECTORY)?, OFlags::DIRECTORY)
    }

    /// The path without symlinks, inside that root.
    pub(crate) fn canonical(&self, path: &Path) -> Option<PathBuf> {
        let target = self.look_up(path, OFlags::empty()).ok()?;
        strip_root(&link_of(&target)?, &link_of(&self.directory)?)
    }
}

/// The names in a directory, without `.` and `..`, in the filesystem's order. At most `limit` of them: a
/// directory may have millions.
pub fn names(directory: &OwnedFd, limit: usize) -> io::Result<Vec<OsString>> {
    let names = Dir::read_from(directory)?.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().to_bytes();
        (name != b"." && name != b"..").then(|| OsStr::from_bytes(name).to_owned())
    });
    Ok(names.take(limit).collect())
}

/// Opens for reading what was looked up, if its filesystem stores files: /proc, /sys and their like make them
/// up, and to read some of those has effects.
fn reopen(found: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    let filesystem = rustix::fs::fstatfs(found)?;
    // What makes its files up has no blocks (fs/libfs.c: simple_statfs), but for these.
    let magic = filesystem.f_type as i64;
    let stores = filesystem.f_blocks > 0 && magic != EFIVARFS_MAGIC;
    if !stores && !matches!(magic, TMPFS_MAGIC | RAMFS_MAGIC) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not on a filesystem that stores files"));
    }
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(rustix::fs::open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?)
}

/// include/uapi/linux/magic.h. Without a limit, tmpfs says that it has no blocks; ramfs always does.
pub(crate) const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;
const EFIVARFS_MAGIC: i64 = 0xde5e_81e4;

/// A path as /proc shows it, seen from below `root`. None: it lies outside.
pub(crate) fn strip_root(path: &Path, root: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix(root).ok()?;
    Some(Path::new("/").join(inside))
}

/// What a path leads to in our own root, without opening it; for the links under /proc/PID/fd, which no
/// look-up is needed for. Whoever holds the last reference to a file that has no name any more frees its
/// blocks: for a moment only.
pub(crate) fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

pub(crate) fn link_of(fd: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

/// Of an open file; network filesystems are not asked again, so that a dead one does not block.
pub fn attributes(fd: &impl AsFd) -> io::Result<Attributes> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(rustix::fs::statx(fd, "", flags, StatxFlags::BASIC_STATS)?.into())
}

/// Of what a path leads to in our own root; for the links under /proc/PID/fd, which no look-up is needed for.
pub(crate) fn attributes_of(path: &Path) -> io::Result<Attributes> {
    let flags = AtFlags::STATX_DONT_SYNC;
    Ok(rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS)?.into())
}

/// The inode's number as the kernel keeps it, not as `stat` dresses it (overlayfs); before Linux 5.14 as
/// `stat`.
pub(crate) fn kernel_inode(fd: &(impl AsFd + AsRawFd)) -> io::Result<u64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap_or_default();
    let inode = info.lines().find_map(|line| line.strip_prefix("ino:")?.trim().parse().ok());
    inode.map_or_else(|| Ok(attributes(fd)?.inode), Ok)
}

impl From<Statx> for Attributes {
    fn from(stat: Statx) -> Self {
        let kind = FileType::from_raw_mode(stat.stx_mode.into());
        Attributes {
            inode: stat.stx_ino,
            links: stat.stx_nlink,
            is_directory: kind == FileType::Directory,
            is_regular: kind == FileType::RegularFile,
            device: stat.stx_dev_major << 20 | stat.stx_dev_minor & 0xf_ffff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_absolute_symlink_stays_inside_the_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/real")).unwrap();
        std::fs::write(dir.path().join("etc/real/passwd"), "inside").unwrap();
        symlink("/etc/real/passwd", dir.path().join("etc/passwd")).unwrap();
        symlink("/etc/real", dir.path().join("linked")).unwrap();
        symlink("../../../../../../etc/real", dir.path().join("climbing")).unwrap();
        let root = Root::at(dir.path()).unwrap();
        assert_eq!(root.read(Path::new("/etc/passwd"), 100).unwrap(), b"inside");
        assert_eq!(root.canonical(Path::new("/linked")).unwrap(), Path::new("/etc/real"));
        assert_eq!(root.canonical(Path::new("/climbing/passwd")).unwrap(), Path::new("/etc/real/passwd"));
        let linked = root.open_directory(Path::new("/linked")).unwrap();
        assert_eq!(names(&linked, 10).unwrap(), ["passwd"]);
        assert!(names(&linked, 0).unwrap().is_empty());
        assert_eq!(root.read(Path::new("/etc/passwd"), 3).unwrap(), b"ins");
    }

    #[test]
    fn a_fifo_or_a_directory_is_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::mknodat(
            CWD,
            dir.path().join("my.cnf"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            rustix::fs::makedev(0, 0),
        )
        .unwrap();
        let root = Root::at(dir.path()).unwrap();
        assert!(root.read(Path::new("/my.cnf"), 100).is_err());
        assert!(root.read(Path::new("/"), 100).is_err());
    }

    /// As root, a writer that waits for a reader of its FIFO would be let through.
    #[test]
    fn a_writer_of_a_fifo_is_not_let_through() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("my.cnf");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (outbox, written) = std::sync::mpsc::channel();
        let path = fifo.clone();
        let writer = std::thread::spawn(move || {
            let opened = std::fs::OpenOptions::new().write(true).open(path);
            outbox.send(()).unwrap();
            opened
        });
        let root = Root::at(dir.path()).unwrap();
        // The writer may take a while to get there.
        for _ in 0..50 {
            assert!(root.read(Path::new("/my.cnf"), 100).is_err());
            let opened = written.recv_timeout(std::time::Duration::from_millis(10));
            assert!(opened.is_err(), "the FIFO was opened");
        }
        drop(File::open(&fifo).unwrap());
        assert!(writer.join().unwrap().is_ok());
    }

    #[test]
    fn devices_and_files_that_the_kernel_makes_up_are_not_opened() {
        let root = Root::at(Path::new("/")).unwrap();
        for path in [
            "/dev/null",
            "/proc/self/mountinfo",
            "/proc/version",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ] {
            assert!(root.look_up(Path::new(path), OFlags::empty()).is_ok(), "{path}");
            assert!(root.open_file(Path::new(path), OFlags::empty()).is_err(), "{path}");
        }
        assert!(root.open_directory(Path::new("/proc")).is_err());
        assert!(!root.read(Path::new("/etc/passwd"), 10).unwrap().is_empty());
        // tmpfs with and without a limit of its size
        for directory in ["/dev/shm", "/run"] {
            if let Ok(file) = tempfile::NamedTempFile::new_in(directory) {
                assert!(root.open_file(file.path(), OFlags::empty()).is_ok(), "{directory}");
            }
        }
    }
}
