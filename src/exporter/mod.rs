//! `fsynctop exporter`: the daemon that Prometheus asks.

pub mod collect;
pub mod daemon;
pub mod history_socket;
pub mod log;
mod notify;
pub mod privileges;
mod server_log;
mod socket_directory;
pub mod source;
pub mod status;
mod watching;
pub mod web;
