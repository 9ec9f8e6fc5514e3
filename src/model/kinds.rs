//! What the rows speak of: operations, roles, servers, files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A system call that makes data durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Fsync,
    Fdatasync,
    SyncFileRange,
    Msync,
    Syncfs,
    Sync,
}

impl Op {
    pub const ALL: [Op; 6] = [Op::Fsync, Op::Fdatasync, Op::SyncFileRange, Op::Msync, Op::Syncfs, Op::Sync];

    pub const fn name(self) -> &'static str {
        match self {
            Op::Fsync => "fsync",
            Op::Fdatasync => "fdatasync",
            Op::SyncFileRange => "sync_file_range",
            Op::Msync => "msync",
            Op::Syncfs => "syncfs",
            Op::Sync => "sync",
        }
    }
}

/// What a file is to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Redo,
    Binlog,
    BinlogIndex,
    RelayLog,
    Doublewrite,
    Undo,
    SystemTablespace,
    Tablespace,
    Dictionary,
    Temporary,
    ReplicationMetadata,
    Clone,
    RedoArchive,
    Audit,
    /// Logs and data files of engines other than InnoDB (Aria, MyISAM, MyRocks, TokuDB, Galera's cache).
    EngineLog,
    EngineData,
    Directory,
    Other,
}

impl Role {
    pub const ALL: [Role; 18] = [
        Role::Redo,
        Role::Binlog,
        Role::BinlogIndex,
        Role::RelayLog,
        Role::Doublewrite,
        Role::Undo,
        Role::SystemTablespace,
        Role::Tablespace,
        Role::Dictionary,
        Role::Temporary,
        Role::ReplicationMetadata,
        Role::Clone,
        Role::RedoArchive,
        Role::Audit,
        Role::EngineLog,
        Role::EngineData,
        Role::Directory,
        Role::Other,
    ];

    /// The name in tables, JSON, labels and rules.
    pub fn name(self) -> &'static str {
        match self {
            Role::Redo => "redo",
            Role::Binlog => "binlog",
            Role::BinlogIndex => "binlog_index",
            Role::RelayLog => "relay_log",
            Role::Doublewrite => "doublewrite",
            Role::Undo => "undo",
            Role::SystemTablespace => "system_tablespace",
            Role::Tablespace => "tablespace",
            Role::Dictionary => "dictionary",
            Role::Temporary => "temporary",
            Role::ReplicationMetadata => "replication_metadata",
            Role::Clone => "clone",
            Role::RedoArchive => "redo_archive",
            Role::Audit => "audit",
            Role::EngineLog => "engine_log",
            Role::EngineData => "engine_data",
            Role::Directory => "directory",
            Role::Other => "other",
        }
    }

    /// A log whose syncs the server serialises: at most one in flight, so sum of latencies / time is how busy it is.
    pub fn is_serial(self) -> bool {
        matches!(self, Role::Redo | Role::Binlog)
    }
}

/// A thread group with its start time: a reused pid is another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerId {
    /// As the host's initial PID namespace numbers it.
    pub pid: u32,
    /// Since boot, as the kernel's `start_boottime`, cut to a clock tick (10 ms), as /proc/PID/stat has it.
    pub start_ns: u64,
}

impl ServerId {
    /// No server: of syncs of which it is not known whose they were, or that are not told apart.
    pub const NONE: ServerId = ServerId { pid: 0, start_ns: 0 };
    /// All those that ended so long ago that they are remembered no longer, together.
    pub const ENDED: ServerId = ServerId { pid: 0, start_ns: 1 };
}

/// A process that is traced, as far as it can be described without a connection to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub id: ServerId,
    pub comm: String,
    /// "MySQL 9.7.4", "MariaDB 10.11.14"; None for what is no known server.
    pub version: Option<String>,
    /// As the server itself sees it, inside its own root.
    pub datadir: Option<PathBuf>,
    pub socket: Option<PathBuf>,
    /// TCP ports it listens on, ascending.
    pub ports: Vec<u16>,
    pub container: Option<String>,
    /// Of the data directory.
    pub device: Option<String>,
    pub filesystem: Option<String>,
    /// Something the reader must know to read the figures right: "innodb_flush_method=O_DSYNC: …". Plain sentences.
    pub notes: Vec<String>,
    pub alive: bool,
    pub known_by: KnownBy,
}

/// By what a server is known again when another process runs it, and what it calls itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownBy {
    /// False: the process has not been described yet, so that all that is missing may still come.
    pub described: bool,
    /// Something can connect to it. Until then, ports and sockets are those that it was told.
    pub listens: bool,
    /// The TCP port for clients: of those that it listens on, or the one that it will.
    pub port: Option<u16>,
    /// Device (as `stat` has it) and inode of the data directory.
    pub datadir: Option<(u64, u64)>,
    /// What its container or pod calls its host: of a pod, its name.
    pub hostname: Option<String>,
    /// server_uuid of MySQL.
    pub uuid: Option<String>,
    /// server_id, where it was told one.
    pub server_id: Option<u64>,
}

impl Server {
    /// A process of which nothing is known yet but its name.
    pub fn new(id: ServerId, comm: String) -> Server {
        Server {
            id,
            comm,
            version: None,
            datadir: None,
            socket: None,
            ports: Vec::new(),
            container: None,
            device: None,
            filesystem: None,
            notes: Vec::new(),
            alive: true,
            known_by: KnownBy::default(),
        }
    }
}

/// Which file, to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// The superblock's device number, (major << 20) | minor: on overlayfs not what `stat` returns; on btrfs the
    /// subvolume's own, which is what `stat` returns.
    pub device: u32,
    pub inode: u64,
    pub generation: u32,
    /// The filesystem keeps no generation: a reused inode number could be taken for the old file.
    pub weak: bool,
}

/// What was synced.
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
    /// Syncs that found no row (the map was full): counted, but their files are not known.
    Unattributed,
    /// The sum of a role's files that are gone or long idle, folded together to keep the memory bounded.
    Gone(Role),
    /// No file: the latencies that a role's cold files share. Their counts stand in rows of their own, so this one
    /// counts nothing.
    Shared(Role),
}
