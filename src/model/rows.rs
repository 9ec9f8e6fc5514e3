//! The rows of snapshots and measurements: a file, a thread, a role, a neighbour, a sync in flight.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Op, Role, ServerId, Stats, Target};

/// What is known of a file beside its identity; shared between snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// As raw bytes, inside the server's own root; escape it before it reaches a terminal. None: never learnt.
    pub path: Option<PathBuf>,
    pub role: Role,
    /// "/dev/vda1", or "8:1" where no device node is known.
    pub device: Option<Arc<str>>,
    pub mount: Option<Arc<Path>>,
    pub filesystem: Option<Arc<str>>,
    /// False once the file is unlinked or its server gone.
    pub open: bool,
    /// It had no name left, or another file had taken it, when it was last looked at.
    pub unlinked: bool,
}

/// One file (or what stands for it) and one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    pub server: ServerId,
    pub target: Target,
    pub op: Op,
    pub info: Arc<FileInfo>,
    pub stats: Stats,
}

/// One thread and one operation. Kept only when asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    pub server: ServerId,
    /// 0: all threads that ended long ago.
    pub tid: u32,
    /// Tells threads apart that had this id one after the other.
    pub start: u32,
    pub name: String,
    pub op: Op,
    pub stats: Stats,
}

/// All files of one role of one server, per operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRow {
    pub server: ServerId,
    pub role: Role,
    pub op: Op,
    pub stats: Stats,
}

/// A sync that has begun and not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    pub server: ServerId,
    pub tid: u32,
    pub thread: String,
    pub op: Op,
    pub role: Role,
    pub path: Option<PathBuf>,
    pub age: Duration,
    /// It began before tracing did: it is at least this old.
    pub age_is_minimum: bool,
}

/// The name under which commands are counted that are not kept apart.
pub const OTHER_NEIGHBOURS: &str = "other";

/// Syncs of the processes that are not traced, by device and the name of the thread group's leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourRow {
    pub device_number: u32,
    /// As [`FileInfo::device`].
    pub device: String,
    /// "other" where more commands synced than are kept apart.
    pub comm: String,
    pub stats: Stats,
}
