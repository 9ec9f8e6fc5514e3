//! fsynctop: traces the durability system calls of a database server. `docs/architecture.md` is the map.

pub mod calibrate;
pub mod cli;
pub mod descriptors;
pub mod explain;
pub mod exporter;
pub mod files;
pub mod histogram;
pub mod history;
pub mod host;
pub mod linux;
pub mod live;
pub mod mountinfo;
pub mod once;
pub mod priority;
pub mod probe;
pub mod proc_file;
pub mod processors;
pub mod sampler;
pub mod server_status;
pub mod snapshot;
pub mod storage;
pub mod stuck;
pub mod target;
pub mod text;
pub mod top;
pub mod verify;
