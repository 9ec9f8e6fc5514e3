//! Which engine a process is of, and what of a description is that engine's own.

use std::path::{Path, PathBuf};

use super::describe::{OpenLog, Roles};
use super::settings::{Bounds, Settings};
use super::{known_by, mysql, version};
use crate::linux::rooted::Root;
use crate::model::Server;

pub(super) enum Engine {
    /// MySQL or MariaDB; also what is none of the engines, of which their rules find what there is.
    MySql(Option<mysql::version::Version>),
}

impl Engine {
    /// By the executable.
    pub fn of_process(proc_root: &Path, pid: u32, over: &dyn Fn() -> bool) -> Engine {
        Engine::MySql(version::of_process(proc_root, pid, over))
    }

    pub fn settings(&self, proc_root: &Path, pid: u32, bounds: &Bounds<'_>) -> Settings {
        let Engine::MySql(version) = self;
        mysql::settings::of_server(proc_root, pid, version.as_ref(), bounds)
    }

    pub fn version(&self) -> Option<String> {
        let Engine::MySql(version) = self;
        version.as_ref().map(ToString::to_string)
    }

    /// Whether an open file is of the log that makes commits durable.
    pub fn is_log_in_use(&self, path: &Path, roles: &dyn Roles, settings: &Settings) -> bool {
        mysql::describe::is_redo_in_use(path, roles, settings)
    }

    /// Adds the socket, and what the server is known by. `listening`: sockets that it listens on.
    pub fn complete(
        &self,
        root: Option<&Root>,
        server: &mut Server,
        listening: Vec<PathBuf>,
        settings: &Settings,
    ) {
        let is_database = server.version.is_some();
        server.socket = mysql::describe::socket(listening, settings);
        known_by::read(root, server, mysql::describe::told_port(settings, is_database));
        mysql::describe::identify(root, server, settings);
    }

    pub fn notes(&self, log: &OpenLog, eatmydata: bool, settings: &Settings) -> Vec<String> {
        mysql::describe::notes(log, eatmydata, settings)
    }
}
