//! fsynctop: traces the durability system calls of a database server. `docs/architecture.md` is the map.

pub mod files;
pub mod histogram;
pub mod snapshot;
pub mod target;
