//! The books: what each file, thread and neighbour did since tracing began, out of the kernel's rows and single
//! events. Rows come and go (a slot serves one file after another); accounts only grow. Pure: it is told what was
//! read, and says which rows may be retired.

mod reading;
mod retire;
mod shared;
mod subject;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::histogram::{Histogram, bucket_of};
use crate::probe::{Identity, Row, record};
use crate::snapshot::{FileId, Max, Op, Role, ServerId, Stats, Target};

pub use reading::{errors_of, stats_of};
pub use subject::Subject;

use subject::reserved;

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
}

fn same(a: &Row, b: &Row) -> bool {
    a.started == b.started && a.sum_ns == b.sum_ns && a.elsewhere == b.elsewhere && a.errors == b.errors
}
