//! Compares what a recording has of a server's syncs with the counters that were recorded beside them. The
//! two edges are found among the ends of its first and of its last intervals: readings lie before and after
//! each, and where those are the same, the comparison is exact.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::edge::{Counts, Edge, compared, durable_in_flight};
use super::row::{Kind, Verification};
use crate::model::{
    FileInfo, FileRow, InFlight, Interval, OwnReading, Server, ServerId, Snapshot, Span, Stats, Target, Texts,
};
use crate::server::asking::told::Told;

/// Ends of intervals that are looked at from either end of the recording: of a quarter of a minute, in which
/// PostgreSQL's processes hand in what they counted, and of so many intervals.
const LOOKED_AT: usize = 16;
const LOOKED_AT_FOR: Duration = Duration::from_secs(16);
const MOST_LOOKED_AT: usize = 256;

/// Why there is nothing to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("the server's own counters were not recorded; `fsynctop record --counters` does")]
    Counters,
    #[error("the server's settings are not in this part of the recording: they are recorded once a minute")]
    Settings,
    #[error("too little was recorded: its counters are needed before and after two ends of intervals")]
    Length,
}

/// The end of an interval: so many intervals are before it.
struct End {
    after: usize,
    span: Span,
    in_flight: Vec<InFlight>,
    /// So often something was missing, or counters began anew, until then.
    breaks: u32,
    /// As they were told last.
    settings: Arc<Texts>,
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
    let length = intervals().next().map_or(LOOKED_AT_FOR, |m| m.span.duration.max(Duration::from_millis(1)));
    let most = (LOOKED_AT_FOR.as_millis() / length.as_millis().max(1)) as usize;
    let most = most.clamp(LOOKED_AT, MOST_LOOKED_AT);
    let (mut ends, mut readings) = (Part::new(most), Part::new(2 * most));
    let mut settings: Arc<Texts> = Arc::default();
    let (mut breaks, mut before, mut last): (u32, Option<Span>, Option<R>) = (0, None, None);
    for (at, m) in intervals().enumerate() {
        breaks += u32::from(before.is_some_and(|before| !follows(&before, &m.span)));
        before = Some(m.span);
        for row in m.counters.iter().filter(|row| row.server == id) {
            if !row.settings.is_empty() {
                settings = row.settings.clone();
            }
            for reading in &row.readings {
                let told = R::of_told(&reading.counters, &settings);
                breaks += u32::from(last.as_ref().is_some_and(|last| R::is_reset(last, &told)));
                last = Some(told);
                readings.push(reading.clone());
            }
        }
        let in_flight = m.in_flight.iter().filter(|sync| sync.server == id).cloned().collect();
        let settings = settings.clone();
        ends.push(Arc::new(End { after: at + 1, span: m.span, in_flight, breaks, settings }));
    }
    if readings.first.is_empty() {
        return Err(Missing::Counters);
    }
    if settings.is_empty() && R::HAS_SETTINGS {
        return Err(Missing::Settings);
    }
    // What was told first holds before that, too.
    let first_told =
        ends.first.iter().map(|end| &end.settings).find(|told| !told.is_empty()).unwrap_or(&settings);
    let settings_at =
        |end: &End| if end.settings.is_empty() { first_told.clone() } else { end.settings.clone() };
    let found = |ends: Vec<&Arc<End>>, readings: &[Arc<OwnReading>]| {
        best(&ends, readings, id, |end| {
            let settings = settings_at(end);
            move |reading: &OwnReading| R::of_told(&reading.counters, &settings)
        })
    };
    // Each in its half, so that a short recording has a window, too.
    let half = ends.last.back().map_or(0, |end| end.after) / 2;
    let (early, late): (Vec<_>, Vec<_>) =
        ends.first.iter().chain(&ends.last).partition(|end| end.after <= half);
    let late = late.into_iter().rev().collect();
    let first = found(early, &readings.first).ok_or(Missing::Length)?;
    let last = found(late, &Vec::from(readings.last)).ok_or(Missing::Length)?;
    let (from, to) = (first.0.after, last.0.after);
    let mut window = intervals().skip(from).take(to - from);
    let mut m = window.next().ok_or(Missing::Length)?;
    window.for_each(|later| m.append(later));

    let interrupted = (first.0.breaks != last.0.breaks)
        .then_some(
            "a part of the time is missing in the recording, or tracing or the server's counters began anew",
        )
        .or((!m.lost.paused.is_zero()).then_some("tracing was paused for a part of the time"))
        .or((m.lost.files > 0).then_some("not all syncs were attributed to their files"));
    let are_all_kept = m.rest.rows == 0;
    let base = Instant::now();
    let begin = Snapshot::empty(base, m.span.start, m.setup.clone());
    let end = totals(base + m.span.duration, m);
    let edge = |snapshot, (end, found): (Arc<End>, Found<R>)| Edge {
        before: found.before,
        snapshot: Snapshot { in_flight: end.in_flight.clone(), ..snapshot },
        after: found.after,
        is_quiet: found.is_quiet,
        earlier: Vec::new(),
    };
    let mut verification = compared(server, &edge(begin, first), &edge(end, last));
    if let Some(why) = interrupted {
        verification.interrupted.get_or_insert(why.into());
        verification.transactions = None;
    }
    if !are_all_kept {
        // Some lines are told by files' names.
        for row in verification.rows.iter_mut().filter(|row| row.kind == Kind::Exact) {
            row.kind = Kind::Approximate;
            row.note = Some("more files were synced at a time than a recording keeps apart".into());
        }
    }
    Ok(verification)
}

/// The clocks of a snapshot are read one after the other.
const APART: Duration = Duration::from_millis(5);

fn follows(before: &Span, span: &Span) -> bool {
    span.monotonic.saturating_sub(span.duration).abs_diff(before.monotonic) <= APART
}

/// A snapshot takes less time than this from its clock to its last row; what a reading follows is not always
/// known.
const SURELY_BEHIND: Duration = Duration::from_millis(300);

struct Found<R> {
    before: R,
    after: R,
    is_quiet: bool,
    width: u64,
}

/// Of ends that lie between two readings, the first about which the server did not move, or else the one
/// about which it moved least.
fn best<R: Counts, T: Fn(&OwnReading) -> R>(
    ends: &[&Arc<End>],
    readings: &[Arc<OwnReading>],
    server: ServerId,
    told_at: impl Fn(&End) -> T,
) -> Option<(Arc<End>, Found<R>)> {
    let rank = |found: &Found<R>| (!found.after.is_settled(), !found.is_quiet, found.width);
    let mut best: Option<(Arc<End>, Found<R>)> = None;
    for end in ends {
        // Of the last one nothing is known of what was in flight later.
        let next = ends.iter().find(|next| next.after == end.after + 1);
        let next_in_flight = next.map(|next| durable_in_flight(&next.in_flight, server));
        let in_flight = durable_in_flight(&end.in_flight, server);
        let Some(found) = about(end, in_flight, next_in_flight, readings, told_at(end)) else { continue };
        if best.as_ref().is_none_or(|(_, best)| rank(&found) < rank(best)) {
            let is_found = rank(&found) == (false, false, 0);
            best = Some(((*end).clone(), found));
            if is_found {
                break;
            }
        }
    }
    best
}

fn about<R: Counts>(
    end: &End,
    in_flight: u64,
    next_in_flight: Option<u64>,
    readings: &[Arc<OwnReading>],
    told: impl Fn(&OwnReading) -> R,
) -> Option<Found<R>> {
    let (at, sequence) = (end.span.monotonic, end.span.sequence);
    let is_behind =
        |reading: &Arc<OwnReading>| reading.follows >= sequence || reading.began >= at + SURELY_BEHIND;
    let next = readings.iter().position(|reading| reading.began >= at && is_behind(reading))?;
    let before = readings[..next].iter().rfind(|reading| reading.ended <= at)?;
    let (before, after) = (told(before), told(&readings[next]));
    let width = R::moved(&before, &after).saturating_add(in_flight);
    let stood_still = readings.get(next + 1).is_some_and(|later| {
        let later = told(later);
        R::moved(&after, &later) == 0 && later.is_settled()
    });
    let is_quiet = width == 0 && after.is_settled() && stood_still && next_in_flight == Some(0);
    Some(Found { before, after, is_quiet, width })
}

/// A snapshot at the end of an interval that began with nothing.
fn totals(taken: Instant, m: Interval) -> Snapshot {
    let mut files: Vec<FileRow> = m.files.iter().cloned().collect();
    if m.rest.rows > 0 {
        files.extend(without_rows(&m));
    }
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
    use crate::model::fixture::{self, MYSQL, quiet, row, server, stats};
    use crate::model::{Op, OwnCounters, Role, roles_of};
    use crate::server::mysql::status::reading::Reading;

    /// When the first interval begins.
    const BEGIN: Duration = Duration::from_secs(100);

    fn reading(millis: i64, syncs: u64) -> Arc<OwnReading> {
        let began = Duration::from_millis((100_000 + millis) as u64);
        let counters = ["innodb_data_fsyncs", "innodb_os_log_fsyncs"];
        let counters = counters.map(|name| (name.to_owned(), (1_000 + syncs).to_string())).into();
        // Those of a second are read after the snapshot at its beginning.
        let follows = (millis.max(0) / 1_000) as u64;
        Arc::new(OwnReading { began, ended: began + Duration::from_millis(2), follows, counters })
    }

    fn settings(sync_binlog: &str) -> Arc<Texts> {
        Arc::new([("sync_binlog".to_owned(), sync_binlog.to_owned())].into())
    }

    /// Seconds with so many syncs in each, and readings at these milliseconds.
    fn recorded(syncs_of: &[u64], readings: &[(i64, u64)]) -> Vec<Interval> {
        let mut left: VecDeque<_> = readings.iter().map(|&(millis, syncs)| reading(millis, syncs)).collect();
        (1..)
            .zip(syncs_of)
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
                let is_last = second as usize == syncs_of.len();
                let mut readings = Vec::new();
                let is_of_it = |reading: &Arc<OwnReading>| {
                    is_last || reading.began <= BEGIN + Duration::from_secs(second)
                };
                while left.front().is_some_and(is_of_it) {
                    readings.extend(left.pop_front());
                }
                if !readings.is_empty() {
                    m.counters =
                        vec![OwnCounters { server: MYSQL, readings, settings: settings("1") }].into();
                }
                m
            })
            .collect()
    }

    fn verified(intervals: &[Interval]) -> Result<Verification, Missing> {
        let server = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
        compare::<Reading, _>(&server, || intervals.iter().cloned())
    }

    /// Of a second of rest at either end, and seven syncs between.
    const RESTS: [(i64, u64); 7] =
        [(500, 0), (1_010, 0), (1_500, 0), (2_010, 5), (2_900, 7), (3_010, 7), (3_500, 7)];

    #[test]
    fn between_two_quiet_ends_it_is_exact() {
        let verification = verified(&recorded(&[0, 5, 2, 0], &RESTS)).unwrap();
        let redo = verification.row("redo log");
        let counted = redo.counted.unwrap();
        assert_eq!((redo.traced, counted.at_least, counted.at_most), (7, 7, 7));
        assert_eq!(verification.agrees(), Some(true));
        // One that was counted and not traced.
        let verification = verified(&recorded(&[0, 5, 1, 0], &RESTS)).unwrap();
        assert_eq!(verification.agrees(), Some(false));
    }

    #[test]
    fn what_moved_at_an_end_may_be_on_either_side() {
        let readings = [(500, 50), (1_010, 100), (2_010, 200), (3_010, 300), (4_010, 400)];
        let verification = verified(&recorded(&[100; 4], &readings)).unwrap();
        let counted = verification.row("redo log").counted.unwrap();
        assert_eq!((counted.at_least, counted.at_most), (200, 350));
        // And so may be what was in flight, of which there is one line for all.
        let mut intervals = recorded(&[0, 5, 2, 0], &RESTS);
        let hang = InFlight { count: 8, ..fixture::in_flight(Role::Redo, "/d/f", Duration::from_secs(1)) };
        intervals.iter_mut().for_each(|m| m.in_flight = vec![hang.clone()]);
        let counted = verified(&intervals).unwrap().row("redo log").counted.unwrap();
        assert_eq!((counted.at_least, counted.at_most), (0, 23));
    }

    #[test]
    fn a_reading_within_a_snapshot_is_not_behind_it() {
        // It began after the clock was read, and before the rows were.
        let mut intervals = recorded(&[0, 5, 2, 0], &RESTS);
        let of_second = |m: &mut Interval| {
            let row = m.counters.iter_mut().next().unwrap();
            row.readings = row
                .readings
                .iter()
                .map(|reading| Arc::new(OwnReading { follows: 0, ..(**reading).clone() }))
                .collect();
        };
        intervals.iter_mut().for_each(of_second);
        // The next ones, some hundred milliseconds later, are.
        let counted = verified(&intervals).unwrap().row("redo log").counted.unwrap();
        assert_eq!((counted.at_least, counted.at_most), (7, 7));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(verified(&recorded(&[1, 1, 1], &[])), Err(Missing::Counters));
        assert_eq!(verified(&recorded(&[1, 1, 1], &[(500, 0)])), Err(Missing::Length));
        let mut intervals = recorded(&[0, 5, 2, 0], &RESTS);
        let without_settings = |m: &mut Interval| {
            m.counters.iter_mut().for_each(|row| row.settings = Arc::default());
        };
        intervals.iter_mut().for_each(without_settings);
        assert_eq!(verified(&intervals), Err(Missing::Settings));
    }

    #[test]
    fn nothing_is_said_of_a_time_of_which_a_part_is_missing() {
        let says_nothing = |change: &dyn Fn(&mut Vec<Interval>)| {
            let mut intervals = recorded(&[0, 5, 2, 0], &RESTS);
            change(&mut intervals);
            let verification = verified(&intervals).unwrap();
            verification.interrupted.is_some() && verification.agrees().is_none()
        };
        assert!(!says_nothing(&|_| {}));
        assert!(says_nothing(&|all| drop(all.remove(1))));
        assert!(says_nothing(&|all| all[1].lost.paused = Duration::from_secs(1)));
        assert!(says_nothing(&|all| all[2].lost.files = 1));
        // Before the window it is of no matter.
        assert!(!says_nothing(&|all| all[0].lost.paused = Duration::from_secs(1)));
        // FLUSH STATUS in between.
        let flushed = |all: &mut Vec<Interval>| {
            for (at, m) in all.iter_mut().enumerate() {
                for row in m.counters.iter_mut() {
                    let uptime = if at == 2 { "3" } else { "50" };
                    let with = |reading: &Arc<OwnReading>| {
                        let mut reading = OwnReading::clone(reading);
                        reading.counters.insert("uptime_since_flush_status".into(), uptime.into());
                        Arc::new(reading)
                    };
                    row.readings = row.readings.iter().map(with).collect();
                }
            }
        };
        assert!(says_nothing(&flushed));
    }

    #[test]
    fn files_that_were_not_kept_apart_count_by_their_role_and_nothing_is_exact_then() {
        let mut intervals = recorded(&[0, 5, 2, 0], &RESTS);
        for m in &mut intervals {
            m.files.clear();
            m.rest.rows = 1;
        }
        let verification = verified(&intervals).unwrap();
        assert_eq!(verification.row("redo log").traced, 7);
        assert_eq!(verification.agrees(), None);
    }

    /// A recording may say what it likes of a server's counters.
    #[test]
    fn no_figure_is_too_large() {
        use crate::server::{etcd, postgres, redis};
        let names = [
            "aria_transaction_log_syncs",
            "aof_base_size",
            "aof_current_size",
            "aof_rewrites",
            "binlog_commits",
            "binlog_file:/a",
            "binlog_file:/b",
            "binlog_group_commits",
            "etcd_disk_backend_commit_duration_seconds_count",
            "etcd_disk_wal_fsync_duration_seconds_count",
            "innodb_data_fsyncs",
            "innodb_data_written",
            "innodb_dblwr_pages_written",
            "innodb_lsn_current",
            "innodb_os_log_fsyncs",
            "innodb_os_log_written",
            "innodb_page_size",
            "pg_stat_io.wal.normal.fsyncs",
            "pg_stat_wal.wal_sync",
            "pg_stat_wal.wal_write",
            "rdb_saves",
            "transactions",
            "written:a",
            "written:b",
        ];
        let mut intervals = recorded(&[0, 5, 2, 0], &RESTS);
        for (at, m) in intervals.iter_mut().enumerate() {
            for row in m.counters.iter_mut() {
                let figure = if at < 2 { 0 } else { u64::MAX };
                let with = |reading: &Arc<OwnReading>| {
                    let counters = names.map(|name| (name.to_owned(), figure.to_string())).into();
                    Arc::new(OwnReading { counters, ..OwnReading::clone(reading) })
                };
                row.readings = row.readings.iter().map(with).collect();
            }
        }
        let server = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
        let all = || intervals.iter().cloned();
        let _ = compare::<Reading, _>(&server, all);
        let _ = compare::<postgres::status::reading::Reading, _>(&server, all);
        let _ = compare::<redis::status::reading::Reading, _>(&server, all);
        let _ = compare::<etcd::status::reading::Reading, _>(&server, all);
    }
}
