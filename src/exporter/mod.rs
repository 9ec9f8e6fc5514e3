//! `fsynctop exporter`: the daemon that Prometheus asks. Two processes: the prober (`daemon`), which traces
//! and describes, and the web process, which speaks to clients and has no rights.

pub(crate) mod collect;
pub mod confine;
pub(crate) mod daemon;
pub(crate) mod failures_file;
pub mod history_socket;
pub(crate) mod link;
pub(crate) mod local_socket;
pub(crate) mod log;
mod notify;
pub mod privileges;
mod server_log;
mod socket_directory;
pub mod source;
mod stage;
pub(crate) mod status;
pub mod verdict;
mod watching;
pub mod web;
pub(crate) mod web_process;
