//! The exporter's local sockets: opened in the place of those that one left behind which has ended.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};

use super::socket_directory::{DirectoryError, SocketDirectory};

/// Which socket, for its messages.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The option that names its path.
    pub option: &'static str,
    /// How to do without it, as an instruction.
    pub without: &'static str,
    pub mode: Mode,
    /// Clients that wait in the kernel's queue.
    pub waiting: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error(
        "another exporter listens on {} already: give this one a path of its own with {}, or {}",
        .path.display(), .kind.option, .kind.without
    )]
    Taken { path: PathBuf, kind: Kind },
    #[error("{} is there and is no socket: remove it, or give the exporter another path with {}", .path.display(), .kind.option)]
    NotASocket { path: PathBuf, kind: Kind },
    #[error("cannot listen on {}: {source}; give the exporter another path with {}, or {}", .path.display(), .kind.option, .kind.without)]
    Io { path: PathBuf, kind: Kind, source: io::Error },
    #[error("no socket at {}: {source} with {}, or {}", .path.display(), .kind.option, .kind.without)]
    Directory { path: PathBuf, kind: Kind, source: DirectoryError },
}

/// Opens the socket, in the place of one that an exporter left behind which has ended: by then it has no
/// right to remove the file.
pub fn open(path: &Path, kind: Kind) -> Result<UnixListener, SocketError> {
    let failed = |source: io::Error| SocketError::Io { path: path.to_owned(), kind, source };
    let directory = SocketDirectory::open(path).map_err(|error| match error {
        DirectoryError::Io(source) => failed(source),
        source => SocketError::Directory { path: path.to_owned(), kind, source },
    })?;
    make_way(&directory, path, kind)?;
    directory.bind(kind.mode, kind.waiting).map(UnixListener::from).map_err(failed)
}

/// Removes what an earlier exporter left behind.
fn make_way(directory: &SocketDirectory, path: &Path, kind: Kind) -> Result<(), SocketError> {
    let failed = |source| SocketError::Io { path: path.to_owned(), kind, source };
    let Some((found, file)) = directory.stat().map_err(failed)? else { return Ok(()) };
    if found != FileType::Socket {
        return Err(SocketError::NotASocket { path: path.to_owned(), kind });
    }
    match directory.connect() {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => directory.remove(file).map_err(failed),
        _ => Err(SocketError::Taken { path: path.to_owned(), kind }),
    }
}
