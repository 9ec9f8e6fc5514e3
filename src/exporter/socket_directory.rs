//! The directory of a local socket, verified and held open: what is done to the socket's file, or to another
//! one there, is done in this directory whatever becomes of its path, and nobody else can put something in
//! the file's place.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::linux::rooted::TMPFS_MAGIC;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fstatfs, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// For a directory that is made.
const MODE: u32 = 0o755;
const WRITABLE_BY_OTHERS: u32 = 0o002;
const WRITABLE_BY_GROUP: u32 = 0o020;

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error(
        "{} may be written to by other users (mode {mode:o}), who could put a socket of their own there: `chmod o-w` (or \
         g-w) it, or take another directory",
        .path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error(
        "{} belongs to user {owner}, who could put another socket there: take a directory of root or of this user",
        .path.display()
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A socket's directory, and the name of its file there.
#[derive(Debug)]
pub(crate) struct SocketDirectory {
    directory: OwnedFd,
    name: OsString,
}

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    fn of(stat: &Stat) -> Identity {
        Identity(stat.st_dev, stat.st_ino)
    }
}

impl SocketDirectory {
    /// The directory of this path, made if need be. It must be root's or ours, and only they may write to it.
    pub fn open(path: &Path) -> Result<SocketDirectory, DirectoryError> {
        let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(MODE).create(parent)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty()).map_err(io::Error::from)?;
        let stat = fstat(&directory).map_err(io::Error::from)?;
        verify(parent, &stat)?;
        Ok(SocketDirectory { directory, name: name.to_owned() })
    }

    /// Binds a listening socket whose file has this mode from the start, or less: the kernel takes it from
    /// the socket, less what the umask takes away (net/unix/af_unix.c, unix_bind_bsd), which is then given
    /// back.
    pub fn bind(&self, mode: Mode, waiting: i32) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::fs::fchmod(&socket, mode)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(self.path(&self.name))?)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, &self.name, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Err(io::Error::other("something else was put in its place"));
        }
        // The very file that was just seen to be a socket, whatever its name leads to by now.
        rustix::fs::chmod(in_proc(&file), mode)?;
        rustix::net::listen(&socket, waiting)?;
        Ok(socket)
    }

    /// A regular file of root or of this user, made if it is missing, to be read and written by nobody else.
    pub fn open_file(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, &self.name, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = fstat(&file)?;
        let owner = stat.st_uid;
        let is_ours = owner == 0 || owner == rustix::process::geteuid().as_raw();
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !is_ours || stat.st_nlink != 1 {
            return Err(io::Error::other("something else is in its place"));
        }
        Ok(File::from(file))
    }

    /// Its files are in memory, and no disk can make anybody wait.
    pub fn is_in_memory(&self) -> io::Result<bool> {
        // The type differs from one architecture to another.
        #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
        let magic = fstatfs(&self.directory)?.f_type as i64;
        Ok(magic == TMPFS_MAGIC)
    }

    /// What is there. Links are not followed. None: nothing.
    pub fn stat(&self) -> io::Result<Option<(FileType, Identity)>> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((FileType::from_raw_mode(stat.st_mode), Identity::of(&stat)))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.path(&self.name))
    }

    /// Removes the file if it is still this one.
    pub fn remove(&self, identity: Identity) -> io::Result<()> {
        match self.stat()? {
            Some((_, found)) if found == identity => {
                Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
            }
            _ => Ok(()),
        }
    }

    fn path(&self, name: &OsStr) -> PathBuf {
        in_proc(&self.directory).join(name)
    }
}

fn in_proc(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

fn verify(path: &Path, directory: &Stat) -> Result<(), DirectoryError> {
    let path = path.to_owned();
    let (own_user, own_group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if directory.st_uid != 0 && directory.st_uid != own_user {
        return Err(DirectoryError::Foreign { path, owner: directory.st_uid });
    }
    let is_group_trusted = directory.st_gid == 0 || directory.st_gid == own_group;
    let others = if is_group_trusted { WRITABLE_BY_OTHERS } else { WRITABLE_BY_OTHERS | WRITABLE_BY_GROUP };
    if directory.st_mode & others != 0 {
        return Err(DirectoryError::Writable { path, mode: directory.st_mode & 0o7777 });
    }
    Ok(())
}
