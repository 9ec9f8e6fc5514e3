//! `fsynctop exporter`: the daemon that Prometheus asks. Three processes: the prober (`daemon`), which traces
//! and describes, the web process, which speaks to clients and has no rights, and the recorder, which has one
//! folder.

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
pub(crate) mod recent_file;
pub(crate) mod recorder_process;
pub(crate) mod recording;
mod server_log;
mod socket_directory;
pub mod source;
mod stage;
pub(crate) mod status;
pub mod verdict;
mod watching;
pub mod web;
pub(crate) mod web_process;
