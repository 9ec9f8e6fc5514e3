//! fsynctop: traces the durability system calls of a database server. `docs/architecture.md` is the map.

pub mod histogram;
pub mod host;
pub mod snapshot;
pub mod stuck;
