//! The one type that every view reads: what was counted up to a moment ([`Snapshot`]), and the difference of two
//! of them ([`Measurement`]). Both are plain data, immutable once made.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, lower_edge, upper_edge};

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

    pub fn name(self) -> &'static str {
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
    /// Since boot, as the kernel's `start_boottime`.
    pub start_ns: u64,
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

/// The greatest latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Max {
    pub ns: u64,
    /// False: the upper edge of the highest bucket that grew (3.2 % at most above the truth's bucket).
    pub exact: bool,
}

/// Syncs of one row. In a snapshot since the start of tracing, in a measurement of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Syncs that finished.
    pub count: u64,
    pub sum_ns: u64,
    pub max: Max,
    /// Shared between snapshots while the row stands still. Its count is `count`, but for threads that keep none.
    pub histogram: Arc<Histogram>,
    /// Syncs that failed, by errno.
    pub errors: BTreeMap<i32, u64>,
}

impl Stats {
    /// Adds another row's syncs to this one.
    pub fn merge(&mut self, other: &Stats) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        if other.max.ns > self.max.ns {
            self.max = other.max;
        }
        if !other.histogram.is_empty() {
            Arc::make_mut(&mut self.histogram).merge(&other.histogram);
        }
        for (&errno, &n) in &other.errors {
            *self.errors.entry(errno).or_default() += n;
        }
    }

    /// What happened since `earlier`, a previous reading of the same row. The greatest latency of the interval is
    /// the new one if it rose, else the upper edge of the highest bucket that grew.
    pub fn since(&self, earlier: &Stats) -> Stats {
        let histogram = if Arc::ptr_eq(&self.histogram, &earlier.histogram) {
            Arc::default()
        } else {
            Arc::new(self.histogram.since(&earlier.histogram))
        };
        let count = self.count.saturating_sub(earlier.count);
        let max = if self.max.ns > earlier.max.ns {
            self.max
        } else if count == 0 {
            Max::default()
        } else {
            let edge = histogram.highest_bucket().map_or(self.max.ns, upper_edge);
            Max { ns: edge.min(self.max.ns), exact: false }
        };
        let errors = self.errors.iter().filter_map(|(&errno, &n)| {
            let new = n - earlier.errors.get(&errno).copied().unwrap_or(0).min(n);
            (new > 0).then_some((errno, new))
        });
        Stats {
            count,
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max,
            errors: errors.collect(),
            histogram,
        }
    }

    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }

    /// In nanoseconds; never above the greatest latency, which is exact where a bucket's midpoint is not.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        self.histogram.quantile(q).map(|ns| ns.min(self.max.ns))
    }

    /// The lower edge of the lowest bucket in use.
    pub fn min_ns(&self) -> Option<u64> {
        self.histogram.lowest()
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Mean number in flight over a time: the sum of the latencies / the time. For a serial log, how busy it is.
    pub fn in_flight_mean(&self, over: Duration) -> f64 {
        if over.is_zero() { 0.0 } else { self.sum_ns as f64 / over.as_nanos() as f64 }
    }

    /// The greatest latency agrees with the histogram: never below the highest bucket in use. Two processors that
    /// finish syncs of one file at the same instant can lose the greater maximum; the histogram never loses.
    pub fn settle_max(&mut self) {
        if let Some(bucket) = self.histogram.highest_bucket()
            && self.max.ns < lower_edge(bucket)
        {
            self.max = Max { ns: upper_edge(bucket), exact: false };
        }
    }
}

/// What is known of a file beside its identity; shared between snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// As raw bytes, inside the server's own root; escape it before it reaches a terminal. None: never learnt.
    pub path: Option<PathBuf>,
    pub role: Role,
    /// "/dev/vda1", or "8:1" where no device node is known.
    pub device: Option<String>,
    pub mount: Option<PathBuf>,
    pub filesystem: Option<String>,
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

/// What could not be counted, or not attributed. All zero: everything was counted, and that was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Syncs not counted because the kernel skipped a program (preemptible kernels; recursion_misses).
    pub preempted: u64,
    /// Syncs counted in the totals whose file is not known, because a map was full.
    pub files: u64,
    /// Syncs counted whose latency bucket is not known, because the ring was full.
    pub events: u64,
    /// File names that could not be sent, because the ring was full; the files are counted.
    pub names: u64,
    /// Failed syncs counted in their file whose errno is not known, because a map was full.
    pub errors: u64,
    /// Syncs not counted because no memory was to be had for the thread's state.
    pub threads: u64,
    /// Processes of a traced command that could not be followed, because a map was full.
    pub processes: u64,
}

impl Lost {
    pub fn since(&self, earlier: &Lost) -> Lost {
        Lost {
            preempted: self.preempted.saturating_sub(earlier.preempted),
            files: self.files.saturating_sub(earlier.files),
            events: self.events.saturating_sub(earlier.events),
            names: self.names.saturating_sub(earlier.names),
            errors: self.errors.saturating_sub(earlier.errors),
            threads: self.threads.saturating_sub(earlier.threads),
            processes: self.processes.saturating_sub(earlier.processes),
        }
    }

    pub fn is_zero(&self) -> bool {
        *self == Lost::default()
    }
}

/// How the probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachMode {
    Fentry,
    Kprobe,
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

/// How the tracing was set up, and what was not chosen and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub mode: AttachMode,
    /// (mode, reason) of the modes that were not chosen.
    pub not_chosen: Vec<(AttachMode, String)>,
    /// "6.12.0-1-amd64".
    pub kernel: String,
    /// The operations that are watched.
    pub ops: Vec<Op>,
    /// Rows by thread are kept.
    pub by_thread: bool,
}

/// Everything counted from the start of tracing up to one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub taken: Instant,
    pub taken_wall: SystemTime,
    pub setup: Arc<Setup>,
    pub lost: Lost,
    pub servers: Vec<Arc<Server>>,
    pub files: Vec<FileRow>,
    pub threads: Vec<ThreadRow>,
    pub in_flight: Vec<InFlight>,
    pub neighbours: Vec<NeighbourRow>,
}

/// One interval: the difference of two snapshots. Rows in which nothing happened are left out.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub start: SystemTime,
    pub end: SystemTime,
    pub duration: Duration,
    pub setup: Arc<Setup>,
    pub lost: Lost,
    pub servers: Vec<Arc<Server>>,
    pub roles: Vec<RoleRow>,
    pub files: Vec<FileRow>,
    pub threads: Vec<ThreadRow>,
    /// At the end of the interval, oldest first.
    pub in_flight: Vec<InFlight>,
    pub neighbours: Vec<NeighbourRow>,
}

impl Measurement {
    /// What happened between two snapshots of one tracing session.
    pub fn between(earlier: &Snapshot, later: &Snapshot) -> Measurement {
        let files = difference(
            &earlier.files,
            &later.files,
            |row| (row.server, row.target, row.op),
            |row| (row.server, Target::Gone(row.info.role), row.op),
            |row| &row.stats,
            |row, stats| FileRow { stats, ..row.clone() },
        );
        let threads = difference(
            &earlier.threads,
            &later.threads,
            |row| (row.server, row.tid, row.start, row.op),
            |row| (row.server, 0, 0, row.op),
            |row| &row.stats,
            |row, stats| ThreadRow { stats, ..row.clone() },
        );
        let neighbours = difference(
            &earlier.neighbours,
            &later.neighbours,
            |row| (row.device_number, row.comm.clone()),
            |_| (0, OTHER_NEIGHBOURS.to_owned()),
            |row| &row.stats,
            |row, stats| NeighbourRow { stats, ..row.clone() },
        );
        let roles = roles_of(&files);
        let files = files.into_iter().filter(|row| row.stats.count > 0).collect();
        let mut in_flight = later.in_flight.clone();
        in_flight.sort_by_key(|sync| std::cmp::Reverse(sync.age));
        Measurement {
            start: earlier.taken_wall,
            end: later.taken_wall,
            duration: later.taken.saturating_duration_since(earlier.taken),
            setup: later.setup.clone(),
            lost: later.lost.since(&earlier.lost),
            servers: later.servers.clone(),
            roles,
            files,
            threads,
            in_flight,
            neighbours,
        }
    }

    /// All traced syncs of the interval together.
    pub fn total(&self) -> Stats {
        let mut total = Stats::default();
        for row in &self.roles {
            total.merge(&row.stats);
        }
        total
    }
}

/// Sums files by server, role and operation, in that order.
pub fn roles_of(files: &[FileRow]) -> Vec<RoleRow> {
    let mut roles: BTreeMap<(ServerId, Role, Op), Stats> = BTreeMap::new();
    for row in files {
        roles.entry((row.server, row.info.role, row.op)).or_default().merge(&row.stats);
    }
    roles.into_iter().map(|((server, role, op), stats)| RoleRow { server, role, op, stats }).collect()
}

/// The rows of `later` in which something happened since `earlier`. Rows are matched by their identity: both
/// orders may differ. Rows that only `earlier` has were folded into their heir: what they held then is not new there.
fn difference<Row, Key: Ord>(
    earlier: &[Row],
    later: &[Row],
    key: impl Fn(&Row) -> Key,
    heir: impl Fn(&Row) -> Key,
    stats: impl Fn(&Row) -> &Stats,
    with: impl Fn(&Row, Stats) -> Row,
) -> Vec<Row> {
    let mut before: BTreeMap<Key, &Row> = earlier.iter().map(|row| (key(row), row)).collect();
    // One that holds less than before was folded, and came back.
    let same = |old: &Row, new: &Row| stats(old).count <= stats(new).count;
    let mut old = |row| match before.entry(key(row)) {
        Entry::Occupied(old) if same(old.get(), row) => Some(old.remove()),
        _ => None,
    };
    let kept: Vec<_> = later.iter().map(|row| (row, old(row))).collect();
    let mut inherited: BTreeMap<Key, Stats> = BTreeMap::new();
    for gone in before.into_values() {
        inherited.entry(heir(gone)).or_default().merge(stats(gone));
    }
    kept.into_iter()
        .filter_map(|(row, old)| {
            let new = match (old.map(&stats), inherited.remove(&key(row))) {
                (Some(old), None) if old == stats(row) => return None,
                (Some(old), None) => stats(row).since(old),
                (None, None) => stats(row).clone(),
                (old, Some(mut inherited)) => {
                    old.into_iter().for_each(|old| inherited.merge(old));
                    stats(row).since(&inherited)
                }
            };
            (new.count > 0 || !new.histogram.is_empty()).then(|| with(row, new))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::bucket_of;

    fn stats(latencies: &[u64]) -> Stats {
        let mut histogram = Histogram::default();
        latencies.iter().for_each(|&ns| histogram.add(bucket_of(ns), 1));
        Stats {
            count: latencies.len() as u64,
            sum_ns: latencies.iter().sum(),
            max: Max { ns: latencies.iter().copied().max().unwrap_or(0), exact: true },
            histogram: Arc::new(histogram),
            errors: BTreeMap::new(),
        }
    }

    #[test]
    fn the_maximum_of_an_interval_says_whether_it_is_exact() {
        let early = stats(&[5_000, 70_000]);
        let risen = stats(&[5_000, 70_000, 90_001]).since(&early);
        assert_eq!(risen.max, Max { ns: 90_001, exact: true });
        let below = stats(&[5_000, 70_000, 6_000]).since(&early);
        assert!(!below.max.exact);
        assert_eq!(below.max.ns, upper_edge(bucket_of(6_000)));
        assert_eq!(below.count, 1);
        assert_eq!(below.sum_ns, 6_000);
        assert_eq!(early.since(&early).max, Max::default());
    }

    /// (identity, heir, stats)
    type Row = (u32, u32, Stats);

    fn since(earlier: &[Row], later: &[Row]) -> Vec<(u32, u64, u64)> {
        let with = |row: &Row, stats| (row.0, row.1, stats);
        let rows = difference(earlier, later, |row| row.0, |row| row.1, |row| &row.2, with);
        rows.into_iter().map(|(id, _, stats)| (id, stats.count, stats.histogram.count())).collect()
    }

    #[test]
    fn what_was_folded_into_another_row_is_not_new_there() {
        let row = |id, latencies: &[u64]| (id, 0, stats(latencies));
        let earlier = [row(0, &[9_000]), row(1, &[1_000; 3]), row(2, &[2_000; 4]), row(3, &[3_000])];
        // 1 and 2 were folded, 2 after two more syncs.
        let all: Vec<u64> = [&[9_000][..], &[1_000; 3], &[2_000; 6]].concat();
        assert_eq!(since(&earlier, &[row(0, &all), row(3, &[3_000; 2])]), [(0, 2, 2), (3, 1, 1)]);
        // Those that were first seen in between are new, and one that comes back begins anew.
        assert_eq!(since(&earlier[1..2], &[row(0, &[1_000; 5]), row(9, &[7])]), [(0, 2, 2), (9, 1, 1)]);
        let back = [row(0, &[&[9_000][..], &[1_000; 3]].concat()), row(1, &[5_000])];
        assert_eq!(since(&earlier[..2], &back), [(1, 1, 1)]);
        assert_eq!(since(&earlier, &earlier), []);
    }

    #[test]
    fn a_maximum_below_its_own_histogram_is_replaced_and_marked() {
        let mut raced = stats(&[5_000, 70_000]);
        raced.max.ns = 5_000;
        raced.settle_max();
        assert_eq!(raced.max, Max { ns: upper_edge(bucket_of(70_000)), exact: false });
    }

    #[test]
    fn merging_adds_counts_errors_and_buckets() {
        let mut a = stats(&[1_000, 2_000]);
        a.errors.insert(libc::EIO, 1);
        let mut b = stats(&[3_000]);
        b.errors.insert(libc::EIO, 2);
        a.merge(&b);
        assert_eq!((a.count, a.sum_ns, a.max.ns), (3, 6_000, 3_000));
        assert_eq!(a.errors[&libc::EIO], 3);
        assert_eq!(a.histogram.count(), 3);
        assert_eq!(a.in_flight_mean(Duration::from_nanos(12_000)), 0.5);
    }
}
