//! Samples of the number of syncs in flight, taken independently of the latencies so that the two can
//! disagree.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use crate::model::{InFlight, Role, ServerId};
use crate::probe::TimerSamples;

/// The minimum number of samples for a meaningful mean.
pub(crate) const MIN_SAMPLES: u64 = 100;

/// Threads of a log that are told apart.
const MAX_TIDS: usize = 4_096;
/// The number of no thread.
const NOBODY: u32 = 0;

/// Samples of one role, each weighted by the seconds since the previous one.
#[derive(Clone, Debug, Default, PartialEq)]
struct RoleSamples {
    sum: f64,
    squares: f64,
    most: u64,
    /// Samples with more than one sync.
    several: u64,
    /// Number of syncs seen, by thread name.
    threads: BTreeMap<String, u64>,
    /// The same by the thread's number; of the logs only, and of so many threads at most.
    tids: BTreeMap<u32, u64>,
}

/// Samples of one server's syncs in flight. Each is weighted by the time since the previous one, so that
/// irregular sampling on a busy host introduces no bias.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlightSamples {
    server: ServerId,
    /// The logs that the timer samples, in its order.
    logs: &'static [Role],
    last: Instant,
    taken: u64,
    weight: f64,
    weight_squares: f64,
    roles: BTreeMap<Role, RoleSamples>,
    /// The timer's totals at both ends of the window.
    timer: Option<(TimerSamples, TimerSamples)>,
    no_timer: Option<String>,
}

/// The source of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A timer interrupt, whatever the CPU was doing.
    Timer,
    /// A thread of fsynctop, whenever it was scheduled.
    Thread,
}

/// The mean of one role's samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampled {
    pub mean: f64,
    /// Standard error of the mean, if the samples are independent.
    pub standard_error: f64,
    /// The most seen at once. A thread scans the others in turn, so a sync that finished and the next one
    /// can count as two.
    pub most: u64,
    /// Share of the samples with more than one sync.
    pub several_share: f64,
    pub samples: u64,
    /// Effective sample size: the number of equally weighted samples with the same standard error.
    #[serde(skip)]
    pub equal: f64,
    pub by: By,
}

impl Sampled {
    /// True if there is never more than one, apart from artefacts of the scan. Independent syncs would
    /// overlap in about half the square of the mean of all samples.
    pub fn is_serial(&self) -> bool {
        self.several_share <= (self.mean * self.mean / 2.0 / 4.0).max(0.01)
    }
}

impl InFlightSamples {
    /// Starts now.
    pub fn new(server: ServerId, logs: &'static [Role]) -> InFlightSamples {
        InFlightSamples::starting_at(server, logs, Instant::now())
    }

    pub(crate) fn starting_at(server: ServerId, logs: &'static [Role], at: Instant) -> InFlightSamples {
        InFlightSamples {
            server,
            logs,
            last: at,
            taken: 0,
            weight: 0.0,
            weight_squares: 0.0,
            roles: BTreeMap::new(),
            timer: None,
            no_timer: None,
        }
    }

    /// Sets the timer's totals at both ends of the window.
    pub(crate) fn set_timer(&mut self, from: TimerSamples, to: TimerSamples) {
        self.timer = Some((from, to));
    }

    /// Records why there is no timer.
    pub(crate) fn set_no_timer(&mut self, why: String) {
        self.no_timer = Some(why);
    }

    /// A plain sentence if the timer is unavailable.
    pub(crate) fn without_timer(&self) -> Option<String> {
        self.no_timer.as_ref().map(|why| {
            format!(
                "Syncs in flight were sampled by a thread, because no timer is available ({why}): while no CPU is free, \
                 the samples are too low."
            )
        })
    }

    /// Adds the syncs in flight at one moment; those of other servers are ignored.
    pub fn add(&mut self, in_flight: &[InFlight], at: Instant) {
        let weight = at.saturating_duration_since(self.last).as_secs_f64();
        self.last = at;
        self.taken += 1;
        self.weight += weight;
        self.weight_squares += weight * weight;
        let mut counts: BTreeMap<Role, u64> = BTreeMap::new();
        // Another write that hangs is no sync.
        let is_one = |sync: &&InFlight| sync.server == self.server && sync.op.makes_durable();
        for sync in in_flight.iter().filter(is_one) {
            *counts.entry(sync.role).or_default() += 1;
            let of_role = self.roles.entry(sync.role).or_default();
            *of_role.threads.entry(strip_number(&sync.thread).to_owned()).or_default() += 1;
            if self.logs.contains(&sync.role) {
                let is_full = of_role.tids.len() >= MAX_TIDS && !of_role.tids.contains_key(&sync.tid);
                *of_role.tids.entry(if is_full { NOBODY } else { sync.tid }).or_default() += 1;
            }
        }
        for (role, count) in counts {
            let of_role = self.roles.entry(role).or_default();
            of_role.sum += weight * count as f64;
            of_role.squares += weight * (count * count) as f64;
            of_role.most = of_role.most.max(count);
            of_role.several += u64::from(count > 1);
        }
    }

    /// From the timer if it has enough samples, else from the thread. None before the first sample.
    pub fn of(&self, role: Role) -> Option<Sampled> {
        self.by_timer(role).filter(|sampled| sampled.samples >= MIN_SAMPLES).or_else(|| self.by_thread(role))
    }

    fn by_timer(&self, role: Role) -> Option<Sampled> {
        let log = self.logs.iter().position(|&log| log == role)?;
        let (from, to) = self.timer.as_ref()?;
        let samples = to.taken.saturating_sub(from.taken);
        let time = to.time_ns.saturating_sub(from.time_ns) as f64;
        let time_us = time / 1e3;
        let equal = effective_sample_size(time_us, to.squares_us.saturating_sub(from.squares_us) as f64);
        let (from, to) = (from.logs.get(log)?, to.logs.get(log)?);
        let share = |from: u64, to: u64| to.saturating_sub(from) as f64 / time;
        (samples > 0 && time > 0.0).then(|| {
            let mean = share(from.sum_ns, to.sum_ns);
            let variance = (share(from.squares_ns, to.squares_ns) - mean * mean).max(0.0);
            Sampled {
                mean,
                standard_error: (variance / equal).sqrt(),
                equal,
                most: to.most,
                several_share: share(from.several_ns, to.several_ns),
                samples,
                by: By::Timer,
            }
        })
    }

    fn by_thread(&self, role: Role) -> Option<Sampled> {
        let none = RoleSamples::default();
        let of_role = self.roles.get(&role).unwrap_or(&none);
        (self.weight > 0.0).then(|| {
            let mean = of_role.sum / self.weight;
            let variance = (of_role.squares / self.weight - mean * mean).max(0.0);
            let equal = effective_sample_size(self.weight, self.weight_squares);
            Sampled {
                mean,
                standard_error: (variance / equal).sqrt(),
                equal,
                most: of_role.most,
                several_share: of_role.several as f64 / self.taken as f64,
                samples: self.taken,
                by: By::Thread,
            }
        })
    }

    /// The names of the threads seen in syncs of a role, the most frequent first, with their counts.
    pub fn threads(&self, role: Role) -> Vec<(String, u64)> {
        let Some(of_role) = self.roles.get(&role) else { return Vec::new() };
        let mut threads: Vec<_> = of_role.threads.iter().map(|(name, &n)| (name.clone(), n)).collect();
        threads.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        threads
    }

    /// The numbers of a log's threads, with the same counts. Those for which there was no room are 0
    /// together.
    pub(crate) fn tids(&self, role: Role) -> impl Iterator<Item = (u32, u64)> {
        let of_role = self.roles.get(&role).into_iter();
        of_role.flat_map(|of_role| of_role.tids.iter().map(|(&tid, &n)| (tid, n)))
    }
}

/// Kish's effective sample size. On a virtual machine that was paused, single samples cover a long time.
fn effective_sample_size(weights: f64, squares: f64) -> f64 {
    weights * weights / squares
}

/// Strips the number of one of several identical threads ("ib_io_wr-3").
fn strip_number(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MARIADB, MYSQL};
    use crate::probe::LogSamples;
    use std::time::Duration;

    const LOGS: &[Role] = &[Role::Redo, Role::Binlog];

    #[test]
    fn the_mean_counts_the_empty_samples_too() {
        let one = |thread: &str, role| InFlight {
            thread: thread.into(),
            ..fixture::in_flight(role, "/d/x", Duration::ZERO)
        };
        let server = one("x", Role::Redo).server;
        let start = Instant::now();
        let mut samples = InFlightSamples::starting_at(server, LOGS, start);
        assert_eq!(samples.of(Role::Redo), None);
        let other = if server == MYSQL { MARIADB } else { MYSQL };
        let pages = [1, 2].map(|n| one(&format!("ib_io_wr-{n}"), Role::Tablespace));
        let seen = [
            vec![one("connection", Role::Redo), one("connection", Role::Binlog)],
            vec![InFlight { server: other, ..one("connection", Role::Redo) }],
            [&[one("ib_log_flush", Role::Redo)][..], &pages].concat(),
            vec![one("connection", Role::Redo)],
        ];
        for (n, now) in (1..).zip(&seen) {
            samples.add(now, start + Duration::from_millis(10 * n));
        }
        let redo = samples.of(Role::Redo).unwrap();
        let near =
            |actual: f64, expected: f64| assert!((actual - expected).abs() < 1e-9, "{actual} {expected}");
        near(redo.mean, 0.75);
        near(redo.standard_error, (0.1875_f64 / 4.0).sqrt());
        assert_eq!((redo.most, redo.samples, redo.is_serial()), (1, 4, true));
        let pages = samples.of(Role::Tablespace).unwrap();
        near(pages.mean, 0.5);
        assert_eq!((pages.most, pages.several_share, pages.is_serial()), (2, 0.25, false));
        assert_eq!(samples.of(Role::Undo).unwrap().mean, 0.0);
        assert_eq!(
            samples.threads(Role::Redo),
            [("connection".to_owned(), 2), ("ib_log_flush".to_owned(), 1)]
        );
        assert_eq!(samples.threads(Role::Tablespace), [("ib_io_wr".to_owned(), 2)]);
        let tid = seen[0][0].tid;
        assert_eq!(samples.tids(Role::Redo).collect::<Vec<_>>(), [(tid, 3)]);
        assert_eq!((redo.by, samples.without_timer()), (By::Thread, None));
        // A sample that covers as much time as all the others weighs as much as they do.
        samples.add(&[], start + Duration::from_millis(80));
        near(samples.of(Role::Redo).unwrap().mean, 0.375);
    }

    #[test]
    fn a_timer_is_believed_rather_than_the_thread_once_it_has_looked_often_enough() {
        let at = |taken, sum_ns, squares_ns, several_ns| {
            let redo = LogSamples { sum_ns, squares_ns, several_ns, most: 2 };
            let logs = [redo, LogSamples::default()];
            TimerSamples { taken, time_ns: taken * 1_000, squares_us: taken, logs }
        };
        let start = Instant::now();
        let mut samples = InFlightSamples::starting_at(MYSQL, LOGS, start);
        samples.add(&[], start + Duration::from_millis(10));
        samples.set_timer(at(1_000, 7_000, 7_000, 7), at(1_099, 8_000, 8_000, 8));
        assert_eq!(samples.of(Role::Redo).unwrap().by, By::Thread, "99 samples");
        // One in flight in half of the time, two in a tenth.
        samples.set_timer(at(1_000, 7_000, 7_000, 7), at(2_000, 707_000, 907_000, 100_007));
        let redo = samples.of(Role::Redo).unwrap();
        assert_eq!((redo.by, redo.samples, redo.most), (By::Timer, 1_000, 2));
        assert_eq!((redo.mean, redo.several_share), (0.7, 0.1));
        assert!((redo.standard_error - (0.41_f64 / 1_000.0).sqrt()).abs() < 1e-9, "{redo:?}");
        assert_eq!(samples.of(Role::Binlog).unwrap().mean, 0.0);
        // It looks at the logs only.
        assert_eq!(samples.of(Role::Undo).unwrap().by, By::Thread);
    }

    #[test]
    fn where_the_timer_was_late_its_samples_tell_less() {
        let [redo, binlog] = [LogSamples { sum_ns: 500_000_000, ..LogSamples::default() }; 2];
        let redo = LogSamples { squares_ns: 500_000_000, ..redo };
        let after = |squares_us| TimerSamples {
            taken: 1_000,
            time_ns: 1_000_000_000,
            squares_us,
            logs: [redo, binlog],
        };
        let error = |squares_us| {
            let mut samples = InFlightSamples::new(MYSQL, LOGS);
            samples.set_timer(TimerSamples::default(), after(squares_us));
            let redo = samples.of(Role::Redo).unwrap();
            assert_eq!((redo.mean, redo.samples), (0.5, 1_000));
            redo.standard_error
        };
        // A thousand of a millisecond; and 990 of that length with ten of a hundredth of the window each.
        let (even, uneven) = (error(1_000 * 1_000_000), error(990 * 1_000_000 + 10 * 100_000_000));
        assert!((even - 0.5 / 1_000_f64.sqrt()).abs() < 1e-9, "{even}");
        assert!((uneven / even - 1.99_f64.sqrt()).abs() < 1e-9, "{uneven}");
    }

    #[test]
    fn a_timer_that_is_refused_is_said_to_be_missing() {
        let mut samples = InFlightSamples::new(MYSQL, LOGS);
        samples.set_no_timer("Operation not permitted (os error 1)".into());
        let sentence = samples.without_timer().unwrap();
        assert!(sentence.contains("(Operation not permitted (os error 1))"), "{sentence}");
        samples.add(&[], Instant::now() + Duration::from_millis(1));
        assert_eq!(samples.of(Role::Redo).unwrap().by, By::Thread);
    }
}
