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
    pub const NONE: ServerId = ServerId { pid: 0, start_ns: 0 };
    /// The sum of all servers that ended so long ago that they have been forgotten.
    pub const ENDED: ServerId = ServerId { pid: 0, start_ns: 1 };
}

/// A traced process, as far as it can be described without connecting to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub id: ServerId,
    pub comm: String,
    /// "MySQL 9.7.4", "MariaDB 10.11.14". None if it is not a known server.
    pub version: Option<String>,
    /// As the server itself sees it, inside its own root.
    pub datadir: Option<PathBuf>,
    pub socket: Option<PathBuf>,
    /// TCP ports that it listens on, ascending.
    pub ports: Vec<u16>,
    pub container: Option<String>,
    /// The data directory's.
    pub device: Option<String>,
    pub filesystem: Option<String>,
    /// What the reader must know to interpret the figures: "innodb_flush_method=O_DSYNC: …". Plain
    /// sentences.
    pub notes: Vec<String>,
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
    /// Device (`st_dev`) and inode of the data directory.
    pub datadir: Option<(u64, u64)>,
    /// The host name inside its container or pod; for a pod, the pod's name.
    pub hostname: Option<String>,
    /// MySQL's server_uuid.
    pub uuid: Option<String>,
    /// The server_id, if one is configured.
    pub server_id: Option<u64>,
}

impl Server {
    /// A process of which only the name is known so far.
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
    /// Syncs for which there was no row (the map was full): counted, but of unknown files.
    Unattributed,
    /// The sum of a role's files that were deleted or idle for long, merged to bound the memory.
    Gone(Role),
    /// Not a file: the latencies that a role's cold files share. Their counts are in their own rows, so
    /// this one counts nothing.
    Shared(Role),
}
