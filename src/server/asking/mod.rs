//! How a server is asked what it counts itself, over one client connection: [`options`] says where to and as
//! whom, [`find`] finds the socket of a server that runs here, [`choose`] which of several is meant,
//! [`protection`] which connections a password may go over, and [`connection`] asks with deadlines that a
//! hung server cannot exceed. [`told`] is what of an answer is recorded. [`transport`], [`bounded`] and
//! [`tls`] are for any protocol; those that are spoken, and what is asked, are each engine's own.

pub(crate) mod bounded;
pub mod choose;
pub mod connection;
pub mod find;
pub(crate) mod identity;
pub mod options;
pub(crate) mod protection;
pub mod secret;
pub(crate) mod tls;
pub(crate) mod told;
pub(crate) mod transport;
pub(crate) mod trusted_file;

use serde::Serialize;

/// A number, where it comes from, and how far it can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    pub count: u64,
    /// The counter's name.
    pub source: &'static str,
    /// False: the counter also counts other things, or not all.
    pub exact: bool,
}

impl Counted {
    /// From one reading to the next. None: the counter is not there, or went backwards.
    pub(crate) fn grown(source: &'static str, from: Option<u64>, to: Option<u64>) -> Option<Counted> {
        Some(Counted { count: to?.checked_sub(from?)?, source, exact: true })
    }
}

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only that it answers at all.
    Nothing,
    /// Whose connections there are.
    Sessions,
    /// Sync counters only, which are quick to read.
    Syncs,
    /// These, and what was written to files, by kind.
    Writes,
    Everything,
}

/// Why the server's counters are unavailable.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    #[error("cannot read the option file {path}: {source}", path = .path.display())]
    OptionFile { path: std::path::PathBuf, source: std::io::Error },
    #[error("{0}")]
    Options(String),
    #[error("no connection to the server at {endpoint}: {reason}")]
    NoConnection { endpoint: String, reason: String },
    #[error("the server at {endpoint} did not answer within {seconds} s")]
    NoAnswer { endpoint: String, seconds: f64 },
    #[error("the server refused to answer: {0}")]
    Refused(String),
    #[error("the connection leads to another server: {0}")]
    OtherServer(String),
}
