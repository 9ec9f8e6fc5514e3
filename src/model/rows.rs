//! The rows of snapshots and measurements: a file, a thread, a role, a neighbour, a sync in flight.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::table::Row;
use super::{Max, Op, Role, Server, ServerId, Stats, Target};

/// What is known of a file besides its identity; shared between snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileInfo {
    /// Raw bytes, inside the server's own root; escape them before they reach a terminal. None: never
    /// discovered.
    #[serde(with = "super::paths::optional_text")]
    pub path: Option<PathBuf>,
    #[serde(deserialize_with = "super::role::or_other")]
    pub role: Role,
    /// "/dev/vda1", or "8:1" if no device node is known. On an overlay, that of the layer that the file lies
    /// on.
    pub device: Option<Arc<str>>,
    /// That device's number, on an overlay: the identity has the overlay's own, which is no device's.
    pub below: Option<u32>,
    #[serde(with = "super::paths::optional_text")]
    pub mount: Option<Arc<Path>>,
    pub filesystem: Option<Arc<str>>,
    /// False once the file is unlinked or its server gone.
    pub open: bool,
    /// When last checked, it had no name left, or its name belonged to another file.
    pub unlinked: bool,
}

impl Default for FileInfo {
    fn default() -> FileInfo {
        FileInfo::nameless(Role::Other)
    }
}

impl FileInfo {
    /// Of a file of which nothing is known but its role.
    pub(crate) fn nameless(role: Role) -> FileInfo {
        FileInfo {
            path: None,
            role,
            device: None,
            below: None,
            mount: None,
            filesystem: None,
            open: true,
            unlinked: false,
        }
    }
}

/// One file (or a substitute for it) and one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    pub server: ServerId,
    pub target: Target,
    pub op: Op,
    pub info: Arc<FileInfo>,
    pub stats: Stats,
}

impl FileRow {
    /// A writeback error that is of no traced server's file: of another one, or of the device itself.
    pub(crate) fn is_nobodys(&self) -> bool {
        let is_summed_up = matches!(self.target, Target::Gone(_));
        self.op == Op::Writeback && self.server == ServerId::NONE && !is_summed_up
    }

    /// The number of the device that the content goes to.
    pub(crate) fn device_number(&self) -> Option<u32> {
        self.info.below.or(match self.target {
            Target::File(id) => Some(id.device),
            Target::Filesystem(number) => Some(number),
            _ => None,
        })
    }
}

/// One thread and one operation. Kept only on request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    pub server: ServerId,
    /// 0: all threads that ended long ago.
    pub tid: u32,
    /// Distinguishes threads that had this ID one after the other.
    pub start: u32,
    pub name: String,
    pub op: Op,
    pub stats: Stats,
}

/// All files of one role of one server, by operation that makes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRow {
    pub server: ServerId,
    pub role: Role,
    pub op: Op,
    pub stats: Stats,
}

/// A sync that has started but not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    pub server: ServerId,
    pub tid: u32,
    pub thread: String,
    pub op: Op,
    pub role: Role,
    pub path: Option<PathBuf>,
    pub age: Duration,
    /// It started before tracing did: its age is a lower bound.
    pub age_is_minimum: bool,
    /// How many syncs of its server and role this stands for, being the oldest. 1: each is listed.
    pub count: u64,
    /// "the journal commit": what its thread waits for, where that was looked at and is known.
    pub waits_for: Option<String>,
}

/// The syncs of one file in one interval: those that failed, and the slowest.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The end of the interval.
    pub at: SystemTime,
    pub server: ServerId,
    pub target: Target,
    pub op: Op,
    pub info: Arc<FileInfo>,
    /// Of the slowest of them. Of a failed one it is known only that it took no longer.
    pub max: Max,
    /// errno and how many; none: the entry is there because it was slow.
    pub errors: Vec<(i32, u64)>,
}

/// A device that files lie on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRow {
    pub number: u32,
    /// As [`FileInfo::device`].
    pub name: Arc<str>,
    /// Of the first of these files, as its server sees it.
    pub mount: Option<Arc<Path>>,
    /// To the device, whoever it was.
    pub written_bytes: u64,
    /// From the device, whoever it was.
    pub read_bytes: u64,
    /// By traced servers, to files on it, where all writes are watched. Much of it is still in memory, and
    /// may never be written.
    pub submitted_bytes: u64,
}

/// Bytes that a block device has read and written since it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskBytes {
    pub read: u64,
    pub written: u64,
}

/// What the processes of a server moved to and from storage, as the kernel accounts for it in /proc/PID/io
/// (Documentation/filesystems/proc.rst in its tree): all they write, the doublewrite buffer's copy included,
/// without any of it being watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIo {
    pub server: ServerId,
    /// Bytes that had to be read from storage.
    pub read_bytes: u64,
    /// Bytes of pages that were made dirty, or written past the page cache.
    pub written_bytes: u64,
    /// Of these, what was truncated before it was written.
    pub cancelled_bytes: u64,
}

/// The name for commands that are not kept apart.
pub(crate) const OTHER_NEIGHBOURS: &str = "other";

/// Syncs of untraced processes, by device and command name of the thread group leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourRow {
    /// 0: all devices (sync), or not known which.
    pub device_number: u32,
    /// As [`FileInfo::device`].
    pub device: String,
    /// Where the device is mounted, as this process sees it; None: nowhere, or in another time than now.
    pub mount: Option<Arc<Path>>,
    /// "other" if more commands synced than are kept apart.
    pub comm: String,
    pub stats: Stats,
}

impl NeighbourRow {
    /// Whether its syncs may be of each device.
    pub(crate) fn is_of_any_device(&self) -> bool {
        self.device_number == 0
    }

    /// Whether its syncs were counted, and it is not known of whom or where they were.
    pub(crate) fn is_unattributed(&self) -> bool {
        self.device_number == 0 && self.comm == OTHER_NEIGHBOURS
    }
}

impl Row for FileRow {
    type Key = (ServerId, Target, Op);

    fn key(&self) -> Self::Key {
        (self.server, self.target, self.op)
    }

    fn add(&mut self, other: Self) {
        self.stats.merge(&other.stats);
    }

    /// A file is known better as time goes on.
    fn append(&mut self, later: Self) {
        self.info = later.info;
        self.stats.merge(&later.stats);
    }
}

impl Row for RoleRow {
    type Key = (ServerId, Role, Op);

    fn key(&self) -> Self::Key {
        (self.server, self.role, self.op)
    }

    fn add(&mut self, other: Self) {
        self.stats.merge(&other.stats);
    }
}

impl Row for ThreadRow {
    type Key = (ServerId, u32, u32, Op);

    fn key(&self) -> Self::Key {
        (self.server, self.tid, self.start, self.op)
    }

    fn add(&mut self, other: Self) {
        self.stats.merge(&other.stats);
    }

    fn append(&mut self, later: Self) {
        self.name = later.name;
        self.stats.merge(&later.stats);
    }
}

impl Row for NeighbourRow {
    type Key = (u32, String);

    fn key(&self) -> Self::Key {
        (self.device_number, self.comm.clone())
    }

    fn add(&mut self, other: Self) {
        self.stats.merge(&other.stats);
    }
}

impl Row for DeviceRow {
    type Key = u32;

    fn key(&self) -> u32 {
        self.number
    }

    fn add(&mut self, other: Self) {
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.submitted_bytes = self.submitted_bytes.saturating_add(other.submitted_bytes);
    }
}

impl Row for ServerIo {
    type Key = ServerId;

    fn key(&self) -> ServerId {
        self.server
    }

    fn add(&mut self, other: Self) {
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.cancelled_bytes = self.cancelled_bytes.saturating_add(other.cancelled_bytes);
    }
}

impl Row for Arc<Server> {
    type Key = ServerId;

    fn key(&self) -> ServerId {
        self.id
    }

    /// A server is known better as time goes on.
    fn add(&mut self, other: Self) {
        *self = other;
    }
}

/// A number of a server.
impl Row for (ServerId, u64) {
    type Key = ServerId;

    fn key(&self) -> ServerId {
        self.0
    }

    fn add(&mut self, other: Self) {
        self.1 = self.1.saturating_add(other.1);
    }
}
