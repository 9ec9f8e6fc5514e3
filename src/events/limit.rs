//! So many lines a minute, and what was left out. Pure.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

/// How many of each kind, and since when.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeftOut {
    pub counts: BTreeMap<&'static str, u64>,
    pub since: SystemTime,
}

#[derive(Debug)]
pub(crate) struct Limit {
    per_minute: u32,
    room: f64,
    at: Instant,
    left_out: Option<LeftOut>,
}

impl Limit {
    /// A minute's lines may come at once.
    pub fn new(per_minute: u32, now: Instant) -> Limit {
        Limit { per_minute, room: f64::from(per_minute), at: now, left_out: None }
    }

    fn refill(&mut self, now: Instant) {
        let per_second = f64::from(self.per_minute) / 60.0;
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.room = (self.room + passed * per_second).min(f64::from(self.per_minute));
        self.at = now;
    }

    /// Whether there is room for a line of this kind.
    pub fn admits(&mut self, kind: &'static str, now: Instant, wall: SystemTime) -> bool {
        self.refill(now);
        if self.room >= 1.0 {
            self.room -= 1.0;
            return true;
        }
        self.leave_out(kind, wall);
        false
    }

    pub fn leave_out(&mut self, kind: &'static str, wall: SystemTime) {
        let left_out = self.left_out.get_or_insert_with(|| LeftOut { counts: BTreeMap::new(), since: wall });
        *left_out.counts.entry(kind).or_default() += 1;
    }

    /// What was left out, when there is room again for the line that says so.
    pub fn take_left_out(&mut self, now: Instant) -> Option<LeftOut> {
        self.refill(now);
        // A tenth of it: else such a line would follow each that was let through.
        let is_over = self.room >= (f64::from(self.per_minute) / 10.0).max(1.0);
        self.left_out.take_if(|_| is_over)
    }

    /// The line that said so could not be sent.
    pub fn give_back(&mut self, left_out: LeftOut) {
        for (kind, n) in left_out.counts {
            let now = self
                .left_out
                .get_or_insert_with(|| LeftOut { counts: BTreeMap::new(), since: left_out.since });
            now.since = now.since.min(left_out.since);
            *now.counts.entry(kind).or_default() += n;
        }
    }

    /// At the end, whatever room there is.
    pub fn end(&mut self) -> Option<LeftOut> {
        self.left_out.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_minutes_lines_may_come_at_once_and_the_others_are_counted() {
        let begin = Instant::now();
        let mut limit = Limit::new(60, begin);
        let wall = SystemTime::UNIX_EPOCH;
        let admitted = (0..100).filter(|_| limit.admits("slow", begin, wall)).count();
        assert_eq!(admitted, 60);
        assert!(!limit.admits("failed", begin, wall));
        assert_eq!(limit.take_left_out(begin), None, "no room yet");
        let later = begin + Duration::from_secs(6);
        let left_out = limit.take_left_out(later).unwrap();
        assert_eq!(left_out.counts, BTreeMap::from([("slow", 40), ("failed", 1)]));
        assert_eq!(limit.take_left_out(later), None);
        let admitted = (0..100).filter(|_| limit.admits("slow", later, wall)).count();
        assert_eq!(admitted, 6);
        assert_eq!(limit.end().unwrap().counts, BTreeMap::from([("slow", 94)]));
    }
}
