//! `fsynctop stuck`: the syncs that are hanging right now, as a table or as JSON.

mod render;

pub use render::{json, table};
