//! A range of the history as a series of parts, each some seconds long, with what stood out in each.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::{History, Kept};
use crate::model::{Interval, Role, ServerId, Stats};

/// Some seconds.
#[derive(Clone, Debug)]
pub struct Part {
    pub interval: Interval,
    pub servers: BTreeMap<ServerId, Standout>,
}

/// What stood out in a part, for one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standout {
    /// The most syncs that were in flight at the end of a moment, and the age of the oldest at any of them.
    pub in_flight: u64,
    pub oldest: Duration,
    /// For how long each log had a sync in flight that the server syncs one call at a time.
    pub busy: BTreeMap<Role, Duration>,
    /// None: nothing was synced, and nothing in flight.
    pub worst: Option<Worst>,
}

/// The moment with the longest wait: for a sync that ended in it, or for one that was still in flight at its
/// end.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    pub start: SystemTime,
    pub end: SystemTime,
    pub role: Role,
    /// What the role did in it.
    pub stats: Stats,
    /// Its oldest sync in flight at the end of it.
    pub oldest: Duration,
}

impl Worst {
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.stats.max.ns).max(self.oldest)
    }
}

impl History {
    /// The latest moments, so many that they cover `length`, in parts that cover at least `step` each, but
    /// for the first. Whatever happened to the wall clock.
    pub fn series(&self, length: Duration, step: Duration) -> Vec<Part> {
        let mut parts: Vec<Vec<Kept>> = Vec::new();
        let (mut covered, mut in_part) = (Duration::ZERO, step);
        for kept in self.kept().rev() {
            if covered >= length {
                break;
            }
            covered += kept.span().duration;
            if in_part >= step {
                parts.push(Vec::new());
                in_part = Duration::ZERO;
            }
            in_part += kept.span().duration;
            parts.last_mut().into_iter().for_each(|part| part.push(kept));
        }
        parts.iter().rev().filter_map(|part| Self::part(part.iter().rev().copied())).collect()
    }

    fn part<'a>(kept: impl Iterator<Item = Kept<'a>>) -> Option<Part> {
        let mut sum: Option<Interval> = None;
        let mut servers: BTreeMap<ServerId, Standout> = BTreeMap::new();
        for moment in kept.filter_map(|kept| kept.read()) {
            stand_out(&moment, &mut servers);
            match &mut sum {
                Some(sum) => sum.append(moment),
                None => sum = Some(moment),
            }
        }
        Some(Part { interval: sum?, servers })
    }
}

/// A sync that began before the moment counts in it with its whole latency, and one that has not ended with
/// none: the first is no longer than the moment, the second as long if it was in flight all the time.
fn busy_for(stats: &Stats, oldest: Duration, over: Duration) -> Duration {
    if oldest >= over { over } else { Duration::from_nanos(stats.sum_ns).min(over) }
}

fn stand_out(moment: &Interval, servers: &mut BTreeMap<ServerId, Standout>) {
    let mut roles: BTreeMap<(ServerId, Role), (Stats, Duration)> = BTreeMap::new();
    for row in &moment.roles {
        roles.entry((row.server, row.role)).or_default().0.merge(&row.stats);
    }
    let mut in_flight: BTreeMap<ServerId, u64> = BTreeMap::new();
    for oldest in &moment.in_flight {
        let count = in_flight.entry(oldest.server).or_default();
        *count = count.saturating_add(oldest.count);
        let age = &mut roles.entry((oldest.server, oldest.role)).or_default().1;
        *age = (*age).max(oldest.age);
    }
    for ((server, role), (stats, oldest)) in roles {
        let known = servers.entry(server).or_default();
        known.oldest = known.oldest.max(oldest);
        if role.is_serial() {
            let busy = known.busy.entry(role).or_default();
            *busy = busy.saturating_add(busy_for(&stats, oldest, moment.span.duration));
        }
        let worst = Worst { start: moment.span.start, end: moment.span.end, role, stats, oldest };
        if known.worst.as_ref().is_none_or(|known| worst.wait() > known.wait()) {
            known.worst = Some(worst);
        }
    }
    for (server, count) in in_flight {
        let known = servers.entry(server).or_default();
        known.in_flight = known.in_flight.max(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::*;
    use crate::model::{Interval, Op};
    use crate::recording::Options;

    fn moment(second: u64, slowest_ns: u64, stuck: Option<u64>) -> Interval {
        let redo = row(
            MYSQL,
            1,
            "/d/ib_logfile0",
            Role::Redo,
            Op::Fdatasync,
            stats(&[(9, 200_000), (1, slowest_ns)]),
        );
        let in_flight: Vec<_> =
            stuck.map(|age| in_flight(Role::Binlog, "/d/b", Duration::from_secs(age))).into_iter().collect();
        let mut one = Interval { in_flight, ..with_files(quiet(), vec![redo], Vec::new()) };
        one.span.duration = Duration::from_secs(1);
        one.span.start += Duration::from_secs(second);
        one.span.end = one.span.start + one.span.duration;
        one
    }

    #[test]
    fn a_log_is_never_busy_for_longer_than_there_was_time() {
        let mut history = History::new(Options::default());
        history.push(&moment(0, 1_000_000, None));
        // It began three seconds before it ended.
        history.push(&moment(1, 3_000_000_000, None));
        let parts = history.series(Duration::from_secs(9), Duration::from_secs(9));
        let busy = parts[0].servers[&MYSQL].busy[&Role::Redo];
        assert!((1_000..1_010).contains(&busy.as_millis()), "{busy:?}");
    }

    #[test]
    fn parts_end_with_the_newest_moment_and_know_their_worst() {
        let mut history = History::new(Options::default());
        for second in 0..100 {
            let slowest = if second == 77 { 800_000_000 } else { 1_000_000 + second };
            history.push(&moment(second, slowest, (second == 93).then_some(40)));
        }
        let parts = history.series(Duration::from_secs(45), Duration::from_secs(10));
        let begin = quiet().span.start;
        let second = |time: SystemTime| time.duration_since(begin).unwrap().as_secs();
        let starts: Vec<_> = parts.iter().map(|part| second(part.interval.span.start)).collect();
        assert_eq!(starts, [55, 60, 70, 80, 90]);
        let counts: Vec<_> = parts.iter().map(|part| part.interval.total().count).collect();
        assert_eq!(counts, [50, 100, 100, 100, 100]);
        let worst = |at: usize| parts[at].servers[&MYSQL].worst.clone().unwrap();
        assert_eq!((second(worst(2).start), worst(2).role), (77, Role::Redo));
        assert_eq!(worst(2).wait(), Duration::from_millis(800));
        // A sync that hangs is worse than any that ended.
        assert_eq!(
            (second(worst(4).start), worst(4).role, worst(4).wait().as_secs()),
            (93, Role::Binlog, 40)
        );
        let last = &parts[4].servers[&MYSQL];
        assert_eq!((last.in_flight, last.oldest.as_secs()), (1, 40));
        assert_eq!(parts[3].servers[&MYSQL].in_flight, 0);
        // 9 syncs of 200 µs and one of 1 ms in most seconds, all of a second in which one hangs.
        let busy = |at: usize, role| parts[at].servers[&MYSQL].busy.get(&role).map(Duration::as_millis);
        assert_eq!((busy(3, Role::Redo), busy(2, Role::Redo)), (Some(28), Some(827)));
        assert_eq!((busy(3, Role::Binlog), busy(4, Role::Binlog)), (None, Some(1_000)));
        assert!(History::new(Options::default()).series(Duration::MAX, Duration::from_secs(1)).is_empty());
    }
}
