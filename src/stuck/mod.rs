//! `fsynctop stuck`: the syncs that are hanging right now, as a table or as JSON.

mod render;
mod unexamined;

pub use render::{json, table};
pub use unexamined::{Reader, may_miss_server};
