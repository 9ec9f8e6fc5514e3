//! The books: what each file, thread and neighbour did since tracing began, out of the kernel's rows and
//! single events. Rows come and go (a slot serves one file after another); accounts only grow. Pure: it is
//! told what was read, and says which rows may be retired.

mod ended;
mod reading;
mod retire;
mod shared;
pub(super) mod subject;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::model::histogram::{Histogram, bucket_of};
use crate::model::{Completions, Errors, FileId, Max, Op, Role, ServerId, Stats, Target, Via};
use crate::probe::{Identity, Row, record};

pub(crate) use reading::{errors_of, stats_of};
pub(crate) use retire::Slots;
pub(crate) use subject::Subject;

use subject::reserved;

/// The syncs of one subject: of all its rows, those that are gone included, and of events.
#[derive(Debug)]
pub struct Account {
    pub subject: Subject,
    pub stats: Stats,
    /// The row that everything here came from, if it is one and nothing else: the usual case, which needs no
    /// second copy of the figures.
    only: Option<u32>,
    /// The rows in use: one, or two while the earlier one is read out.
    rows: u32,
    /// The tick in which it last changed.
    pub changed: u64,
    /// The role in the last snapshot: there its syncs stay when it is folded.
    pub shown_as: Cell<Option<Role>>,
    /// Folded into another: its place waits for the next.
    closed: bool,
}

/// A row in use, as it was last read.
#[derive(Debug)]
struct Live {
    account: u32,
    sequence: u32,
    started: u64,
    sum_ns: u64,
    /// Syncs counted elsewhere, and failures.
    others: u64,
    /// Its part of an account that has other parts.
    part: Option<Box<Stats>>,
    /// Syncs that have begun and not ended.
    running: u32,
    /// It has no histogram of its own: latencies come one by one, or go into its role's.
    cold: bool,
    /// It was taken out of use; it is freed some time later.
    unlinked: bool,
}

impl Live {
    /// Nothing has happened in the row since it was read.
    fn is_still(&self, row: &Row) -> bool {
        self.sequence == row.sequence
            && self.started == row.started
            && self.sum_ns == row.sum_ns
            && self.others == others(row)
    }
}

/// Both only grow, so that their sum tells whether one did.
fn others(row: &Row) -> u64 {
    row.elsewhere.wrapping_add(row.errors)
}

/// What a row turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Unused,
    Unchanged,
    Changed,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: Vec<Account>,
    /// Places in `accounts`, found by the subject that stands there.
    by_subject: HashTable<u32>,
    hasher: RandomState,
    /// By slot.
    live: Vec<Option<Live>>,
    /// Rows that were taken out of use, and in which tick.
    unlinked: Vec<(u32, u64)>,
    neighbour_rows: usize,
    file_rows: usize,
    /// Accounts without a row.
    rowless: usize,
    /// Places of accounts that were folded into others.
    vacant: Vec<u32>,
    /// Histograms that the cold files of a server's role share.
    shared: BTreeMap<(ServerId, Role, Op), u32>,
    shared_histograms: BTreeMap<u32, Histogram>,
    tick: u64,
}

impl Ledger {
    /// Begins another round of readings.
    pub(crate) fn begin_tick(&mut self) {
        self.tick += 1;
    }

    /// Looks at a row: is there anything to read? The rest of the reading costs a page. A row with syncs in
    /// flight is read again even if it looks the same: one may have been caught between the row and its
    /// histogram.
    pub fn look(&self, slot: u32, row: &Row) -> Reading {
        let used =
            row.state & record::ROW_READY != 0 || (slot < record::FIRST_SHARED_SLOT && row.started > 0);
        if !used {
            return Reading::Unused;
        }
        match self.live(slot) {
            Some(live) if live.running == 0 && live.is_still(row) => Reading::Unchanged,
            _ => Reading::Changed,
        }
    }

    /// Whether the row that is in this slot was read before.
    pub(crate) fn has_read(&self, slot: u32, sequence: u32) -> bool {
        self.live(slot).is_some_and(|live| live.sequence == sequence)
    }

    /// Takes a row's figures, but for its errors. `cold`: of one without a histogram of its own.
    pub fn enter(&mut self, slot: u32, row: &Row, stats: Stats, cold: bool) {
        let known = self.live(slot).filter(|live| live.sequence == row.sequence);
        let Some(at) = known.map(|live| live.account).or_else(|| self.open(slot, row, cold)) else { return };
        let Some(live) = self.live.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        live.started = row.started;
        live.sum_ns = row.sum_ns;
        live.others = others(row);
        live.running = row.started.saturating_sub(stats.count).try_into().unwrap_or(u32::MAX);
        let account = &mut self.accounts[at as usize];
        match &mut live.part {
            None => {
                let old = std::mem::replace(&mut account.stats, stats);
                account.stats.errors = old.errors;
                if cold {
                    account.stats.histogram.merge(&old.histogram.without_outermost());
                }
            }
            Some(part) => {
                let errors = std::mem::take(&mut part.errors);
                account.stats.merge(&stats.since(part));
                **part = Stats { errors, ..stats };
            }
        }
        self.changed(at);
    }

    /// Takes a row's errors, after its other figures.
    pub(crate) fn enter_errors(&mut self, slot: u32, errors: Errors) {
        let Some(live) = self.live.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let account = &mut self.accounts[live.account as usize];
        match &mut live.part {
            None => account.stats.errors = errors,
            Some(part) => {
                // An errno that was not known yet may be known now: what was counted as unknown is taken
                // back.
                for (errno, &n) in &part.errors {
                    let sum = account.stats.errors.entry(*errno).or_default();
                    *sum = sum.saturating_sub(n);
                }
                for (errno, &n) in &errors {
                    *account.stats.errors.entry(*errno).or_default() += n;
                }
                account.stats.errors.retain(|_, n| *n > 0);
                part.errors = errors;
            }
        }
    }

    fn live(&self, slot: u32) -> Option<&Live> {
        self.live.get(slot as usize)?.as_ref()
    }

    /// Begins to keep a row. The place of its account; None for a row that this side does not know.
    fn open(&mut self, slot: u32, row: &Row, cold: bool) -> Option<u32> {
        let subject = reserved(slot).or_else(|| Subject::of(&row.id))?;
        self.freed(slot);
        let at = self.account(subject);
        let account = &mut self.accounts[at as usize];
        // The latencies of a cold row may come before it is read for the first time.
        let nothing_else = if cold { account.stats.count == 0 } else { account.stats == Stats::default() };
        let is_first = account.rows == 0 && nothing_else;
        if is_first {
            account.only = Some(slot);
        } else {
            self.divide(at);
        }
        let account = &mut self.accounts[at as usize];
        self.rowless -= usize::from(account.rows == 0);
        account.rows += 1;
        let live = Live {
            account: at,
            sequence: row.sequence,
            started: 0,
            sum_ns: 0,
            others: 0,
            part: (!is_first).then(Box::default),
            running: 0,
            cold,
            unlinked: false,
        };
        if self.live.len() <= slot as usize {
            self.live.resize_with(slot as usize + 1, || None);
        }
        self.live[slot as usize] = Some(live);
        *self.rows_of(slot) += 1;
        Some(at)
    }

    /// The account gets figures from elsewhere: from now on its one row keeps its own part of them.
    fn divide(&mut self, at: u32) {
        let account = &mut self.accounts[at as usize];
        if let Some(slot) = account.only.take()
            && let Some(live) = &mut self.live[slot as usize]
        {
            live.part = Some(Box::new(account.stats.clone()));
        }
    }

    fn changed(&mut self, at: u32) {
        let account = &mut self.accounts[at as usize];
        // Of a cold row only some latencies are known here, so its histogram proves nothing about the
        // greatest.
        if account.stats.histogram.count() == account.stats.count {
            account.stats.settle_max();
        }
        account.changed = self.tick;
    }

    fn merge(&mut self, at: u32, stats: &Stats) {
        self.divide(at);
        self.accounts[at as usize].stats.merge(stats);
        self.changed(at);
    }

    /// Counts one sync that no row could take.
    pub(crate) fn count_event(&mut self, id: &Identity, latency_ns: u64, result: i32) {
        let Some(subject) = Subject::of(id) else { return };
        let at = self.account(subject);
        let one = Stats {
            count: 1,
            sum_ns: latency_ns,
            max: Max { ns: latency_ns, exact: true },
            histogram: Histogram::from_sorted([(bucket_of(latency_ns), 1)]),
            errors: (result < 0).then_some((-result, 1)).into_iter().collect(),
            untimed: 0,
            bytes: u64::try_from(result).unwrap_or(0),
            completions: Completions::default(),
            pending_ns: 0,
        };
        self.merge(at, &one);
    }

    /// Takes the latency of a sync that its row counts but has no histogram for.
    pub(crate) fn enter_latency(&mut self, id: &Identity, latency_ns: u64) {
        let Some(subject) = Subject::of(id) else { return };
        let at = self.account(subject);
        let histogram = Histogram::from_sorted([(bucket_of(latency_ns), 1)]);
        let account = &mut self.accounts[at as usize];
        let only = account.only.and_then(|slot| self.live[slot as usize].as_ref());
        if only.is_some_and(|live| live.cold) {
            // Such a row counts in the two outermost buckets, and its latencies come in all others.
            account.stats.histogram.merge(&histogram);
            self.changed(at);
        } else {
            self.merge(at, &Stats { histogram, ..Stats::default() });
        }
    }

    fn place_of(&self, subject: &Subject) -> Option<u32> {
        let is_it = |&at: &u32| self.accounts[at as usize].subject == *subject;
        self.by_subject.find(self.hasher.hash_one(subject), is_it).copied()
    }

    /// The place of a subject's account, which is made if there is none.
    fn account(&mut self, subject: Subject) -> u32 {
        if let Some(at) = self.place_of(&subject) {
            return at;
        }
        let hash = self.hasher.hash_one(&subject);
        let account = Account {
            subject,
            stats: Stats::default(),
            only: None,
            rows: 0,
            changed: self.tick,
            shown_as: Cell::default(),
            closed: false,
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.accounts[at as usize] = account;
                at
            }
            None => {
                self.accounts.push(account);
                (self.accounts.len() - 1) as u32
            }
        };
        let (accounts, hasher) = (&self.accounts, &self.hasher);
        self.by_subject.insert_unique(hash, at, |&at| hasher.hash_one(&accounts[at as usize].subject));
        self.rowless += 1;
        at
    }

    /// Ends an account that has no row.
    fn close(&mut self, at: u32) -> (Subject, Stats, Option<Role>) {
        let account = &mut self.accounts[at as usize];
        let hash = self.hasher.hash_one(&account.subject);
        if let Ok(entry) = self.by_subject.find_entry(hash, |&other| other == at) {
            entry.remove();
            account.closed = true;
            self.vacant.push(at);
            self.rowless -= 1;
        }
        (account.subject.clone(), std::mem::take(&mut account.stats), account.shown_as.get())
    }

    /// In the order in which they were begun, which is how they lie in memory.
    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.iter().filter(|account| !account.closed)
    }

    /// Whether anything came to it in this round of readings.
    pub(crate) fn has_changed(&self, account: &Account) -> bool {
        account.changed == self.tick
    }

    /// The servers that have an account which changed in this tick, some more than once.
    pub(crate) fn active(&self) -> impl Iterator<Item = ServerId> {
        let changed = self.accounts().filter(|account| self.has_changed(account));
        changed.filter_map(|account| match account.subject {
            Subject::File { server, .. } => Some(server),
            _ => None,
        })
    }

    pub(crate) fn account_count(&self) -> usize {
        self.by_subject.len()
    }

    /// Whether a file has an account of its own, for any operation.
    pub fn knows(&self, server: ServerId, file: FileId) -> bool {
        let target = Target::File(file);
        Op::ALL.iter().any(|&op| self.place_of(&Subject::File { server, target, op }).is_some())
    }

    /// Whether a thread has an account of its own, for any operation.
    pub(crate) fn knows_thread(&self, server: ServerId, tid: u32, start: u32) -> bool {
        Op::ALL.iter().any(|&op| self.place_of(&Subject::Thread { server, tid, start, op }).is_some())
    }

    pub(crate) fn subject_at(&self, slot: u32, sequence: u32) -> Option<&Subject> {
        let live = self.live(slot).filter(|live| live.sequence == sequence)?;
        Some(&self.accounts[live.account as usize].subject)
    }

    /// The rows of files in use, with what they are about and when that last changed.
    pub(crate) fn rows_in_use_of(&self, server: ServerId) -> impl Iterator<Item = (u32, &Account)> {
        let rows = (0..).zip(&self.live).filter_map(|(slot, live)| Some((slot, live.as_ref()?)));
        let rows = rows.filter(|(_, live)| !live.unlinked);
        rows.map(|(slot, live)| (slot, &self.accounts[live.account as usize])).filter(move |(_, account)| {
            matches!(account.subject, Subject::File { server: whose, .. } if whose == server)
        })
    }

    /// Whether a request of a ring, or of libaio, is in flight.
    pub(crate) fn has_running_requests(&self) -> bool {
        let running = self.live.iter().flatten().filter(|live| live.running > 0);
        running.into_iter().any(|live| match self.accounts[live.account as usize].subject {
            Subject::File { op, .. } => matches!(op.via(), Via::IoUring | Via::Aio),
            Subject::Thread { .. } | Subject::Neighbour { .. } => false,
        })
    }

    /// The processes that have syncs in flight, by the rows of files; 0 for syncs that found no row.
    pub fn running(&self) -> BTreeSet<u32> {
        let running = self.live.iter().flatten().filter(|live| live.running > 0);
        let process = |live: &Live| match self.accounts[live.account as usize].subject {
            Subject::File { server, .. } => Some(server.pid),
            // Also counted by file, or not shown.
            Subject::Thread { .. } | Subject::Neighbour { .. } => None,
        };
        running.filter_map(process).collect()
    }
}
