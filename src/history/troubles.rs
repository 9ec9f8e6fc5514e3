//! What went wrong in a span of time, a moment after the other and however long it gets: the longest syncs,
//! all failures, when a log was saturated. In bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::History;
use crate::model::{
    Errors, FileRow, InFlight, Interval, Lost, Max, Op, Role, RoleRow, SATURATED, ServerId, Stats, Table,
    Target, Unsynced, UnsyncedRow, unsynced_roles,
};

/// Files whose failures are told apart; those of others are counted.
const MOST_FAILED: usize = 100;
/// Roles of servers whose longest sync is kept, and as many whose busy times are.
const MOST_KEPT: usize = 1_024;
/// A sync that takes so long hangs: how busy its log is then does not follow from syncs that end.
const HANGS: Duration = Duration::from_secs(1);

type OfServer = (ServerId, Role);
/// When something began and ended, by the wall clock.
pub(super) type Span = (SystemTime, SystemTime);

#[derive(Clone, Debug, Default)]
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
    failed: BTreeMap<(ServerId, Target, Op), Failed>,
    longest: BTreeMap<OfServer, Longest>,
    busy: BTreeMap<OfServer, Busy>,
}

/// What failed beside the syncs.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// By errno.
    pub errors: Errors,
    /// The end of the last moment that had one.
    pub last: Option<SystemTime>,
}

/// The failures of one file.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    /// All of them, and nothing else.
    pub row: FileRow,
    /// The moment that had most of them, and those.
    pub span: Span,
    pub errors_at_once: Errors,
}

/// The longest sync of a role of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Longest {
    pub server: ServerId,
    pub role: Role,
    pub op: Op,
    pub path: Option<PathBuf>,
    pub took: Max,
    /// It took so long at least: it was seen in flight and not when it began, or has not ended.
    pub is_minimum: bool,
    /// The beginning and the end of the moment in which it ended or was last seen.
    pub from: SystemTime,
    pub seen: SystemTime,
    pub ended: bool,
}

impl Longest {
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.took.ns)
    }
}

/// When a log was saturated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Busy {
    pub total: Duration,
    /// The longest time without a break.
    pub longest: Run,
    /// The moment in which it was busiest.
    pub(super) peak: Peak,
    /// The one that goes on.
    current: Run,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Peak {
    pub span: Option<Span>,
    pub share: f64,
    /// The file of the log that took most of the time.
    pub path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    pub span: Option<(SystemTime, SystemTime)>,
    pub duration: Duration,
    busy: Duration,
}

impl Run {
    pub fn share(&self) -> f64 {
        self.busy.as_secs_f64() / self.duration.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Troubles {
    pub fn record(&mut self, m: &Interval) {
        let span = (m.span.start, m.span.end);
        self.span = Some((self.span.map_or(span.0, |(first, _)| first), span.1));
        self.duration += m.span.duration;
        self.lost = self.lost.plus(&m.lost);
        self.add_rows(span, &m.roles, &m.files);
        m.failures.iter().for_each(|row| self.add_other(span, row));
        self.add_unsynced(&m.unsynced);
        self.add_in_flight(span, &m.in_flight);
        self.add_busy(span, m);
    }

    /// The next moment does not begin where the last one ended.
    pub(crate) fn leave_gap(&mut self) {
        self.gaps += 1;
        self.busy.values_mut().for_each(|busy| busy.current = Run::default());
    }

    /// Syncs that failed.
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
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
        self.failed.values().map(|failed| &failed.row)
    }

    pub(super) fn failures_by_file(&self) -> impl Iterator<Item = &Failed> {
        self.failed.values()
    }

    /// Those that took at least so long, the longest first.
    pub fn longest(&self, at_least: Duration) -> Vec<&Longest> {
        let mut longest: Vec<&Longest> =
            self.longest.values().filter(|sync| sync.duration() >= at_least).collect();
        longest.sort_by_key(|sync| Reverse(sync.took.ns));
        longest
    }

    /// The logs that were saturated, the longest first.
    pub fn busy(&self) -> Vec<(ServerId, Role, &Busy)> {
        let mut busy: Vec<_> = self.busy.iter().map(|(&(server, role), busy)| (server, role, busy)).collect();
        busy.retain(|(_, _, busy)| !busy.total.is_zero());
        busy.sort_by_key(|(_, _, busy)| Reverse(busy.total));
        busy
    }

    fn add_rows(&mut self, span: Span, roles: &[RoleRow], files: &[FileRow]) {
        for row in roles {
            self.count += row.stats.count;
            for (&errno, &n) in &row.stats.errors {
                *self.errors.entry(errno).or_default() += n;
                self.last_failure = Some(span.1);
            }
            // Where its file is not told apart, this is all that is known of the longest sync.
            self.add_longest(Longest::ended(row.server, row.role, row.op, None, row.stats.max, span));
        }
        for row in files {
            let info = &row.info;
            let ended = Longest::ended(row.server, info.role, row.op, info.path.clone(), row.stats.max, span);
            self.add_longest(ended);
            if row.stats.error_count() > 0 {
                self.add_failed(span, row);
            }
        }
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
            self.add_failed(span, row);
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

    fn add_failed(&mut self, span: Span, row: &FileRow) {
        let key = (row.server, row.target, row.op);
        if self.failed.len() >= MOST_FAILED && !self.failed.contains_key(&key) {
            return;
        }
        let known = self.failed.entry(key).or_insert_with(|| Failed {
            row: FileRow { stats: Stats::default(), ..row.clone() },
            span,
            errors_at_once: Errors::default(),
        });
        known.row.info = row.info.clone();
        for (&errno, &n) in &row.stats.errors {
            let sum = known.row.stats.errors.entry(errno).or_default();
            *sum = sum.saturating_add(n);
        }
        let at_once = |errors: &Errors| errors.values().fold(0, |sum: u64, &n| sum.saturating_add(n));
        if at_once(&row.stats.errors) > at_once(&known.errors_at_once) {
            (known.span, known.errors_at_once) = (span, row.stats.errors.clone());
        }
    }

    fn add_in_flight(&mut self, span: Span, in_flight: &[InFlight]) {
        for sync in in_flight {
            let ns = u64::try_from(sync.age.as_nanos()).unwrap_or(u64::MAX);
            self.add_longest(Longest {
                server: sync.server,
                role: sync.role,
                op: sync.op,
                path: sync.path.clone(),
                took: Max { ns, exact: true },
                is_minimum: true,
                from: span.0,
                seen: span.1,
                ended: false,
            });
        }
    }

    fn add_longest(&mut self, sync: Longest) {
        let key = (sync.server, sync.role);
        let is_full = self.longest.len() >= MOST_KEPT;
        match self.longest.get_mut(&key) {
            // Of the same length: the file is known, or the one that ended is the one that was in flight.
            Some(known)
                if sync.took.ns > known.took.ns || sync.took.ns == known.took.ns && known.path.is_none() =>
            {
                *known = sync;
            }
            Some(_) => {}
            None if is_full => {
                let least = self.longest.iter().min_by_key(|(_, known)| known.took.ns);
                let least = least.filter(|(_, known)| known.took.ns < sync.took.ns).map(|(key, _)| *key);
                if let Some(least) = least {
                    self.longest.remove(&least);
                    self.longest.insert(key, sync);
                }
            }
            None if sync.took.ns > 0 => drop(self.longest.insert(key, sync)),
            None => {}
        }
    }

    fn add_busy(&mut self, span: Span, m: &Interval) {
        let duration = m.span.duration;
        if duration.is_zero() {
            return;
        }
        let long = duration.max(HANGS);
        let hung: Vec<OfServer> =
            m.in_flight.iter().filter(|sync| sync.age >= long).map(|sync| (sync.server, sync.role)).collect();
        let mut logs: BTreeMap<OfServer, Stats> = BTreeMap::new();
        for row in m.roles.iter().filter(|row| row.role.is_serial()) {
            logs.entry((row.server, row.role)).or_default().merge(&row.stats);
        }
        logs.retain(|key, stats| {
            let ended_late = u128::from(stats.max.ns) >= long.as_nanos();
            stats.in_flight_mean(duration) >= SATURATED && !ended_late && !hung.contains(key)
        });
        for (key, busy) in &mut self.busy {
            if !logs.contains_key(key) {
                busy.current = Run::default();
            }
        }
        for (key, stats) in logs {
            if self.busy.len() >= MOST_KEPT && !self.busy.contains_key(&key) {
                continue;
            }
            let busy = self.busy.entry(key).or_default();
            busy.total += duration;
            let share = stats.in_flight_mean(duration).min(1.0);
            if share > busy.peak.share {
                let of_log = m.files.iter().filter(|row| (row.server, row.info.role) == key);
                let busiest = of_log.max_by_key(|row| row.stats.sum_ns);
                let path = busiest.and_then(|row| row.info.path.clone());
                busy.peak = Peak { span: Some(span), share, path };
            }
            let run = &mut busy.current;
            run.span = Some((run.span.map_or(span.0, |(first, _)| first), span.1));
            run.duration += duration;
            run.busy += Duration::from_nanos(stats.sum_ns).min(duration);
            if run.duration > busy.longest.duration {
                busy.longest = *run;
            }
        }
    }
}

impl Longest {
    fn ended(
        server: ServerId,
        role: Role,
        op: Op,
        path: Option<PathBuf>,
        took: Max,
        (from, seen): Span,
    ) -> Longest {
        Longest { server, role, op, path, took, is_minimum: false, from, seen, ended: true }
    }
}

impl History {
    /// Of the latest moments, so many that they cover `length`: the same as [`History::last`] sums up.
    pub(crate) fn troubles(&self, length: Duration, wanted: impl Fn(ServerId) -> bool) -> Troubles {
        let mut covered = Duration::ZERO;
        let kept = self.moments.iter().rev().take_while(|kept| {
            let more = covered < length;
            covered += kept.duration;
            more
        });
        let first = self.moments.len() - kept.count();
        let mut troubles = Troubles::default();
        for kept in self.moments.iter().skip(first) {
            if let Some(mut moment) = self.unpack(kept) {
                moment.retain_servers(&wanted);
                troubles.record(&moment);
            }
        }
        troubles
    }
}

#[cfg(test)]
#[path = "troubles_tests.rs"]
mod tests;
