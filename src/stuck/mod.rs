//! `fsynctop stuck`: the syncs that are hanging right now, as a table or as JSON.

mod recorded;
mod render;
mod unexamined;

pub use recorded::recorded;
pub use render::{json, table};
pub use unexamined::{Reader, may_miss_server};
