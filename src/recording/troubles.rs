//! What went wrong in a span of time, a moment after the other and however long it gets: incidents, and all
//! failures. In bounded memory.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::History;
use super::incidents::Incidents;
use crate::model::{
    Errors, FileRow, Interval, Lost, Op, Role, RoleRow, ServerId, Stats, Table, Target, Unsynced,
    UnsyncedRow, unsynced_roles,
};

/// Files whose failures are told apart; those of others are counted.
const MOST_FAILED: usize = 100;
/// Roles of servers of which it is kept what may be lost.
const MOST_KEPT: usize = 1_024;

/// When something began and ended, by the wall clock.
pub(super) type Span = (SystemTime, SystemTime);

#[derive(Clone, Debug)]
pub struct Troubles {
    /// When the first moment began and the last one ended, by the wall clock.
    pub span: Option<(SystemTime, SystemTime)>,
    /// The time that the moments cover.
    pub duration: Duration,
    pub lost: Lost,
    /// Syncs that finished.
    pub count: u64,
    /// By errno.
    pub errors: Errors,
    /// How often a moment is missing between two of them.
    pub gaps: u32,
    /// Writes that are not durable.
    pub failed_writes: Others,
    pub writeback: Others,
    /// Of devices, and of files that are no server's.
    pub others_writeback: Others,
    /// Bytes of which it is not known whether they are synced.
    pub unsynced_dropped: u64,
    /// Bytes that a sync should have covered that failed: the most of any moment.
    pub possibly_lost: BTreeMap<(ServerId, Role), u64>,
    last_failure: Option<SystemTime>,
    failed: BTreeMap<(ServerId, Target, Op), FileRow>,
    pub(crate) incidents: Incidents,
}

/// What failed beside the syncs.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// By errno.
    pub errors: Errors,
    /// The end of the last moment that had one.
    pub last: Option<SystemTime>,
}

impl Troubles {
    /// `hang_after`: a sync that takes so long hangs.
    pub fn new(hang_after: Duration) -> Troubles {
        Troubles {
            span: None,
            duration: Duration::ZERO,
            lost: Lost::default(),
            count: 0,
            errors: Errors::default(),
            gaps: 0,
            failed_writes: Others::default(),
            writeback: Others::default(),
            others_writeback: Others::default(),
            unsynced_dropped: 0,
            possibly_lost: BTreeMap::new(),
            last_failure: None,
            failed: BTreeMap::new(),
            incidents: Incidents::new(hang_after),
        }
    }

    pub fn record(&mut self, m: &Interval) {
        self.incidents.record(m);
        self.count(m);
    }

    fn count(&mut self, m: &Interval) {
        let span = (m.span.start, m.span.end);
        self.span = Some((self.span.map_or(span.0, |(first, _)| first), span.1));
        self.duration += m.span.duration;
        self.lost = self.lost.plus(&m.lost);
        self.add_rows(span, &m.roles, &m.files);
        m.failures.iter().for_each(|row| self.add_other(span, row));
        self.add_unsynced(&m.unsynced);
    }

    /// The next moment does not begin where the last one ended.
    pub(crate) fn leave_gap(&mut self) {
        self.gaps += 1;
        self.incidents.leave_gap();
    }

    /// Syncs that failed.
    pub fn failures(&self) -> u64 {
        self.errors.values().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// A sync, a write, or writeback.
    pub(crate) fn has_failures(&self) -> bool {
        let others = [&self.failed_writes, &self.writeback, &self.others_writeback];
        self.failures() > 0 || others.iter().any(|others| !others.errors.is_empty())
    }

    pub(crate) fn last_failure(&self) -> Option<SystemTime> {
        self.last_failure
    }

    /// The files whose failures are told apart; their rows hold nothing else.
    pub fn failed(&self) -> impl Iterator<Item = &FileRow> {
        self.failed.values()
    }

    fn add_rows(&mut self, span: Span, roles: &[RoleRow], files: &[FileRow]) {
        for row in roles {
            self.count = self.count.saturating_add(row.stats.count);
            for (&errno, &n) in &row.stats.errors {
                let sum = self.errors.entry(errno).or_default();
                *sum = sum.saturating_add(n);
                self.last_failure = Some(span.1);
            }
        }
        files.iter().filter(|row| row.stats.error_count() > 0).for_each(|row| self.add_failed(row));
    }

    fn add_other(&mut self, span: Span, row: &FileRow) {
        let others = match row.op {
            Op::Writeback if row.is_nobodys() => &mut self.others_writeback,
            Op::Writeback => &mut self.writeback,
            _ => &mut self.failed_writes,
        };
        for (&errno, &n) in &row.stats.errors {
            let sum = others.errors.entry(errno).or_default();
            *sum = sum.saturating_add(n);
            others.last = Some(span.1);
        }
        if row.stats.error_count() > 0 {
            self.add_failed(row);
        }
    }

    fn add_unsynced(&mut self, unsynced: &Unsynced<Table<UnsyncedRow>>) {
        self.unsynced_dropped = self.unsynced_dropped.saturating_add(unsynced.dropped);
        let failed = unsynced.rows.iter().filter(|row| row.possibly_lost > 0);
        for role in unsynced_roles(failed) {
            let key = (role.server, role.role);
            if self.possibly_lost.len() >= MOST_KEPT && !self.possibly_lost.contains_key(&key) {
                continue;
            }
            let most = self.possibly_lost.entry(key).or_default();
            *most = role.possibly_lost.max(*most);
        }
    }

    fn add_failed(&mut self, row: &FileRow) {
        let key = (row.server, row.target, row.op);
        if self.failed.len() >= MOST_FAILED && !self.failed.contains_key(&key) {
            return;
        }
        let known =
            self.failed.entry(key).or_insert_with(|| FileRow { stats: Stats::default(), ..row.clone() });
        known.info = row.info.clone();
        for (&errno, &n) in &row.stats.errors {
            let sum = known.stats.errors.entry(errno).or_default();
            *sum = sum.saturating_add(n);
        }
    }
}

impl History {
    /// Of the latest moments, so many that they cover `length`: the same as [`History::last`] sums up.
    pub(crate) fn troubles(
        &self,
        length: Duration,
        hang_after: Duration,
        wanted: impl Fn(ServerId) -> bool,
    ) -> Troubles {
        let mut troubles = Troubles::new(hang_after);
        for mut moment in self.latest(length).filter_map(|kept| kept.read()) {
            // Other servers may be neighbours.
            troubles.incidents.record(&moment);
            moment.retain_servers(&wanted);
            troubles.count(&moment);
        }
        troubles.incidents.retain_servers(&wanted);
        troubles
    }
}

#[cfg(test)]
#[path = "troubles_tests.rs"]
mod tests;
