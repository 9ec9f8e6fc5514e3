//! The payload of an interval: protocol buffers, in prost's derive instead of compiled, so that a build
//! needs no protoc. docs/recording-format.md has the same as a .proto file; a test compares the two. A field
//! that has its default is left out, and one that a reader does not know is passed over.

use prost::Message;

/// Figures that do not hold together: buckets out of order, or of no histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the figures of an interval do not hold together")]
pub struct Inconsistent;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Interval {
    #[prost(message, repeated, tag = "1")]
    pub lost: Vec<Loss>,
    /// Those that were there, by their numbers.
    #[prost(uint32, repeated, tag = "2")]
    pub servers: Vec<u32>,
    #[prost(message, repeated, tag = "3")]
    pub roles: Vec<RoleRow>,
    #[prost(message, repeated, tag = "4")]
    pub files: Vec<FileRow>,
    #[prost(message, optional, tag = "5")]
    pub rest: Option<Rest>,
    #[prost(message, repeated, tag = "6")]
    pub failures: Vec<FileRow>,
    #[prost(message, repeated, tag = "7")]
    pub writes: Vec<FileRow>,
    #[prost(message, repeated, tag = "8")]
    pub write_roles: Vec<RoleRow>,
    #[prost(message, repeated, tag = "9")]
    pub in_flight: Vec<InFlight>,
    #[prost(message, repeated, tag = "10")]
    pub neighbours: Vec<NeighbourRow>,
    #[prost(message, repeated, tag = "11")]
    pub unwatched: Vec<OfServer>,
    #[prost(message, repeated, tag = "12")]
    pub devices: Vec<DeviceRow>,
    #[prost(message, repeated, tag = "13")]
    pub unsynced: Vec<UnsyncedRow>,
    #[prost(message, repeated, tag = "14")]
    pub unsynced_together: Vec<Together>,
    #[prost(uint64, tag = "15")]
    pub unsynced_dropped: u64,
    #[prost(message, repeated, tag = "16")]
    pub io: Vec<ServerIo>,
    #[prost(message, repeated, tag = "17")]
    pub counters: Vec<OwnCounters>,
    /// What the exporter told at the end.
    #[prost(message, repeated, tag = "18")]
    pub verdicts: Vec<VerdictRow>,
    /// What syncs waited for, where that was watched.
    #[prost(message, repeated, tag = "20")]
    pub waits: Vec<WaitRow>,
    #[prost(message, optional, tag = "21")]
    pub wait_losses: Option<WaitLosses>,
}

/// A count, or nanoseconds (`paused`).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Loss {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub amount: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RoleRow {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(uint32, tag = "2")]
    pub role: u32,
    #[prost(uint32, tag = "3")]
    pub op: u32,
    #[prost(message, optional, tag = "4")]
    pub stats: Option<Stats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileRow {
    #[prost(uint32, tag = "1")]
    pub file: u32,
    #[prost(uint32, tag = "2")]
    pub op: u32,
    #[prost(message, optional, tag = "3")]
    pub stats: Option<Stats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Rest {
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    #[prost(message, optional, tag = "2")]
    pub stats: Option<Stats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InFlight {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(uint32, tag = "2")]
    pub tid: u32,
    #[prost(string, tag = "3")]
    pub thread: String,
    #[prost(uint32, tag = "4")]
    pub op: u32,
    #[prost(uint32, tag = "5")]
    pub role: u32,
    /// Raw bytes.
    #[prost(bytes = "vec", optional, tag = "6")]
    pub path: Option<Vec<u8>>,
    #[prost(uint64, tag = "7")]
    pub age_ns: u64,
    #[prost(bool, tag = "8")]
    pub age_is_minimum: bool,
    #[prost(uint64, tag = "9")]
    pub count: u64,
    #[prost(string, optional, tag = "10")]
    pub waits_for: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NeighbourRow {
    #[prost(uint32, tag = "1")]
    pub neighbour: u32,
    #[prost(message, optional, tag = "2")]
    pub stats: Option<Stats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OfServer {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(uint64, tag = "2")]
    pub count: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeviceRow {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    /// Raw bytes.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub mount: Option<Vec<u8>>,
    #[prost(uint64, tag = "4")]
    pub written_bytes: u64,
    #[prost(uint64, tag = "5")]
    pub submitted_bytes: u64,
    #[prost(uint64, tag = "6")]
    pub read_bytes: u64,
}

/// As /proc/PID/io has it, of all processes of the server.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ServerIo {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(uint64, tag = "2")]
    pub read_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub written_bytes: u64,
    #[prost(uint64, tag = "4")]
    pub cancelled_bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VerdictRow {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(string, tag = "2")]
    pub state: String,
    /// Since 1970.
    #[prost(uint64, tag = "3")]
    pub since_ns: u64,
    #[prost(string, tag = "4")]
    pub sentence: String,
}

/// What a server counted itself: readings in their order, at most 8.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OwnCounters {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(message, repeated, tag = "2")]
    pub readings: Vec<OwnReading>,
    /// Of the last time that they were asked for in the interval.
    #[prost(message, repeated, tag = "3")]
    pub settings: Vec<Text>,
}

/// Between two times of the monotonic clock.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OwnReading {
    #[prost(uint64, tag = "1")]
    pub began_ns: u64,
    #[prost(uint64, tag = "2")]
    pub ended_ns: u64,
    #[prost(message, repeated, tag = "3")]
    pub counters: Vec<Text>,
    /// The sequence number of an interval that had been made before it began.
    #[prost(uint64, tag = "4")]
    pub follows: u64,
}

/// By the server's name for it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Text {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UnsyncedRow {
    #[prost(uint32, tag = "1")]
    pub file: u32,
    #[prost(message, optional, tag = "2")]
    pub now: Option<Backlog>,
    #[prost(message, optional, tag = "3")]
    pub most: Option<Backlog>,
    #[prost(uint64, tag = "4")]
    pub possibly_lost: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Backlog {
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    #[prost(uint64, tag = "2")]
    pub age_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Together {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(uint32, tag = "2")]
    pub role: u32,
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WaitRow {
    #[prost(uint32, tag = "1")]
    pub server: u32,
    #[prost(uint32, tag = "2")]
    pub role: u32,
    #[prost(uint32, tag = "3")]
    pub op: u32,
    /// One more than the number of the phase. 0: from begin to end of the calls, which the phases add up to.
    #[prost(uint32, tag = "4")]
    pub phase: u32,
    /// One more than the number of the stack. 0: it is not known, or not kept apart.
    #[prost(uint32, tag = "5")]
    pub stack: u32,
    #[prost(uint64, tag = "6")]
    pub ns: u64,
    /// How long the filesystem's committer was in each state meanwhile, by the numbers of the states.
    #[prost(uint64, repeated, tag = "7")]
    pub under: Vec<u64>,
}

/// Waits whose stack is not known, that are of no file, and that are missing, with their time; runs of the
/// probes that the kernel skipped; syncs without any wait that is known.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WaitLosses {
    #[prost(uint64, tag = "1")]
    pub stacks: u64,
    #[prost(uint64, tag = "2")]
    pub waits: u64,
    #[prost(uint64, tag = "3")]
    pub unplaced: u64,
    #[prost(uint64, tag = "4")]
    pub unplaced_ns: u64,
    #[prost(uint64, tag = "5")]
    pub skipped: u64,
    #[prost(uint64, tag = "6")]
    pub syncs: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Stats {
    #[prost(uint64, tag = "1")]
    pub count: u64,
    #[prost(uint64, tag = "2")]
    pub sum_ns: u64,
    #[prost(uint64, tag = "3")]
    pub max_ns: u64,
    /// Else it is the upper edge of the highest bucket that grew.
    #[prost(bool, tag = "4")]
    pub max_is_exact: bool,
    /// By pairs: how many buckets after the one before, and the count in it.
    #[prost(uint64, repeated, tag = "5")]
    pub histogram: Vec<u64>,
    #[prost(message, repeated, tag = "6")]
    pub errors: Vec<Failed>,
    #[prost(uint64, tag = "7")]
    pub bytes: u64,
    #[prost(bool, tag = "8")]
    pub posted: bool,
    #[prost(bool, tag = "9")]
    pub reaped: bool,
    #[prost(uint64, tag = "10")]
    pub untimed: u64,
    #[prost(sint64, tag = "11")]
    pub pending_ns: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Failed {
    #[prost(sint32, tag = "1")]
    pub errno: i32,
    #[prost(uint64, tag = "2")]
    pub count: u64,
}
