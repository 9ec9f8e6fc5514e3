//! So many lines a minute, each owner's share of them, and what was left out. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use crate::model::Owner;

/// Of a minute's lines, what one owner may have, and what is left to services of the system by all others
/// together: whoever starts thousands of servers hides nobody else's failure.
const OF_ONE_OWNER: f64 = 0.5;
const RESERVED: f64 = 0.25;
/// From one line on what was left out to the next.
const LEFT_OUT_EVERY: Duration = Duration::from_secs(6);

/// How many of each kind, and since when.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeftOut {
    pub counts: BTreeMap<&'static str, u64>,
    pub since: SystemTime,
}

/// A token bucket.
#[derive(Debug)]
struct Room {
    per_minute: f64,
    left: f64,
    at: Instant,
}

impl Room {
    fn new(per_minute: f64, now: Instant) -> Room {
        Room { per_minute, left: per_minute, at: now }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_minute / 60.0).min(self.per_minute);
        self.at = now;
    }
}

#[derive(Debug)]
pub(crate) struct Limit {
    all: Room,
    /// Of those whose room is not whole, but for services of the system.
    of_owners: BTreeMap<Owner, Room>,
    left_out: Option<LeftOut>,
    /// When it was last told what was left out.
    told: Option<Instant>,
}

impl Limit {
    /// A minute's lines may come at once.
    pub fn new(per_minute: u32, now: Instant) -> Limit {
        Limit {
            all: Room::new(f64::from(per_minute), now),
            of_owners: BTreeMap::new(),
            left_out: None,
            told: None,
        }
    }

    /// Whether there is room for a line about a server of this owner, which then is taken.
    pub fn admits(&mut self, owner: Owner, now: Instant) -> bool {
        self.all.refill(now);
        let per_minute = self.all.per_minute;
        if !matches!(owner, Owner::System(_)) {
            if self.all.left < (per_minute * RESERVED + 1.0).min(per_minute) {
                return false;
            }
            self.of_owners.retain(|_, room| {
                room.refill(now);
                room.left < room.per_minute
            });
            // With a limit of one line, it is whoever's comes first.
            let share = || Room::new((per_minute * OF_ONE_OWNER).max(1.0), now);
            let own = self.of_owners.entry(owner).or_insert_with(share);
            if own.left < 1.0 {
                return false;
            }
            own.left -= 1.0;
        } else if self.all.left < 1.0 {
            return false;
        }
        self.all.left -= 1.0;
        true
    }

    pub fn leave_out(&mut self, kind: &'static str, wall: SystemTime) {
        let left_out = self.left_out.get_or_insert_with(|| LeftOut { counts: BTreeMap::new(), since: wall });
        *left_out.counts.entry(kind).or_default() += 1;
    }

    /// What was left out, when there is room again for the line that says so.
    pub fn take_left_out(&mut self, now: Instant) -> Option<LeftOut> {
        self.all.refill(now);
        // A tenth of it: else such a line would follow each that was let through.
        let is_over = self.all.left >= (self.all.per_minute / 10.0).max(1.0);
        // One owner's share may be used up while there is room for others.
        let is_due = self.told.is_none_or(|told| now.saturating_duration_since(told) >= LEFT_OUT_EVERY);
        let left_out = self.left_out.take_if(|_| is_over && is_due)?;
        self.told = Some(now);
        self.all.left -= 1.0;
        Some(left_out)
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

    #[test]
    fn a_minutes_lines_may_come_at_once_and_the_others_are_counted() {
        let begin = Instant::now();
        let mut limit = Limit::new(60, begin);
        let wall = SystemTime::UNIX_EPOCH;
        let tell = |limit: &mut Limit, kind, now| {
            let is_told = limit.admits(Owner::System(999), now);
            if !is_told {
                limit.leave_out(kind, wall);
            }
            is_told
        };
        let admitted = (0..100).filter(|_| tell(&mut limit, "slow", begin)).count();
        assert_eq!(admitted, 60);
        assert!(!tell(&mut limit, "failed", begin));
        assert_eq!(limit.take_left_out(begin), None, "no room yet");
        let later = begin + Duration::from_secs(6);
        let left_out = limit.take_left_out(later).unwrap();
        assert_eq!(left_out.counts, BTreeMap::from([("slow", 40), ("failed", 1)]));
        assert_eq!(limit.take_left_out(later), None);
        let admitted = (0..100).filter(|_| tell(&mut limit, "slow", later)).count();
        assert_eq!(admitted, 5, "and the line that said so");
        assert_eq!(limit.end().unwrap().counts, BTreeMap::from([("slow", 95)]));
    }

    #[test]
    fn whoever_has_thousands_of_lines_leaves_room_for_others_and_for_services() {
        let begin = Instant::now();
        let mut limit = Limit::new(120, begin);
        let admitted =
            |limit: &mut Limit, owner, now| (0..1_000).filter(|_| limit.admits(owner, now)).count();
        assert_eq!(admitted(&mut limit, Owner::User(1001), begin), 60, "half of a minute's lines");
        assert_eq!(admitted(&mut limit, Owner::Container(7), begin), 30);
        assert_eq!(admitted(&mut limit, Owner::User(1002), begin), 0, "a quarter is for services");
        assert_eq!(admitted(&mut limit, Owner::System(999), begin), 30);
        let later = begin + Duration::from_secs(60);
        assert_eq!(admitted(&mut limit, Owner::User(1001), later), 60);
        for owner in [Owner::System(0), Owner::User(1001)] {
            let mut smallest = Limit::new(1, begin);
            assert!(smallest.admits(owner, begin) && !smallest.admits(owner, begin), "{owner:?}");
        }
    }

    #[test]
    fn what_is_left_out_of_one_owners_is_told_once_in_a_while() {
        let begin = Instant::now();
        let mut limit = Limit::new(120, begin);
        let mut told = 0;
        for tenth in 0..600 {
            let now = begin + Duration::from_millis(100) * tenth;
            while limit.admits(Owner::User(1001), now) {}
            limit.leave_out("slow", SystemTime::UNIX_EPOCH);
            told += usize::from(limit.take_left_out(now).is_some());
        }
        assert_eq!(told, 10, "in a minute");
    }
}
