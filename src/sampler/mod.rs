//! Turns what the kernel side sums up into [`Snapshot`]s: reads the rows that changed, keeps the books,
//! learns the names, retires rows that stand idle when room gets short.

mod devices;
pub(crate) mod ledger;
mod names;
mod rows;
mod running;
mod servers;
mod stalls;
mod unsynced;
mod unwatched;
mod waits;
mod writeback;

use std::collections::{BTreeMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::engine::rules::Rules;
use crate::linux::disk_statistics;
use crate::model::{InFlight, Op, Role, Server, ServerId, Setup, Snapshot, Target};
use crate::probe::record::{FIRST_FILE_SLOT, NO_SLOT};
use crate::probe::{Attached, Event, Probe, ProbeConfig, allocator};
use crate::server::naming::GivenName;

use ledger::{Ledger, Reading, Slots, Subject};
use names::Names;
use rows::Rows;
use servers::THREADS_WITHOUT_ACCOUNT;

pub use crate::probe::AttachError;
pub use servers::Retention;

/// Accounts of files that have no row any more and are still kept apart.
const ROWLESS_FILES: usize = 1_024;
/// Names that are kept although no account of theirs is known, or no longer.
const NAMES_WITHOUT_ACCOUNT: usize = 1_024;
/// Servers whose syncs in flight are looked for after a pause.
const LOOKED_AT_AGAIN: usize = 256;
/// Rounds of events that are taken in between two looks at the rows.
const SOME: usize = 8;
/// Rounds that empty the ring, however full it is.
const ALL: usize = 64;
/// Rows are retired when fewer are free: a quarter of a small map, and this many of a large one.
const ENOUGH_FREE: usize = 4_096;

/// Learning the names of thousands of files takes megabytes for a moment. The allocator would keep them for
/// good, between what stays; looking through its heap takes it some milliseconds. Each time half as often,
/// since most is new at first.
const TRIM_FIRST: Duration = Duration::from_secs(2);
const TRIM_SELDOM: Duration = Duration::from_secs(16);

/// Reads the kernel side and makes snapshots. Lives on one thread.
pub struct Sampler {
    probe: Probe,
    ledger: Ledger,
    names: Names,
    servers: servers::Servers,
    devices: devices::Devices,
    running: running::Running,
    unwatched: unwatched::Unwatched,
    backlogs: unsynced::Backlogs,
    writeback: writeback::Writeback,
    setup: Arc<Setup>,
    last_reclaim: Instant,
    /// How often a row had been taken when they were last read.
    taken_when_read: u64,
    /// A row that was never read sends its latencies one by one: once it is read, it shares a histogram.
    has_unread_rows: bool,
    next_trim: Instant,
    trim_after: Duration,
    /// Since when nothing is counted, and how long that was so before.
    paused_since: Option<Instant>,
    paused: Duration,
    /// Since boot.
    began_ns: u64,
    /// Stands for the servers that are remembered no longer, if there are any.
    forgotten: Option<Arc<Server>>,
}

impl Sampler {
    /// Attaches, and begins to count.
    pub fn start(config: &ProbeConfig, rules: Rules, kernel: String) -> Result<Sampler, AttachError> {
        Ok(Sampler::of_probe(Probe::attach(config)?, rules, kernel))
    }

    /// Of a probe that is attached already. Everything that it starts has the rights that the calling thread
    /// has now.
    pub fn of_probe(probe: Probe, rules: Rules, kernel: String) -> Sampler {
        let attached = probe.attached();
        let rules = Arc::new(rules);
        let setup = Setup {
            mode: attached.mode,
            not_chosen: attached.not_chosen.clone(),
            kernel,
            host: crate::host::node_name().unwrap_or_default(),
            ops: attached.ops().to_vec(),
            by_thread: attached.by_thread,
            net: attached.net().clone(),
            note: None,
        };
        Sampler {
            probe,
            ledger: Ledger::default(),
            names: Names::new(rules.clone()),
            servers: servers::Servers::new(rules),
            devices: devices::Devices::default(),
            running: running::Running::default(),
            unwatched: unwatched::Unwatched::default(),
            backlogs: unsynced::Backlogs::default(),
            writeback: writeback::Writeback::default(),
            setup: Arc::new(setup),
            last_reclaim: Instant::now(),
            taken_when_read: 0,
            has_unread_rows: false,
            next_trim: Instant::now() + TRIM_FIRST,
            trim_after: TRIM_FIRST,
            paused_since: None,
            paused: Duration::ZERO,
            began_ns: running::boot_ns(),
            forgotten: None,
        }
    }

    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// From the next snapshot on, every view shows this.
    pub(crate) fn set_note(&mut self, note: Option<String>) {
        Arc::make_mut(&mut self.setup).note = note;
    }

    pub fn attached(&self) -> &Attached {
        self.probe.attached()
    }

    /// Whether calls of this process's own are still counted; if not, why in words.
    pub fn self_test(&mut self) -> Result<(), String> {
        self.probe.self_test()
    }

    /// A process that is to be described and whose syncs in flight are to be found, whether or not it ever
    /// syncs.
    pub(crate) fn expect_server(&mut self, server: ServerId) {
        // All syncs of a server that began later were seen from their beginning.
        if self.servers.meet(server) && server.start_ns < self.began_ns {
            self.running.find_earlier(server);
        }
    }

    /// Names for servers by which users know them.
    pub(crate) fn set_given_names(&mut self, given: Vec<GivenName>) {
        self.servers.set_given_names(given);
    }

    /// How long servers that have ended are remembered one by one.
    pub(crate) fn set_retention(&mut self, retention: Retention) {
        self.servers.set_retention(retention);
    }

    /// The servers met so far, those that ended included, and what stands for those that are remembered no
    /// longer.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers = self.servers.list();
        servers.extend(self.forgotten.clone());
        servers
    }

    /// Waits for at most this long, taking in what cannot wait: names of new files, and rows when they run
    /// short or send their latencies one by one.
    pub fn wait(&mut self, timeout: Duration) -> std::io::Result<()> {
        self.wait_or_wake(timeout, None)
    }

    /// The same, and ends when `wake` can be read.
    pub(crate) fn wait_or_wake(
        &mut self,
        timeout: Duration,
        wake: Option<BorrowedFd>,
    ) -> std::io::Result<()> {
        self.probe.wait(timeout, wake)?;
        self.take_events(SOME)?;
        self.look_for_stalls();
        if self.last_reclaim.elapsed() >= Duration::from_millis(20) {
            self.last_reclaim = Instant::now();
            if self.short_of_rows() || self.has_unread_rows {
                self.read_rows()?;
                self.reclaim()?;
            }
            // So that the next snapshot already knows whose they are.
            self.read_writeback()?;
        }
        self.trim_if_due();
        Ok(())
    }

    /// Writes that hang, unless writes are not to be watched (`--writes off`).
    fn look_for_stalls(&mut self) {
        let now = Instant::now();
        if self.running.stalls.is_due(now) && self.setup.ops.contains(&Op::DsyncWrite) {
            let servers = self.servers.list();
            let alive = servers.iter().filter(|server| server.alive).map(|server| server.id);
            self.running.stalls.look(&alive.collect(), now);
        }
    }

    /// Between snapshots, so that nobody waits for it.
    fn trim_if_due(&mut self) {
        let now = Instant::now();
        if now >= self.next_trim {
            self.trim_after = (self.trim_after * 2).min(TRIM_SELDOM);
            self.next_trim = now + self.trim_after;
            allocator::trim();
        }
    }

    /// Everything counted up to now.
    pub fn snapshot(&mut self) -> std::io::Result<Snapshot> {
        self.take_events(ALL)?;
        // Whatever ended before this is in it; while the rows are read, more ends.
        let (taken, taken_wall) = (Instant::now(), SystemTime::now());
        let unsynced = self.read_unsynced()?;
        self.read_rows()?;
        // A row that was read may have sent its name, or a latency, just before.
        self.take_events(ALL)?;
        self.read_unwatched()?;
        self.names.collect();
        self.servers.refresh(&mut self.names);
        self.read_writeback()?;
        self.reclaim()?;
        let mut unsynced = self.unsynced_files(&unsynced, taken)?;
        // After that: what it gives back must not come in again.
        let gone = self.forget_ended()?;
        unsynced.rows.retain(|row| !gone.contains(&row.server));
        self.servers.name_them();
        let Rows { files, failures, writes, threads, neighbours } = self.rows();
        let short_of_rows = self.short_of_rows();
        let in_flight = self
            .running
            .list(&mut self.probe, &self.ledger, &self.names, short_of_rows, None)
            .map_err(std::io::Error::other)?;
        let lost = self.lost(&files, taken);
        let all_writes = self.probe.attached().ops().contains(&Op::Write);
        let disks = if all_writes { disk_statistics::written() } else { BTreeMap::new() };
        self.probe.unmap();
        Ok(Snapshot {
            taken,
            taken_wall,
            setup: self.setup.clone(),
            lost,
            servers: self.servers(),
            files,
            failures,
            writes,
            threads,
            in_flight,
            neighbours,
            unwatched: self.unwatched_by_server(),
            disks,
            unsynced,
        })
    }

    /// The syncs of a process that are in flight at this moment, and maybe others', without a snapshot:
    /// sampled often, they say how many are under way on average, whatever the latencies say. Its threads are
    /// walked also if its rows show none: what had begun when the rows were read, and is still there when the
    /// threads are, would be too few.
    pub fn in_flight(&mut self, pid: u32) -> std::io::Result<Vec<InFlight>> {
        self.take_events(SOME)?;
        self.read_rows()?;
        let short_of_rows = self.short_of_rows();
        self.running
            .list(&mut self.probe, &self.ledger, &self.names, short_of_rows, Some(pid))
            .map_err(std::io::Error::other)
    }

    /// Waits for descriptions and names that are on their way, but no longer than `patience`.
    pub fn settle(&mut self, patience: Duration) -> std::io::Result<()> {
        let end = Instant::now() + patience;
        self.take_events(ALL)?;
        self.servers.settle(&mut self.names, patience);
        self.names.settle(end.saturating_duration_since(Instant::now()));
        self.read_writeback()?;
        self.settle_writeback(end.saturating_duration_since(Instant::now()));
        Ok(())
    }

    /// Counts nothing until [`Sampler::go_on`]; the programs stay loaded and attached, and leave at their
    /// first instructions.
    pub fn pause(&mut self) {
        self.probe.stop();
        self.paused_since.get_or_insert_with(Instant::now);
    }

    pub fn go_on(&mut self) {
        self.paused = self.paused(Instant::now());
        self.paused_since = None;
        // A thread that keeps its place is taken to have ended what it began before it was looked at; what
        // hangs now may have begun in the pause. Where places cannot be given up, it stays unseen until it
        // ends.
        let _ = self.probe.reclaim_all_thread_slots();
        self.probe.resume();
        // Of syncs that began in the pause, those that hang must be found.
        self.began_ns = running::boot_ns();
        for server in self.servers.list().iter().filter(|server| server.alive).take(LOOKED_AT_AGAIN) {
            self.running.find_earlier(server.id);
        }
    }

    /// How long nothing was counted, up to then.
    fn paused(&self, until: Instant) -> Duration {
        self.paused + self.paused_since.map_or(Duration::ZERO, |since| until.saturating_duration_since(since))
    }

    /// Processor time that was used so far for what others make: descriptions of servers, names of files, and
    /// whether those of which a sync failed are open.
    /// Each has an allowance of its own, so that nobody who starts processes or makes files can end the
    /// tracing by that.
    pub(crate) fn spent_apart(&self) -> Duration {
        self.servers.spent() + self.names.spent() + self.backlogs.spent()
    }

    /// Ends counting, waits a moment for the last names, and takes the last snapshot.
    pub fn finish(&mut self) -> std::io::Result<Snapshot> {
        let at_end = self.stop()?;
        self.wind_up(&at_end)
    }

    /// Ends counting. What had been counted then: those syncs that are in flight now are not in it with their
    /// latencies, which may be much longer than what lies before the end.
    pub fn stop(&mut self) -> std::io::Result<Snapshot> {
        self.probe.stop();
        let (taken, taken_wall) = (Instant::now(), SystemTime::now());
        Ok(Snapshot { taken, taken_wall, ..self.snapshot()? })
    }

    /// What had been counted when counting ended, with the latencies of what has ended since, and the last
    /// names.
    pub(crate) fn wind_up(&mut self, at_end: &Snapshot) -> std::io::Result<Snapshot> {
        self.probe.detach();
        while self.take_events(ALL)? {}
        self.settle(Duration::from_secs(1))?;
        let mut snapshot = self.snapshot()?;
        // Detaching, and learning the last names, take time that is no part of the measurement.
        (snapshot.taken, snapshot.taken_wall) = (at_end.taken, at_end.taken_wall);
        snapshot.lost.paused = at_end.lost.paused;
        snapshot.unsynced = self.with_names(at_end.unsynced.clone());
        // So is what ended meanwhile; only the names that were learnt are taken.
        let learnt = std::mem::replace(&mut snapshot.in_flight, at_end.in_flight.clone());
        for sync in &mut snapshot.in_flight {
            if let Some(same) = learnt.iter().find(|other| (other.tid, other.op) == (sync.tid, sync.op)) {
                (sync.role, sync.path) = (same.role, same.path.clone());
            }
        }
        Ok(snapshot)
    }

    /// Takes in what the programs have sent, a part at a time, so that it never fills the memory; not for
    /// ever, where it comes as fast as it is taken in. True if there may be more.
    fn take_events(&mut self, rounds: usize) -> std::io::Result<bool> {
        for round in 0..rounds {
            let events = self.probe.take_events()?;
            if events.is_empty() {
                return Ok(false);
            }
            self.learn(events);
            self.probe.refill().map_err(std::io::Error::other)?;
            if round % SOME == SOME - 1 {
                self.fold();
            }
        }
        Ok(true)
    }

    fn learn(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::File(event) => {
                    if let Some(Subject::File { server, target: Target::File(file), .. }) =
                        Subject::of(&event.id)
                    {
                        self.expect_server(server);
                        self.names.learn((server, file), &event);
                    }
                }
                Event::Sync(event) if event.slot == NO_SLOT => {
                    if let Some(Subject::File { server, .. }) = Subject::of(&event.id) {
                        self.expect_server(server);
                    }
                    self.ledger.count_event(&event.id, event.latency_ns, event.result);
                }
                Event::Sync(event) => {
                    self.has_unread_rows |= !self.ledger.has_read(event.slot, event.sequence);
                    self.ledger.enter_latency(&event.id, event.latency_ns);
                }
            }
        }
    }

    /// Reads the rows that changed. A row's histogram is read only then, and the errors only if some row had
    /// one. The kernel side adds to a row first, to the errors next, to the histogram last: read in the
    /// opposite order, nothing is missing from a row whose syncs have all ended.
    fn read_rows(&mut self) -> std::io::Result<()> {
        self.ledger.begin_tick();
        self.names.begin_tick();
        self.taken_when_read = self.probe.rows_allocated();
        self.has_unread_rows = false;
        let mut failed = Vec::new();
        for slot in self.probe.slots_in_use() {
            let row = self.probe.row(slot)?;
            if self.ledger.look(slot, &row) != Reading::Changed {
                continue;
            }
            let is_cold = !self.probe.has_histogram(slot);
            let histogram = if is_cold { &[] } else { self.probe.histogram(slot, &row)? };
            self.ledger.enter(slot, &row, ledger::stats_of(&row, histogram), is_cold);
            if row.errors > 0 {
                failed.push((slot, row.sequence, row.errors));
            }
            self.attend(slot, &row);
        }
        if !failed.is_empty() {
            let errors = self.probe.errors().map_err(std::io::Error::other)?;
            for (slot, sequence, failed) in failed {
                let by_errno = errors.get(&(slot, sequence)).map(Vec::as_slice);
                self.ledger.enter_errors(slot, ledger::errors_of(failed, by_errno));
            }
        }
        for slot in self.ledger.shared_slots() {
            self.ledger.enter_shared(slot, self.probe.shared_histogram(slot)?);
        }
        Ok(())
    }

    /// What a changed row asks for beside counting: a server to describe, a name, a shared histogram.
    fn attend(&mut self, slot: u32, row: &crate::probe::Row) {
        let subject = Subject::of(&row.id);
        if let Some(Subject::Thread { server, tid, start, .. }) = subject {
            self.servers.learn_thread(server, tid, start, [row.name, row.more]);
        }
        let Some(Subject::File { server, target, op }) = subject else { return };
        if slot < FIRST_FILE_SLOT {
            return;
        }
        self.expect_server(server);
        let mut role = Role::Other;
        if let Target::File(file) = target {
            role = self.names.attend((server, file), row.fd);
        }
        if !self.probe.has_histogram(slot)
            && row.shared_histogram == 0
            && let Some(shared) = self.ledger.shared_slot(server, role, op)
        {
            // A row that cannot be written is a row that goes on sending events.
            let _ = self.probe.share_histogram(slot, shared);
        }
    }

    /// Also where nobody has asked for a snapshot since rows began to run short.
    fn short_of_rows(&self) -> bool {
        let since = self.probe.rows_allocated().saturating_sub(self.taken_when_read) as usize;
        is_short(self.probe.capacity().files as usize, self.ledger.rows_in_use(Slots::Files) + since)
    }

    /// Makes room: frees rows that were taken out of use, and takes out those that stand idle when few are
    /// free.
    fn reclaim(&mut self) -> std::io::Result<()> {
        self.last_reclaim = Instant::now();
        for slot in self.ledger.free_quiet() {
            self.probe.free(slot)?;
        }
        for slots in Slots::ALL {
            let range = slots.range(self.probe.capacity());
            let total = range.len();
            if !is_short(total, self.ledger.rows_in_use(slots)) {
                continue;
            }
            let idle = self.ledger.retirable(range, total / 2, 1);
            self.probe.unlink(&idle)?;
            idle.iter().for_each(|&slot| self.ledger.unlinked(slot));
        }
        self.probe.refill().map_err(std::io::Error::other)?;
        self.probe.reclaim_slots()?;
        self.fold();
        Ok(())
    }

    /// Keeps the memory bounded: the files that are long idle become one account of their role.
    fn fold(&mut self) {
        let names = &self.names;
        self.ledger.fold(ROWLESS_FILES, |subject| role_of(subject, names));
        // Of some names no sync is ever heard of.
        let accounts = self.ledger.account_count();
        let ledger = &self.ledger;
        if self.names.len() > accounts + NAMES_WITHOUT_ACCOUNT {
            let (writeback, backlogs) = (&self.writeback, &self.backlogs);
            self.names.retain(|&(server, file)| {
                ledger.knows(server, file) || writeback.knows(server, file) || backlogs.knows(server, file)
            });
        }
        if self.servers.thread_names() > accounts + THREADS_WITHOUT_ACCOUNT {
            self.servers.retain_threads(|server, tid, start| ledger.knows_thread(server, tid, start));
        }
    }

    /// Servers that ended long ago, or are too many, become one. Their rows go out of use first: that takes
    /// some snapshots. Returns which they are.
    fn forget_ended(&mut self) -> std::io::Result<HashSet<ServerId>> {
        let outlived = self.servers.outlived();
        if outlived.is_empty() {
            return Ok(outlived);
        }
        let rows = self.ledger.rows_of_ended(&outlived);
        self.probe.unlink(&rows)?;
        rows.iter().for_each(|&slot| self.ledger.unlinked(slot));
        let names = &self.names;
        let (gone, shared) = self.ledger.fold_ended(&outlived, |subject| role_of(subject, names));
        for slot in shared {
            self.probe.clear_shared(slot)?;
        }
        if !gone.is_empty() {
            self.writeback.fold_ended(&gone, &self.names);
            self.forget_unsynced(&gone)?;
            self.names.forget(&gone);
            self.servers.forget(&gone);
            self.forget_unwatched(|server| gone.contains(&server));
            let together =
                || Server { alive: false, ..Server::new(ServerId::ENDED, "(ended processes)".into()) };
            self.forgotten.get_or_insert_with(|| Arc::new(together()));
        }
        Ok(gone)
    }
}

fn role_of(subject: &Subject, names: &Names) -> Role {
    match subject {
        Subject::File { server, target: Target::File(file), .. } => names.role_of(&(*server, *file)),
        _ => Role::Other,
    }
}

fn is_short(total: usize, used: usize) -> bool {
    total.saturating_sub(used) < (total / 4).min(ENOUGH_FREE)
}
