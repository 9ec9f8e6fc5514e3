//! The last ten minutes: what the view steps back into, and what it draws over time.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use super::event::Earlier;
use super::hung::Hung;
use super::log::Log;
use super::rows::{Scope, rows};
use super::trail::{TICKS, Trails};
use super::view::View;
use crate::model::{FileRow, Interval, Op, Stats, ThreadRow};
use crate::recording::{History, Incidents, Options};
use crate::render::row::{About, Key, Row};
use crate::render::rows::by_path;

/// Files and threads whose last minutes are kept, of each interval: those that failed, then those that took
/// most time.
pub(crate) const KEPT_APART: usize = 50;
/// The same where several intervals of a recording are one.
const FILES_OF_RECORDING: usize = 500;
const MOST_NEIGHBOURS: usize = 20;
/// A sync that takes at least so long, and longer than the interval, hangs.
const HANGS: Duration = Duration::from_secs(1);
/// An interval ends after this time before its end.
const JUST_BEFORE: Duration = Duration::from_nanos(1);

/// One interval, by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tick {
    pub number: u32,
    pub end: SystemTime,
    pub duration: Duration,
    /// Another program told of it.
    pub from_exporter: bool,
    /// A sync was in flight all the time, or ended that had begun before: how busy a log was then is no part
    /// of how busy it is.
    hung: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Past {
    history: History,
    pub trails: Trails,
    pub log: Log,
    pub incidents: Incidents,
    ticks: VecDeque<Tick>,
}

impl Past {
    /// A sync hangs that takes as long as `hang_after`, and is in the log from `slow_from` on.
    pub(crate) fn new(hang_after: Duration, slow_from: Duration) -> Past {
        Past {
            history: History::new(Options { files: KEPT_APART, ..Options::default() }),
            trails: Trails::default(),
            log: Log::new(slow_from),
            incidents: Incidents::new(hang_after),
            ticks: VecDeque::new(),
        }
    }

    /// Adds an interval. `selected`: a row that is remembered however little it does.
    pub fn record(&mut self, m: &Interval, selected: Option<&Key>) {
        self.history.push(m);
        self.enter(m, selected, false);
    }

    /// Puts what another program remembers of the time up to `until` before what was recorded here. Returns
    /// by how much the numbers of the intervals grow.
    pub(crate) fn begin_with(&mut self, earlier: &Earlier, until: SystemTime) -> u32 {
        if earlier.servers.is_empty() {
            return 0;
        }
        let empty = Past::new(self.incidents.hang_after(), self.log.slow_from());
        let own = std::mem::replace(self, empty);
        let history = &earlier.history;
        for mut moment in history.moments().filter(|moment| moment.span.end <= until) {
            moment.retain_servers(|server| earlier.servers.contains(&server));
            self.record_again(&moment, true);
        }
        let more = self.newest().map_or(0, |tick| tick.number);
        for tick in &own.ticks {
            if let Some(interval) = own.at(tick.number) {
                self.record_again(&interval, tick.from_exporter);
            }
        }
        more
    }

    /// What was recorded, and no more than there are figures of over time.
    pub(crate) fn of_recording(recording: &History, hang_after: Duration, slow_from: Duration) -> Past {
        let unlimited = Options { length: Duration::MAX, bytes: usize::MAX, files: FILES_OF_RECORDING };
        let empty = Past::new(hang_after, slow_from);
        let log = Log::of_recording(slow_from);
        let mut past = Past { history: History::new(unlimited), log, ..empty };
        // Of a long one, some intervals are one.
        let step = recording.length() / TICKS;
        match recording.len() > TICKS as usize {
            true => {
                let parts = recording.series(Duration::MAX, step);
                parts.iter().for_each(|part| past.record_again(&part.interval, false));
            }
            false => recording.moments().for_each(|moment| past.record_again(&moment, false)),
        }
        past
    }

    /// The interval in which a moment lies.
    pub(crate) fn at_moment(&self, moment: SystemTime) -> Option<Tick> {
        self.ticks.iter().find(|tick| tick.end > moment).copied()
    }

    /// One that was in a history: files that are not kept apart there are none of its rows.
    fn record_again(&mut self, m: &Interval, from_exporter: bool) {
        if self.history.keep(m) {
            self.enter(m, None, from_exporter);
        }
    }

    fn enter(&mut self, m: &Interval, selected: Option<&Key>, from_exporter: bool) {
        let number = self.ticks.back().map_or(1, |tick| tick.number + 1);
        let hung = hung(m);
        self.ticks.push_back(Tick {
            number,
            end: m.span.end,
            duration: m.span.duration,
            from_exporter,
            hung,
        });
        if self.ticks.len() > TICKS as usize {
            self.ticks.pop_front();
        }
        self.trails.record(number, &most_important(m, selected), &Hung::of(m));
        self.log.record(m);
        self.incidents.record(m);
    }

    /// That can still be shown: there may have been more to remember than there is memory.
    pub fn oldest(&self) -> Option<Tick> {
        let since = self.history.since()?;
        self.ticks.iter().find(|tick| tick.end > since).copied()
    }

    pub fn newest(&self) -> Option<Tick> {
        self.ticks.back().copied()
    }

    pub fn tick(&self, number: u32) -> Option<Tick> {
        let first = self.ticks.front()?.number;
        self.ticks.get(number.checked_sub(first)? as usize).copied()
    }

    /// The interval that ended then, if it can still be shown.
    pub(crate) fn ending_at(&self, end: SystemTime) -> Option<Tick> {
        let oldest = self.oldest()?.number;
        self.ticks.iter().rev().find(|tick| tick.end == end && tick.number >= oldest).copied()
    }

    /// The intervals up to one of them, newest first.
    pub fn until(&self, number: u32) -> impl Iterator<Item = &Tick> {
        self.ticks.iter().rev().skip_while(move |tick| tick.number > number)
    }

    /// One interval as it was, with what is not kept apart any more.
    pub fn at(&self, number: u32) -> Option<Interval> {
        let tick = self.tick(number)?;
        let mut interval = self.history.between(tick.end - JUST_BEFORE, tick.end)?;
        interval.threads = self.threads(number).into();
        Some(interval)
    }

    /// All intervals from a time on up to one of them, summed up.
    pub fn sum(&self, from: SystemTime, until: u32) -> Option<Interval> {
        self.history.between(from, self.tick(until)?.end)
    }

    /// The intervals up to one of them, so many that they cover `length`, summed up.
    pub(crate) fn recent(&self, until: u32, length: Duration) -> Option<Interval> {
        let mut covered = Duration::ZERO;
        let first = self.until(until).find(|tick| {
            covered += tick.duration;
            // Intervals are a little longer or shorter than what was asked for.
            covered + tick.duration / 2 > length
        });
        let first = first.copied().or(self.oldest())?;
        self.sum(first.end - JUST_BEFORE, until)
    }

    /// As [`Past::recent`], but none of before a sync hung. None: the same, none hung.
    pub(crate) fn recent_since_hang(&self, until: u32, length: Duration) -> Option<Interval> {
        let mut after: Option<&Tick> = None;
        let mut covered = Duration::ZERO;
        for tick in self.until(until) {
            if tick.hung {
                return self.sum(after.unwrap_or(tick).end - JUST_BEFORE, until);
            }
            covered += tick.duration;
            if covered + tick.duration / 2 > length {
                return None;
            }
            after = Some(tick);
        }
        None
    }

    fn threads(&self, number: u32) -> Vec<ThreadRow> {
        let row = |(key, name, stats): (&Key, String, Stats)| match *key {
            Key::Thread(server, tid, start, op) => Some(ThreadRow { server, tid, start, name, op, stats }),
            _ => None,
        };
        let at = self.trails.at(number).filter_map(|(key, about, point)| match about {
            About::Thread(name) => Some((key, name.clone(), point.stats())),
            _ => None,
        });
        at.filter_map(row).collect()
    }

    /// It reaches back less far than it should.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.history.is_short_of_memory()
    }
}

fn hung(m: &Interval) -> bool {
    let long = m.span.duration.max(HANGS);
    let ended = |row: &FileRow| u128::from(row.stats.max.ns) >= long.as_nanos();
    m.in_flight.iter().any(|sync| sync.age >= long) || m.files.iter().any(ended)
}

/// The rows whose last minutes are kept.
fn most_important(m: &Interval, selected: Option<&Key>) -> Vec<Row> {
    let everything = Scope::default();
    let mut kept = rows(View::Role, m, &everything);
    kept.extend(rows(View::Server, m, &everything));
    kept.extend(most(rows(View::Neighbour, m, &everything), MOST_NEIGHBOURS, selected));
    kept.extend(most(rows(View::Thread, m, &everything), KEPT_APART, selected));
    kept.extend(most_files(&m.files, selected, Key::of_file));
    if m.setup.ops.contains(&Op::Write) {
        kept.extend(most_files(m.all_writes(), selected, Key::of_write));
    }
    kept
}

/// Without a row for each of thousands of files: of those that are there, only the most important are looked
/// at by path. Files that are gone may have had one path in turn, and be important together.
fn most_files<'a>(
    files: impl IntoIterator<Item = &'a FileRow>,
    selected: Option<&Key>,
    key: fn(&FileRow) -> Key,
) -> Vec<Row> {
    let (gone, mut here): (Vec<&FileRow>, Vec<_>) = files.into_iter().partition(|row| row.info.unlinked);
    if here.len() > KEPT_APART {
        let is_selected = |row: &FileRow| selected.is_some_and(|selected| *selected == key(row));
        here.select_nth_unstable_by_key(KEPT_APART, |row| {
            Reverse((is_selected(row), row.stats.error_count().min(1), row.stats.sum_ns))
        });
        here.truncate(KEPT_APART);
    }
    most(by_path(here.into_iter().chain(gone), key), KEPT_APART, selected)
}

fn most(mut rows: Vec<Row>, most: usize, selected: Option<&Key>) -> Vec<Row> {
    if rows.len() > most {
        rows.select_nth_unstable_by_key(most, |row| {
            Reverse((selected == Some(&row.key), row.stats.error_count().min(1), row.stats.sum_ns))
        });
        rows.truncate(most);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MYSQL, row, spread};
    use crate::model::{Op, Role, ServerId};

    fn second(number: u64, files: Vec<FileRow>) -> Interval {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + number);
        let duration = Duration::from_secs(1);
        let mut m = fixture::quiet();
        (m.span.start, m.span.end, m.span.duration) = (end - duration, end, duration);
        fixture::with_files(m, files, vec![fixture::thread(MYSQL, 7, "connection", number, 1_000)])
    }

    fn files(n: u64, count: u64) -> Vec<FileRow> {
        let one = |inode| {
            let stats = spread(count, [100.0, 200.0, 300.0, 400.0 + inode as f64]);
            row(MYSQL, inode, &format!("/f{inode}"), Role::Tablespace, Op::Fsync, stats)
        };
        (1..=n).map(one).collect()
    }

    #[test]
    fn an_interval_is_found_again_as_it_was() {
        let mut past = Past::new(HANGS, Duration::ZERO);
        for number in 1..=20 {
            past.record(&second(number, files(3, number)), None);
        }
        assert_eq!(past.newest().unwrap().number, 20);
        let then = past.at(7).unwrap();
        assert_eq!(then.files.len(), 3);
        assert!(then.files.iter().all(|row| row.stats.count == 7));
        assert_eq!(then.threads.iter().map(|row| row.stats.count).collect::<Vec<_>>(), [7]);
        assert_eq!(past.sum(SystemTime::UNIX_EPOCH, 7).unwrap().total().count, 3 * (1..=7).sum::<u64>());
        assert_eq!(past.until(7).map(|tick| tick.number).collect::<Vec<_>>(), [7, 6, 5, 4, 3, 2, 1]);
        let recent = past.recent(7, Duration::from_secs(3)).unwrap();
        assert_eq!((recent.span.duration, recent.total().count), (Duration::from_secs(3), 3 * (5 + 6 + 7)));
        assert!(past.at(21).is_none() && past.at(0).is_none());
    }

    #[test]
    fn a_selected_file_is_remembered_among_thousands() {
        let mut past = Past::new(HANGS, Duration::ZERO);
        let key = |inode: usize| Key::of_file(&files(5_000, 4)[inode - 1]);
        let selected = key(3);
        past.record(&second(1, files(5_000, 4)), Some(&selected));
        assert_eq!(past.trails.points(&selected).count(), 1);
        assert_eq!(past.trails.points(&key(4)).count(), 0);
        assert_eq!(past.trails.points(&key(5_000)).count(), 1);
        let merged = past.at(1).unwrap();
        assert_eq!(merged.files.len(), KEPT_APART);
        assert_eq!(merged.rest.rows, 5_000 - KEPT_APART as u64);
        let total = merged.files.iter().map(|row| row.stats.count).sum::<u64>();
        assert_eq!(total + merged.rest.stats.count, 20_000);
    }

    #[test]
    fn what_an_exporter_remembers_is_there_at_once() {
        let mut other = Past::new(HANGS, Duration::ZERO);
        for number in 1..=5 {
            other.record(&second(number, files(2, number)), None);
        }
        let mut bytes = Vec::new();
        other.history.write(&mut bytes).unwrap();
        let mut past = Past::new(HANGS, Duration::ZERO);
        past.record(&second(6, files(2, 6)), None);
        let until = second(5, Vec::new()).span.end;
        let history = History::read(&bytes).unwrap();
        let told = |servers: &[ServerId]| Earlier {
            history: history.clone(),
            servers: servers.iter().copied().collect(),
        };
        assert_eq!(past.begin_with(&told(&[]), until), 0, "servers that are not traced here");
        assert_eq!(past.begin_with(&told(&[MYSQL]), until), 5);
        assert_eq!(
            past.until(6).map(|tick| tick.from_exporter).collect::<Vec<_>>(),
            [false, true, true, true, true, true]
        );
        assert_eq!(past.newest().unwrap().number, 6);
        assert_eq!(past.at(2).unwrap().total().count, 4);
        let role = Key::Role(MYSQL, Role::Tablespace, Op::Fsync);
        assert_eq!(
            past.trails.points(&role).map(|point| point.count).collect::<Vec<_>>(),
            [2, 4, 6, 8, 10, 12]
        );
    }

    #[test]
    fn what_an_exporter_did_not_keep_apart_is_still_said() {
        let mut history = History::new(Options { files: 10, ..Options::default() });
        history.push(&second(1, files(30, 2)));
        let mut past = Past::new(HANGS, Duration::ZERO);
        past.record(&second(2, files(2, 1)), None);
        let earlier = Earlier { history, servers: [MYSQL].into() };
        past.begin_with(&earlier, second(1, Vec::new()).span.end);
        let then = past.at(1).unwrap();
        assert_eq!((then.files.len(), then.rest.rows, then.rest.stats.count), (10, 20, 40));
        assert_eq!(then.total().count, 60);
        assert_eq!(past.at(2).unwrap().rest.rows, 0);
    }
}
