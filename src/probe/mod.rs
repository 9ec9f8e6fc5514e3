//! The only place that touches the kernel side: loads and attaches the programs of `bpf/`, and reads what they
//! sum up. Everything it hands out is plain data; decisions are made elsewhere.

pub mod allocator;
mod array;
mod attach;
mod buckets;
mod choice;
mod config;
mod counters;
mod events;
mod features;
mod flags;
mod grace;
mod hooks;
mod in_flight;
pub mod kernel_types;
mod libbpf_log;
mod permission;
mod places;
mod program_info;
mod ring;
mod running;
mod self_test;
mod slots;
mod timer;
mod wait;
mod walk;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

pub use attach::{AttachError, Attached, Failure};
pub use config::{Capacity, CommPattern, MOST_COMMS, ProbeConfig, Targets};
pub use counters::Counters;
pub use events::{Event, FileEvent, SyncEvent};
pub use features::Features;
pub use flags::WaitStorage;
pub use hooks::AttachedProgram;
pub use in_flight::{Calls, RunningCall};
pub use libbpf_log::take_libbpf_log;
pub use permission::may_use_open_maps;
pub use skeleton::types::{histogram as RawHistogram, identity as Identity, row as Row};
pub use timer::{LOGS, LogSamples, SLOTS_OF_LOG, TimerProbe, TimerSamples};
pub use wait::{
    CLOCKS, COMMITTER_STATES, JournalCounts, MOST_FILESYSTEMS, SlotTime, SlotWait, WAIT_OBJECT,
    WAIT_OBJECT_TYPES, WaitError, WaitLosses, WaitPlan, WaitProbe, Waits, WatchedFilesystem, Writer,
};

use array::MappedArray;
use places::Places;
use ring::Ring;

/// The kernel's contract (`bpf/record.h`): the numbers of its enums, which the object's types do not carry.
pub mod record {
    pub const KIND_FREE: u8 = 0;
    pub const KIND_FILE: u8 = 1;
    pub const KIND_FILESYSTEM: u8 = 2;
    pub const KIND_NO_FILE: u8 = 3;
    pub const KIND_BAD_DESCRIPTOR: u8 = 4;
    pub const KIND_THREAD: u8 = 5;
    pub const KIND_NEIGHBOUR: u8 = 6;
    pub const IDENTITY_WEAK: u16 = 1;
    pub const NEIGHBOUR_OVERFLOW_SLOT: u32 = 7;
    pub const FIRST_SHARED_SLOT: u32 = 8;
    pub const FIRST_NEIGHBOUR_SLOT: u32 = 64;
    pub const FIRST_FILE_SLOT: u32 = 256;
    pub const NO_SLOT: u32 = u32::MAX;
    pub const ROW_READY: u32 = 1;
    pub const HANDED_OUT_AT_ONCE: u32 = 48;
    pub const HISTOGRAM_BUCKETS: usize = 512;
}

#[allow(clippy::all, unsafe_op_in_unsafe_fn, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sync.skel.rs"));
}
// The generated module is named in the generated file; its types come to light here.

/// The programs as they were compiled (ELF), for those who look at their size.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sync.bpf.o"));
/// The names of the types that they know, for [`kernel_types::excerpt`].
pub static OBJECT_TYPES: &str = include_str!(concat!(env!("OUT_DIR"), "/sync.types"));

/// Events are decoded, and held in memory, so many at a time.
const EVENTS_AT_A_TIME: usize = 512;

/// A sync that failed, by row and errno.
pub type ErrorCounts = HashMap<(u32, u32), Vec<(i32, u64)>>;

/// The attached programs and their maps. Dropping it detaches them.
pub struct Probe {
    ring: Ring,
    rows: MappedArray,
    histograms: MappedArray,
    /// Of the histogram that was read last.
    buckets: Vec<(usize, u64)>,
    places: Places,
    attached: Attached,
    capacity: Capacity,
}

impl Probe {
    /// Loads and attaches as `config` says, and proves by calls of its own that they are counted.
    pub fn attach(config: &ProbeConfig) -> Result<Probe, AttachError> {
        allocator::limit_arenas();
        let attached = attach::attach(config)?;
        allocator::trim();
        let maps = &attached.skel.maps;
        let ring = Ring::new(&maps.events, events::LONGEST)?;
        let rows = MappedArray::new(&maps.rows, size_of::<Row>())?;
        let histograms = MappedArray::new(&maps.histograms, size_of::<RawHistogram>())?;
        let places = Places::new(MappedArray::new(&maps.calls, size_of::<skeleton::types::call>())?);
        let probe = Probe {
            ring,
            places,
            rows,
            histograms,
            buckets: Vec::with_capacity(record::HISTOGRAM_BUCKETS),
            capacity: config.capacity,
            attached,
        };
        Ok(probe)
    }

    /// How the programs are attached, and why not otherwise.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Attaches the wait probes, if the configuration prepared for them.
    pub fn watch_waits(&self, plan: &WaitPlan) -> Result<WaitProbe, WaitError> {
        WaitProbe::attach(&self.attached, self.capacity.slots(), plan)
    }

    /// Samples how many syncs of the logs are in flight, if the configuration prepared for the waits.
    pub fn watch_logs(&self) -> Result<TimerProbe, WaitError> {
        TimerProbe::attach(&self.attached)
    }

    /// Whether calls of fsynctop's own are still counted; if not, why in words. Does no I/O.
    pub fn self_test(&mut self) -> Result<(), String> {
        self_test::run(&mut self.attached)
    }

    /// Waits for events until there are some, or `wake` can be read, or the time is over; takes none of them.
    pub fn wait(&self, timeout: Duration, wake: Option<BorrowedFd>) -> std::io::Result<()> {
        let timeout = Timespec::try_from(timeout).map_err(std::io::Error::other)?;
        let mut awaited = vec![PollFd::new(&self.ring, PollFlags::IN)];
        awaited.extend(wake.as_ref().map(|wake| PollFd::new(wake, PollFlags::IN)));
        match rustix::event::poll(&mut awaited, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next events that the programs have sent, so many at most that they take little memory.
    pub fn take_events(&mut self) -> std::io::Result<Vec<Event>> {
        let mut events = Vec::new();
        self.ring.take(EVENTS_AT_A_TIME, |bytes| events.extend(events::decode(bytes)))?;
        Ok(events)
    }

    /// The slots that may hold a row, ascending; a sync that ended before this was called has its row among them.
    pub fn slots_in_use(&self) -> impl Iterator<Item = u32> + use<> {
        self.attached.slots.in_use(slots::Taken::read(&self.attached.skel))
    }

    /// How often a row was taken for a file or a thread so far: each time that it was given back and taken again, too.
    pub fn rows_taken(&self) -> u64 {
        let taken = slots::Taken::read(&self.attached.skel);
        taken.hot + taken.cold
    }

    /// A row as it stands.
    pub fn row(&mut self, slot: u32) -> std::io::Result<Row> {
        self.rows.read(slot)
    }

    /// A row's histogram, as (bucket, count) of the buckets that hold something, in ascending order; the two outermost
    /// buckets stand in the row.
    pub fn histogram(&mut self, slot: u32, row: &Row) -> std::io::Result<&[(usize, u64)]> {
        let histograms = &mut self.histograms;
        let filled_words = |words, into: &mut Vec<_>| histograms.filled_words(slot, words, into);
        let started = || self.rows.read_u64(slot, std::mem::offset_of!(Row, started));
        buckets::read(row, &mut self.buckets, filled_words, started)?;
        Ok(&self.buckets)
    }

    /// The same of a histogram that several rows share.
    pub fn shared_histogram(&mut self, slot: u32) -> std::io::Result<&[(usize, u64)]> {
        let histograms = &mut self.histograms;
        buckets::read_shared(&mut self.buckets, |words, into| histograms.filled_words(slot, words, into))?;
        Ok(&self.buckets)
    }

    pub fn has_histogram(&self, slot: u32) -> bool {
        slot < self.capacity.histogram_slots()
    }

    /// Lets a row without a histogram of its own share one, so that its latencies need no events.
    pub fn share_histogram(&mut self, slot: u32, shared: u32) -> std::io::Result<()> {
        let at = std::mem::offset_of!(Row, shared_histogram);
        self.rows.write_u32(slot, at, shared)
    }

    /// Failed syncs, by (slot, sequence).
    pub fn errors(&self) -> libbpf_rs::Result<ErrorCounts> {
        let map = &self.attached.skel.maps.errors;
        let mut counts = ErrorCounts::new();
        for key in map.keys() {
            let Some(value) = map.lookup(&key, MapFlags::ANY)? else { continue };
            let word = |at: usize| u32::from_ne_bytes(key[at..at + 4].try_into().expect("four bytes"));
            let n = u64::from_ne_bytes(value[..8].try_into().expect("eight bytes"));
            counts.entry((word(0), word(4))).or_default().push((word(8) as i32, n));
        }
        Ok(counts)
    }

    /// The syncs in flight of these processes (0: one that is not known) that began under the programs' eyes, and which
    /// of their threads have begun any; perhaps of others, too.
    pub fn in_flight(&self, processes: &[u32]) -> libbpf_rs::Result<Calls> {
        in_flight::read(&self.attached, processes, counters::without_place(&self.attached))
    }

    /// Everything that went wrong so far.
    pub fn counters(&self) -> Counters {
        counters::read(&self.attached)
    }

    /// Takes rows out of use, step one: new syncs of their identities begin other rows. Those in flight still end in
    /// these, so their last figures are read after this, and then [`Probe::free`] gives the slots back. When it
    /// returns, no program is still on its way into one of the rows.
    pub fn unlink(&mut self, slots: &[u32]) -> std::io::Result<()> {
        for &slot in slots {
            // What a row is about never changes while it lives.
            let id = self.rows.read::<Row>(slot)?.id;
            match self.attached.skel.maps.slots.delete(events::as_bytes(&id)) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(std::io::Error::other(error));
                }
                _ => self.rows.write_u32(slot, std::mem::offset_of!(Row, retired), 1)?,
            }
        }
        if !slots.is_empty() {
            grace::wait();
        }
        Ok(())
    }

    /// Step two: clears the slot, and hands it out again.
    pub fn free(&mut self, slot: u32) -> std::io::Result<()> {
        let row = self.rows.read::<Row>(slot)?;
        if row.errors > 0 {
            let maps = &self.attached.skel.maps;
            let stale =
                |key: &[u8]| key[..4] == slot.to_ne_bytes() && key[4..8] == row.sequence.to_ne_bytes();
            let keys: Vec<_> = maps.errors.keys().filter(|key| stale(key)).collect();
            for key in keys {
                let _ = maps.errors.delete(&key);
            }
        }
        let cleared = Row { sequence: row.sequence.wrapping_add(1), ..Row::default() };
        self.rows.write(slot, &cleared)?;
        if self.has_histogram(slot) {
            self.histograms.write(slot, &RawHistogram::default())?;
        }
        self.attached.slots.give_back(&self.attached.skel.maps, slot).map_err(std::io::Error::other)
    }

    /// Nothing is read for a while: what is mapped for reading is given back.
    pub fn rest(&mut self) {
        self.ring.unmap();
        self.rows.unmap();
        self.histograms.unmap();
        self.places.unmap();
    }

    /// Clears a histogram that was shared by rows which are all gone.
    pub fn clear_shared(&mut self, slot: u32) -> std::io::Result<()> {
        self.histograms.write(slot, &RawHistogram::default())
    }

    /// Hands out more slots where few are left.
    pub fn refill(&mut self) -> libbpf_rs::Result<()> {
        self.attached.slots.refill(&self.attached.skel)
    }

    /// Gives up the places of threads that sync no more, if others have found none. To be called now and then.
    pub fn tend_places(&mut self) -> std::io::Result<()> {
        self.places.tend(counters::without_place(&self.attached))
    }

    /// Gives up at once the place of every thread that is in no sync at this moment. It finds another one.
    pub fn give_up_places(&mut self) -> std::io::Result<()> {
        self.places.give_up_all()
    }

    /// From now on no sync is begun; those in flight still end. Takes no time, where detaching takes much.
    pub fn stop(&mut self) {
        flags::set_stopped(&mut self.attached.skel, true);
    }

    /// Counts on after [`Probe::stop`]. A sync that is in flight now and began after that ends without having begun: it
    /// is counted as lost.
    pub fn go_on(&mut self) {
        flags::set_stopped(&mut self.attached.skel, false);
    }

    /// Counts on after [`Probe::detach`]: what is loaded goes back to its hooks, which takes some milliseconds. A sync
    /// that was in flight when it left them has begun and never ends; one that is in flight now ends without having begun.
    pub fn attach_again(&mut self) -> libbpf_rs::Result<()> {
        // Else a thread's next end would be taken for that of the sync before.
        self.places.forget_syncs()?;
        let without_place = &self.attached.skel.maps.calls_by_thread;
        let threads: Vec<_> = without_place.keys().collect();
        for thread in threads {
            without_place.delete(&thread)?;
        }
        self.attached.links =
            self.attached.hooks.attach(&mut self.attached.skel).map_err(|(_, error)| error)?;
        Ok(())
    }

    /// Ends counting; what was counted can still be read. A tracepoint takes the kernel some grace periods to detach,
    /// tens of milliseconds: they are waited for at the same time.
    pub fn detach(&mut self) {
        self.stop();
        std::thread::scope(|scope| {
            for link in self.attached.links.drain(..) {
                let thread = std::thread::Builder::new().name("detach".into());
                // Without a thread, here and now.
                let _ = thread.spawn_scoped(scope, move || drop(link));
            }
        });
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.detach();
    }
}
