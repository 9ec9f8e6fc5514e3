//! Asks an exporter on this host for its history or its verdicts, over its local socket: one request, one
//! answer, each a JSON object on a line.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::deadline::WithDeadline;
use super::{History, ReadError, SCHEMA};
use crate::verdict::OfServer;

/// Where an exporter listens unless it is told otherwise.
pub(crate) const SOCKET: &str = "/run/fsynctop/exporter.sock";

/// How long the whole exchange may take: the exporter answers at once, and gives up before that.
const PATIENCE: Duration = Duration::from_secs(15);
/// The same for what is answered out of the memory of the process that serves.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
/// An answer larger than this is none: a history has 4 MB.
const LARGEST_ANSWER: u64 = 8 << 20;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub schema: u32,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum What {
    /// All that is remembered.
    History,
    /// How each server stands: [`Standing`].
    Verdicts,
    /// An operator knows of the failures of the server of this name.
    Acknowledge { server: String },
}

/// The verdicts of an exporter, as `/api/v1/verdict` has them; further fields are passed over.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Standing {
    pub not_tracing: Option<String>,
    /// Why nothing is recorded, where it should be.
    #[serde(default)]
    pub not_recording: Option<String>,
    pub servers: Vec<StandingOf>,
}

/// How one server stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StandingOf {
    #[serde(flatten)]
    pub verdict: OfServer,
    /// False: no process runs it.
    pub running: bool,
}

/// The answer to an acknowledgement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acknowledged {
    pub server: String,
    /// Of how many files failures were taken back.
    pub acknowledged_files: u64,
}

/// In the place of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub error: String,
}

/// Why there is no answer. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(
        "no exporter answers on {}, so what happened before is not known. Start `fsynctop exporter` (as a service, so \
         that it is there next time); one with another socket is asked with --socket.",
        .0.display()
    )]
    Nobody(PathBuf),
    #[error(
        "what the exporter remembers is for root and its group: {} may not be opened. Run this as root (sudo).",
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
    let answer = exchange(socket, What::History, PATIENCE)?;
    History::read(&answer).map_err(|source| RemoteError::Answer { path: socket.to_owned(), source })
}

/// Its verdicts.
pub fn standing(socket: &Path) -> Result<Standing, RemoteError> {
    parse(socket, &exchange(socket, What::Verdicts, SHORT_PATIENCE)?)
}

/// Tells it that an operator knows of the failures of a server.
pub fn acknowledge(socket: &Path, server: String) -> Result<Acknowledged, RemoteError> {
    parse(socket, &exchange(socket, What::Acknowledge { server }, SHORT_PATIENCE)?)
}

fn parse<T: DeserializeOwned>(socket: &Path, answer: &[u8]) -> Result<T, RemoteError> {
    serde_json::from_slice(answer)
        .map_err(|error| RemoteError::Answer { path: socket.to_owned(), source: ReadError::from(error) })
}

fn exchange(socket: &Path, what: What, patience: Duration) -> Result<Vec<u8>, RemoteError> {
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => RemoteError::Nobody(socket.to_owned()),
        ErrorKind::PermissionDenied => RemoteError::Denied(socket.to_owned()),
        _ => RemoteError::Io { path: socket.to_owned(), source },
    };
    let stream = connect(socket, patience).map_err(failed)?;
    let user = getsockopt(&stream, PeerCredentials).map_err(|errno| failed(errno.into()))?.uid();
    if !is_trusted(user, socket) {
        return Err(RemoteError::Stranger { path: socket.to_owned(), user });
    }
    let answer = ask(&stream, &Request { schema: SCHEMA, what }, patience).map_err(failed)?;
    if let Ok(Refusal { error }) = serde_json::from_slice(&answer) {
        let said = crate::text::escape_sentence(&error);
        return Err(RemoteError::Refused { path: socket.to_owned(), said });
    }
    Ok(answer)
}

fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Where nobody accepts, connecting waits.
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
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

fn ask(stream: &UnixStream, request: &Request, patience: Duration) -> io::Result<Vec<u8>> {
    let mut connection = WithDeadline::new(stream, patience);
    let mut request = serde_json::to_vec(request)?;
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
    Ok(answer)
}
