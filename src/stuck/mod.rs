//! `fsynctop stuck`: the syncs that hang right now, as a table or as JSON.

mod render;

pub use render::{RoleOf, json, table};
