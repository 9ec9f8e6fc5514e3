//! What has happened since the last look. Pure: the same snapshots give the same events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::histogram::lower_edge;
use crate::model::{FileRow, InFlight, Interval, Op, ServerId, Stats, Target, Via};
use crate::verdict::{State, Verdict, is_failure_of_durability};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A server's state, and the one that it had before.
    Verdict { from: Option<State>, verdict: Verdict },
    /// It has ended.
    Ended { server: ServerId, from: State },
    /// It has been in flight for so long; told once.
    InFlight(InFlight),
    /// Of one file and operation in one interval: the longest, and how many took so long, at least.
    Slow { row: FileRow, latency: Duration, is_exact: bool, count: u64 },
    /// Of one file, operation and errno in one interval.
    Failed { row: FileRow, errno: i32, count: u64 },
}

impl Event {
    pub fn kind(&self) -> &'static str {
        match self {
            Event::Verdict { .. } => "verdict",
            Event::Ended { .. } => "ended",
            Event::InFlight(_) => "in_flight",
            Event::Slow { .. } => "slow",
            Event::Failed { .. } => "failed",
        }
    }

    /// The call that waits. Of a request no thread does: the one that submitted it may be in another call.
    pub fn waiting(&self) -> Option<Waits> {
        let (tid, op) = match self {
            Event::InFlight(sync) => (sync.tid, sync.op),
            Event::Verdict { verdict, .. } => {
                let because = verdict.because.as_ref()?;
                (because.tid?, because.op?)
            }
            _ => return None,
        };
        (op.via() == Via::Call).then_some(Waits { pid: self.server().pid, tid, op })
    }

    pub fn server(&self) -> ServerId {
        match self {
            Event::Verdict { verdict, .. } => verdict.server,
            Event::Ended { server, .. } => *server,
            Event::InFlight(sync) => sync.server,
            Event::Slow { row, .. } | Event::Failed { row, .. } => row.server,
        }
    }
}

/// A thread in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waits {
    pub pid: u32,
    pub tid: u32,
    pub op: Op,
}

pub(crate) struct Watch {
    /// An operation that takes so long is told of.
    above: Duration,
    states: BTreeMap<ServerId, State>,
    /// Changes for which there was no room: what each server became.
    held_back: BTreeMap<ServerId, State>,
    /// In flight for longer than that, when they were last looked at.
    told: Vec<InFlight>,
}

impl Watch {
    pub fn new(above: Duration) -> Watch {
        Watch { above, states: BTreeMap::new(), held_back: BTreeMap::new(), told: Vec::new() }
    }

    /// The verdicts as they are to be told now, the worst first.
    pub fn verdicts(&mut self, verdicts: Vec<Verdict>) -> Vec<Event> {
        let there: BTreeSet<ServerId> = verdicts.iter().map(|verdict| verdict.server).collect();
        let is_there = |id: &ServerId| there.contains(id);
        let gone = self.states.iter().filter(|(id, _)| !is_there(id));
        let mut events: Vec<Event> = gone.map(|(&server, &from)| Event::Ended { server, from }).collect();
        self.states.retain(|id, _| is_there(id));
        for verdict in verdicts {
            let from = self.states.insert(verdict.server, verdict.state);
            if from != Some(verdict.state) {
                events.push(Event::Verdict { from, verdict });
            }
        }
        let changed: BTreeSet<ServerId> = events.iter().map(Event::server).collect();
        self.held_back.retain(|id, _| changed.contains(id));
        events.sort_by_key(|event| match event {
            Event::Verdict { verdict, .. } => Reverse(Some(verdict.state)),
            _ => Reverse(None),
        });
        events
    }

    /// A change for which there was no room. It is one again the next time, if it still is. True if that was
    /// so before.
    pub fn not_told(&mut self, event: &Event) -> bool {
        let (server, to) = match event {
            Event::Verdict { from: Some(from), verdict } => {
                self.states.insert(verdict.server, *from);
                (verdict.server, verdict.state)
            }
            Event::Verdict { from: None, verdict } => {
                self.states.remove(&verdict.server);
                (verdict.server, verdict.state)
            }
            // That it has ended changes no more: it is left out once, and forgotten.
            _ => return false,
        };
        self.held_back.insert(server, to) == Some(to)
    }

    /// A line says so now.
    pub fn told(&mut self, event: &Event) {
        if let Event::Verdict { verdict, .. } = event {
            self.held_back.remove(&verdict.server);
        }
    }

    /// What the interval had.
    pub fn operations(&mut self, m: &Interval) -> Vec<Event> {
        let mut events: Vec<Event> = self.in_flight(&m.in_flight).collect();
        // What had happened before the first look belongs to no interval.
        if !m.span.duration.is_zero() {
            let rows = || m.files.iter().filter(|row| row.target != Target::BadDescriptor);
            events.extend(rows().chain(&m.failures).flat_map(failed));
            events.extend(rows().filter_map(|row| self.slow(row)));
        }
        events
    }

    fn in_flight(&mut self, now: &[InFlight]) -> impl Iterator<Item = Event> {
        let long: Vec<InFlight> = now.iter().filter(|sync| sync.age >= self.above).cloned().collect();
        let before = std::mem::replace(&mut self.told, long.clone());
        // The same call is older than it was.
        let is_told = move |sync: &InFlight| {
            before.iter().any(|old| {
                (old.server, old.tid, old.op, &old.path) == (sync.server, sync.tid, sync.op, &sync.path)
                    && old.age <= sync.age
            })
        };
        long.into_iter().filter(move |sync| !is_told(sync)).map(Event::InFlight)
    }

    fn slow(&self, row: &FileRow) -> Option<Event> {
        let Stats { max, histogram, .. } = &row.stats;
        let latency = row.stats.longest_at_least();
        if latency < self.above {
            return None;
        }
        let is_above = |&(bucket, _): &(usize, u64)| Duration::from_nanos(lower_edge(bucket)) >= self.above;
        let count: u64 = histogram.iter().filter(is_above).map(|(_, n)| n).sum();
        Some(Event::Slow { row: row.clone(), latency, is_exact: max.exact, count: count.max(1) })
    }
}

fn failed(row: &FileRow) -> impl Iterator<Item = Event> {
    let counts = row.stats.errors.iter().filter(|&(&errno, &n)| n > 0 && is_failure_of_durability(errno));
    counts.map(move |(&errno, &count)| Event::Failed { row: row.clone(), errno, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MYSQL, in_flight, quiet, row, server, stats};
    use crate::model::{Op, Role, Snapshot};
    use std::sync::Arc;
    use std::time::{Instant, SystemTime};

    const REDO: &str = "/var/lib/mysql/#ib_redo5";
    const SECOND: Duration = Duration::from_secs(1);

    /// A second of totals so far, after a second of totals before.
    fn second(before: &[FileRow], files: Vec<FileRow>, in_flight: Vec<InFlight>) -> Interval {
        let begin = Instant::now();
        let snapshot = |taken, files| Snapshot {
            servers: vec![Arc::new(server(MYSQL, "mysqld", "MySQL 9.7.4", 3306))],
            files,
            in_flight: in_flight.clone(),
            ..Snapshot::empty(taken, SystemTime::UNIX_EPOCH, quiet().setup)
        };
        Interval::between(&snapshot(begin, before.to_vec()), &snapshot(begin + SECOND, files))
    }

    fn redo(syncs: &[(u64, u64)]) -> FileRow {
        row(MYSQL, 41, REDO, Role::Redo, Op::Fdatasync, stats(syncs))
    }

    #[test]
    fn what_hangs_is_told_once_and_again_if_it_is_another_call() {
        let mut watch = Watch::new(SECOND);
        let hangs = |seconds| in_flight(Role::Redo, REDO, SECOND * seconds);
        let mut told = |sync| watch.operations(&second(&[], Vec::new(), vec![sync])).len();
        assert_eq!(told(in_flight(Role::Redo, REDO, SECOND / 2)), 0);
        assert_eq!([told(hangs(1)), told(hangs(2)), told(hangs(3))], [1, 0, 0]);
        assert_eq!(told(hangs(1)), 1, "the one before has ended");
    }

    #[test]
    fn the_longest_of_an_interval_is_told_with_how_many_were_long() {
        let mut watch = Watch::new(SECOND);
        let before = [(5, 1_000), (1, 9_000_000_000)];
        let mut first = second(&[], vec![redo(&before)], Vec::new());
        first.span.duration = Duration::ZERO;
        assert_eq!(watch.operations(&first), [], "before the first look");
        let after = [&before[..], &[(2, 1_500_000_000), (1, 10_000_000_000)]].concat();
        let events = watch.operations(&second(&[redo(&before)], vec![redo(&after)], Vec::new()));
        let [Event::Slow { latency, is_exact, count, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((*latency, *is_exact, *count), (10 * SECOND, true, 3));
        // Below the longest ever, only the bucket is known.
        let last = [&after[..], &[(1, 3_000_000_000)]].concat();
        let events = watch.operations(&second(&[redo(&after)], vec![redo(&last)], Vec::new()));
        let [Event::Slow { latency, is_exact: false, count: 1, .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!((2_800..=3_000).contains(&latency.as_millis()), "{latency:?}");
        assert_eq!(watch.operations(&second(&[redo(&last)], vec![redo(&last)], Vec::new())), []);
    }

    #[test]
    fn failures_are_told_by_errno_and_wrong_calls_are_not() {
        let mut watch = Watch::new(SECOND);
        let mut failed = redo(&[(6, 1_000)]);
        failed.stats.errors = [(libc::EIO, 2), (libc::ENOSPC, 1), (libc::EINVAL, 1)].into();
        let events = watch.operations(&second(&[redo(&[(1, 1_000)])], vec![failed], Vec::new()));
        let told: Vec<_> = events
            .iter()
            .map(|event| match event {
                Event::Failed { errno, count, .. } => (*errno, *count),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, [(libc::EIO, 2), (libc::ENOSPC, 1)]);
    }

    #[test]
    fn a_verdict_is_told_when_it_changes_and_when_its_server_ends() {
        let mut watch = Watch::new(SECOND);
        let now = Instant::now();
        let verdict = |state| {
            let since_wall = SystemTime::UNIX_EPOCH;
            vec![Verdict { server: MYSQL, state, since: now, since_wall, because: None, storage: None }]
        };
        assert!(matches!(watch.verdicts(verdict(State::Ok))[..], [Event::Verdict { from: None, .. }]));
        assert_eq!(watch.verdicts(verdict(State::Ok)), []);
        let events = watch.verdicts(verdict(State::Stalled));
        assert!(matches!(events[..], [Event::Verdict { from: Some(State::Ok), .. }]), "{events:?}");
        // For which there was no room: told again for as long as it is so.
        assert!(!watch.not_told(&events[0]));
        assert_eq!(watch.verdicts(verdict(State::Stalled)), events);
        assert!(watch.not_told(&events[0]), "it is left out once");
        let other = watch.verdicts(verdict(State::Failing));
        assert!(!watch.not_told(&other[0]), "another change");
        assert_eq!(watch.verdicts(verdict(State::Stalled)), events);
        watch.told(&events[0]);
        assert_eq!(watch.verdicts(verdict(State::Stalled)), []);
        let ended = watch.verdicts(Vec::new());
        assert_eq!(ended, [Event::Ended { server: MYSQL, from: State::Stalled }]);
        assert!(!watch.not_told(&ended[0]));
        assert_eq!(watch.verdicts(Vec::new()), [], "what has ended is not kept");
        let mut watch = Watch::new(SECOND);
        let first = watch.verdicts(verdict(State::Ok));
        watch.not_told(&first[0]);
        assert_eq!(watch.verdicts(verdict(State::Ok)), first);
    }

    #[test]
    fn the_worst_verdict_is_told_first() {
        let verdict = |pid, state| Verdict {
            server: ServerId { pid, ..MYSQL },
            state,
            since: Instant::now(),
            since_wall: SystemTime::UNIX_EPOCH,
            because: None,
            storage: None,
        };
        let events = Watch::new(SECOND).verdicts(vec![
            verdict(1, State::Ok),
            verdict(2, State::Failing),
            verdict(3, State::Stalled),
        ]);
        assert_eq!(events.iter().map(|event| event.server().pid).collect::<Vec<_>>(), [2, 3, 1]);
    }

    #[test]
    fn a_request_has_no_thread_that_waits() {
        let sync = in_flight(Role::Redo, REDO, 9 * SECOND);
        assert_eq!(Event::InFlight(sync.clone()).waiting().unwrap().tid, sync.tid);
        assert_eq!(Event::InFlight(InFlight { op: Op::IoUringFdatasync, ..sync }).waiting(), None);
    }
}
