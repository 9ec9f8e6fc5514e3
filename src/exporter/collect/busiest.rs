//! Which of many keys have series of their own: those that take most of the time. A key that comes while
//! places are free takes one at once; after that, one that is busy enough takes the place of the idlest.
//!
//! A sync is counted once, where its key is counted at that moment: in a series of the key's own, or in the
//! caller's sum of all others. What a series has counted is never moved to that sum: `rate()` would take it
//! for new syncs. So sums of rates are right, and every series only grows while it is there.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// After so long, time that was spent counts half.
pub(super) const HALF_LIFE: Duration = Duration::from_secs(300);
/// How many times as busy as the idlest one a key has to be to take its place.
const HYSTERESIS: f64 = 2.0;
/// Places change hands at most this often: each change is a new series for whoever stores them.
pub(super) const PACE: Duration = Duration::from_secs(10);
/// A series that has lost its place stays as it is for so long. Whoever scrapes more often than that sees all
/// that it counted.
pub(super) const LEAVING: Duration = Duration::from_secs(120);
/// Of keys without a place, this many for each place are remembered, with what their series had counted: one
/// that comes back goes on from there.
const REMEMBERED: usize = 2;
/// Less than this part of what a place takes, spent at a time, is not worth remembering: a key that becomes
/// busy enough by it alone would have to do so thousands of times within the half-life.
const NEGLIGIBLE: f64 = 1.0 / 8_192.0;

/// Time spent, of which the past counts less and less.
#[derive(Clone, Copy, Debug)]
struct Score {
    ns: f64,
    at: Instant,
}

impl Score {
    fn now(self, now: Instant) -> f64 {
        self.ns * (-now.saturating_duration_since(self.at).div_duration_f64(HALF_LIFE)).exp2()
    }

    fn add(&mut self, ns: f64, now: Instant) {
        *self = Score { ns: self.now(now) + ns, at: now };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Counted in a series of its own; `few`: by right, and only others of its kind can take it away.
    Has {
        few: bool,
    },
    /// Its series stands still and ends then.
    Left {
        until: Instant,
    },
    None,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    score: Score,
    few: bool,
    place: Place,
    /// What its series has counted.
    value: V,
}

#[derive(Clone, Debug)]
pub(crate) struct Busiest<K, V> {
    places: usize,
    /// Of the places, those that are kept for the few.
    reserved: usize,
    entries: HashMap<K, Entry<V>>,
    taken: usize,
    /// Of the taken ones, those that others than the few have.
    common: usize,
    /// Spent by all keys, those without an entry included.
    all: Option<Score>,
    last_change: Option<Instant>,
}

impl<K: Hash + Eq + Ord + Clone, V: Default> Busiest<K, V> {
    pub fn new(places: usize, reserved: usize) -> Busiest<K, V> {
        Busiest {
            places,
            reserved,
            entries: HashMap::new(),
            taken: 0,
            common: 0,
            all: None,
            last_change: None,
        }
    }

    /// Notes that a key spent time; `few`: places are kept for its kind. Some: it has a place, and this is
    /// what its series has counted.
    pub fn spend<Q>(&mut self, key: &Q, few: bool, ns: u64, now: Instant) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let ns = ns as f64;
        let all = self.all.get_or_insert(Score { ns: 0.0, at: now });
        all.add(ns, now);
        let negligible = all.ns / (self.places + 1) as f64 * NEGLIGIBLE;
        // No call to `entry`: it would need a key of its own each time.
        if let Some(entry) = self.entries.get_mut(key) {
            entry.score.add(ns, now);
            entry.few = few;
            // What kind it is may be found out when it has a place already.
            if few && entry.place == (Place::Has { few: false }) {
                entry.place = Place::Has { few: true };
                self.common -= 1;
            }
        } else if self.has_room(few) || ns >= negligible {
            let score = Score { ns, at: now };
            let entry = Entry { score, few, place: Place::None, value: V::default() };
            self.entries.insert(key.to_owned(), entry);
        }
        let entry = self.entries.get_mut(key)?;
        matches!(entry.place, Place::Has { .. }).then_some(&mut entry.value)
    }

    /// Whether a place is free for a key of this kind.
    pub fn has_room(&self, few: bool) -> bool {
        self.taken < self.places && (few || self.common < self.places - self.reserved)
    }

    /// What the series of a key has counted that has spent time; it takes a place if one is free.
    pub fn series<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let few = self.entries.get(key)?.few;
        let has_room = self.has_room(few);
        let entry = self.entries.get_mut(key)?;
        if !matches!(entry.place, Place::Has { .. }) {
            if !has_room {
                return None;
            }
            entry.place = Place::Has { few };
            self.taken += 1;
            self.common += usize::from(!few);
        }
        Some(&mut entry.value)
    }

    /// Gives the busiest key without a place that of the idlest one, if it is time, and if it is worth it.
    pub fn change_hands(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if matches!(entry.place, Place::Left { until } if until <= now) {
                entry.place = Place::None;
            }
        }
        self.forget(now);
        let is_early = self.last_change.is_some_and(|last| now.saturating_duration_since(last) < PACE);
        if is_early {
            return;
        }
        // With `places` of them, at most so many can have spent more than this: each of those gets a place.
        let share = self.all.map_or(0.0, |all| all.now(now)) / (self.places + 1) as f64;
        let rank = |(a, x): &(&K, &Entry<V>), (b, y): &(&K, &Entry<V>)| {
            x.score.now(now).total_cmp(&y.score.now(now)).then_with(|| b.cmp(a))
        };
        let without = self.entries.iter().filter(|(_, entry)| !matches!(entry.place, Place::Has { .. }));
        let newcomer =
            without.max_by(rank).map(|(key, entry)| (key.clone(), entry.few, entry.score.now(now)));
        let Some((newcomer, few, score)) = newcomer.filter(|&(_, few, _)| !self.has_room(few)) else {
            return;
        };
        let within_reach = |entry: &Entry<V>| matches!(entry.place, Place::Has { few: held } if few || !held);
        let holders = self.entries.iter().filter(|(_, entry)| within_reach(entry));
        let idlest = holders.min_by(rank).map(|(key, entry)| (key.clone(), entry.score.now(now)));
        let Some((idlest, least)) = idlest else { return };
        if score <= share || score <= HYSTERESIS * least {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&idlest) {
            self.common -= usize::from(entry.place == Place::Has { few: false });
            entry.place = Place::Left { until: now + LEAVING };
        }
        if let Some(entry) = self.entries.get_mut(&newcomer) {
            self.common += usize::from(!few);
            entry.place = Place::Has { few };
        }
        self.last_change = Some(now);
    }

    /// Forgets those without a place that spent least, if there are too many.
    fn forget(&mut self, now: Instant) {
        let most = self.places * REMEMBERED;
        let is_without = |entry: &Entry<V>| entry.place == Place::None;
        if self.entries.values().filter(|entry| is_without(entry)).count() <= most * 2 {
            return;
        }
        let without = self.entries.iter().filter(|(_, entry)| is_without(entry));
        let mut scores: Vec<(f64, K)> =
            without.map(|(key, entry)| (entry.score.now(now), key.clone())).collect();
        scores.sort_unstable_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
        for (_, key) in scores.drain(most..) {
            self.entries.remove(&key);
        }
    }

    /// The series, those included that are about to end, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let shown = self.entries.iter().filter(|(_, entry)| entry.place != Place::None);
        let mut shown: Vec<_> = shown.map(|(key, entry)| (key, &entry.value)).collect();
        shown.sort_unstable_by_key(|&(key, _)| key);
        shown.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Keys that spend time, and what Prometheus would make of the series: it scrapes every fifteen seconds.
    struct World {
        busiest: Busiest<String, u64>,
        other: u64,
        start: Instant,
        seconds: u64,
        scraped: HashMap<String, u64>,
        /// What `increase()` adds up to, by key, and what there was at the first sample of a series.
        increase: HashMap<String, u64>,
        unseen: u64,
        most_series: usize,
        /// Series that began after the first scrape.
        begun: usize,
    }

    impl World {
        fn new(places: usize) -> World {
            World {
                busiest: Busiest::new(places, 0),
                other: 0,
                start: Instant::now(),
                seconds: 0,
                scraped: HashMap::new(),
                increase: HashMap::new(),
                unseen: 0,
                most_series: 0,
                begun: 0,
            }
        }

        /// A second in which each key has so many syncs of a millisecond.
        fn second<'a>(&mut self, work: impl IntoIterator<Item = (&'a str, u64)>) {
            self.seconds += 1;
            let now = self.start + Duration::from_secs(self.seconds);
            let mut late = Vec::new();
            for (key, syncs) in work {
                match self.busiest.spend(key, false, syncs * MS, now) {
                    Some(value) => *value += syncs,
                    None => late.push((key, syncs)),
                }
            }
            late.sort_by_key(|&(_, syncs)| std::cmp::Reverse(syncs));
            for (key, syncs) in late {
                *self.busiest.series(key).unwrap_or(&mut self.other) += syncs;
            }
            self.busiest.change_hands(now);
            if self.seconds.is_multiple_of(15) {
                self.scrape();
            }
        }

        fn scrape(&mut self) {
            let series: Vec<(String, u64)> =
                self.busiest.iter().map(|(key, &value)| (key.clone(), value)).collect();
            self.most_series = self.most_series.max(series.len());
            let all = series.into_iter().chain([("other".to_owned(), self.other)]);
            for (key, value) in all {
                match self.scraped.insert(key.clone(), value) {
                    None => {
                        self.unseen += value;
                        self.begun += 1;
                    }
                    // A value below the last one is a reset: the counter began at zero.
                    Some(before) => {
                        let more = value.checked_sub(before).unwrap_or(value);
                        *self.increase.entry(key).or_default() += more;
                    }
                }
            }
        }

        fn has(&self, key: &str) -> bool {
            self.busiest.iter().any(|(known, _)| known == key)
        }

        fn seen(&self) -> u64 {
            self.unseen + self.increase.values().sum::<u64>()
        }
    }

    #[test]
    fn after_two_thousand_that_came_first_the_one_that_takes_the_time_has_its_series_within_seconds() {
        let mut world = World::new(200);
        let tables: Vec<String> = (0..2_000).map(|n| format!("t{n}")).collect();
        for batch in tables.chunks(20) {
            world.second(batch.iter().map(|table| (table.as_str(), 5)));
        }
        assert!(!world.has("culprit") && world.has("t0"));
        for second in 0.. {
            world.second([("culprit", 300)]);
            if world.has("culprit") {
                assert!(second <= 10, "{second}");
                break;
            }
            assert!(second < 60, "it never comes");
        }
        assert_eq!(world.begun, 201, "of two thousand, nobody has taken another one's place");
    }

    #[test]
    fn no_sync_is_counted_twice_or_never_whoever_comes_and_goes() {
        let mut world = World::new(10);
        let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
        let mut done = 0;
        for second in 0..3_600_u64 {
            // Ten are busy for five minutes each; some come back.
            let first = (second / 300 * 7 % 90) as usize;
            let busy = keys[first..first + 10].iter().map(|key| (key.as_str(), 1 + second % 7));
            let all: Vec<_> = busy.chain([("steady", 3), ("idle", u64::from(second < 20))]).collect();
            done += all.iter().map(|(_, n)| n).sum::<u64>();
            world.second(all);
        }
        assert_eq!(world.seen(), done, "all that was done, by the first samples and what came after");
        assert!(world.has("steady") && !world.has("idle"));
        assert!(
            world.most_series <= 10 + (LEAVING.as_secs() / PACE.as_secs()) as usize,
            "{}",
            world.most_series
        );
        assert!(world.busiest.entries.len() <= 10 * (1 + 2 * REMEMBERED) + 12);
    }

    #[test]
    fn one_that_comes_back_goes_on_where_it_ended() {
        let mut world = World::new(1);
        (0..30).for_each(|_| world.second([("a", 10)]));
        (0..300).for_each(|_| world.second([("b", 1_000)]));
        assert!(world.has("b") && !world.has("a"));
        (0..1_500).for_each(|_| world.second([("a", 1_000)]));
        let (_, &value) = world.busiest.iter().find(|(key, _)| *key == "a").unwrap();
        assert!(world.increase["a"] <= value && value >= 300, "{value}");
        assert_eq!(world.seen(), 300 + 300_000 + 1_500_000);
    }

    #[test]
    fn ten_thousand_that_are_alike_take_nobodys_place_and_none_is_remembered() {
        let mut world = World::new(200);
        let keys: Vec<String> = (0..10_000).map(|n| format!("k{n}")).collect();
        for _ in 0..60 {
            world.second(keys.iter().map(|key| (key.as_str(), 1)));
        }
        assert_eq!(world.busiest.last_change, None);
        assert!(world.busiest.entries.len() <= 200 * (1 + 2 * REMEMBERED), "{}", world.busiest.entries.len());
    }

    #[test]
    fn two_that_take_turns_do_not_take_each_others_place() {
        let mut world = World::new(1);
        for second in 0..1_200 {
            world.second([if second / 60 % 2 == 0 { ("a", 10) } else { ("b", 11) }]);
        }
        assert_eq!(world.begun, 2, "one, and the sum of all others");
    }

    #[test]
    fn what_places_are_kept_for_loses_none_to_others() {
        let mut busiest: Busiest<String, u64> = Busiest::new(4, 2);
        let start = Instant::now();
        let spend = |busiest: &mut Busiest<String, u64>, seconds: u64, key: &str, ns: u64| {
            let now = start + Duration::from_secs(seconds);
            busiest.spend(key, key.starts_with("log"), ns, now);
            busiest.series(key);
            busiest.change_hands(now);
        };
        for key in ["a", "b", "c", "log1", "log2", "d"] {
            spend(&mut busiest, 0, key, 10);
        }
        let shown = |busiest: &Busiest<String, u64>| {
            busiest.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&busiest), "a b log1 log2");
        for second in 1..400 {
            spend(&mut busiest, second, "c", 1_000_000);
        }
        assert_eq!(shown(&busiest), "a c log1 log2", "one of its own kind has left, no log has");
        assert_eq!(busiest.common, 2);
        for second in 400..800 {
            spend(&mut busiest, second, "log3", 1_000_000_000);
        }
        assert!(shown(&busiest).contains("log3"));
        assert_eq!(busiest.taken, 4);
    }

    #[test]
    fn one_that_turns_out_to_be_of_the_few_gives_a_common_place_back_and_loses_its_own_to_no_other() {
        let mut busiest: Busiest<String, u64> = Busiest::new(3, 1);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for key in ["late", "a", "b"] {
            busiest.spend(key, false, 10, at(0));
            busiest.series(key);
        }
        let shown = |busiest: &Busiest<String, u64>| {
            busiest.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&busiest), "a late");
        busiest.spend("late", true, 10, at(1));
        assert!(busiest.has_room(false));
        assert!(busiest.spend("b", false, 10, at(1)).is_none() && busiest.series("b").is_some());
        assert_eq!((shown(&busiest).as_str(), busiest.taken, busiest.common), ("a b late", 3, 2));
        for second in 2..300 {
            busiest.spend("c", false, 1_000_000, at(second));
            busiest.change_hands(at(second));
        }
        assert_eq!((shown(&busiest).as_str(), busiest.taken, busiest.common), ("b c late", 3, 2));
    }
}
