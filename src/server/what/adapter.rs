//! What an engine that is more than a profile tells of its servers without a connection to them.

use std::path::{Path, PathBuf};

use super::known_by::ToldPort;
use super::launch::Launch;
use super::product::{Version, VersionFinder};
use super::settings::{Bounds, Settings};
use crate::linux::rooted::Root;
use crate::model::{Datadir, Engine, FilePart, Server};

/// A process that is described, as far as it is known before its settings are.
pub struct Process<'a> {
    pub proc_root: &'a Path,
    pub pid: u32,
    pub root: Option<&'a Root>,
    /// By its executable.
    pub version: Option<&'a Version>,
    /// By the profile of its engine.
    pub datadir: Datadir,
}

/// The bodies here are for an engine of which no more is known than its profile says.
pub trait Adapter: Sync {
    /// The names of its profiles.
    fn profiles(&self) -> &'static [&'static str];

    fn is(&self, other: &dyn Adapter) -> bool {
        self.profiles() == other.profiles()
    }

    /// What its executables say that they are; none where they do not say it.
    fn products(&self) -> &'static [&'static str] {
        &[]
    }

    fn version_finder(&self) -> Option<Box<dyn VersionFinder>> {
        None
    }

    /// Whether the client of this engine reads the counters of servers with such a profile.
    fn counts_for(&self, engine: &Engine) -> bool {
        self.profiles().contains(&&*engine.name)
    }

    fn settings(&self, process: &Process<'_>, _: &Bounds<'_>) -> Settings {
        match process.datadir {
            Datadir::WorkingDirectory => {
                let launch = Launch::read(process.proc_root, process.pid, &[]);
                Settings::relative_to(launch.and_then(|launch| launch.working_directory))
            }
            Datadir::Settings => Settings::default(),
        }
    }

    /// For a server whose executable does not tell its version.
    fn version_of_datadir(&self, _root: &Root, _datadir: &Path) -> Option<Version> {
        None
    }

    /// Whether a part of one of this server's files may have a role of its own.
    fn may_have_part_of_file(&self, _: &Server) -> bool {
        false
    }

    /// Where that part lies, which is read from the file. None: there is none, or that could not be read.
    fn part_of_file(&self, _proc_root: &Path, _: &Server, _: &Settings) -> Option<FilePart> {
        None
    }

    /// Whether children of the server have its log open.
    fn works_in_children(&self) -> bool {
        false
    }

    /// Whether an open file is of the log that makes commits durable, and in use. `is_redo`: whether the
    /// rules make it a redo log.
    fn is_log_in_use(&self, _: &Path, _is_redo: &dyn Fn() -> bool) -> bool {
        false
    }

    /// Sets the socket, and what only this engine is known by or has; returns the port that the server was
    /// told. `listening`: sockets that it listens on.
    fn complete(
        &self,
        _: &Process<'_>,
        server: &mut Server,
        listening: Vec<PathBuf>,
        settings: &Settings,
    ) -> ToldPort {
        let bound = listening.into_iter().next();
        server.socket = bound.map(|path| settings.resolved(&path).unwrap_or(path));
        ToldPort::default()
    }

    /// The note of a server whose log is durable by its writes.
    fn log_by_writes(&self) -> Option<&'static str> {
        None
    }

    /// What its settings make dangerous.
    fn notes(&self, _: &Settings) -> Vec<String> {
        Vec::new()
    }
}
