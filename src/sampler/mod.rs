//! Turns what the kernel side sums up into [`Snapshot`]s: reads the rows that changed, keeps the books,
//! learns the names, retires rows that stand idle when room gets short.

mod devices;
pub(crate) mod ledger;
mod names;
mod parts;
mod reading;
mod rows;
mod running;
mod server_io;
mod servers;
mod shares;
mod stalls;
mod unsynced;
mod unwatched;
pub(crate) mod waited;
mod waits;
mod writeback;

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::engine::rules::Rules;
use crate::linux::clock::{boot_ns, monotonic};
use crate::linux::disk_statistics;
use crate::model::{FileRow, InFlight, Op, Role, Server, ServerId, Setup, Snapshot, Target};
use crate::probe::{Attached, Probe, ProbeConfig};
use crate::server::who::naming::GivenName;

use ledger::{Ledger, Slots, Subject};
use names::Names;
use rows::Rows;
use servers::THREADS_WITHOUT_ACCOUNT;

pub use crate::probe::AttachError;
pub use servers::Retention;

/// Accounts of files that have no row any more and are still kept apart.
const ROWLESS_FILES: usize = 1_024;
/// Names that are kept although no account of theirs is known, or no longer.
const NAMES_WITHOUT_ACCOUNT: usize = 1_024;
/// Rounds of events that are taken in between two looks at the rows.
const SOME: usize = 8;
/// Rounds that empty the ring, however full it is.
const ALL: usize = 64;
/// From one look at the ring that found something to the next: whoever makes thousands of files a second is
/// not to wake the sampler for each of them. In so short a time nobody fills the ring.
const REST: Duration = Duration::from_millis(5);
/// Rows are retired when fewer are free: a quarter of a small map, and this many of a large one.
const ENOUGH_FREE: usize = 4_096;

/// How long the syncs in flight at the end have to end, so that their latencies count: most take less, and
/// whoever waits for the result should not notice. Those that take longer are shown as in flight.
const LAST_SYNCS: Duration = Duration::from_millis(50);
/// How often it is looked whether they have.
const LOOK_FOR_LAST: Duration = Duration::from_millis(2);

/// Reads the kernel side and makes snapshots. Lives on one thread.
pub struct Sampler {
    /// What syncs wait for, where that is to be kept. Detached first: it uses maps of the other.
    waits: Option<waited::Kept>,
    probe: Probe,
    ledger: Ledger,
    names: Names,
    servers: servers::Servers,
    devices: devices::Devices,
    running: running::Running,
    shares: shares::Shares,
    unwatched: unwatched::Unwatched,
    backlogs: unsynced::Backlogs,
    writeback: writeback::Writeback,
    io: server_io::ServersIo,
    setup: Arc<Setup>,
    last_reclaim: Instant,
    /// How often a row had been taken when they were last read.
    taken_when_read: u64,
    /// A row that was never read sends its latencies one by one: once it is read, it shares a histogram.
    has_unread_rows: bool,
    /// Since when nothing is counted, and how long that was so before.
    paused_since: Option<Instant>,
    /// When the kernel side had last told something.
    took_events: Instant,
    paused: Duration,
    /// Since boot.
    began_ns: u64,
    /// How many were made.
    snapshots: u64,
    /// Stands for the servers that are remembered no longer, if there are any.
    forgotten: Option<Arc<Server>>,
}

impl Sampler {
    /// Attaches, and begins to count.
    pub fn start(
        config: &ProbeConfig,
        rules: impl Into<Arc<Rules>>,
        kernel: String,
    ) -> Result<Sampler, AttachError> {
        let mut sampler = Sampler::of_probe(Probe::attach(config)?, rules, kernel);
        sampler.set_of_anybody(config.targets.all);
        Ok(sampler)
    }

    /// Of a probe that is attached already. Everything that it starts has the rights that the calling thread
    /// has now.
    pub fn of_probe(probe: Probe, rules: impl Into<Arc<Rules>>, kernel: String) -> Sampler {
        let attached = probe.attached();
        let rules = rules.into();
        let engines = rules.engines().clone();
        let watches_all_writes = attached.ops().contains(&Op::Write);
        let setup = Setup {
            mode: attached.mode,
            not_chosen: attached.not_chosen.clone(),
            kernel,
            host: crate::host::node_name().unwrap_or_default(),
            ops: attached.ops().to_vec(),
            by_thread: attached.by_thread,
            of_anybody: false,
            net: attached.net().clone(),
            note: None,
        };
        Sampler {
            waits: None,
            probe,
            ledger: Ledger::default(),
            names: Names::new(rules.clone()),
            servers: servers::Servers::new(rules, watches_all_writes),
            devices: devices::Devices::default(),
            running: running::Running::new(&engines),
            shares: shares::Shares::default(),
            unwatched: unwatched::Unwatched::default(),
            backlogs: unsynced::Backlogs::new(engines.clone()),
            writeback: writeback::Writeback::new(engines),
            io: server_io::ServersIo::start(),
            setup: Arc::new(setup),
            last_reclaim: Instant::now(),
            taken_when_read: 0,
            has_unread_rows: false,
            paused_since: None,
            took_events: Instant::now(),
            paused: Duration::ZERO,
            began_ns: boot_ns(),
            snapshots: 0,
            forgotten: None,
        }
    }

    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    pub(crate) fn set_of_anybody(&mut self, of_anybody: bool) {
        Arc::make_mut(&mut self.setup).of_anybody = of_anybody;
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
        if !self.servers.meet(server) {
            return;
        }
        let owner = self.servers.owner(server);
        self.names.know_owner(server, owner);
        // All syncs of a server that began later were seen from their beginning.
        if server.start_ns < self.began_ns {
            self.running.find_earlier(owner, server);
        }
    }

    /// From now on new files of one owner take no more than a part of `share` of a processor; what they sync
    /// beyond that counts without its file.
    pub(crate) fn limit_new_files(&mut self, share: f64) -> std::io::Result<()> {
        self.shares.limit(&mut self.probe, share)
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
        if let Some(left) = REST.checked_sub(self.took_events.elapsed()) {
            std::thread::sleep(left.min(timeout));
        }
        let look = self.next_look_at_backlogs();
        self.probe.wait(look.map_or(timeout, |look| timeout.min(look)), wake)?;
        self.take_events(SOME)?;
        if self.next_look_at_backlogs().is_some_and(|left| left.is_zero()) {
            self.look_at_backlogs()?;
        }
        self.look_for_stalls();
        if self.last_reclaim.elapsed() >= Duration::from_millis(20) {
            self.last_reclaim = Instant::now();
            if self.short_of_rows() || self.has_unread_rows {
                self.read_rows()?;
                self.reclaim()?;
            }
            // So that the next snapshot already knows whose they are.
            self.read_writeback()?;
            // What is written from now on is told apart.
            if self.watches_all_writes() {
                self.servers.take_descriptions(&mut self.names);
                self.servers.take_parts();
                self.tell_parts();
            }
        }
        Ok(())
    }

    /// Writes that hang, unless writes are not to be watched (`--writes off`).
    fn look_for_stalls(&mut self) {
        let now = Instant::now();
        let is_paused = self.paused_since.is_some();
        if !is_paused && self.running.stalls.is_due(now) && self.setup.ops.contains(&Op::DsyncWrite) {
            self.running.stalls.look(&self.servers.alive(now), now);
        }
    }

    /// Everything counted up to now.
    pub fn snapshot(&mut self) -> std::io::Result<Snapshot> {
        self.take_events(ALL)?;
        // Whatever ended before this is in it; while the rows are read, more ends.
        let (taken, taken_wall, monotonic) = now();
        self.snapshots += 1;
        self.io.ask(&self.servers.list());
        let unsynced = self.read_unsynced()?;
        self.read_rows()?;
        // A row that was read may have sent its name, or a latency, just before.
        self.take_events(ALL)?;
        self.read_unwatched()?;
        self.names.collect();
        self.servers.refresh(&mut self.names);
        self.tell_parts();
        self.read_writeback()?;
        let (waits, wait_losses) = self.read_waits()?;
        self.reclaim()?;
        let mut unsynced = self.unsynced_files(&unsynced, taken)?;
        // After that: what it gives back must not come in again.
        let gone = self.forget_ended()?;
        unsynced.rows.retain(|row| !gone.contains(&row.server));
        self.servers.name_them();
        let Rows { files, failures, writes, threads, neighbours } = self.rows();
        let of_files = files.iter().filter_map(FileRow::device_number);
        let whole_disks =
            self.devices.whole_disks(of_files.chain(neighbours.iter().map(|row| row.device_number)));
        let short_of_rows = self.short_of_rows();
        let in_flight = self
            .running
            .list(&mut self.probe, &self.ledger, &self.names, short_of_rows, None)
            .map_err(std::io::Error::other)?;
        let hanging = in_flight.iter().map(|sync| sync.server);
        self.servers.note_active(self.ledger.active().chain(hanging), taken);
        let lost = self.lost(&files, taken);
        let servers = &self.servers;
        let alive = || servers.alive(taken).into_iter().map(|(server, (owner, _))| (server, owner)).collect();
        let refused = self.shares.refused(self.probe.refused()?, alive);
        let disks = disk_statistics::bytes();
        let io = self.io.take();
        self.probe.unmap();
        Ok(Snapshot {
            taken,
            taken_wall,
            monotonic,
            number: self.snapshots,
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
            refused,
            disks,
            io,
            whole_disks,
            unsynced,
            waits,
            wait_losses,
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
        self.tell_parts();
        self.names.settle(end.saturating_duration_since(Instant::now()));
        self.read_writeback()?;
        self.settle_writeback(end.saturating_duration_since(Instant::now()));
        Ok(())
    }

    /// Before a window: waits for what says which parts of files have a role of their own, where that counts.
    pub(crate) fn learn_parts(&mut self, patience: Duration) {
        if self.watches_all_writes() {
            self.servers.settle(&mut self.names, patience);
            self.tell_parts();
        }
    }

    /// Where the kernel side cannot be told, they are not told apart, and that is known of each server; the
    /// next look tries again.
    fn tell_parts(&mut self) {
        let now = monotonic();
        let Some(parts) = self.servers.changed_parts(now) else { return };
        let of_processes: Vec<_> = parts.iter().map(|&(id, part)| (id.pid, part)).collect();
        let is_told = self.probe.set_parts(&of_processes).is_ok();
        // After that: what was written before may have been taken for the whole file's.
        self.servers.parts_are_told(is_told.then_some(&parts), monotonic());
    }

    fn watches_all_writes(&self) -> bool {
        self.setup.ops.contains(&Op::Write)
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
        self.began_ns = boot_ns();
        let mut alive: Vec<_> = self.servers.alive(Instant::now()).into_iter().collect();
        alive.sort_by_key(|&(_, (_, is_active))| !is_active);
        for (server, (owner, _)) in alive {
            self.running.find_earlier(owner, server);
        }
    }

    /// How long nothing was counted, up to then.
    fn paused(&self, until: Instant) -> Duration {
        self.paused + self.paused_since.map_or(Duration::ZERO, |since| until.saturating_duration_since(since))
    }

    /// Processor time that was used so far for what others make: descriptions of servers, names of files,
    /// whether those of which a sync failed are open, and scans for what hangs.
    /// Each has an allowance of its own, so that nobody who starts processes or makes files can end the
    /// tracing by that.
    pub(crate) fn spent_apart(&self) -> Duration {
        self.servers.spent()
            + self.names.spent()
            + self.backlogs.spent()
            + self.running.spent()
            + self.io.spent()
    }

    /// Ends counting, waits a moment for the last names, and takes the last snapshot.
    pub fn finish(&mut self) -> std::io::Result<Snapshot> {
        let at_end = self.stop()?;
        self.wind_up(&at_end)
    }

    /// Ends counting. What had been counted then: those syncs that are in flight now are not in it with their
    /// latencies, which may be much longer than what lies before the end.
    pub fn stop(&mut self) -> std::io::Result<Snapshot> {
        // Without an end, what follows counts as well; no other figure is lost by that.
        if let Some(kept) = &mut self.waits {
            let _ = kept.probe.end();
        }
        self.probe.stop();
        let (taken, taken_wall, monotonic) = now();
        Ok(Snapshot { taken, taken_wall, monotonic, ..self.snapshot()? })
    }

    /// What had been counted when counting ended, with the latencies of what ends within a moment, and the
    /// last names. The programs stay attached: the kernel takes up to a second to detach them, and whoever
    /// wants the result should have it before.
    pub(crate) fn wind_up(&mut self, at_end: &Snapshot) -> std::io::Result<Snapshot> {
        self.let_syncs_end()?;
        while self.take_events(ALL)? {}
        self.settle(Duration::from_secs(1))?;
        let mut snapshot = self.snapshot()?;
        // The last syncs and the last names take time that is no part of the measurement.
        (snapshot.taken, snapshot.taken_wall, snapshot.monotonic) =
            (at_end.taken, at_end.taken_wall, at_end.monotonic);
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

    /// After the end of counting: waits until none of the traced syncs is in flight, but no longer than they
    /// have to end.
    fn let_syncs_end(&mut self) -> std::io::Result<()> {
        // What began is known to have begun before it is looked at what has ended.
        self.probe.wait_for_running();
        let end = Instant::now() + LAST_SYNCS;
        loop {
            self.take_events(SOME)?;
            self.read_rows()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.ledger.running().is_empty() {
                return Ok(());
            }
            self.probe.wait(left.min(LOOK_FOR_LAST), None)?;
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
        self.shares.allow(&mut self.probe)?;
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
            if let Some(kept) = &mut self.waits {
                kept.waited.fold_ended(&gone);
            }
            self.forget_unsynced(&gone)?;
            self.names.forget(&gone);
            self.servers.forget(&gone);
            self.forget_unwatched(|server| gone.contains(&server));
            self.shares.forget(|server| gone.contains(server));
            let together =
                || Server { alive: false, ..Server::new(ServerId::ENDED, "(ended processes)".into()) };
            self.forgotten.get_or_insert_with(|| Arc::new(together()));
        }
        Ok(gone)
    }
}

/// By each of the clocks.
fn now() -> (Instant, SystemTime, Duration) {
    (Instant::now(), SystemTime::now(), monotonic())
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
