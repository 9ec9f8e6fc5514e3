//! The last minutes of single rows, in little memory: what the small graphs and the picture over time are
//! drawn from.

use std::collections::{HashMap, VecDeque};

use super::hung::Hung;
use crate::model::histogram::{BUCKETS, Histogram, STEPS};
use crate::model::{Max, Stats};
use crate::render::row::{About, Key, Row};

/// Cells per power of two: a picture on a terminal has no room for more.
pub(crate) const CELLS_PER_OCTAVE: usize = 4;
const BUCKETS_PER_CELL: usize = STEPS / CELLS_PER_OCTAVE;
/// All cells: the first is for what lies under all buckets, the last for what lies over them.
pub(crate) const CELLS: usize = (BUCKETS - 2) / BUCKETS_PER_CELL + 2;
const _: () = assert!(CELLS <= 256);

/// Intervals that are remembered: ten minutes at one second.
pub(crate) const TICKS: u32 = 600;
/// Rows that are remembered; those that have been idle for longest go first.
const MOST_ROWS: usize = 400;
/// Points of all rows together, a hundred bytes each.
const MOST_POINTS: usize = 40_000;

/// What a row did in one interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// The number of the interval.
    pub tick: u32,
    /// Of a neighbour.
    untimed: u32,
    pub count: u64,
    pub sum_ns: u64,
    pub max: Max,
    /// The maximum where no histogram is kept.
    pub p99_ns: u64,
    pub errors: u64,
    /// The age, at its end, of a sync that was in flight for all of it; 0: there was none.
    pub hung_ns: u64,
    cells: Cells,
}

/// Pairs of a cell and its count: sparse, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cells(Box<[(u8, u32)]>);

impl Cells {
    fn of(histogram: &Histogram) -> Cells {
        let mut cells: Vec<(u8, u32)> = Vec::with_capacity(16);
        for (bucket, n) in histogram.iter() {
            let cell = cell_of(bucket) as u8;
            let n = u32::try_from(n).unwrap_or(u32::MAX);
            match cells.last_mut() {
                Some((last, sum)) if *last == cell => *sum = sum.saturating_add(n),
                _ => cells.push((cell, n)),
            }
        }
        Cells(cells.into())
    }
}

/// The cell of one of the histogram's buckets.
pub(crate) fn cell_of(bucket: usize) -> usize {
    match bucket {
        0 => 0,
        bucket if bucket >= BUCKETS - 1 => CELLS - 1,
        bucket => (bucket - 1) / BUCKETS_PER_CELL + 1,
    }
}

/// The first of the histogram's buckets in a cell.
pub(crate) fn first_bucket(cell: usize) -> usize {
    match cell {
        0 => 0,
        cell => ((cell - 1) * BUCKETS_PER_CELL + 1).min(BUCKETS - 1),
    }
}

impl Point {
    pub fn new(tick: u32, stats: &Stats) -> Point {
        Point {
            tick,
            untimed: u32::try_from(stats.untimed).unwrap_or(u32::MAX),
            count: stats.count,
            sum_ns: stats.sum_ns,
            max: stats.max,
            p99_ns: stats.quantile_ns(0.99).unwrap_or(stats.max.ns),
            errors: stats.error_count(),
            hung_ns: 0,
            cells: Cells::of(&stats.histogram),
        }
    }

    /// (cell, syncs), in ascending order of latency.
    pub fn cells(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.cells.0.iter().map(|&(cell, n)| (usize::from(cell), u64::from(n)))
    }

    /// As far as it is remembered: without a histogram and without the names of the errors.
    pub fn stats(&self) -> Stats {
        let untimed = self.untimed.into();
        Stats { count: self.count, sum_ns: self.sum_ns, max: self.max, untimed, ..Stats::default() }
    }
}

#[derive(Clone, Debug)]
struct Trail {
    about: About,
    points: VecDeque<Point>,
}

impl Trail {
    fn last_tick(&self) -> u32 {
        self.points.back().map_or(0, |point| point.tick)
    }
}

/// Intervals in which a row did nothing, and had nothing in flight all the time, have no point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trails {
    rows: HashMap<Key, Trail>,
    points: usize,
}

impl Trails {
    /// Adds what happened in an interval, and what hung in it; numbers of intervals only grow.
    pub fn record(&mut self, tick: u32, rows: &[Row], hung: &Hung) {
        for row in rows.iter().filter(|row| row.stats.all() > 0) {
            let new = || Trail { about: row.about.clone(), points: VecDeque::new() };
            let trail = self.rows.entry(row.key.clone()).or_insert_with(new);
            trail.about.clone_from(&row.about);
            trail.points.push_back(Point::new(tick, &row.stats));
            self.points += 1;
        }
        self.record_hung(tick, hung);
        self.forget_before((tick + 1).saturating_sub(TICKS));
        let mut horizon = (tick + 1).saturating_sub(TICKS);
        while self.points > MOST_POINTS && horizon < tick {
            horizon += TICKS / 20;
            self.forget_before(horizon);
        }
        if self.rows.len() > MOST_ROWS {
            self.forget_idlest();
        }
    }

    /// A row in which nothing else happened has a point for it, too.
    fn record_hung(&mut self, tick: u32, hung: &Hung) {
        if hung.is_empty() {
            return;
        }
        for (key, about) in hung.rows() {
            self.rows.entry(key).or_insert_with(|| Trail { about, points: VecDeque::new() });
        }
        for (key, trail) in &mut self.rows {
            let Some(age) = hung.age(key, &trail.about) else { continue };
            let hung_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            match trail.points.back_mut().filter(|point| point.tick == tick) {
                Some(point) => point.hung_ns = hung_ns,
                None => {
                    trail.points.push_back(Point { hung_ns, ..Point::new(tick, &Stats::default()) });
                    self.points += 1;
                }
            }
        }
    }

    fn forget_before(&mut self, tick: u32) {
        for trail in self.rows.values_mut() {
            let before = trail.points.len();
            while trail.points.front().is_some_and(|point| point.tick < tick) {
                trail.points.pop_front();
            }
            self.points -= before - trail.points.len();
        }
        self.rows.retain(|_, trail| !trail.points.is_empty());
    }

    fn forget_idlest(&mut self) {
        let mut ticks: Vec<u32> = self.rows.values().map(Trail::last_tick).collect();
        ticks.sort_unstable();
        let limit = ticks[ticks.len() - MOST_ROWS];
        let mut too_many = self.rows.len() - MOST_ROWS;
        let points = &mut self.points;
        self.rows.retain(|_, trail| {
            // Of those that were idle for equally long, any.
            let goes = too_many > 0 && trail.last_tick() <= limit;
            if goes {
                too_many -= 1;
                *points -= trail.points.len();
            }
            !goes
        });
    }

    /// The points of a row, oldest first.
    pub fn points(&self, key: &Key) -> impl DoubleEndedIterator<Item = &Point> {
        self.rows.get(key).into_iter().flat_map(|trail| &trail.points)
    }

    /// Rows that did something in one of these intervals, with what they did in the last of them.
    pub(crate) fn active(&self, from: u32, to: u32) -> impl Iterator<Item = (&Key, &About, Stats)> {
        self.rows.iter().filter_map(move |(key, trail)| {
            // Newest first: nearly always the first decides.
            let point = trail.points.iter().rev().find(|point| point.tick <= to)?;
            let stats = if point.tick == to { point.stats() } else { Stats::default() };
            (point.tick >= from).then_some((key, &trail.about, stats))
        })
    }

    /// What rows did in one interval.
    pub fn at(&self, tick: u32) -> impl Iterator<Item = (&Key, &About, &Point)> {
        self.rows.iter().filter_map(move |(key, trail)| {
            let at = trail.points.binary_search_by_key(&tick, |point| point.tick).ok()?;
            Some((key, &trail.about, &trail.points[at]))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::fixture::{self, MYSQL};
    use crate::model::histogram::{bucket_of, lower_edge};
    use crate::model::{InFlight, Interval, Op, Role};

    fn row(inode: u64, latencies: &[(u64, u64)]) -> Row {
        let path = format!("/f{inode}");
        let row = fixture::row(MYSQL, inode, &path, Role::Tablespace, Op::Fsync, fixture::stats(latencies));
        let m = fixture::with_files(fixture::quiet(), vec![row], Vec::new());
        crate::render::rows::by_path(m.files.iter(), Key::of_file).remove(0)
    }

    #[test]
    fn a_cell_holds_whole_buckets() {
        for bucket in 0..BUCKETS {
            let cell = cell_of(bucket);
            assert!(cell < CELLS);
            assert!(first_bucket(cell) <= bucket);
            assert!(cell + 1 == CELLS || first_bucket(cell + 1) > bucket, "{bucket}");
        }
        // Each is a quarter of a power of two.
        assert_eq!(lower_edge(first_bucket(cell_of(bucket_of(1 << 20)))), 1 << 20);
        assert_eq!(lower_edge(first_bucket(cell_of(bucket_of(1 << 20)) + 1)), (1 << 20) / 4 * 5);
    }

    #[test]
    fn a_point_counts_every_sync_once() {
        let point = Point::new(3, &fixture::stats(&[(5, 100_000), (2, 101_000), (1, 9_000_000)]));
        assert_eq!(point.cells().map(|(_, n)| n).sum::<u64>(), 8);
        assert_eq!(point.cells().count(), 2);
        assert_eq!((point.count, point.max.ns), (8, 9_000_000));
    }

    #[test]
    fn what_is_older_than_ten_minutes_is_forgotten_and_memory_stays_bounded() {
        let mut trails = Trails::default();
        let busy = row(1, &[(5, 100_000)]);
        trails.record(1, &[row(2, &[(1, 5_000)])], &Hung::default());
        for tick in 1..=TICKS + 5 {
            trails.record(tick, std::slice::from_ref(&busy), &Hung::default());
        }
        assert_eq!(trails.points(&busy.key).count(), TICKS as usize);
        assert_eq!(trails.points(&busy.key).next().unwrap().tick, 6);
        assert_eq!(trails.rows.len(), 1);

        let many: Vec<Row> =
            (10..10 + MOST_ROWS as u64 + 50).map(|inode| row(inode, &[(1, 1_000)])).collect();
        for tick in TICKS + 6..TICKS + 400 {
            trails.record(tick, &many, &Hung::default());
        }
        assert!(trails.rows.len() <= MOST_ROWS);
        assert!(trails.points <= MOST_POINTS);
        assert_eq!(trails.points, trails.rows.values().map(|trail| trail.points.len()).sum::<usize>());
    }

    #[test]
    fn rows_are_found_by_when_they_were_active() {
        let mut trails = Trails::default();
        trails.record(4, &[row(1, &[(1, 1_000)])], &Hung::default());
        trails.record(9, &[row(2, &[(3, 1_000)])], &Hung::default());
        let active = |from, to| trails.active(from, to).count();
        assert_eq!((active(1, 9), active(5, 9), active(1, 8), active(5, 8)), (2, 1, 1, 0));
        assert_eq!(trails.at(9).map(|(_, _, point)| point.count).collect::<Vec<_>>(), [3]);
        assert_eq!(trails.at(8).count(), 0);
    }

    #[test]
    fn a_sync_that_hangs_is_a_point_of_its_file_its_role_and_its_server() {
        let mut trails = Trails::default();
        let (file, other) = (row(1, &[(5, 100_000)]), row(2, &[(5, 100_000)]));
        trails.record(1, &[file.clone(), other.clone()], &Hung::default());
        let hanging = |seconds| {
            let age = Duration::from_secs(seconds);
            let sync = InFlight { op: Op::Fsync, ..fixture::in_flight(Role::Tablespace, "/f1", age) };
            fixture::lasting(Duration::from_secs(2), Interval { in_flight: vec![sync], ..fixture::quiet() })
        };
        // In flight for a part of the interval only.
        trails.record(2, &[], &Hung::of(&hanging(1)));
        trails.record(3, &[], &Hung::of(&hanging(3)));
        trails.record(4, std::slice::from_ref(&file), &Hung::of(&hanging(5)));
        let hung = |key: &Key| {
            let points = trails.points(key).filter(|point| point.hung_ns > 0);
            points.map(|point| (point.tick, point.count, point.hung_ns / 1_000_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(hung(&file.key), [(3, 0, 3), (4, 5, 5)]);
        assert_eq!(hung(&other.key), []);
        // Of these nothing was known before.
        assert_eq!(hung(&Key::Role(MYSQL, Role::Tablespace, Op::Fsync)), [(3, 0, 3), (4, 0, 5)]);
        assert_eq!(hung(&Key::Server(MYSQL, None)), [(3, 0, 3), (4, 0, 5)]);
        assert_eq!(trails.points, trails.rows.values().map(|trail| trail.points.len()).sum::<usize>());
    }
}
