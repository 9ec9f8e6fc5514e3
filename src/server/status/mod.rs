//! What a server counts itself, read over one client connection: [`options`] says where to and as whom,
//! [`find`] finds the socket of a server that runs here, [`choose`] which of several is meant, [`protection`]
//! which connections a password may go over, [`connection`] asks with deadlines that a hung server cannot
//! exceed, [`reading`] is what it answered ([`sessions`]: whose connections there are), and [`counters`] what
//! happened between two readings. [`bounded`] and [`tls`] are for any protocol; [`client`] speaks MySQL's.

pub(crate) mod bounded;
pub mod choose;
mod client;
pub mod connection;
pub mod counters;
pub(crate) mod engine_status;
pub mod find;
pub(crate) mod gtid;
pub mod options;
pub(crate) mod protection;
pub mod reading;
pub mod secret;
pub(crate) mod sessions;
pub(crate) mod tls;
pub(crate) mod trusted_file;

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
