//! What a description has to know of the roles of files, which stand in a room above.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::settings::Settings;
use crate::engine::engines::Engines;
use crate::model::Engine;

/// By the rules of the engines and the user's own.
pub trait Roles: Send + Sync {
    /// By which several processes are known as one server.
    fn engines(&self) -> Arc<Engines> {
        Engines::builtin()
    }
    /// The engine of a process by its command, and by its version where that is known.
    fn engine(&self, _command: &str, _version: Option<&str>) -> Option<Arc<Engine>> {
        None
    }
    /// The names of the settings that decide roles.
    fn settings(&self) -> &BTreeSet<String>;
    /// Whether an open file is of the redo log, as far as its name and the settings tell.
    fn is_redo(&self, path: &Path, engine: Option<&Engine>, settings: &Settings) -> bool;
}
