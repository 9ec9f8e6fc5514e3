//! Compares what a recording has of a server's syncs with the counters that were recorded beside them. The
//! two edges are found among the ends of its first and of its last intervals: readings lie before and after
//! each, and where those are the same, the comparison is exact.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::edge::{Counts, Edge};
use super::row::Verification;
use crate::model::{
    FileInfo, FileRow, InFlight, Interval, OwnReading, Server, ServerId, Snapshot, Span, Stats, Target, Texts,
};
use crate::server::asking::told::Told;

/// Ends of intervals that are looked at from either end of the recording: with an interval of a second, as
/// many as PostgreSQL's processes may take seconds to hand in what they counted.
const LOOKED_AT: usize = 16;
/// Readings that belong to these.
const READINGS: usize = 2 * LOOKED_AT;

/// Why there is nothing to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("the server's own counters were not recorded; `fsynctop record --counters` does")]
    Counters,
    #[error("too little was recorded: its counters are needed before and after two ends of intervals")]
    Length,
}

/// The end of an interval: so many intervals are before it.
struct End {
    after: usize,
    span: Span,
    in_flight: Vec<InFlight>,
}

/// What is kept of a recording's first and last part.
struct Part<T> {
    first: Vec<T>,
    last: VecDeque<T>,
    most: usize,
}

impl<T: Clone> Part<T> {
    fn new(most: usize) -> Part<T> {
        Part { first: Vec::new(), last: VecDeque::new(), most }
    }

    fn push(&mut self, one: T) {
        if self.first.len() < self.most {
            self.first.push(one.clone());
        }
        if self.last.len() == self.most {
            self.last.pop_front();
        }
        self.last.push_back(one);
    }
}

/// `intervals` is asked for twice.
pub(crate) fn compare<R: Counts + Told, I: Iterator<Item = Interval>>(
    server: &Server,
    intervals: impl Fn() -> I,
) -> Result<Verification, Missing> {
    let id = server.id;
    let mut ends = Part::new(LOOKED_AT);
    let mut readings = Part::new(READINGS);
    let mut settings: Arc<Texts> = Arc::default();
    let mut before: Option<Span> = None;
    let mut is_whole = true;
    for (at, m) in intervals().enumerate() {
        match before {
            Some(before) => is_whole &= follows(&before, &m.span),
            None => ends.push(Arc::new(End { after: 0, span: beginning_of(&m.span), in_flight: Vec::new() })),
        }
        before = Some(m.span);
        let in_flight = m.in_flight.iter().filter(|sync| sync.server == id).cloned().collect();
        ends.push(Arc::new(End { after: at + 1, span: m.span, in_flight }));
        for row in m.counters.iter().filter(|row| row.server == id) {
            row.readings.iter().for_each(|reading| readings.push(reading.clone()));
            if !row.settings.is_empty() {
                settings = row.settings.clone();
            }
        }
    }
    if readings.first.is_empty() {
        return Err(Missing::Counters);
    }
    let told = |reading: &Arc<OwnReading>| R::of_told(&reading.counters, &settings);
    let first = best(ends.first.iter(), &readings.first, &told, id).ok_or(Missing::Length)?;
    let readings = Vec::from(readings.last);
    let last = best(ends.last.iter().rev(), &readings, &told, id).ok_or(Missing::Length)?;
    let (from, to) = (first.0.after, last.0.after);
    if from >= to {
        return Err(Missing::Length);
    }
    let mut window = intervals().skip(from).take(to - from);
    let mut m = window.next().ok_or(Missing::Length)?;
    window.for_each(|later| m.append(later));

    let base = Instant::now();
    let begin = Snapshot {
        in_flight: first.0.in_flight.clone(),
        ..Snapshot::empty(base, m.span.start, m.setup.clone())
    };
    let end = Snapshot { in_flight: last.0.in_flight.clone(), ..totals(base + m.span.duration, m) };
    let edge = |snapshot, (_, edge): (_, Found<R>)| Edge {
        before: edge.before,
        snapshot,
        after: edge.after,
        is_quiet: edge.is_quiet,
        earlier: Vec::new(),
    };
    let mut verification = R::compare(server, &edge(begin, first), &edge(end, last));
    if !is_whole {
        verification.interrupted = Some(
            "a part of the time is missing in the recording (`fsynctop segments` says which), or tracing began again".into(),
        );
    }
    Ok(verification)
}

/// The clocks of a snapshot are read one after the other.
const APART: Duration = Duration::from_millis(5);

fn follows(before: &Span, span: &Span) -> bool {
    beginning_of(span).monotonic.abs_diff(before.monotonic) <= APART
}

fn beginning_of(span: &Span) -> Span {
    Span { end: span.start, monotonic: span.monotonic.saturating_sub(span.duration), ..Span::NONE }
}

struct Found<R> {
    before: R,
    after: R,
    is_quiet: bool,
    width: u64,
}

/// Of the first ends that lie between two readings, the one about which the server moved least.
fn best<'a, R: Counts>(
    ends: impl Iterator<Item = &'a Arc<End>>,
    readings: &[Arc<OwnReading>],
    told: &impl Fn(&Arc<OwnReading>) -> R,
    server: ServerId,
) -> Option<(Arc<End>, Found<R>)> {
    let mut best: Option<(Arc<End>, Found<R>)> = None;
    for end in ends {
        let Some(found) = about(end, readings, told, server) else { continue };
        let is_better = |best: &Found<R>| {
            let settled = (found.after.is_settled(), best.after.is_settled());
            settled == (true, false) || settled.0 == settled.1 && found.width < best.width
        };
        if best.as_ref().is_none_or(|(_, best)| is_better(best)) {
            let is_found = found.width == 0 && found.after.is_settled();
            best = Some((end.clone(), found));
            if is_found {
                break;
            }
        }
    }
    best
}

fn about<R: Counts>(
    end: &End,
    readings: &[Arc<OwnReading>],
    told: &impl Fn(&Arc<OwnReading>) -> R,
    server: ServerId,
) -> Option<Found<R>> {
    let at: Duration = end.span.monotonic;
    let next = readings.iter().position(|reading| reading.began >= at)?;
    let before = readings[..next].iter().rfind(|reading| reading.ended <= at)?;
    let (before, after) = (told(before), told(&readings[next]));
    let is_one = |sync: &&InFlight| sync.server == server && sync.op.makes_durable();
    let in_flight = end.in_flight.iter().filter(is_one).count() as u64;
    let width = R::moved(&before, &after).saturating_add(in_flight);
    let later = readings.get(next + 1).map(told);
    let stood_still = later.is_some_and(|later| R::moved(&after, &later) == 0 && later.is_settled());
    Some(Found { before, is_quiet: width == 0 && after.is_settled() && stood_still, after, width })
}

/// A snapshot at the end of an interval that began with nothing.
fn totals(taken: Instant, m: Interval) -> Snapshot {
    let mut files: Vec<FileRow> = m.files.iter().cloned().collect();
    files.extend(without_rows(&m));
    Snapshot {
        monotonic: m.span.monotonic,
        number: m.span.sequence,
        lost: m.lost,
        servers: m.servers.iter().cloned().collect(),
        files,
        failures: m.failures.iter().cloned().collect(),
        writes: m.writes.iter().cloned().collect(),
        unwatched: m.unwatched.iter().copied().collect(),
        ..Snapshot::empty(taken, m.span.end, m.setup)
    }
}

/// What the rows by role have beyond the files that are kept apart.
fn without_rows(m: &Interval) -> Vec<FileRow> {
    let mut of_files: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for row in &m.files {
        let (count, bytes) = of_files.entry((row.server, row.info.role, row.op)).or_default();
        *count += row.stats.count;
        *bytes += row.stats.bytes;
    }
    let rest = m.roles.iter().filter_map(|row| {
        let (count, bytes) = of_files.get(&(row.server, row.role, row.op)).copied().unwrap_or_default();
        let count = row.stats.count.checked_sub(count).filter(|&count| count > 0)?;
        Some(FileRow {
            server: row.server,
            target: Target::Gone(row.role),
            op: row.op,
            info: Arc::new(FileInfo::nameless(row.role)),
            stats: Stats { count, bytes: row.stats.bytes.saturating_sub(bytes), ..Stats::default() },
        })
    });
    rest.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MYSQL, quiet, row, server, stats};
    use crate::model::{Op, OwnCounters, Role, roles_of};
    use crate::server::mysql::status::reading::Reading;

    /// When the first interval begins.
    const BEGIN: Duration = Duration::from_secs(100);

    fn reading(millis: i64, syncs: u64) -> Arc<OwnReading> {
        let began = Duration::from_millis((100_000 + millis) as u64);
        let counters = ["innodb_data_fsyncs", "innodb_os_log_fsyncs"];
        let counters = counters.map(|name| (name.to_owned(), (1_000 + syncs).to_string())).into();
        Arc::new(OwnReading { began, ended: began + Duration::from_millis(2), counters })
    }

    /// Seconds with so many syncs in each, and readings at these milliseconds.
    fn recorded(syncs: &[u64], readings: &[(i64, u64)]) -> Vec<Interval> {
        let mut left: VecDeque<_> = readings.iter().map(|&(millis, syncs)| reading(millis, syncs)).collect();
        (1..)
            .zip(syncs)
            .map(|(second, &syncs)| {
                let mut m = quiet();
                m.span = Span {
                    sequence: second,
                    duration: Duration::from_secs(1),
                    monotonic: BEGIN + Duration::from_secs(second),
                    ..m.span
                };
                let latencies: Vec<_> = (0..syncs).map(|_| (1, 1_000)).collect();
                m.files =
                    vec![row(MYSQL, 1, "/d/ib_logfile0", Role::Redo, Op::Fsync, stats(&latencies))].into();
                m.roles = roles_of(&m.files);
                let is_last = second as usize == 3;
                let mut readings = Vec::new();
                while let Some(reading) = left
                    .pop_front_if(|reading| is_last || reading.began <= BEGIN + Duration::from_secs(second))
                {
                    readings.push(reading);
                }
                if !readings.is_empty() {
                    m.counters =
                        vec![OwnCounters { server: MYSQL, readings, settings: Arc::default() }].into();
                }
                m
            })
            .collect()
    }

    fn verified(intervals: &[Interval]) -> Result<Verification, Missing> {
        let server = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
        compare::<Reading, _>(&server, || intervals.iter().cloned())
    }

    #[test]
    fn between_two_quiet_ends_it_is_exact() {
        // One before the first interval, one after the last, and nothing moves at either end.
        let readings = [(-10, 0), (10, 0), (2_010, 5), (2_900, 7), (3_010, 7), (3_050, 7)];
        let intervals = recorded(&[2, 3, 2], &readings);
        let verification = verified(&intervals).unwrap();
        let redo = verification.row("redo log");
        let counted = redo.counted.unwrap();
        assert_eq!((redo.traced, counted.at_least, counted.at_most), (7, 7, 7));
        assert_eq!(verification.agrees(), Some(true));
        // One that was counted and not traced.
        let verification = verified(&recorded(&[2, 2, 2], &readings)).unwrap();
        assert_eq!(verification.agrees(), Some(false));
    }

    #[test]
    fn what_moved_at_an_end_may_be_on_either_side() {
        let readings = [(10, 0), (1_010, 100), (2_010, 200), (3_010, 300)];
        let intervals = recorded(&[100, 100, 100], &readings);
        let verification = verified(&intervals).unwrap();
        let counted = verification.row("redo log").counted.unwrap();
        assert_eq!((counted.at_least, counted.at_most), (100, 300));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(verified(&recorded(&[1, 1, 1], &[])), Err(Missing::Counters));
        assert_eq!(verified(&recorded(&[1, 1, 1], &[(500, 0)])), Err(Missing::Length));
        let readings = [(-10, 0), (10, 0), (2_010, 5), (2_900, 7), (3_010, 7), (3_050, 7)];
        let mut intervals = recorded(&[2, 3, 2], &readings);
        intervals.remove(1);
        let verification = verified(&intervals).unwrap();
        assert!(verification.interrupted.is_some());
        assert_eq!(verification.agrees(), None);
    }

    #[test]
    fn files_that_were_not_kept_apart_count_by_their_role() {
        let readings = [(-10, 0), (10, 0), (2_900, 7), (3_010, 7), (3_050, 7)];
        let mut intervals = recorded(&[2, 3, 2], &readings);
        intervals.iter_mut().for_each(|m| m.files.clear());
        assert_eq!(verified(&intervals).unwrap().row("redo log").traced, 7);
    }
}
