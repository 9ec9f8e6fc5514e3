//! Asks an exporter on this host for its history, over its local socket: one request, one answer, each a JSON
//! object on a line.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::deadline::WithDeadline;
use super::{History, ReadError, SCHEMA};

/// Where an exporter listens unless it is told otherwise.
pub(crate) const SOCKET: &str = "/run/fsynctop/exporter.sock";

/// How long the whole exchange may take: the exporter answers at once, and gives up before that.
const PATIENCE: Duration = Duration::from_secs(15);
/// An answer larger than this is none: a history has 4 MB, and less than ten times as much as text.
const LARGEST_ANSWER: u64 = 64 << 20;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub schema: u32,
    pub request: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// All that is remembered.
    History,
}

impl Request {
    pub fn history() -> Request {
        Request { schema: SCHEMA, request: What::History }
    }
}

/// In the place of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub error: String,
}

/// Why there is no history. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(
        "no exporter runs here that remembers the last minutes: nothing answers on {}. Start `fsynctop exporter` (as a \
         service, so that it is there next time); one with another socket is asked with --socket.",
        .0.display()
    )]
    Nobody(PathBuf),
    #[error(
        "the exporter's history is for root and its group alone: {} may not be opened. Run this as root (sudo).",
        .0.display()
    )]
    Denied(PathBuf),
    #[error(
        "{} is served by user {user}, who is neither root nor you, in a place that was not made for that user by root: \
         what is said there is not believed. Run `fsynctop exporter` as root or as a service, or ask as user {user}.",
        .path.display()
    )]
    Stranger { path: PathBuf, user: u32 },
    #[error("asking the exporter on {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the exporter on {} says: {said}", .path.display())]
    Refused { path: PathBuf, said: String },
    #[error("the exporter on {} answered with something else: {source}", .path.display())]
    Answer { path: PathBuf, source: ReadError },
}

/// The history of the exporter that listens on this socket.
pub fn fetch(socket: &Path) -> Result<History, RemoteError> {
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => RemoteError::Nobody(socket.to_owned()),
        ErrorKind::PermissionDenied => RemoteError::Denied(socket.to_owned()),
        _ => RemoteError::Io { path: socket.to_owned(), source },
    };
    let stream = connect(socket).map_err(failed)?;
    let user = getsockopt(&stream, PeerCredentials).map_err(|errno| failed(errno.into()))?.uid();
    if !is_trusted(user, socket) {
        return Err(RemoteError::Stranger { path: socket.to_owned(), user });
    }
    let text = ask(&stream).map_err(failed)?;
    if let Ok(Refusal { error }) = serde_json::from_str(&text) {
        let said = crate::text::escape_sentence(&error);
        return Err(RemoteError::Refused { path: socket.to_owned(), said });
    }
    History::read_json(&text).map_err(|source| RemoteError::Answer { path: socket.to_owned(), source })
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Where nobody accepts, connecting waits.
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Whoever may make a socket at a path can pretend to be the exporter. So it must be root, or who asks; or,
/// for a service with a user of its own, the owner of a directory that only root can have put there.
fn is_trusted(user: u32, socket: &Path) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw() || root_gave_directory(socket, user)
}

fn root_gave_directory(socket: &Path, user: u32) -> bool {
    let Some(directory) = socket.parent().and_then(|parent| parent.canonicalize().ok()) else { return false };
    let belongs_to = |path: &Path, owner: u32| {
        let found = std::fs::symlink_metadata(path);
        found.is_ok_and(|found| found.uid() == owner && found.mode() & WRITABLE_BY_OTHERS == 0)
    };
    belongs_to(&directory, user) && directory.ancestors().skip(1).all(|above| belongs_to(above, 0))
}

fn ask(stream: &UnixStream) -> io::Result<String> {
    let mut connection = WithDeadline::new(stream, PATIENCE);
    let mut request = serde_json::to_vec(&Request::history())?;
    request.push(b'\n');
    match connection.write_all(&request) {
        // It has hung up; perhaps it has said why.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written?,
    }
    let mut answer = Vec::new();
    match connection.take(LARGEST_ANSWER + 1).read_to_end(&mut answer) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset && !answer.is_empty() => {}
        read => drop(read?),
    }
    if answer.len() as u64 > LARGEST_ANSWER {
        let text = format!("its answer is longer than {} MB", LARGEST_ANSWER >> 20);
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    if answer.is_empty() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "it hung up without an answer"));
    }
    String::from_utf8(answer).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
