//! What the rows are about: servers and files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Engine, Owner, Proof, Role, StorageStack, Threshold, Words};

/// A process, identified by PID and start time: after PID reuse it is another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerId {
    /// PID in the initial PID namespace.
    pub pid: u32,
    /// Start time since boot, from the kernel's `start_boottime`, truncated to a clock tick (10 ms) as in
    /// /proc/PID/stat.
    pub start_ns: u64,
}

impl ServerId {
    /// No server: syncs whose owner is unknown, or that are not kept apart.
    pub(crate) const NONE: ServerId = ServerId { pid: 0, start_ns: 0 };
    /// The sum of all servers that ended so long ago that they have been forgotten.
    pub const ENDED: ServerId = ServerId { pid: 0, start_ns: 1 };
}

/// A traced process, as far as it can be described without connecting to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    pub id: ServerId,
    /// What it is called, in the metrics and elsewhere: unlike any other server that was there at the time.
    pub name: Arc<str>,
    pub comm: String,
    /// Known from its command on; None of a process that is no server, or of an engine that has no command.
    pub engine: Option<Arc<Engine>>,
    /// "MySQL 9.7.4", "MariaDB 10.11.14". None if it is not a known server.
    pub version: Option<String>,
    /// As the server itself sees it, inside its own root.
    #[serde(with = "super::paths::optional_text")]
    pub datadir: Option<PathBuf>,
    #[serde(with = "super::paths::optional_text")]
    pub socket: Option<PathBuf>,
    /// TCP ports that it listens on, ascending.
    pub ports: Vec<u16>,
    pub container: Option<String>,
    /// The data directory's.
    pub device: Option<String>,
    /// Where that device is mounted: as the server sees it; of an overlay, as the host sees the layer below.
    #[serde(with = "super::paths::optional_text")]
    pub mount: Option<PathBuf>,
    pub filesystem: Option<String>,
    /// What its data directory, its logs and other files that it writes lie on; none before it is described.
    pub storage: Vec<StorageStack>,
    /// Seccomp filters that its system calls pass: each may answer a call that the kernel then does not run.
    pub seccomp_filters: u32,
    /// What the reader must know to interpret the figures: "innodb_flush_method=O_DSYNC: …". Plain
    /// sentences.
    pub notes: Vec<String>,
    /// How long its syncs may take, by its engine and its settings; none before it is described.
    pub thresholds: Vec<Threshold>,
    /// Since when, by the monotonic clock, writes to InnoDB's doublewrite buffer inside of the system
    /// tablespace are told apart by their offsets. None: they are not, or there is none.
    pub doublewrite_apart_since: Option<Duration>,
    pub alive: bool,
    pub known_by: KnownBy,
}

/// How to recognise a server after a restart, and the names that it gives itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownBy {
    /// False: the process has not been described yet, so missing values may still arrive.
    pub described: bool,
    /// The server accepts connections. Until then, ports and sockets are the configured ones.
    pub listens: bool,
    /// The TCP port for clients: one that it listens on, or is configured to.
    pub port: Option<u16>,
    /// The number of the user whose process it is, from the kernel.
    pub owner: Option<u32>,
    /// Who answers for it, from the kernel.
    #[serde(default)]
    pub whose: Owner,
    /// Which of the claims here are confirmed by the kernel.
    #[serde(default)]
    pub proof: Proof,
    /// The unit of systemd, or whichever root's control group it runs in is called like one.
    #[serde(default)]
    pub unit: Option<String>,
    /// Device (`st_dev`) and inode of the data directory.
    pub datadir: Option<(u64, u64)>,
    /// The host name inside its container or pod; for a pod, the pod's name.
    pub hostname: Option<String>,
    /// MySQL's server_uuid.
    pub uuid: Option<String>,
    /// The server_id, if one is configured.
    pub server_id: Option<u64>,
}

/// What a field is that is not told.
impl Default for Server {
    fn default() -> Server {
        Server::new(ServerId::NONE, String::new())
    }
}

impl Server {
    /// A process of which only the name is known so far.
    pub fn new(id: ServerId, comm: String) -> Server {
        Server {
            id,
            name: comm.as_str().into(),
            comm,
            engine: None,
            version: None,
            datadir: None,
            socket: None,
            ports: Vec::new(),
            container: None,
            device: None,
            mount: None,
            filesystem: None,
            storage: Vec::new(),
            seccomp_filters: 0,
            notes: Vec::new(),
            thresholds: Vec::new(),
            doublewrite_apart_since: None,
            alive: true,
            known_by: KnownBy::default(),
        }
    }

    /// It is what its name says. The executables of MySQL and MariaDB always tell their version: a process
    /// that only has their name is none.
    pub(crate) fn is_database(&self) -> bool {
        let is_other = |engine: &Engine| !engine.has(Role::Redo) && self.known_by.described;
        self.version.is_some() || self.engine.as_deref().is_some_and(is_other)
    }

    /// What it is, where its command does not say so: its version or, as every Java program is called alike,
    /// its engine.
    pub(crate) fn product(&self) -> Option<&str> {
        let of_java = self.engine.as_deref().filter(|engine| !engine.main_classes.is_empty());
        self.version.as_deref().or(of_java.map(|engine| engine.title.as_str()))
    }

    /// The logs that its commits wait for, in their order; none where its engine is not known.
    pub(crate) fn logs(&self) -> &[Role] {
        self.engine.as_deref().map_or(&[], |engine| &engine.serial)
    }
}

/// What is said of a server's serial log.
pub(crate) fn words(server: Option<&Server>, log: Role) -> Words {
    let engine = server.and_then(|server| server.engine.as_deref());
    let engine = engine.filter(|engine| engine.serial.contains(&log));
    engine.map_or_else(|| Words::of_any(Some(log)), |engine| engine.words.clone())
}

/// A file's identity in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// The superblock's device number, (major << 20) | minor. On overlayfs it differs from `st_dev`; on
    /// btrfs it is the subvolume's, like `st_dev`.
    pub device: u32,
    pub inode: u64,
    pub generation: u32,
    /// The filesystem has no inode generations: a reused inode number may be taken for the old file.
    pub weak: bool,
    /// Not the file, but the part of it that has a role of its own ([`FilePart`]).
    #[serde(default)]
    pub part: bool,
}

/// Where a part of a file lies that has a role of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The superblock's, on btrfs as well.
    pub device: u32,
    /// The kernel's own number.
    pub inode: u64,
    /// The offsets at which each place begins, and before which it ends.
    pub places: [(u64, u64); 2],
}

/// The target of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    File(FileId),
    /// syncfs: a whole filesystem, by its device.
    Filesystem(u32),
    /// sync and msync, which name no file.
    NoFile,
    /// A call on a descriptor that was not open.
    BadDescriptor,
    /// Syncs for which there was no row: counted, but of unknown files.
    Unattributed,
    /// The sum of a role's files that were deleted or idle for long, merged to bound the memory.
    Gone(Role),
    /// Not a file: the latencies that a role's cold files share. Their counts are in their own rows, so
    /// this one counts nothing.
    Shared(Role),
}
