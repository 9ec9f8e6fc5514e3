//! Intervals that wait to be written, in bounded memory: of more, the latest become one, so that no figure is
//! lost, however long a disk hangs.

use std::collections::VecDeque;

use super::writer::{joined, kept};
use crate::model::{Interval, OwnCounters};

/// Ten minutes at the usual interval.
const MAX_INTERVALS: usize = 600;
/// Of all of them together, which takes about 7 MB where the rows have few different latencies.
const MAX_ROWS: usize = 20_000;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Interval>,
    rows: usize,
    /// The beginning of the next interval, if it comes in parts.
    begun: Option<Interval>,
}

impl Queue {
    pub fn push(&mut self, interval: &Interval) {
        let interval = match self.begun.take() {
            Some(begun) => one_part(joined(Some(begun), interval)),
            None => kept(interval),
        };
        let rows = rows(&interval);
        let is_full = self.waiting.len() >= MAX_INTERVALS || self.rows + rows > MAX_ROWS;
        match self.waiting.back_mut().filter(|_| is_full) {
            Some(last) => {
                self.rows -= self::rows(last);
                *last = joined(Some(std::mem::replace(last, interval.clone())), &interval);
                self.rows += self::rows(last);
            }
            None => {
                self.rows += rows;
                self.waiting.push_back(interval);
            }
        }
    }

    /// A part of the next interval: a snapshot that is taken in between does not make intervals shorter.
    pub fn push_part(&mut self, part: &Interval) {
        self.begun = Some(match self.begun.take() {
            Some(begun) => joined(Some(begun), part),
            None => kept(part),
        });
    }

    /// A part that has begun is an interval.
    pub fn end(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.push(&begun);
        }
    }

    pub fn pop(&mut self) -> Option<Interval> {
        let next = self.waiting.pop_front()?;
        self.rows -= rows(&next);
        Some(next)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn one_part(mut interval: Interval) -> Interval {
    interval.span.parts = 1;
    interval
}

/// Those of which there may be many.
fn rows(interval: &Interval) -> usize {
    interval.files.len()
        + interval.roles.len()
        + interval.servers.len()
        + interval.writes.len()
        + interval.unsynced.rows.len()
        + interval.in_flight.len()
        + interval.neighbours.len()
        + interval.failures.len()
        + interval.waits.len()
        + interval.verdicts.len()
        + interval.counters.iter().map(texts).sum::<usize>()
}

/// A counter takes a quarter of what a row takes.
fn texts(counters: &OwnCounters) -> usize {
    let of_readings: usize = counters.readings.iter().map(|reading| reading.counters.len()).sum();
    (of_readings + counters.settings.len()) / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::busy;

    #[test]
    fn what_finds_no_room_is_in_the_last_interval() {
        let mut queue = Queue::default();
        let one = busy();
        let pushed = 3 * MAX_INTERVALS;
        for _ in 0..pushed {
            queue.push(&one);
        }
        assert!(queue.len() <= MAX_INTERVALS && queue.rows <= MAX_ROWS + 1_000, "{}", queue.rows);
        let (mut syncs, mut duration) = (0, std::time::Duration::ZERO);
        while let Some(interval) = queue.pop() {
            syncs += interval.total().count;
            duration += interval.span.duration;
        }
        assert_eq!(syncs, one.total().count * pushed as u64);
        assert_eq!(duration, one.span.duration * pushed as u32);
        assert_eq!(queue.rows, 0);
    }

    #[test]
    fn parts_are_one_interval() {
        let mut queue = Queue::default();
        let one = busy();
        queue.push_part(&one);
        queue.push_part(&one);
        assert!(queue.is_empty());
        queue.push(&one);
        let all = queue.pop().unwrap();
        assert_eq!((all.total().count, all.span.parts), (3 * one.total().count, 1));
        assert!(queue.pop().is_none());
    }
}
