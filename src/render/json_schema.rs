//! The JSON of one measurement, schema 1, as docs/json.md describes it. Fields are added, never renamed; a
//! field that changes its meaning makes a new schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::json_figures::Figures;
use crate::model::{AttachMode, Lost, Op, Role};
use crate::verdict::OfServer;

#[derive(Serialize)]
pub(crate) struct Measurement {
    pub schema: u32,
    /// RFC 3339, UTC.
    pub start: String,
    pub end: String,
    pub duration_seconds: f64,
    pub attach: AttachMode,
    pub kernel: String,
    /// As it calls itself.
    pub host: String,
    pub lost: Lost,
    /// Ways to make data durable of which no figure says anything: model/durability.rs.
    pub not_watched: Vec<&'static str>,
    /// Filesystems on which `lost.unwatched` counts most of them.
    pub unwatched_counted_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub servers: Vec<Server>,
    pub roles: Vec<RoleRow>,
    pub files: Vec<FileRow<Figures>>,
    #[serde(flatten)]
    pub failed: Failed,
    /// All writes by file, durable ones too. Only where all are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Vec<FileRow<Figures>>>,
    /// What the devices read and wrote meanwhile that the files are on.
    pub devices: Vec<Device>,
    /// What is written and not synced, by role. Only where all writes are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsynced: Option<Vec<UnsyncedRole>>,
    /// The same by file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsynced_files: Option<Vec<UnsyncedFile>>,
    /// Bytes of files for which there was no room in `unsynced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsynced_unknown_bytes: Option<u64>,
    /// Only where rows by thread were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadRow>>,
    /// Only where a limit was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    pub in_flight: Vec<InFlight>,
    pub neighbours: Vec<Neighbour>,
    /// Only where `--fail-on` asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<Vec<OfServer>>,
}

#[derive(Serialize)]
pub(crate) struct Server {
    pub pid: u32,
    /// With the pid, what identifies the server: a reused pid has another start.
    pub start_since_boot_seconds: f64,
    /// As the label `server` of the metrics.
    pub name: Arc<str>,
    pub comm: String,
    /// By the name of its profile: "mysql", "postgres".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// "MySQL", "MariaDB", "PostgreSQL"; null where the executable tells no product.
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(flatten)]
    pub datadir: Option<Datadir>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    pub ports: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    /// What its data directory and its logs lie on, and whether a sync makes anything durable there. Absent
    /// until somebody has looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<Stack>,
    /// Each may answer system calls that the kernel then does not run.
    pub seccomp_filters: u32,
    pub notes: Vec<String>,
    pub alive: bool,
    /// Its part of `lost.unwatched`.
    pub unwatched: u64,
    /// What its processes moved to and from storage (/proc/PID/io). Null where that is not known.
    pub io: Option<Io>,
}

#[derive(Serialize)]
pub(crate) struct Io {
    /// From storage.
    pub read_bytes: u64,
    /// To the page cache, or past it to storage.
    pub written_bytes: u64,
    /// Of these, truncated before they were written.
    pub cancelled_bytes: u64,
}

#[derive(Serialize)]
pub(crate) struct Stack {
    pub mount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_bytes: Option<String>,
    /// Filesystems and devices, from the top.
    pub layers: Vec<String>,
    /// "yes", "no" or "unknown".
    pub durable: &'static str,
    /// Why it is not durable, or not known to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Datadir {
    pub datadir: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datadir_bytes: Option<String>,
}

/// What was done, and how it was asked for: "call", "io_uring", "aio".
#[derive(Serialize)]
pub(crate) struct Operation {
    pub op: &'static str,
    pub via: &'static str,
}

impl From<Op> for Operation {
    fn from(op: Op) -> Operation {
        Operation { op: op.what(), via: op.via().name() }
    }
}

/// What failed beside the syncs.
#[derive(Serialize)]
pub(crate) struct Failed {
    /// Writes, by file.
    pub failures: Vec<FileRow<Failures>>,
    /// What the kernel could not write back, by file and errno.
    pub writeback_errors: Vec<WritebackError>,
}

/// What every row of failures has.
#[derive(Serialize)]
pub(crate) struct Failures {
    pub count: u64,
    /// By the name of the errno.
    pub errors: BTreeMap<String, u64>,
}

/// Changes of a file's writeback error to one errno.
#[derive(Serialize)]
pub(crate) struct WritebackError {
    /// Null: the file is no traced server's, or the row is about a device.
    pub pid: Option<u32>,
    pub role: Option<Role>,
    /// "file"; "filesystem": metadata, or what was written to the device itself; "gone".
    pub target: &'static str,
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub device: Option<Arc<str>>,
    pub device_number: Option<String>,
    pub mount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_bytes: Option<String>,
    pub filesystem: Option<Arc<str>>,
    pub inode: Option<u64>,
    pub generation: Option<u32>,
    /// The errno's name.
    pub error: String,
    pub count: u64,
}

#[derive(Serialize)]
pub(crate) struct RoleRow {
    pub pid: u32,
    pub role: Role,
    #[serde(flatten)]
    pub op: Operation,
    #[serde(flatten)]
    pub figures: Figures,
}

#[derive(Serialize)]
pub(crate) struct FileRow<Figures> {
    pub pid: u32,
    pub role: Role,
    #[serde(flatten)]
    pub op: Operation,
    /// "file", "filesystem", "none", "bad_descriptor", "unattributed", "gone".
    pub target: &'static str,
    pub path: Option<String>,
    /// The path's bytes in hexadecimal, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub device: Option<Arc<str>>,
    /// The kernel's number of the superblock's device, "253:0"; on btrfs the subvolume's own.
    pub device_number: Option<String>,
    pub mount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_bytes: Option<String>,
    pub filesystem: Option<Arc<str>>,
    pub inode: Option<u64>,
    pub generation: Option<u32>,
    /// The filesystem keeps no generation: a reused inode number could be taken for the old file.
    pub identity_weak: Option<bool>,
    pub open: bool,
    #[serde(flatten)]
    pub figures: Figures,
}

#[derive(Serialize)]
pub(crate) struct ThreadRow {
    pub pid: u32,
    pub tid: u32,
    pub thread: String,
    #[serde(flatten)]
    pub op: Operation,
    #[serde(flatten)]
    pub figures: Figures,
}

#[derive(Serialize)]
pub(crate) struct Device {
    pub device: Arc<str>,
    pub device_number: String,
    pub mount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_bytes: Option<String>,
    /// To the device, by whomever.
    pub written_bytes: u64,
    /// From the device, by whomever.
    pub read_bytes: u64,
    /// By traced servers, to files on it. Null where not all writes are watched.
    pub submitted_bytes: Option<u64>,
}

/// What no successful sync has covered: at the interval's end, and at most.
#[derive(Serialize)]
pub(crate) struct Backlog {
    pub bytes: u64,
    /// Since the oldest of them was written. Null where there are none.
    pub oldest_seconds: Option<f64>,
    pub max_bytes: u64,
    pub max_oldest_seconds: Option<f64>,
    /// A sync failed, and what it should have covered may be lost.
    pub sync_failed: bool,
    pub possibly_lost_bytes: u64,
}

#[derive(Serialize)]
pub(crate) struct UnsyncedRole {
    pub pid: u32,
    pub role: Role,
    /// Whether a sync of its files makes anything durable: "yes", "no", "unknown". If it is not "yes", what
    /// is synced is no more durable than what is not.
    pub durable: &'static str,
    #[serde(flatten)]
    pub backlog: Backlog,
}

#[derive(Serialize)]
pub(crate) struct UnsyncedFile {
    pub pid: u32,
    pub role: Role,
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// Null, as the path and the next two, in the history: of all files of a role that are not kept apart.
    pub device_number: Option<String>,
    pub inode: Option<u64>,
    pub generation: Option<u32>,
    pub open: bool,
    #[serde(flatten)]
    pub backlog: Backlog,
}

/// What `files`, `writes` and `threads` do not show.
#[derive(Serialize)]
pub(crate) struct LeftOut {
    pub files: Rest,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Rest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Rest>,
}

#[derive(Serialize)]
pub(crate) struct Rest {
    pub rows: u64,
    pub count: u64,
}

#[derive(Serialize)]
pub(crate) struct InFlight {
    pub pid: u32,
    pub tid: u32,
    pub thread: String,
    #[serde(flatten)]
    pub op: Operation,
    pub role: Role,
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub age_seconds: f64,
    pub age_is_minimum: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Neighbour {
    pub device: String,
    pub device_number: String,
    pub comm: String,
    /// Made durable by calls that are not watched: counted, and in no other figure.
    pub untimed: u64,
    #[serde(flatten)]
    pub figures: Figures,
}
