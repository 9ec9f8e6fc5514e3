//! fsynctop: traces the durability system calls of a database server. `docs/architecture.md` is the map.

#![deny(clippy::unwrap_used)] // what the outside world decides is never taken for granted

pub(crate) mod calibrate;
pub mod cli;
pub mod engine;
pub(crate) mod events;
pub mod explain;
pub(crate) mod export;
pub mod exporter;
pub mod files;
pub mod host;
pub mod linux;
pub mod live;
pub mod model;
pub(crate) mod once;
pub mod probe;
pub mod recording;
pub mod render;
pub mod sampler;
pub mod server;
pub mod stuck;
pub mod sync_cost;
pub mod text;
pub mod threads;
pub mod top;
pub(crate) mod verdict;
pub(crate) mod verify;
