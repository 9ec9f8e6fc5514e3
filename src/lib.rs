//! fsynctop: traces the durability system calls of a database server. `docs/architecture.md` is the map.

pub mod files;
pub mod histogram;
pub mod probe;
pub mod sampler;
pub mod once;
pub mod snapshot;
pub mod text;
pub mod target;
pub mod host;
pub mod snapshot;
pub mod stuck;
