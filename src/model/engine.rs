//! What the views know of an engine: PostgreSQL, MySQL, Redis. Plain data; `src/engine/` reads it from
//! profiles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Role;

/// A kind of server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// In options, JSON and labels: "postgres".
    pub name: String,
    /// In sentences: "PostgreSQL".
    pub title: String,
    /// What the main threads of its processes are called; none for a library, which any process may have.
    pub commands: Vec<String>,
    /// Of an engine whose processes are Java's: the classes that they are started with.
    #[serde(default)]
    pub main_classes: Vec<String>,
    pub processes: Processes,
    pub datadir: Datadir,
    /// The logs that a commit waits for, in the order of a commit. The engine syncs each of them one call at
    /// a time.
    pub serial: Vec<Role>,
    /// All roles that its files may have, but for those that any process's may.
    pub roles: Vec<Role>,
    pub words: Words,
    /// How long its syncs may take; a server has its own in
    /// [`Server::thresholds`](super::Server::thresholds).
    #[serde(default)]
    pub thresholds: Vec<Threshold>,
}

/// How long the syncs of a file may take, as the engine's own makers say. The verdicts have limits of their
/// own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    pub role: Role,
    /// Of 1, as 0.99; 1 is the longest.
    pub quantile: f64,
    pub seconds: f64,
    /// How many syncs, one after the other, make what the limit is of; 1 or 2.
    #[serde(default = "one")]
    pub syncs: u8,
    /// What is made by them, where they are several: "commits".
    pub of: Option<String>,
    /// What the server was told instead, where it was: the name of a setting in milliseconds.
    pub setting: Option<String>,
    /// What is said of it, in a sentence.
    pub says: String,
    pub source: String,
}

fn one() -> u8 {
    1
}

impl Threshold {
    /// It is the longest sync that matters.
    pub(crate) fn is_of_the_longest(&self) -> bool {
        self.quantile >= 1.0
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::MAX)
    }

    /// As a server has it that was told this: `setting` is the value of a setting in milliseconds.
    pub(crate) fn told(&self, setting: impl Fn(&str) -> Option<u64>) -> Threshold {
        let told = self.setting.as_deref().and_then(setting).filter(|&milliseconds| milliseconds > 0);
        let seconds = told.map_or(self.seconds, |milliseconds| milliseconds as f64 / 1e3);
        Threshold { seconds, ..self.clone() }
    }
}

/// Which processes are one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Processes {
    /// Each by itself.
    #[default]
    Alone,
    /// One, with its children that run the same executable.
    Children,
    /// The same, and all of them have the data directory as their working directory: by that, one that has
    /// lost its parent is still known as theirs.
    ChildrenInDatadir,
}

impl Processes {
    pub(crate) fn are_several(self) -> bool {
        self != Processes::Alone
    }
}

/// Where the data directory is found that relative paths are relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Datadir {
    /// Among the server's settings.
    #[default]
    Settings,
    /// The server makes it its working directory.
    WorkingDirectory,
}

/// What is said of a serial log, in the engine's own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Who waits for it, at the head of a sentence: "Every commit".
    pub who: String,
    /// What becomes of them when it is saturated: "commits queue for it".
    pub queue: String,
    /// Why a server that works may sync nothing, behind "the server": "does not sync at commit
    /// (synchronous_commit=off)".
    pub unsynced: Option<String>,
}

impl Words {
    /// Of an engine of which it is not known.
    pub(crate) fn of_any(log: Option<Role>) -> Words {
        let who = match log {
            Some(Role::Redo | Role::Binlog) => "commit",
            _ => "durable write",
        };
        Words { who: format!("Every {who}"), queue: format!("{who}s queue for it"), unsynced: None }
    }

    pub(crate) fn waits(&self) -> String {
        format!("{} waits for this log.", self.who)
    }

    pub(crate) fn waited(&self) -> String {
        format!("{} waited for this log.", self.who)
    }
}

impl Engine {
    /// It is no library.
    pub(crate) fn has_processes(&self) -> bool {
        !self.commands.is_empty() || !self.main_classes.is_empty()
    }

    /// A server is a process with its children.
    pub(crate) fn is_several(&self) -> bool {
        self.processes.are_several()
    }

    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}
