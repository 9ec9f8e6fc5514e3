//! What to trace and how much room to give it.

use super::contract::record::{
    AIO_REQUESTS, CALLS_WITHOUT_SLOT, ERRORS, FIRST_FILE_SLOT, PARTS, REQUEST_SLOTS, REQUESTS_WITHOUT_SLOT,
    SHARES, UNSYNCED_FILES,
};
use crate::model::{AttachMode, Engine, Op, Processes};

/// The leader's name, at most 15 bytes, as the kernel compares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommPattern {
    pub value: [u64; 2],
    /// Up to and with the ending NUL: kernels before 5.15 do not clear what follows.
    pub mask: [u64; 2],
}

impl CommPattern {
    pub fn new(comm: &[u8]) -> CommPattern {
        let mut value = [0u8; 16];
        let mut mask = [0u8; 16];
        let length = comm.len().min(15);
        value[..length].copy_from_slice(&comm[..length]);
        mask[..=length].fill(0xff);
        let words = |bytes: [u8; 16]| {
            let (low, high) = bytes.split_at(8);
            [low, high].map(|half| u64::from_ne_bytes(half.try_into().expect("eight bytes")))
        };
        CommPattern { value: words(value), mask: words(mask) }
    }

    pub fn matches(&self, comm: [u64; 2]) -> bool {
        (0..2).all(|i| (comm[i] ^ self.value[i]) & self.mask[i] == 0)
    }
}

/// The name of a server that is a process with its children, as PostgreSQL is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstancePattern {
    pub comm: CommPattern,
    /// Who has lost its parent belongs to the server that works in the same directory.
    pub by_directory: bool,
}

impl InstancePattern {
    /// Of those engines whose servers are.
    pub fn all_of<'a>(engines: impl Iterator<Item = &'a Engine>) -> Vec<InstancePattern> {
        let patterns = |engine: &'a Engine| {
            let by_directory = engine.processes == Processes::ChildrenInDatadir;
            let comms = engine.commands.iter().map(|name| CommPattern::new(name.as_bytes()));
            comms.map(move |comm| InstancePattern { comm, by_directory })
        };
        engines.filter(|engine| engine.is_several()).flat_map(patterns).collect()
    }
}

/// Which thread groups are traced: any of these.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    pub all: bool,
    pub comms: Vec<CommPattern>,
    /// Servers that are a process with its children; they are traced if they are any of the others.
    pub instances: Vec<InstancePattern>,
    pub pids: Vec<u32>,
    /// Id and depth below the root of the cgroup2 hierarchy.
    pub cgroup: Option<(u64, u32)>,
    /// Those that are selected by number are no more once they end: the number may be used again.
    pub forget_ended: bool,
    /// Processes that the traced ones fork are traced too.
    pub follow_forks: bool,
}

/// The room for rows, fixed before loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// (server, file, operation) rows.
    pub files: u32,
    /// How many of them have a histogram of their own.
    pub histograms: u32,
    /// Threads with a slot of their own; the syncs of further threads cost a little more.
    pub threads: u32,
}

impl ProbeConfig {
    /// These operations, too.
    pub fn watch(&mut self, ops: &[Op]) {
        self.ops.extend(ops);
        self.ops.sort();
        self.ops.dedup();
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Capacity { files: 65_536, histograms: 4_096, threads: 8_192 }
    }
}

impl Capacity {
    pub(crate) fn histogram_slots(&self) -> u32 {
        FIRST_FILE_SLOT + self.histograms.min(self.files)
    }

    pub fn slots(&self) -> u32 {
        FIRST_FILE_SLOT + self.files
    }

    /// Entries of the table that guesses a file's row: twice as many as files, so that collisions are rare.
    pub fn guesses(&self) -> u32 {
        (2 * self.files).next_power_of_two()
    }

    /// The threads' own slots: a power of two.
    pub(crate) fn thread_slots(&self) -> u32 {
        self.threads.next_power_of_two()
    }

    fn map_bytes(&self, all_writes: bool) -> u64 {
        let slots = u64::from(self.slots());
        // A preallocated hash element has a header of 48 bytes beside key and value, and a bucket head of 16.
        let hash = |entries: u64, bytes: u64| entries * (48 + bytes) + entries.next_power_of_two() * 16;
        slots * 128
            + u64::from(self.histogram_slots()) * 4096
            + hash(slots, 40)
            + u64::from(self.guesses()) * 16
            + slots * 4
            + (2 << 20)
            + u64::from(self.thread_slots()) * 128
            + hash(CALLS_WITHOUT_SLOT, 136)
            + slots * 32
            + hash(ERRORS, 16 + 16)
            + u64::from(SHARES) * 64
            + hash(8_192, 16)
            + hash(1_024, 24)
            + REQUEST_SLOTS * 128
            + hash(REQUESTS_WITHOUT_SLOT, 8 + 112)
            + hash(AIO_REQUESTS, 16 + 112)
            + hash(1_024, 24 + 16)
            + hash(256, 8)
            + if all_writes {
                hash(UNSYNCED_FILES as u64, 36)
                    + UNSYNCED_FILES as u64 * (256 + 4)
                    + hash(PARTS as u64, 16 + 32)
            } else {
                0
            }
    }
}

#[derive(Clone, Debug)]
pub struct ProbeConfig {
    pub targets: Targets,
    pub ops: Vec<Op>,
    /// None: the one that works best here.
    pub mode: Option<AttachMode>,
    /// The kernel may preempt (preempt=full or lazy), and then skips programs: the modes are tried in another
    /// order.
    pub preemptible: bool,
    pub by_thread: bool,
    /// Prepare for `Probe::watch_waits`: costs each sync a little more.
    pub watch_waits: bool,
    pub capacity: Capacity,
}

impl ProbeConfig {
    /// The kernel memory that the maps take, in bytes: rows, histograms, hash, ring and the rest.
    pub fn map_bytes(&self) -> u64 {
        self.capacity.map_bytes(self.ops.contains(&Op::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8; 16]) -> [u64; 2] {
        [0, 8].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap()))
    }

    #[test]
    fn a_name_is_compared_up_to_its_end_and_no_further() {
        let mysqld = CommPattern::new(b"mysqld");
        assert!(mysqld.matches(words(b"mysqld\0\0\0\0\0\0\0\0\0\0")));
        assert!(mysqld.matches(words(b"mysqld\0left over")));
        assert!(!mysqld.matches(words(b"mysqld_safe\0\0\0\0\0")));
        assert!(!mysqld.matches(words(b"mysql\0\0\0\0\0\0\0\0\0\0\0")));
        let mariadbd = CommPattern::new(b"mariadbd");
        assert!(mariadbd.matches(words(b"mariadbd\0garbage")));
        assert!(!mariadbd.matches(words(b"mariadbd-safe\0\0\0")));
        let longest = CommPattern::new(b"fifteen bytes!!");
        assert!(longest.matches(words(b"fifteen bytes!!\0")));
        assert!(!longest.matches(words(b"fifteen bytes!?\0")));
    }
}
