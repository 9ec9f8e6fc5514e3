//! Latency over time: time across, latency up, how many syncs by shade. A few slow syncs among thousands of
//! fast ones have a band of their own, where an average or a percentile would hide them. A sync that has not
//! ended is there as well, as far up as it has come.

use super::palette::LEVELS;
use super::trail::{CELLS, Point, cell_of, first_bucket};
use crate::model::histogram::{Histogram, bucket_of, lower_edge};

/// Steps between two bands, in cells: a quarter of a power of two to the whole range.
const STEPS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The slowest first.
    pub bands: Vec<Band>,
    /// For each column, syncs that failed then; oldest first.
    pub failed: Vec<u64>,
    /// For each column, the band that a sync had reached which was in flight for a whole interval of it.
    pub hung: Vec<Option<usize>>,
    /// The greatest count of a cell.
    pub most: u64,
    /// The greatest count of a band in the interval.
    pub most_now: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Band {
    /// Where it begins, in nanoseconds; the band above begins where it ends.
    pub from_ns: u64,
    /// For each column, the oldest first.
    pub counts: Vec<u64>,
    /// In the interval that is shown.
    pub now: u64,
}

/// How much time is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The number of the last interval.
    pub until: u32,
    pub columns: usize,
    /// Intervals in a column.
    pub each: u32,
}

impl Span {
    /// The column of an interval; None: it is not drawn.
    pub fn column(&self, tick: u32) -> Option<usize> {
        let back = self.until.checked_sub(tick)? / self.each;
        self.columns.checked_sub(1)?.checked_sub(back as usize)
    }
}

/// `points`: of one row, oldest first. `now`: of the interval that is shown. None: there is nothing to draw.
pub fn map<'a>(
    points: impl Iterator<Item = &'a Point>,
    now: &Histogram,
    span: Span,
    bands: usize,
) -> Option<Map> {
    let drawn: Vec<(usize, &Point)> =
        points.filter_map(|point| Some((span.column(point.tick)?, point))).collect();
    let hung = |point: &Point| (point.hung_ns > 0).then(|| cell_of(bucket_of(point.hung_ns)));
    let of_now = || now.iter().map(|(bucket, n)| (cell_of(bucket), n));
    let ended = drawn.iter().flat_map(|(_, point)| point.cells()).chain(of_now()).map(|(cell, _)| cell);
    let cells = ended.chain(drawn.iter().filter_map(|(_, point)| hung(point)));
    let (low, high) = cells.fold(None, |range: Option<(usize, usize)>, cell| match range {
        None => Some((cell, cell)),
        Some((low, high)) => Some((low.min(cell), high.max(cell))),
    })?;
    let bands = bands.max(1);
    // The first cell is the one under all buckets: cells that begin a power of two are 1, 5, 9, …
    let group = |cell: usize, step: usize| cell.div_ceil(step);
    let fits = |step: &usize| group(high, *step) - group(low, *step) < bands;
    let step = STEPS.into_iter().find(fits).unwrap_or(CELLS);
    // What is not needed lies half above, half below.
    let used = group(high, step) - group(low, step) + 1;
    let lowest = group(low, step).saturating_sub(bands.saturating_sub(used) / 2);
    let place = |cell: usize| (group(cell, step) - lowest).min(bands - 1);
    let mut map = Map {
        bands: (0..bands)
            .map(|at| Band { from_ns: edge(lowest + at, step), counts: vec![0; span.columns], now: 0 })
            .collect(),
        failed: vec![0; span.columns],
        hung: vec![None; span.columns],
        most: 0,
        most_now: 0,
    };
    for (column, point) in drawn {
        map.failed[column] += point.errors;
        // The slowest band is the first.
        let reached = hung(point).map(|cell| bands - 1 - place(cell));
        map.hung[column] = [map.hung[column], reached].into_iter().flatten().min();
        for (cell, n) in point.cells() {
            let count = &mut map.bands[place(cell)].counts[column];
            *count += n;
            map.most = map.most.max(*count);
        }
    }
    for (cell, n) in of_now() {
        let count = &mut map.bands[place(cell)].now;
        *count += n;
        map.most_now = map.most_now.max(*count);
    }
    map.bands.reverse();
    Some(map)
}

/// Where a group of cells begins, in nanoseconds.
fn edge(group: usize, step: usize) -> u64 {
    let first = group.checked_sub(1).map_or(0, |before| before * step + 1);
    lower_edge(first_bucket(first.min(CELLS - 1)))
}

/// How dense to draw a count, 0 to 3; None: nothing. By its logarithm: one sync among thousands is seen.
pub fn level(count: u64, most: u64) -> Option<u8> {
    if count == 0 {
        return None;
    }
    let share = (1.0 + count as f64).ln() / (1.0 + most.max(count) as f64).ln();
    Some(((share * LEVELS as f64).ceil() as u8).clamp(1, LEVELS as u8) - 1)
}

/// The least count of each shade that is in use, up to the greatest count.
pub(crate) fn legend(most: u64) -> Vec<(u8, u64)> {
    let mut entries: Vec<(u8, u64)> = Vec::new();
    for shade in 0..LEVELS as u8 {
        // The shade grows with the count, so halving finds where it begins.
        let (mut low, mut high) = (1, most);
        while low < high {
            let middle = low + (high - low) / 2;
            match level(middle, most) >= Some(shade) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        if most > 0 && level(low, most) == Some(shade) {
            entries.push((shade, low));
        }
    }
    entries
}

/// The heights of a row of a small graph. The highest bar leaves a gap below the row above it.
const HIGHEST: f64 = 6.0;

/// A row of a small graph, on a scale from `least` to `most` that all rows share; None: nothing happened.
pub(crate) fn heights(values: &[Option<u64>], (least, most): (u64, u64), scale: Scale) -> Vec<Option<u8>> {
    let least = least.max(1);
    let height = |value: u64| match scale {
        Scale::Linear => (value as f64 / most.max(1) as f64 * HIGHEST).round() as u8,
        // Noise stays flat: the scale is a factor of eight at least.
        Scale::Logarithmic => {
            let range = (most as f64 / least as f64).max(8.0).ln();
            ((value.max(1) as f64 / least as f64).ln() / range * HIGHEST).round() as u8
        }
    };
    values.iter().map(|value| value.map(height)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    const SPAN: Span = Span { until: 30, columns: 20, each: 1 };

    fn points() -> Vec<Point> {
        let fast = |tick| Point::new(tick, &fixture::stats(&[(1_000, 200_000)]));
        let both = |tick| Point::new(tick, &fixture::stats(&[(1_000, 200_000), (1, 90_000_000)]));
        (1..=30).map(|tick| if tick >= 25 { both(tick) } else { fast(tick) }).collect()
    }

    fn drawn(map: &Map) -> Vec<Vec<Option<u8>>> {
        let row = |band: &Band| band.counts.iter().map(|&count| level(count, map.most)).collect();
        map.bands.iter().map(row).collect()
    }

    #[test]
    fn a_second_population_has_a_band_of_its_own() {
        let map = map(points().iter(), &Histogram::default(), SPAN, 10).unwrap();
        assert_eq!(map.bands.len(), 10);
        let used: Vec<(usize, &Band)> =
            map.bands.iter().enumerate().filter(|(_, band)| band.counts.iter().any(|&n| n > 0)).collect();
        let [(slow_at, slow), (fast_at, fast)] = used[..] else { panic!("{map:?}") };
        assert!(slow_at + 1 < fast_at, "they do not touch");
        assert!(slow.from_ns <= 90_000_000 && 90_000_000 < 2 * slow.from_ns, "{}", slow.from_ns);
        assert!(fast.from_ns <= 200_000 && 200_000 < 2 * fast.from_ns, "{}", fast.from_ns);
        assert_eq!(slow.counts, [vec![0; 14], vec![1; 6]].concat());
        assert_eq!(fast.counts, [1_000; 20]);
        // One sync is drawn, although a thousand others are.
        assert_eq!(level(1, map.most), Some(0));
        assert_eq!(level(1_000, map.most), Some(3));
        assert_eq!(drawn(&map)[slow_at][19], Some(0));
    }

    #[test]
    fn the_legend_says_from_which_count_on_each_shade_is_drawn() {
        assert_eq!(legend(0), []);
        assert_eq!(legend(1), [(3, 1)]);
        for most in [2, 7, 178, 4_480, u64::MAX] {
            let entries = legend(most);
            assert_eq!(entries.last().map(|(shade, _)| *shade), Some(3), "{most}");
            for (shade, from) in entries {
                assert_eq!(level(from, most), Some(shade), "{most}");
                assert!(from == 1 || level(from - 1, most) < Some(shade), "{most} {shade} {from}");
            }
        }
    }

    #[test]
    fn no_sync_is_left_out_whatever_the_number_of_bands() {
        let wide = [(3, 100), (4, 5_000), (5, 1 << 20), (6, 1 << 30), (7, 1 << 41)];
        let point = Point::new(30, &fixture::stats(&wide));
        for bands in 1..40 {
            let map = map(std::iter::once(&point), &Histogram::default(), SPAN, bands).unwrap();
            assert_eq!(map.bands.len(), bands);
            assert_eq!(map.bands.iter().flat_map(|band| &band.counts).sum::<u64>(), 25, "{bands}");
            assert!(map.bands.windows(2).all(|pair| pair[0].from_ns >= pair[1].from_ns));
        }
    }

    #[test]
    fn several_intervals_share_a_column_when_more_time_is_drawn() {
        let span = Span { each: 3, ..SPAN };
        let map = map(points().iter(), &Histogram::default(), span, 6).unwrap();
        let fast = map.bands.iter().max_by_key(|band| band.counts[19]).unwrap();
        assert_eq!(fast.counts, [vec![0; 10], vec![3_000; 10]].concat());
        assert_eq!(span.column(30), Some(19));
        assert_eq!((span.column(27), span.column(31)), (Some(18), None));
        assert_eq!(SPAN.column(10), None);
    }

    #[test]
    fn a_sync_that_hangs_reaches_the_slowest_band_as_it_grows_older() {
        let mut points = points();
        points.truncate(28);
        let hung = |tick, ns| {
            let mut point = Point::new(tick, &fixture::stats(&[]));
            point.hung_ns = ns;
            point
        };
        points.extend([hung(29, 1_000_000_000), hung(30, 20_000_000_000)]);
        let map = map(points.iter(), &Histogram::default(), SPAN, 10).unwrap();
        assert_eq!(map.hung[..18], [None; 18]);
        let [Some(first), Some(last)] = map.hung[18..] else { panic!("{map:?}") };
        let reached = |band: usize| map.bands[band].from_ns;
        assert!(last < first, "slower bands come first: {map:?}");
        assert!(reached(first) <= 1_000_000_000 && 1_000_000_000 < reached(first - 1), "{map:?}");
        assert!(reached(last) <= 20_000_000_000, "{map:?}");
        assert_eq!(map.bands[last].counts, [0; 20], "it has not ended, so it is not counted");
        // Where intervals share a column, the oldest of them; and where nothing has ended at all.
        let span = Span { each: 2, ..SPAN };
        let alone = [hung(29, 1_000_000_000), hung(30, 20_000_000_000)];
        let map = super::map(alone.iter(), &Histogram::default(), span, 4).unwrap();
        let age = map.hung[19].map(|band| map.bands[band].from_ns);
        assert!(age.is_some_and(|from_ns| from_ns > 10_000_000_000), "{map:?}");
        assert_eq!((map.most, legend(map.most)), (0, vec![]));
    }

    #[test]
    fn the_interval_that_is_shown_is_counted_beside_it() {
        let now = fixture::stats(&[(7, 200_000), (2, 90_000_000)]);
        let map = map(points().iter(), &now.histogram, SPAN, 8).unwrap();
        assert_eq!(map.bands.iter().map(|band| band.now).sum::<u64>(), 9);
        assert_eq!(map.most_now, 7);
        assert_eq!(super::map(std::iter::empty(), &Histogram::default(), SPAN, 8), None);
    }

    #[test]
    fn a_graph_is_flat_where_little_changes_and_rises_where_much_does() {
        let flat = [Some(200), Some(210), None, Some(190)];
        assert_eq!(heights(&flat, (190, 210), Scale::Logarithmic), [Some(0), Some(0), None, Some(0)]);
        let risen = [Some(200), Some(200), Some(3_200)];
        assert_eq!(heights(&risen, (200, 3_200), Scale::Logarithmic), [Some(0), Some(0), Some(6)]);
        assert_eq!(
            heights(&[Some(0), Some(50), Some(100)], (0, 100), Scale::Linear),
            [Some(0), Some(3), Some(6)]
        );
        // Another row is ten times as slow: on the scale of both, this one lies low.
        assert_eq!(heights(&risen, (200, 32_000), Scale::Logarithmic), [Some(0), Some(0), Some(3)]);
        assert_eq!(heights(&[None, None], (0, 0), Scale::Linear), [None, None]);
    }
}
