//! Asks an exporter on this host for its history, over its local socket: one request, one answer, each a JSON object
//! on a line.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{History, ReadError, SCHEMA};

/// Where an exporter listens unless it is told otherwise.
pub const SOCKET: &str = "/run/fsynctop/exporter.sock";

/// How long one read or write may take: the exporter answers at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer larger than this is none: a history is bounded.
const LARGEST_ANSWER: u64 = 256 << 20;

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
pub struct Refusal {
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
    let text = ask(socket).map_err(failed)?;
    if let Ok(Refusal { error }) = serde_json::from_str(&text) {
        let said = crate::text::escape_sentence(&error);
        return Err(RemoteError::Refused { path: socket.to_owned(), said });
    }
    History::read_json(&text).map_err(|source| RemoteError::Answer { path: socket.to_owned(), source })
}

fn ask(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = serde_json::to_vec(&Request::history())?;
    request.push(b'\n');
    stream.write_all(&request)?;
    let mut answer = String::new();
    stream.take(LARGEST_ANSWER).read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "it hung up without an answer"));
    }
    Ok(answer)
}
