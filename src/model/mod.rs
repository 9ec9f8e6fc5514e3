//! The data that every view reads: the counts up to a moment ([`Snapshot`]), and the difference of two of
//! them ([`Interval`]). Both are immutable plain data.

mod completion;
mod counters;
mod difference;
mod disks;
pub(crate) mod durability;
mod engine;
mod errors;
pub(crate) mod figures;
#[cfg(test)]
pub(crate) mod fixture;
pub mod histogram;
mod interval;
mod kinds;
mod lost;
pub(crate) mod neighbours;
mod op;
mod owner;
pub(crate) mod paths;
mod phase;
mod role;
mod rows;
mod stats;
mod storage;
mod table;
mod told;
mod unsynced;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use completion::Completions;
pub use counters::{OwnCounters, OwnReading, Texts};
pub use disks::WholeDisks;
pub use engine::{Datadir, Engine, Processes, Threshold, Words};
pub use errors::Errors;
pub use figures::Figure;
pub(crate) use interval::roles_of;
pub use interval::{Interval, Rest, Span};
pub(crate) use kinds::words;
pub use kinds::{FileId, FilePart, KnownBy, Server, ServerId, Target};
pub use lost::{Amount, Effect, Exported, Loss, Lost};

pub(crate) use neighbours::{Device, Neighbour, Place};
pub use op::SystemCall;
pub use op::{Op, Scope, Via};
pub use owner::{Owner, Proof};
pub use phase::{Committer, Phase};
pub use role::Role;
pub(crate) use role::{Consequence, Numbering};
pub(crate) use rows::OTHER_NEIGHBOURS;
pub use rows::{
    DeviceRow, DiskBytes, FileInfo, FileRow, InFlight, LogEntry, NeighbourRow, RoleRow, ServerIo, ThreadRow,
};
pub(crate) use stats::SATURATED;
pub use stats::{Max, Stats};
pub use storage::{Durability, StorageStack};
pub use table::{Row, Table};
pub use told::VerdictRow;
pub use unsynced::{Backlog, Peak, Unsynced, UnsyncedFile, UnsyncedRole, UnsyncedRow};
pub(crate) use unsynced::{PEAKS_REMEMBERED, unsynced_roles};
#[cfg(test)]
pub(crate) use waits::waits_between;
pub(crate) use waits::{MAX_FRAMES, MAX_NAME};
pub use waits::{Stack, WaitLosses, WaitRow};

/// Serialises a duration as a number of seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// How the probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum AttachMode {
    /// Costs only the calls that are traced
    Fentry,
    /// Costs only the calls that are traced, more than fentry does; loses none where the kernel preempts
    /// (Linux 6.14)
    Kprobe,
    /// Costs every system call a little; works where fentry does not
    Tracepoint,
}

impl AttachMode {
    pub fn name(self) -> &'static str {
        match self {
            AttachMode::Fentry => "fentry",
            AttachMode::Kprobe => "kprobe",
            AttachMode::Tracepoint => "tracepoint",
        }
    }
}

/// What is noticed below the watched calls, by tracepoints of its own: on which filesystems syncs outside of
/// them are counted ([`Lost::unwatched`]), and whether writeback errors are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Net {
    pub filesystems: Vec<String>,
    /// sync and syncfs are counted wherever they are not watched.
    #[serde(default)]
    pub syncs_of_all: bool,
    /// The tracepoint that could not be attached to, and why.
    pub refused: Option<String>,
    /// Writeback errors are noticed when they happen, on all filesystems.
    #[serde(default)]
    pub writeback: bool,
    /// Why not.
    #[serde(default)]
    pub writeback_refused: Option<String>,
}

impl Net {
    /// Whether what processes that are not traced sync outside of the watched calls is counted: of the files
    /// of this filesystem, and of whole filesystems.
    pub(crate) fn counts_neighbours_on(&self, filesystem: &str) -> bool {
        self.syncs_of_all
            && self.refused.is_none()
            && self.filesystems.iter().any(|counted| counted == filesystem)
    }
}

/// How tracing was set up, which modes were rejected, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub mode: AttachMode,
    /// (mode, reason) for each rejected mode.
    pub not_chosen: Vec<(AttachMode, String)>,
    /// "6.12.0-1-amd64".
    pub kernel: String,
    /// The host, as it calls itself (`uname -n`).
    pub host: String,
    /// The watched operations.
    #[serde(deserialize_with = "op::known")]
    pub ops: Vec<Op>,
    /// True if rows by thread are kept.
    pub by_thread: bool,
    /// Processes that nobody knew before their first sync are traced as well: what hung before is not seen.
    #[serde(default)]
    pub of_anybody: bool,
    pub net: Net,
    /// What has changed since: intervals longer than requested, or tracing that has ended. A plain
    /// sentence.
    pub note: Option<String>,
}

/// All counts from the start of tracing up to one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub taken: Instant,
    pub taken_wall: SystemTime,
    /// By the monotonic clock, since the host was started. Zero: not known.
    pub monotonic: Duration,
    /// Counts up from the start of tracing.
    pub number: u64,
    pub setup: Arc<Setup>,
    pub lost: Lost,
    pub servers: Vec<Arc<Server>>,
    pub files: Vec<FileRow>,
    /// What failed beside the syncs, by file: writes, and writeback. Of each only the count and the errors
    /// say something.
    pub failures: Vec<FileRow>,
    /// Writes that are not durable, where all are watched; in no sum of syncs.
    pub writes: Vec<FileRow>,
    pub threads: Vec<ThreadRow>,
    pub in_flight: Vec<InFlight>,
    pub neighbours: Vec<NeighbourRow>,
    /// [`Lost::unwatched`] by server, in their order, as far as the server is known.
    pub unwatched: Vec<(ServerId, u64)>,
    /// What there was no room to keep on the kernel side since tracing began, in servers' order: a call or
    /// request, or whose file it was. Of all processes of those who have a share of that room with the
    /// server.
    pub refused: Vec<(ServerId, u64)>,
    /// What each device of the host has read and written, for whomever, since long before.
    pub disks: BTreeMap<u32, DiskBytes>,
    /// What servers moved to and from storage since they were started, as far as that could be read in time.
    pub io: Vec<ServerIo>,
    pub whole_disks: WholeDisks,
    /// Where all writes are watched.
    pub unsynced: Unsynced<Vec<UnsyncedFile>, Vec<Peak>>,
    /// What syncs waited for since that is watched; empty where it is not.
    pub waits: Table<WaitRow>,
    pub wait_losses: WaitLosses,
}

impl Snapshot {
    /// In which nothing was counted.
    pub(crate) fn empty(taken: Instant, taken_wall: SystemTime, setup: Arc<Setup>) -> Snapshot {
        Snapshot {
            taken,
            taken_wall,
            monotonic: Duration::ZERO,
            number: 0,
            setup,
            lost: Lost::default(),
            servers: Vec::new(),
            files: Vec::new(),
            failures: Vec::new(),
            writes: Vec::new(),
            threads: Vec::new(),
            in_flight: Vec::new(),
            neighbours: Vec::new(),
            unwatched: Vec::new(),
            refused: Vec::new(),
            disks: BTreeMap::new(),
            io: Vec::new(),
            whole_disks: WholeDisks::default(),
            unsynced: Unsynced::default(),
            waits: Table::default(),
            wait_losses: WaitLosses::default(),
        }
    }
}
