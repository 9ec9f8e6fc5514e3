//! `fsynctop exporter`: the daemon that Prometheus asks.

pub(crate) mod collect;
pub(crate) mod daemon;
pub mod history_socket;
pub(crate) mod log;
mod notify;
pub mod privileges;
mod server_log;
mod socket_directory;
pub mod source;
pub(crate) mod status;
mod watching;
pub mod web;
