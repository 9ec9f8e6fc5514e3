//! The exporter's web server: HTTP/1.1 on one thread, with limits on what clients can take of it.

pub mod address;
mod answers;
mod auth;
mod connection;
pub mod limits;
mod local_user;
mod negotiate;
pub mod origin;
mod pages;
mod queue;
mod reload;
mod serve;
mod settings;
mod statistics;
mod tls;

pub use serve::Web;
pub use statistics::{CODES, Counter, Made, Statistics};
