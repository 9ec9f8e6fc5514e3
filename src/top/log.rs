//! The log: everything that failed in the last minutes, and the slowest syncs. Snapshots have these by file
//! and interval, so the time of an entry is the end of its interval.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::model::{FileRow, Interval, LogEntry, Max};

/// The slowest that are kept.
const SLOWEST: usize = 100;
/// Failures that are kept, one for each file and interval.
const FAILED: usize = 400;
/// Entries older than this go, whatever they are, but failures: those are few, and they matter for longer.
const LENGTH: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub struct Log {
    /// A sync that took less is no entry of its own: the figures have it.
    slow_from: Duration,
    /// By time.
    failed: Vec<(u64, Arc<LogEntry>)>,
    /// By time.
    slow: Vec<(u64, Arc<LogEntry>)>,
    next: u64,
    failures: u64,
    /// None: nothing goes but for what is slower.
    length: Option<Duration>,
}

impl Log {
    pub fn new(slow_from: Duration) -> Log {
        Log { length: Some(LENGTH), ..Log::of_recording(slow_from) }
    }

    /// Of all of a recording the slowest, however long it is.
    pub fn of_recording(slow_from: Duration) -> Log {
        Log { slow_from, failed: Vec::new(), slow: Vec::new(), next: 0, failures: 0, length: None }
    }

    pub fn slow_from(&self) -> Duration {
        self.slow_from
    }

    pub fn record(&mut self, m: &Interval) {
        for row in m.files.iter().chain(&m.failures).filter(|row| row.stats.error_count() > 0) {
            self.failures = self.failures.saturating_add(row.stats.error_count());
            let numbered = self.number(entry(row, m.span.end));
            self.failed.push(numbered);
        }
        let excess = self.failed.len().saturating_sub(FAILED);
        self.failed.drain(..excess);

        let since = self.length.and_then(|length| m.span.end.checked_sub(length));
        let since = since.unwrap_or(SystemTime::UNIX_EPOCH);
        self.slow.retain(|(_, entry)| entry.at > since);
        let floor = match self.slow.len() {
            SLOWEST.. => self.slow.iter().map(|(_, entry)| entry.max.ns).min().unwrap_or(0),
            _ => (self.slow_from.as_nanos() as u64).saturating_sub(1),
        };
        let slower = |row: &&FileRow| row.stats.error_count() == 0 && row.stats.max.ns > floor;
        let mut new: Vec<&FileRow> = m.files.iter().filter(slower).collect();
        new.sort_by_key(|row| std::cmp::Reverse(row.stats.max.ns));
        for row in new.into_iter().take(SLOWEST) {
            let numbered = self.number(entry(row, m.span.end));
            self.slow.push(numbered);
        }
        if self.slow.len() > SLOWEST {
            self.slow.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.max.ns));
            self.slow.truncate(SLOWEST);
            self.slow.sort_by_key(|(number, _)| *number);
        }
    }

    fn number(&mut self, entry: LogEntry) -> (u64, Arc<LogEntry>) {
        self.next += 1;
        (self.next, Arc::new(entry))
    }

    /// Syncs and writes that failed, and writeback errors, since the log began.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    pub(crate) fn last_failure(&self) -> Option<&LogEntry> {
        self.failed.last().map(|(_, entry)| &**entry)
    }

    /// Up to a time, with their numbers, in no order.
    pub fn entries(&self, until: Option<SystemTime>) -> impl Iterator<Item = (u64, &Arc<LogEntry>)> {
        let entries = self.failed.iter().chain(&self.slow).map(|(number, entry)| (*number, entry));
        entries.filter(move |(_, entry)| until.is_none_or(|until| entry.at <= until))
    }
}

fn entry(row: &FileRow, at: SystemTime) -> LogEntry {
    LogEntry {
        at,
        server: row.server,
        target: row.target,
        op: row.op,
        info: row.info.clone(),
        max: Max { exact: row.stats.max.exact && row.stats.error_count() == 0, ..row.stats.max },
        errors: row.stats.errors.iter().map(|(&errno, &n)| (errno, n)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MYSQL};
    use crate::model::{Op, Role, Stats};

    fn second(number: u64, files: Vec<FileRow>) -> Interval {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + number);
        let mut m = fixture::quiet();
        m.span.end = end;
        fixture::with_files(m, files, Vec::new())
    }

    fn file(inode: u64, ns: u64) -> FileRow {
        let stats = fixture::stats(&[(1, ns)]);
        fixture::row(MYSQL, inode, &format!("/f{inode}"), Role::Tablespace, Op::Fsync, stats)
    }

    #[test]
    fn the_slowest_stay_and_every_failure() {
        let mut log = Log::new(Duration::ZERO);
        let mut failing = file(1, 50);
        failing.stats.errors = [(libc::EIO, 2)].into();
        log.record(&second(1, vec![failing, file(2, 9_000_000)]));
        for number in 2..500 {
            let ns = if number == 200 { 3_000_000_000 } else { 1_000 + number };
            log.record(&second(number, vec![file(3, ns)]));
        }
        let entries: Vec<&LogEntry> = log.entries(None).map(|(_, entry)| &**entry).collect();
        let slowest = entries.iter().max_by_key(|entry| entry.max.ns).unwrap();
        assert_eq!(slowest.max.ns, 3_000_000_000);
        let at = |entry: &LogEntry| entry.at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(at(slowest), 1_000_200);
        assert_eq!(entries.len(), 1 + SLOWEST);
        assert!(entries.iter().any(|entry| entry.max.ns == 9_000_000), "it is still among the slowest");
        let failed: Vec<_> = entries.iter().filter(|entry| !entry.errors.is_empty()).collect();
        assert_eq!((failed.len(), &failed[0].errors[..], log.failures()), (1, &[(libc::EIO, 2)][..], 2));
        assert_eq!(at(failed[0]), 1_000_001);
        assert_eq!(log.entries(Some(SystemTime::UNIX_EPOCH)).count(), 0);
    }

    #[test]
    fn a_sync_that_was_not_slow_is_no_entry() {
        let mut log = Log::new(Duration::from_millis(10));
        log.record(&second(1, vec![file(1, 9_900_000), file(2, 10_000_000)]));
        let slowest: Vec<u64> = log.entries(None).map(|(_, entry)| entry.max.ns).collect();
        assert_eq!(slowest, [10_000_000]);
    }

    #[test]
    fn what_failed_beside_the_syncs_is_in_it_and_is_not_slow() {
        let mut log = Log::new(Duration::ZERO);
        let mut m = second(1, vec![file(1, 50)]);
        let stats = Stats { count: 3, errors: [(libc::ENOSPC, 3)].into(), ..Stats::default() };
        m.failures = vec![FileRow { op: Op::Writeback, stats, ..file(2, 0) }].into();
        log.record(&m);
        let failed = log.last_failure().unwrap();
        assert_eq!(
            (failed.op, &failed.errors[..], log.failures()),
            (Op::Writeback, &[(libc::ENOSPC, 3)][..], 3)
        );
        assert_eq!(log.entries(None).count(), 2);
    }

    #[test]
    fn what_was_slow_long_ago_makes_room_and_failures_stay() {
        let mut log = Log::new(Duration::ZERO);
        let mut failing = file(1, 50);
        failing.stats.errors = [(libc::EIO, 1)].into();
        log.record(&second(0, vec![failing, file(2, 9_000_000)]));
        log.record(&second(700, vec![file(3, 1_000)]));
        let slowest: Vec<u64> = log.entries(None).map(|(_, entry)| entry.max.ns).collect();
        assert_eq!(slowest, [50, 1_000]);
    }

    #[test]
    fn thousands_of_failures_do_not_grow_the_log_without_end() {
        let mut log = Log::new(Duration::ZERO);
        for number in 0..2 * FAILED as u64 {
            let mut failing = file(number, 50);
            failing.stats.errors = [(libc::ENOSPC, 1)].into();
            log.record(&second(number, vec![failing]));
        }
        assert_eq!((log.entries(None).count(), log.failures()), (FAILED, 2 * FAILED as u64));
    }
}
