//! The books: what each file, thread and neighbour did since tracing began, out of the kernel's rows and single
//! events. Rows come and go (a slot serves one file after another); accounts only grow. Pure: it is told what was
//! read, and says which rows may be retired.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::histogram::{BUCKETS, Histogram, bucket_of};
use crate::probe::{Identity, RawHistogram, Row, record};
use crate::snapshot::{FileId, Max, OTHER_NEIGHBOURS, Op, Role, ServerId, Stats, Target};

/// What an account is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    File {
        server: ServerId,
        target: Target,
        op: Op,
    },
    /// `start`: of the thread, as the kernel side keeps it, so that a reused id is another thread.
    Thread {
        server: ServerId,
        tid: u32,
        start: u32,
        op: Op,
    },
    Neighbour {
        device: u32,
        comm: String,
    },
}

impl Subject {
    /// None for a row that this side does not know.
    pub fn of(id: &Identity) -> Option<Subject> {
        let op = *Op::ALL.get(usize::from(id.op))?;
        let server = ServerId { pid: id.tgid, start_ns: id.owner };
        let file = |target| Subject::File { server, target, op };
        Some(match id.kind {
            record::KIND_FILE => file(Target::File(file_id(id))),
            record::KIND_FILESYSTEM => file(Target::Filesystem(id.device)),
            record::KIND_NO_FILE => file(Target::NoFile),
            record::KIND_BAD_DESCRIPTOR => file(Target::BadDescriptor),
            record::KIND_THREAD => {
                Subject::Thread { server, tid: id.object as u32, start: id.generation, op }
            }
            record::KIND_NEIGHBOUR => Subject::Neighbour { device: id.device, comm: comm_of(id) },
            _ => return None,
        })
    }
}

pub fn file_id(id: &Identity) -> FileId {
    FileId {
        device: id.device,
        inode: id.object,
        generation: id.generation,
        weak: id.flags & record::IDENTITY_WEAK != 0,
    }
}

/// The leader's name of a neighbour.
fn comm_of(id: &Identity) -> String {
    let bytes: Vec<u8> =
        [id.owner, id.object].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The syncs of one subject.
#[derive(Debug)]
pub struct Account {
    pub subject: Subject,
    /// From events, and from rows that were retired.
    settled: Stats,
    /// Everything.
    pub stats: Stats,
    /// The rows in use: one, or two while the earlier one is read out.
    slots: Vec<u32>,
    /// The tick in which it last changed.
    pub changed: u64,
    /// The role in the last snapshot: there its syncs stay when it is folded.
    pub shown_as: Cell<Option<Role>>,
}

/// A row in use.
#[derive(Debug)]
struct Live {
    account: usize,
    sequence: u32,
    seen: Row,
    stats: Stats,
    /// The tick in which it was taken out of use; it is freed some time later.
    unlinked: Option<u64>,
}

impl Live {
    fn running(&self) -> u64 {
        self.seen.started.saturating_sub(self.stats.count)
    }
}

/// What a row turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Unused,
    Unchanged,
    Changed,
}

#[derive(Debug, Default)]
pub struct Ledger {
    accounts: Vec<Account>,
    by_subject: HashMap<Subject, usize>,
    live: HashMap<u32, Live>,
    /// Places of accounts that were folded into others.
    vacant: Vec<usize>,
    /// Histograms that the cold files of a server's role share.
    shared: BTreeMap<(ServerId, Role, Op), u32>,
    shared_histograms: BTreeMap<u32, Arc<Histogram>>,
    tick: u64,
}

/// A row's counts and, if it has one, its histogram. The sum of the buckets is the count; what lies elsewhere is
/// added.
pub fn stats_of(row: &Row, histogram: Option<&RawHistogram>) -> Stats {
    let inner = histogram.into_iter().flat_map(|raw| raw.bucket.iter().enumerate());
    let counts = std::iter::once((0, row.under))
        .chain(inner.map(|(bucket, &n)| (bucket + 1, n)))
        .chain(std::iter::once((BUCKETS - 1, row.over)));
    let histogram = Histogram::from_sorted(counts);
    let count = histogram.count() + row.elsewhere;
    Stats {
        count,
        sum_ns: row.sum_ns,
        max: Max { ns: row.max_ns, exact: true },
        histogram: Arc::new(histogram),
        errors: BTreeMap::new(),
    }
}

/// A row's failures by errno. Those whose errno found no room are failures of this file all the same: errno 0.
pub fn errors_of(row: &Row, known: Option<&[(i32, u64)]>) -> BTreeMap<i32, u64> {
    let mut by_errno: BTreeMap<i32, u64> = BTreeMap::new();
    for &(errno, n) in known.unwrap_or_default() {
        *by_errno.entry(errno).or_default() += n;
    }
    let named: u64 = by_errno.values().sum();
    if row.errors > named {
        by_errno.insert(0, row.errors - named);
    }
    by_errno
}

impl Ledger {
    /// Begins another round of readings.
    pub fn begin_tick(&mut self) {
        self.tick += 1;
    }

    /// Looks at a row: is there anything to read? The rest of the reading costs a page. A row with syncs in flight is
    /// read again even if it looks the same: one may have been caught between the row and its histogram.
    pub fn look(&mut self, slot: u32, row: &Row) -> Reading {
        let used =
            row.state & record::ROW_READY != 0 || (slot < record::FIRST_SHARED_SLOT && row.started > 0);
        if !used {
            return Reading::Unused;
        }
        match self.live.get(&slot) {
            Some(live) if live.sequence == row.sequence && live.running() == 0 && same(&live.seen, row) => {
                Reading::Unchanged
            }
            _ => Reading::Changed,
        }
    }

    /// Takes a row's figures.
    pub fn enter(&mut self, slot: u32, row: &Row, stats: Stats) {
        let Some(subject) = reserved(slot).or_else(|| Subject::of(&row.id)) else { return };
        let account = self.account(subject);
        match self.live.get_mut(&slot) {
            Some(live) if live.sequence == row.sequence && live.account == account => {
                live.seen = *row;
                live.stats = stats;
            }
            _ => {
                self.freed(slot);
                let live = Live { account, sequence: row.sequence, seen: *row, stats, unlinked: None };
                self.live.insert(slot, live);
                self.accounts[account].slots.push(slot);
            }
        }
        self.total(account);
    }

    /// Sums an account up again.
    fn total(&mut self, at: usize) {
        let account = &mut self.accounts[at];
        let mut stats = match account.slots[..] {
            [slot] if account.settled == Stats::default() => self.live[&slot].stats.clone(),
            _ => {
                let mut sum = account.settled.clone();
                account.slots.iter().for_each(|slot| sum.merge(&self.live[slot].stats));
                sum
            }
        };
        // Of a cold row only some latencies are known here, so its histogram proves nothing about the greatest.
        if stats.histogram.count() == stats.count {
            stats.settle_max();
        }
        account.stats = stats;
        account.changed = self.tick;
    }

    /// Counts one sync that no row could take.
    pub fn count_event(&mut self, id: &Identity, latency_ns: u64, result: i32) {
        let Some(subject) = Subject::of(id) else { return };
        let account = self.account(subject);
        let mut histogram = Histogram::default();
        histogram.add(bucket_of(latency_ns), 1);
        let mut one = Stats {
            count: 1,
            sum_ns: latency_ns,
            max: Max { ns: latency_ns, exact: true },
            histogram: Arc::new(histogram),
            errors: BTreeMap::new(),
        };
        if result < 0 {
            one.errors.insert(-result, 1);
        }
        self.accounts[account].settled.merge(&one);
        self.total(account);
    }

    /// Takes the latency of a sync that its row counts but has no histogram for.
    pub fn enter_latency(&mut self, id: &Identity, latency_ns: u64) {
        let Some(subject) = Subject::of(id) else { return };
        let account = self.account(subject);
        let settled = &mut self.accounts[account].settled;
        Arc::make_mut(&mut settled.histogram).add(bucket_of(latency_ns), 1);
        self.total(account);
    }

    fn account(&mut self, subject: Subject) -> usize {
        if let Some(&at) = self.by_subject.get(&subject) {
            return at;
        }
        let account = Account {
            subject: subject.clone(),
            settled: Stats::default(),
            stats: Stats::default(),
            slots: Vec::new(),
            changed: self.tick,
            shown_as: Cell::default(),
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.accounts[at] = account;
                at
            }
            None => {
                self.accounts.push(account);
                self.accounts.len() - 1
            }
        };
        self.by_subject.insert(subject, at);
        at
    }

    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.by_subject.values().map(|&at| &self.accounts[at])
    }

    /// Whether a file has an account of its own, for any operation.
    pub fn knows(&self, server: ServerId, file: FileId) -> bool {
        let target = Target::File(file);
        Op::ALL.iter().any(|&op| self.by_subject.contains_key(&Subject::File { server, target, op }))
    }

    pub fn subject_at(&self, slot: u32, sequence: u32) -> Option<&Subject> {
        let live = self.live.get(&slot).filter(|live| live.sequence == sequence)?;
        Some(&self.accounts[live.account].subject)
    }

    /// Rows in use at or above a slot.
    pub fn rows_in_use(&self, from: u32, to: u32) -> usize {
        self.live.keys().filter(|&&slot| (from..to).contains(&slot)).count()
    }

    /// Syncs that have begun in a row and not ended, over all rows; the calls in flight, unless some were lost.
    pub fn running(&self) -> u64 {
        self.live
            .values()
            .filter(|live| !matches!(self.accounts[live.account].subject, Subject::Thread { .. }))
            .map(Live::running)
            .sum()
    }

    /// Rows to take out of use: those idle longest first, at most `wanted`, none that changed in this tick, and none
    /// with a sync in flight.
    pub fn retirable(&self, from: u32, to: u32, wanted: usize, idle_ticks: u64) -> Vec<(u32, Identity)> {
        let mut idle: Vec<_> = self
            .live
            .iter()
            .filter(|(slot, live)| (from..to).contains(slot) && live.unlinked.is_none())
            .filter_map(|(&slot, live)| {
                let account = &self.accounts[live.account];
                let quiet = live.running() == 0 && account.changed + idle_ticks <= self.tick;
                quiet.then_some((account.changed, slot, live.seen.id))
            })
            .collect();
        idle.sort_unstable_by_key(|&(changed, slot, _)| (changed, slot));
        idle.truncate(wanted);
        idle.into_iter().map(|(_, slot, id)| (slot, id)).collect()
    }

    /// The row was taken out of use; it is still read, for syncs that were under way.
    pub fn unlinked(&mut self, slot: u32) {
        if let Some(live) = self.live.get_mut(&slot) {
            live.unlinked = Some(self.tick);
        }
    }

    /// Rows that were unlinked and have been quiet since: free them.
    pub fn freeable(&self) -> Vec<u32> {
        let quiet = |live: &Live| {
            let account = &self.accounts[live.account];
            live.unlinked.is_some_and(|at| at < self.tick)
                && account.changed < self.tick
                && live.running() == 0
        };
        self.live.iter().filter(|(_, live)| quiet(live)).map(|(&slot, _)| slot).collect()
    }

    /// The row is about to be cleared: what it holds is settled.
    pub fn freed(&mut self, slot: u32) {
        let Some(live) = self.live.remove(&slot) else { return };
        let account = &mut self.accounts[live.account];
        account.slots.retain(|&other| other != slot);
        account.settled.merge(&live.stats);
    }

    /// Folds accounts without a row into one (files by role, threads by server, neighbours all), those idle longest
    /// first, until at most `most` are left: totals stay exact while memory stays bounded. Returns how many are gone.
    pub fn fold(&mut self, most: usize, role: impl Fn(&Subject) -> Role) -> usize {
        let mut rowless: Vec<_> = self
            .by_subject
            .iter()
            .filter(|(subject, at)| {
                self.accounts[**at].slots.is_empty()
                    && matches!(
                        subject,
                        Subject::File { target: Target::File(_), .. }
                            | Subject::Thread { start: 1.., .. }
                            | Subject::Neighbour { device: 1.., .. }
                    )
            })
            .map(|(_, &at)| (self.accounts[at].changed, at))
            .collect();
        if rowless.len() <= most {
            return 0;
        }
        rowless.sort_unstable();
        // A quarter more than needed, so that this does not happen at every tick.
        let excess = (rowless.len() - most + most / 4).min(rowless.len());
        for &(_, at) in &rowless[..excess] {
            let subject = self.accounts[at].subject.clone();
            self.by_subject.remove(&subject);
            let stats = std::mem::take(&mut self.accounts[at].stats);
            self.vacant.push(at);
            let shown_as = self.accounts[at].shown_as.get();
            let heir = match subject {
                Subject::File { server, op, .. } => {
                    let role = shown_as.unwrap_or_else(|| role(&subject));
                    Subject::File { server, target: Target::Gone(role), op }
                }
                Subject::Thread { server, op, .. } => Subject::Thread { server, tid: 0, start: 0, op },
                Subject::Neighbour { .. } => other_neighbours(),
            };
            let heir = self.account(heir);
            self.accounts[heir].settled.merge(&stats);
            self.total(heir);
        }
        excess
    }

    /// The shared histogram of a role, and whether it is new; None when all are taken.
    pub fn shared_slot(&mut self, server: ServerId, role: Role, op: Op) -> Option<u32> {
        if let Some(&slot) = self.shared.get(&(server, role, op)) {
            return Some(slot);
        }
        let slot = record::FIRST_SHARED_SLOT + self.shared.len() as u32;
        (slot < record::FIRST_NEIGHBOUR_SLOT).then(|| {
            self.shared.insert((server, role, op), slot);
            slot
        })
    }

    pub fn shared_slots(&self) -> Vec<u32> {
        self.shared.values().copied().collect()
    }

    pub fn enter_shared(&mut self, slot: u32, raw: &RawHistogram) {
        let counts = raw.bucket.iter().enumerate().map(|(bucket, &n)| (bucket + 1, n));
        let histogram = Histogram::from_sorted(counts);
        let known = self.shared_histograms.entry(slot).or_default();
        if **known != histogram {
            *known = Arc::new(histogram);
        }
    }

    /// What the cold files of each role share.
    pub fn shared(&self) -> impl Iterator<Item = (ServerId, Role, Op, &Arc<Histogram>)> {
        self.shared.iter().filter_map(|(&(server, role, op), slot)| {
            self.shared_histograms.get(slot).map(|histogram| (server, role, op, histogram))
        })
    }
}

/// All neighbours that are not kept apart.
fn other_neighbours() -> Subject {
    Subject::Neighbour { device: 0, comm: OTHER_NEIGHBOURS.into() }
}

fn reserved(slot: u32) -> Option<Subject> {
    let nobody = ServerId { pid: 0, start_ns: 0 };
    match slot {
        record::NEIGHBOUR_OVERFLOW_SLOT => Some(other_neighbours()),
        slot if slot < record::FIRST_SHARED_SLOT => {
            let op = *Op::ALL.get(slot as usize)?;
            Some(Subject::File { server: nobody, target: Target::Unattributed, op })
        }
        _ => None,
    }
}

fn same(a: &Row, b: &Row) -> bool {
    a.started == b.started && a.sum_ns == b.sum_ns && a.elsewhere == b.elsewhere && a.errors == b.errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64, generation: u32) -> Identity {
        Identity {
            owner: 7,
            object: inode,
            tgid: 42,
            device: 0x800001,
            generation,
            op: Op::Fsync as u8,
            kind: record::KIND_FILE,
            flags: 0,
        }
    }

    fn row(id: Identity, sequence: u32, latencies: &[u64]) -> (Row, RawHistogram) {
        let mut raw = RawHistogram::default();
        latencies.iter().for_each(|&ns| raw.bucket[bucket_of(ns) - 1] += 1);
        let row = Row {
            id,
            started: latencies.len() as u64,
            sum_ns: latencies.iter().sum(),
            max_ns: latencies.iter().copied().max().unwrap_or(0),
            state: record::ROW_READY,
            sequence,
            ..Row::default()
        };
        (row, raw)
    }

    fn read(ledger: &mut Ledger, slot: u32, (row, raw): &(Row, RawHistogram)) -> Reading {
        let reading = ledger.look(slot, row);
        if reading == Reading::Changed {
            ledger.enter(slot, row, stats_of(row, Some(raw)));
        }
        reading
    }

    fn count_of(ledger: &Ledger, id: &Identity) -> u64 {
        let subject = Subject::of(id).unwrap();
        ledger.accounts().find(|account| account.subject == subject).map_or(0, |account| account.stats.count)
    }

    #[test]
    fn a_row_that_stands_still_is_not_read_again() {
        let mut ledger = Ledger::default();
        let reading = row(id(1, 1), 0, &[1_000, 2_000]);
        assert_eq!(read(&mut ledger, 300, &reading), Reading::Changed);
        assert_eq!(read(&mut ledger, 300, &reading), Reading::Unchanged);
        assert_eq!(ledger.look(301, &Row::default()), Reading::Unused);
        assert_eq!(count_of(&ledger, &id(1, 1)), 2);
    }

    #[test]
    fn a_slot_that_serves_another_file_leaves_the_first_ones_total_alone() {
        let mut ledger = Ledger::default();
        ledger.begin_tick();
        read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000; 5]));
        ledger.begin_tick();
        assert_eq!(ledger.retirable(256, 400, 10, 1), [(300, id(1, 1))]);
        ledger.unlinked(300);
        assert!(ledger.retirable(256, 400, 10, 1).is_empty());
        ledger.begin_tick();
        assert_eq!(ledger.freeable(), [300]);
        ledger.freed(300);
        // The same inode number with another generation is another file.
        read(&mut ledger, 300, &row(id(1, 2), 1, &[3_000; 2]));
        assert_eq!(count_of(&ledger, &id(1, 1)), 5);
        assert_eq!(count_of(&ledger, &id(1, 2)), 2);
        // And the first file, synced again, goes on where it was.
        read(&mut ledger, 301, &row(id(1, 1), 0, &[1_000; 3]));
        assert_eq!(count_of(&ledger, &id(1, 1)), 8);
    }

    #[test]
    fn a_sync_that_ends_after_its_row_was_unlinked_is_counted() {
        let mut ledger = Ledger::default();
        ledger.begin_tick();
        read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000]));
        ledger.begin_tick();
        ledger.unlinked(300);
        // Meanwhile the file has another row.
        read(&mut ledger, 301, &row(id(1, 1), 4, &[2_000; 3]));
        ledger.begin_tick();
        let mut late = row(id(1, 1), 0, &[1_000]);
        late.0.started = 2;
        read(&mut ledger, 300, &late);
        assert!(ledger.freeable().is_empty(), "a sync is in flight");
        ledger.begin_tick();
        read(&mut ledger, 300, &row(id(1, 1), 0, &[1_000, 9_000]));
        assert!(ledger.freeable().is_empty(), "it changed just now");
        ledger.begin_tick();
        assert_eq!(ledger.freeable(), [300]);
        ledger.freed(300);
        assert_eq!(count_of(&ledger, &id(1, 1)), 5);
    }

    #[test]
    fn a_file_with_a_sync_in_flight_is_never_retired() {
        let mut ledger = Ledger::default();
        let mut reading = row(id(1, 1), 0, &[1_000]);
        reading.0.started = 2;
        read(&mut ledger, 300, &reading);
        for _ in 0..5 {
            ledger.begin_tick();
        }
        assert!(ledger.retirable(256, 400, 10, 1).is_empty());
        assert_eq!(ledger.running(), 1);
    }

    #[test]
    fn folding_keeps_the_sum_and_bounds_the_number() {
        let mut ledger = Ledger::default();
        for inode in 0..1_000 {
            ledger.begin_tick();
            ledger.count_event(&id(inode, 1), 5_000, if inode == 7 { -libc::EIO } else { 0 });
        }
        assert_eq!(ledger.fold(100, |_| Role::Tablespace), 925);
        let server = ServerId { pid: 42, start_ns: 7 };
        let known = |inode| ledger.knows(server, file_id(&id(inode, 1)));
        assert!(known(999) && !known(0));
        assert_eq!(ledger.accounts().count(), 76);
        let total: u64 = ledger.accounts().map(|account| account.stats.count).sum();
        assert_eq!(total, 1_000);
        let errors: u64 = ledger.accounts().map(|account| account.stats.error_count()).sum();
        assert_eq!(errors, 1);
    }

    #[test]
    fn a_file_is_folded_into_the_role_that_it_was_shown_in() {
        let mut ledger = Ledger::default();
        for inode in 0..2 {
            ledger.count_event(&id(inode, 1), 5_000, 0);
        }
        let shown = Subject::of(&id(1, 1)).unwrap();
        ledger.accounts().find(|account| account.subject == shown).unwrap().shown_as.set(Some(Role::Undo));
        assert_eq!(ledger.fold(0, |_| Role::Tablespace), 2);
        let count_of = |role| {
            let of = |account: &&Account| matches!(account.subject, Subject::File { target: Target::Gone(gone), .. } if gone == role);
            ledger.accounts().find(of).map(|account| account.stats.count)
        };
        assert_eq!([count_of(Role::Undo), count_of(Role::Tablespace)], [Some(1); 2]);
    }

    #[test]
    fn a_neighbour_is_known_by_device_and_name() {
        let mut neighbour = id(0, 0);
        neighbour.kind = record::KIND_NEIGHBOUR;
        neighbour.owner = u64::from_ne_bytes(*b"xtraback");
        neighbour.object = u64::from_ne_bytes(*b"up\0\0\0\0\0\0");
        let subject = Subject::of(&neighbour).unwrap();
        assert_eq!(subject, Subject::Neighbour { device: 0x800001, comm: "xtrabackup".into() });
    }
}
