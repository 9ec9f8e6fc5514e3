//! Opens files inside another process's root. A plain look-up through /proc/PID/root would follow an absolute symlink
//! (Debian's /etc/mysql/my.cnf is one) out of a container into our own root; openat2 keeps it inside (Linux 5.6).

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

/// What the kernel says of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
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

    /// Opens a path of that root. `O_PATH` alone touches no file; a FIFO does not block the caller.
    pub fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = if flags.contains(OFlags::PATH) {
            flags - OFlags::NONBLOCK - OFlags::NOCTTY // openat2 refuses flags that mean nothing together with O_PATH
        } else {
            flags
        };
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                // A rename raced with a ".." of the path.
                Err(Errno::AGAIN) if tries < 8 => tries += 1,
                other => return Ok(other?),
            }
        }
    }

    /// The contents of a regular file, at most `limit` bytes of it.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, OFlags::RDONLY)?;
        if !attributes(&file)?.is_regular {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut contents = Vec::new();
        File::from(file).take(limit).read_to_end(&mut contents)?;
        Ok(contents)
    }

    /// The names in a directory, sorted, without `.` and `..`.
    pub fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The path without symlinks, inside that root.
    pub fn canonical(&self, path: &Path) -> Option<PathBuf> {
        let target = self.open(path, OFlags::PATH).ok()?;
        strip_root(&link_of(&target)?, &link_of(&self.directory)?)
    }
}

/// A path as /proc shows it, seen from below `root`. None: it lies outside.
pub fn strip_root(path: &Path, root: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix(root).ok()?;
    Some(Path::new("/").join(inside))
}

fn link_of(fd: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

/// Of an open file; network filesystems are not asked again, so that a dead one does not block.
pub fn attributes(fd: &impl AsFd) -> io::Result<Attributes> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(rustix::fs::statx(fd, "", flags, StatxFlags::BASIC_STATS)?.into())
}

/// Of what a path leads to in our own root; for the links under /proc/PID/fd, which no look-up is needed for.
pub fn attributes_of(path: &Path) -> io::Result<Attributes> {
    let flags = AtFlags::STATX_DONT_SYNC;
    Ok(rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS)?.into())
}

/// The inode's number as the kernel keeps it, not as `stat` dresses it (overlayfs); before Linux 5.14 as `stat`.
pub fn kernel_inode(fd: &OwnedFd) -> io::Result<u64> {
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
        assert_eq!(root.list(Path::new("/linked")).unwrap(), ["passwd"]);
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
}
