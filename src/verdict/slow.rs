//! Whether a log has been slow for a while: its last minute, in parts. It becomes slow when each part is, and
//! is so until all of them together are not: one that is in between does not change its state all the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Thresholds;
use crate::model::histogram::Histogram;
use crate::model::{SATURATED, Stats};

/// Into which the time that a log has to be slow for is divided.
const PARTS: u32 = 6;
/// Below so many syncs there is no 99th percentile, here as in every table.
pub(super) const ENOUGH: u64 = 100;

#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    parts: VecDeque<Part>,
    is_slow: bool,
}

#[derive(Clone, Debug)]
struct Part {
    begin: Instant,
    end: Instant,
    syncs: Histogram,
    sum_ns: u64,
}

/// A log that is slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slow {
    pub p99: Duration,
    pub per_second: f64,
}

/// None if there are too few syncs to speak of: of a log that is saturated a few are enough, because it makes
/// fewer the longer each takes.
pub(super) fn figures(
    syncs: &Histogram,
    sum_ns: u64,
    time: Duration,
    thresholds: &Thresholds,
) -> Option<Slow> {
    let p99 = Duration::from_nanos(syncs.quantile(0.99)?);
    let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
    let per_second = syncs.count() as f64 / seconds;
    let is_saturated = sum_ns as f64 / 1e9 >= SATURATED * seconds;
    let is_enough = syncs.count() >= ENOUGH && per_second >= thresholds.min_rate;
    (is_enough || is_saturated).then_some(Slow { p99, per_second })
}

impl Log {
    /// The syncs of the interval between these two moments.
    pub fn add(&mut self, begin: Instant, end: Instant, stats: Option<&Stats>, thresholds: &Thresholds) {
        let part_length = thresholds.slow_for / PARTS;
        match self.parts.back_mut() {
            Some(part) if part.end.saturating_duration_since(part.begin) < part_length => part.end = end,
            _ => self.parts.push_back(Part { begin, end, syncs: Histogram::default(), sum_ns: 0 }),
        }
        if let (Some(part), Some(stats)) = (self.parts.back_mut(), stats) {
            part.syncs.merge(&stats.histogram);
            part.sum_ns += stats.sum_ns;
        }
        // What is left covers the whole time.
        while self
            .parts
            .get(1)
            .is_some_and(|second| end.saturating_duration_since(second.begin) >= thresholds.slow_for)
        {
            self.parts.pop_front();
        }
        self.settle(thresholds);
    }

    fn settle(&mut self, thresholds: &Thresholds) {
        let is_above = |syncs: &Histogram| {
            syncs.quantile(0.99).is_some_and(|ns| Duration::from_nanos(ns) > thresholds.slow)
        };
        let Some(all) = self.all(thresholds) else {
            self.is_slow = false;
            return;
        };
        // A part that has just begun says nothing yet.
        let has_begun =
            |part: &&Part| part.syncs.is_empty() && Some(part.end) == self.parts.back().map(|p| p.end);
        let mut told = self.parts.iter().filter(|part| !has_begun(part));
        let is_whole = self.length() >= thresholds.slow_for;
        self.is_slow = match self.is_slow {
            true => all.p99 > thresholds.slow,
            false => is_whole && told.all(|part| is_above(&part.syncs)),
        };
    }

    fn length(&self) -> Duration {
        let (first, last) = (self.parts.front(), self.parts.back());
        first
            .zip(last)
            .map_or(Duration::ZERO, |(first, last)| last.end.saturating_duration_since(first.begin))
    }

    fn all(&self, thresholds: &Thresholds) -> Option<Slow> {
        let mut all = Histogram::default();
        self.parts.iter().for_each(|part| all.merge(&part.syncs));
        figures(&all, self.parts.iter().map(|part| part.sum_ns).sum(), self.length(), thresholds)
    }

    pub fn slow(&self, thresholds: &Thresholds) -> Option<Slow> {
        self.all(thresholds).filter(|_| self.is_slow)
    }
}
