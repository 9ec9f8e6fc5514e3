//! The exporter's web server: HTTP/1.1 on one thread, with limits on what clients can take of it.

pub mod address;
mod answers;
mod auth;
mod connection;
mod doors;
pub mod files;
pub(crate) mod limits;
mod lobby;
mod local_user;
mod negotiate;
pub(crate) mod origin;
mod pages;
mod query;
mod queue;
pub(crate) mod reload;
mod serve;
mod settings;
mod short;
mod state;
mod statistics;
mod tls;
mod verdicts;

pub(super) use doors::is_the_listeners_end;
pub use state::{StartError, Web};
pub use statistics::{Figures, Statistics};
pub(super) use verdicts::may_acknowledge;
