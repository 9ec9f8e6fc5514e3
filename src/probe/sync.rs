//! The probe of the sync calls: attaches the programs, reads what they sum up, and takes rows out of use.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::array::MappedArray;
use super::attach::{self, AttachError, Attached};
use super::config::{Capacity, ProbeConfig};
use super::contract::{RawHistogram, Row, record, types, view};
use super::counters::Counters;
use super::events::{Event, Events};
use super::identity::NeighbourIdentity;
use super::in_flight::{self, Calls};
use super::net::WritebackError;
use super::owned_slots::OwnedSlots;
use super::shares::Shares;
use super::slots::Popped;
use super::timer::TimerProbe;
use super::unsynced::{Unsynced, UnsyncedFile};
use super::wait::{WaitError, WaitPlan, WaitProbe};
use super::{allocator, buckets, globals, net, parts, programs, self_test};
use crate::model::{FilePart, Op};

/// By (slot, sequence) of a row, how many of its syncs failed with which errno.
pub(crate) type ErrorCounts = HashMap<(u32, u32), Vec<(i32, u64)>>;

/// How often it is looked whose calls and requests in flight are gone: where tables are half full, a file of
/// /proc is read for each.
const LOOK_FOR_GONE: Duration = Duration::from_secs(10);

/// The errno that each row has room for: its place there, and the number.
const GRAVE: [(usize, i32); record::GRAVE] = [
    (record::GRAVE_EIO, libc::EIO),
    (record::GRAVE_ENOSPC, libc::ENOSPC),
    (record::GRAVE_EDQUOT, libc::EDQUOT),
    (record::GRAVE_EROFS, libc::EROFS),
];

/// The attached programs and their maps. Dropping it detaches them.
pub struct Probe {
    events: Events,
    rows: MappedArray,
    histograms: MappedArray,
    grave_errors: MappedArray,
    shares: Shares,
    looked_for_gone: Instant,
    /// Those of the histogram that was read last.
    buckets: Vec<(usize, u64)>,
    thread_slots: OwnedSlots,
    /// None: rings are not watched.
    request_slots: Option<OwnedSlots>,
    /// Only where all writes are watched.
    unsynced: Option<Unsynced>,
    attached: Attached,
    capacity: Capacity,
}

impl Probe {
    /// Loads and attaches as `config` says, and proves by calls of its own that they are counted.
    pub fn attach(config: &ProbeConfig) -> Result<Probe, AttachError> {
        let attached = attach::attach(config)?;
        allocator::give_back();
        let maps = &attached.skel.maps;
        let events = Events::new(&maps.events)?;
        let rows = MappedArray::new(&maps.rows, size_of::<Row>())?;
        let histograms = MappedArray::new(&maps.histograms, size_of::<RawHistogram>())?;
        let grave_errors = MappedArray::new(&maps.grave_errors, size_of::<types::grave_errors>())?;
        let shares = Shares::new(&maps.shares)?;
        let thread_slots = OwnedSlots::of_threads(&maps.calls)?;
        let are_watched = attached.rings.are_watched();
        let request_slots = are_watched.then(|| OwnedSlots::of_requests(&maps.request_slots)).transpose()?;
        let watches_all_writes = attached.ops().contains(&Op::Write);
        let unsynced = watches_all_writes.then(|| Unsynced::new(maps)).transpose()?;
        let probe = Probe {
            events,
            thread_slots,
            request_slots,
            rows,
            histograms,
            grave_errors,
            shares,
            looked_for_gone: Instant::now(),
            buckets: Vec::with_capacity(record::HISTOGRAM_BUCKETS),
            capacity: config.capacity,
            unsynced,
            attached,
        };
        Ok(probe)
    }

    /// How the programs are attached, and why not otherwise.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    pub(crate) fn capacity(&self) -> Capacity {
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
        self_test::run(&mut self.attached.skel, &self.attached.hooks.ops)
    }

    /// Waits until there are events, `wake` can be read, or the timeout has passed; takes no events.
    pub fn wait(&self, timeout: Duration, wake: Option<BorrowedFd>) -> std::io::Result<()> {
        let timeout = Timespec::try_from(timeout).map_err(std::io::Error::other)?;
        let mut awaited = vec![PollFd::new(&self.events, PollFlags::IN)];
        awaited.extend(wake.as_ref().map(|wake| PollFd::new(wake, PollFlags::IN)));
        match rustix::event::poll(&mut awaited, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next events, a bounded number of them; empty if there are none.
    pub fn take_events(&mut self) -> std::io::Result<Vec<Event>> {
        self.events.take().map_err(std::io::Error::other)
    }

    /// The slots that may hold a row, ascending; a sync that ended before this was called has its row among
    /// them.
    pub fn slots_in_use(&self) -> impl Iterator<Item = u32> + use<> {
        self.attached.slots.in_use(Popped::read(&self.attached.skel))
    }

    /// How many rows were allocated for files and threads so far, those that were freed since included.
    pub(crate) fn rows_allocated(&self) -> u64 {
        let popped = Popped::read(&self.attached.skel);
        popped.hot + popped.cold
    }

    /// A row as it stands.
    pub fn row(&mut self, slot: u32) -> std::io::Result<Row> {
        self.rows.read(slot)
    }

    /// A row's histogram, as (bucket, count) of the buckets that hold something, in ascending order; the two
    /// outermost buckets stand in the row.
    pub fn histogram(&mut self, slot: u32, row: &Row) -> std::io::Result<&[(usize, u64)]> {
        let histograms = &mut self.histograms;
        let filled_words = |words, into: &mut Vec<_>| histograms.filled_words(slot, words, into);
        let started = || self.rows.read_u64(slot, std::mem::offset_of!(Row, started));
        buckets::read(row, &mut self.buckets, filled_words, started)?;
        Ok(&self.buckets)
    }

    /// The same of a histogram that several rows share.
    pub(crate) fn shared_histogram(&mut self, slot: u32) -> std::io::Result<&[(usize, u64)]> {
        let histograms = &mut self.histograms;
        buckets::read_shared(&mut self.buckets, |words, into| histograms.filled_words(slot, words, into))?;
        Ok(&self.buckets)
    }

    pub fn has_histogram(&self, slot: u32) -> bool {
        slot < self.capacity.histogram_slots()
    }

    /// Makes a row without a histogram of its own use a shared one, so that its latencies need no events.
    pub(crate) fn share_histogram(&mut self, slot: u32, shared: u32) -> std::io::Result<()> {
        let at = std::mem::offset_of!(Row, shared_histogram);
        let shared = u16::try_from(shared).map_err(std::io::Error::other)?;
        self.rows.write_u16(slot, at, shared)
    }

    /// Failed syncs, by (slot, sequence), of these rows and perhaps of others. `rows`: slot, sequence, and
    /// how many failed.
    pub(crate) fn errors(&mut self, rows: &[(u32, u32, u64)]) -> std::io::Result<ErrorCounts> {
        let mut counts = ErrorCounts::new();
        let mut is_all = true;
        for &(slot, sequence, failed) in rows {
            let of_row = self.grave_errors.read::<types::grave_errors>(slot)?.count;
            is_all &= of_row.iter().sum::<u64>() >= failed;
            let known = GRAVE.into_iter().map(|(at, errno)| (errno, of_row[at])).filter(|(_, n)| *n > 0);
            counts.insert((slot, sequence), known.collect());
        }
        if is_all {
            return Ok(counts);
        }
        let map = &self.attached.skel.maps.errors;
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(std::io::Error::other)?;
            let count = value.as_deref().and_then(view::<types::error_count>);
            let (Some(key), Some(count)) = (view::<types::error_key>(&key), count) else { continue };
            counts.entry((key.slot, key.sequence)).or_default().push((key.error, count.n));
        }
        Ok(counts)
    }

    /// Forgets the errors of a row.
    fn clear_errors(&mut self, slot: u32, sequence: u32, failed: u64) -> std::io::Result<()> {
        let grave = self.grave_errors.read::<types::grave_errors>(slot)?.count.iter().sum::<u64>();
        self.grave_errors.write(slot, &types::grave_errors::default())?;
        if grave >= failed {
            return Ok(());
        }
        let Probe { attached, shares, .. } = self;
        let map = &attached.skel.maps.errors;
        let is_its = |key: &types::error_key| (key.slot, key.sequence) == (slot, sequence);
        let keys = map.keys().filter(|key| view(key).is_some_and(|key| is_its(&key)));
        for key in keys.collect::<Vec<_>>() {
            let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) else { continue };
            if let Some(count) = view::<types::error_count>(&value)
                && map.delete(&key).is_ok()
            {
                shares.give_back(&attached.skel, count.share, record::ROOM_ERRORS)?;
            }
        }
        Ok(())
    }

    /// From now on an owner makes no more rows than [`Probe::allow_rows`] says.
    pub(crate) fn limit_rows(&mut self) {
        globals::set_rows_limited(&mut self.attached.skel);
    }

    /// Every owner may make `n` rows more, up to `most` in all.
    pub(crate) fn allow_rows(&mut self, n: u32, most: u32) -> std::io::Result<()> {
        self.shares.allow_rows(n, most)
    }

    /// Of each share of the tables (`Row::share`), how much was not kept, where there is any.
    pub(crate) fn refused(&mut self) -> std::io::Result<Vec<(u8, u64)>> {
        self.shares.refused()
    }

    /// The syncs in flight of these processes (0: an unknown one) that started after the probes were
    /// attached, and which of their threads have started any; perhaps those of other processes, too.
    pub fn in_flight(&self, processes: &[u32]) -> libbpf_rs::Result<Calls> {
        in_flight::read(&self.attached, processes, self.syncs_without_thread_slot())
    }

    /// Adds the requests in flight, of rings and of libaio. Not to be asked without need, as
    /// [`Probe::unwatched`].
    pub(crate) fn add_requests(&mut self, calls: &mut Calls) -> libbpf_rs::Result<()> {
        if let Some(slots) = &mut self.request_slots {
            in_flight::add_requests_of_rings(&self.attached, slots, calls)?;
        }
        in_flight::add_requests_of_libaio(&self.attached, calls)
    }

    /// Everything that went wrong so far.
    pub fn counters(&self) -> Counters {
        Counters::read(&self.attached.skel, &self.attached.programs)
    }

    /// Takes rows out of use, step one: new syncs of their identities get other rows. Those in flight still
    /// end in these, so their last figures are read after this, and then [`Probe::free`] frees the slots.
    /// When it returns, no program that had found one of the rows by its key is running any more.
    pub(crate) fn unlink(&mut self, slots: &[u32]) -> std::io::Result<()> {
        for &slot in slots {
            // A row's identity never changes while it lives.
            let id = self.rows.read::<Row>(slot)?.id;
            match self.attached.skel.maps.slots.delete(id.as_bytes()) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(std::io::Error::other(error));
                }
                _ => self.rows.write_u16(slot, std::mem::offset_of!(Row, retired), 1)?,
            }
        }
        if !slots.is_empty() {
            programs::wait_for_running();
        }
        Ok(())
    }

    /// Step two: clears the slot and puts it back on its free list.
    pub(crate) fn free(&mut self, slot: u32) -> std::io::Result<()> {
        let row = self.rows.read::<Row>(slot)?;
        if row.errors > 0 {
            self.clear_errors(slot, row.sequence, row.errors)?;
        }
        let cleared = Row { sequence: row.sequence.wrapping_add(1), ..Row::default() };
        self.rows.write(slot, &cleared)?;
        if self.has_histogram(slot) {
            self.histograms.write(slot, &RawHistogram::default())?;
        }
        self.attached.slots.free(&self.attached.skel.maps, slot).map_err(std::io::Error::other)
    }

    /// Unmaps the arrays until something is read again.
    pub(crate) fn unmap(&mut self) {
        self.rows.unmap();
        self.histograms.unmap();
        self.grave_errors.unmap();
        self.shares.unmap();
        self.thread_slots.unmap();
        if let Some(slots) = &mut self.request_slots {
            slots.unmap();
        }
        self.unsynced.iter_mut().for_each(Unsynced::unmap);
    }

    /// Clears a shared histogram that no row uses any more.
    pub(crate) fn clear_shared(&mut self, slot: u32) -> std::io::Result<()> {
        self.histograms.write(slot, &RawHistogram::default())
    }

    /// Adds slots to the free lists that run short.
    pub(crate) fn refill(&mut self) -> libbpf_rs::Result<()> {
        self.attached.slots.refill(&self.attached.skel)
    }

    /// Reclaims the slots of threads and requests that come no more, if others have found none. To be called
    /// now and then.
    pub fn reclaim_slots(&mut self) -> std::io::Result<()> {
        if self.looked_for_gone.elapsed() >= LOOK_FOR_GONE {
            self.looked_for_gone = Instant::now();
            in_flight::forget_gone(&self.attached, &mut self.shares)?;
        }
        let counters = globals::counters(&self.attached.skel);
        if let Some(slots) = &mut self.request_slots {
            slots.reclaim_if_due(counters.without_request_slot)?;
        }
        self.thread_slots.reclaim_if_due(counters.without_thread_slot)
    }

    /// Reclaims at once the slot of every thread that is in no sync at this moment. It gets another one at
    /// its next sync.
    pub fn reclaim_all_thread_slots(&mut self) -> std::io::Result<()> {
        self.thread_slots.reclaim_all()
    }

    /// The same of the slots of ring requests of which none is in flight at this moment.
    pub fn reclaim_all_request_slots(&mut self) -> std::io::Result<()> {
        self.request_slots.as_mut().map_or(Ok(()), OwnedSlots::reclaim_all)
    }

    fn syncs_without_thread_slot(&self) -> u64 {
        globals::counters(&self.attached.skel).without_thread_slot
    }

    /// Syncs of traced processes that reached their filesystem outside of the watched calls.
    pub(crate) fn unwatched_count(&self) -> u64 {
        globals::counters(&self.attached.skel).unwatched
    }

    /// The processes that made them, as (thread group, its start, syncs), as far as there was room for them.
    /// To be asked only if the count has grown: while a processor executes these system calls, it skips
    /// tracepoint programs.
    pub(crate) fn unwatched(&self) -> libbpf_rs::Result<Vec<(u32, u64, u64)>> {
        net::read(&self.attached.skel)
    }

    /// Forgets processes that have ended.
    pub(crate) fn forget_unwatched(&self, processes: &[(u32, u64)]) {
        net::forget(&self.attached.skel, processes);
    }

    /// The same of processes that are not traced.
    pub(crate) fn neighbours_unwatched_count(&self) -> u64 {
        globals::counters(&self.attached.skel).neighbours_unwatched
    }

    /// By device and command, as far as there was room. Not to be asked without need, as
    /// [`Probe::unwatched`].
    pub(crate) fn neighbours_unwatched(&self) -> libbpf_rs::Result<Vec<(NeighbourIdentity, u64)>> {
        net::neighbours(&self.attached.skel)
    }

    pub(crate) fn forget_neighbours_unwatched(&self, is_idle: impl Fn(&NeighbourIdentity) -> bool) {
        net::forget_neighbours(&self.attached.skel, is_idle);
    }

    /// Changes of writeback errors, of all files of the host for which there was room.
    pub(crate) fn writeback_error_count(&self) -> u64 {
        globals::counters(&self.attached.skel).writeback_errors
    }

    /// Which files those are, since this was last asked for. Not to be asked without need, as
    /// [`Probe::unwatched`].
    pub(crate) fn take_writeback_errors(&mut self) -> std::io::Result<Vec<WritebackError>> {
        net::take_writeback_errors(&self.attached.skel, &mut self.shares)
    }

    /// What is written and not synced, by file; none unless all writes are watched. The maxima are those
    /// since this was last asked for.
    pub(crate) fn unsynced(&mut self) -> std::io::Result<Vec<UnsyncedFile>> {
        let Some(unsynced) = &mut self.unsynced else { return Ok(Vec::new()) };
        unsynced.read(&mut self.attached.skel)
    }

    /// Gives these files' slots back; one of which something has become unsynced since stays, unless `dirty`
    /// files may go as well: how many bytes went with them.
    pub(crate) fn free_unsynced(&mut self, slots: &[u32], dirty: bool) -> std::io::Result<u64> {
        let Probe { unsynced, attached, shares, .. } = self;
        let Some(unsynced) = unsynced else { return Ok(0) };
        unsynced.free(&attached.skel, shares, slots, dirty)
    }

    /// From now on writes to these parts of files, each of a process, are apart, and no others. They are not
    /// unless all writes are watched.
    pub(crate) fn set_parts(&mut self, parts: &[(u32, FilePart)]) -> libbpf_rs::Result<()> {
        if self.unsynced.is_some() { parts::set(&mut self.attached.skel, parts) } else { Ok(()) }
    }

    /// Nothing of this file is possibly lost any more, unless another sync has failed since so much was.
    pub(crate) fn clear_lost(&mut self, slot: u32, known: u64) -> std::io::Result<()> {
        let Some(unsynced) = &mut self.unsynced else { return Ok(()) };
        unsynced.clear_lost(slot, known)
    }

    /// From now on no sync that starts is counted; those in flight still end. Immediate, unlike detaching.
    pub fn stop(&mut self) {
        globals::set_stopped(&mut self.attached.skel, true);
    }

    /// Waits until every program that runs now has ended. After [`Probe::stop`], everything that was counted
    /// as begun can be read from then on.
    pub(crate) fn wait_for_running(&self) {
        programs::wait_for_running();
    }

    /// Counts again after [`Probe::stop`]. A sync that started in between and is still in flight has no entry
    /// when it ends: it is counted as lost.
    pub(crate) fn resume(&mut self) {
        globals::set_stopped(&mut self.attached.skel, false);
    }

    /// Counts again after [`Probe::detach`]: attaches what is loaded, which takes some milliseconds. A sync
    /// that was in flight when it was detached has started and never ends; one that is in flight now ends
    /// without an entry.
    pub fn reattach(&mut self) -> libbpf_rs::Result<()> {
        // Else a thread's next exit would end the sync before.
        self.thread_slots.forget_syncs()?;
        clear(&self.attached.skel.maps.calls_by_thread)?;
        if let Some(slots) = &mut self.request_slots {
            slots.forget_syncs()?;
            clear(&self.attached.skel.maps.requests_without_slot)?;
            globals::clear_in_flight_without_slot(&mut self.attached.skel);
        }
        if self.attached.aio.are_watched() {
            clear(&self.attached.skel.maps.aio_requests)?;
        }
        let emptied = [record::ROOM_CALLS, record::ROOM_REQUESTS, record::ROOM_AIO];
        self.shares.clear(&mut self.attached.skel, &emptied).map_err(libbpf_rs::Error::from)?;
        let Attached { hooks, skel, net, rings, aio, links, .. } = &mut self.attached;
        *links = hooks.attach(skel, net, rings, aio).map_err(|(_, error)| error)?;
        Ok(())
    }

    /// Ends counting; what was counted can still be read. A tracepoint takes the kernel some grace periods to
    /// detach, tens of milliseconds for each: nobody should have to wait for that (docs/architecture.md).
    pub fn detach(&mut self) {
        self.stop();
        std::thread::scope(|scope| {
            for link in self.attached.links.drain(..) {
                let thread = std::thread::Builder::new().name("detach".into());
                // If no thread can be started, the link is dropped here.
                let _ = thread.spawn_scoped(scope, move || drop(link));
            }
        });
    }
}

fn clear(map: &impl MapCore) -> libbpf_rs::Result<()> {
    let keys: Vec<_> = map.keys().collect();
    for key in keys {
        match map.delete(&key) {
            // A request that has ended meanwhile.
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.detach();
    }
}
