//! The number of syncs in flight, sampled. Apart from the latencies, so that the two can disagree.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use crate::model::{InFlight, Role, ServerId};
use crate::probe::{LOGS, TimerSamples};

/// With fewer samples a mean says little.
pub const ENOUGH: u64 = 100;

/// Whose syncs the timer samples.
pub const LOG_ROLES: [Role; LOGS] = [Role::Redo, Role::Binlog];

/// One role's samples, each weighted by the seconds since the one before.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfRole {
    sum: f64,
    squares: f64,
    most: u64,
    /// Samples in which there was more than one.
    several: u64,
    /// How many of the syncs seen were a thread's of that name.
    threads: BTreeMap<String, u64>,
}

/// Samples of one server's syncs in flight. Each stands for the time since the one before, so that it does not matter
/// if they come more slowly while the host is busy.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlightSamples {
    server: ServerId,
    last: Instant,
    taken: u64,
    weight: f64,
    weight_squares: f64,
    roles: BTreeMap<Role, OfRole>,
    /// What the timer had sampled when the window began, and when it ended.
    timer: Option<(TimerSamples, TimerSamples)>,
    no_timer: Option<String>,
}

/// Who looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The interrupt of a timer, whatever the processor was doing.
    Timer,
    /// A thread, when it got a processor.
    Thread,
}

/// The mean of the samples of one role.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampled {
    pub mean: f64,
    /// Of the mean, if the samples are independent.
    pub standard_error: f64,
    /// The most that were ever seen at once. A thread looks at the others one after the other, so that a sync that ended
    /// and the next one can be seen as two.
    pub most: u64,
    /// The share of the samples in which there was more than one.
    pub several_share: f64,
    pub samples: u64,
    /// As many of equal weight would say as much.
    #[serde(skip)]
    pub equal: f64,
    pub by: By,
}

impl Sampled {
    /// Whether there is never more than one, but for what the looking itself makes. Syncs that have nothing to do with
    /// each other would be seen together in about half the square of the mean of all samples.
    pub fn is_serial(&self) -> bool {
        self.several_share <= (self.mean * self.mean / 2.0 / 4.0).max(0.01)
    }
}

impl InFlightSamples {
    /// Begins now.
    pub fn new(server: ServerId) -> InFlightSamples {
        InFlightSamples::begun(server, Instant::now())
    }

    pub fn begun(server: ServerId, at: Instant) -> InFlightSamples {
        InFlightSamples {
            server,
            last: at,
            taken: 0,
            weight: 0.0,
            weight_squares: 0.0,
            roles: BTreeMap::new(),
            timer: None,
            no_timer: None,
        }
    }

    /// What the timer had sampled at the window's ends.
    pub fn set_timer(&mut self, from: TimerSamples, to: TimerSamples) {
        self.timer = Some((from, to));
    }

    /// There is no timer, and why.
    pub fn set_no_timer(&mut self, why: String) {
        self.no_timer = Some(why);
    }

    /// A plain sentence where the timer is missing.
    pub fn without_timer(&self) -> Option<String> {
        self.no_timer.as_ref().map(|why| {
            format!(
                "Syncs in flight were sampled by fsynctop's own thread, because there is no timer for it ({why}): where no \
                 processor is free, the samples come out low."
            )
        })
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds what was in flight at one moment; other servers' syncs are left out.
    pub fn add(&mut self, in_flight: &[InFlight], at: Instant) {
        let weight = at.saturating_duration_since(self.last).as_secs_f64();
        self.last = at;
        self.taken += 1;
        self.weight += weight;
        self.weight_squares += weight * weight;
        let mut counts: BTreeMap<Role, u64> = BTreeMap::new();
        for sync in in_flight.iter().filter(|sync| sync.server == self.server) {
            *counts.entry(sync.role).or_default() += 1;
            let threads = &mut self.roles.entry(sync.role).or_default().threads;
            *threads.entry(without_number(&sync.thread).to_owned()).or_default() += 1;
        }
        for (role, count) in counts {
            let of_role = self.roles.entry(role).or_default();
            of_role.sum += weight * count as f64;
            of_role.squares += weight * (count * count) as f64;
            of_role.most = of_role.most.max(count);
            of_role.several += u64::from(count > 1);
        }
    }

    /// By the timer where it looked often enough, else by the thread. None before the first sample.
    pub fn of(&self, role: Role) -> Option<Sampled> {
        self.by_timer(role).filter(|sampled| sampled.samples >= ENOUGH).or_else(|| self.by_thread(role))
    }

    fn by_timer(&self, role: Role) -> Option<Sampled> {
        let log = LOG_ROLES.iter().position(|&log| log == role)?;
        let (from, to) = self.timer.as_ref()?;
        let samples = to.taken.saturating_sub(from.taken);
        let time = to.time_ns.saturating_sub(from.time_ns) as f64;
        let time_us = time / 1e3;
        let equal = equal_samples(time_us, to.squares_us.saturating_sub(from.squares_us) as f64);
        let (from, to) = (&from.logs[log], &to.logs[log]);
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
        let none = OfRole::default();
        let of_role = self.roles.get(&role).unwrap_or(&none);
        (self.weight > 0.0).then(|| {
            let mean = of_role.sum / self.weight;
            let variance = (of_role.squares / self.weight - mean * mean).max(0.0);
            let equal = equal_samples(self.weight, self.weight_squares);
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

    /// The names of the threads that were seen in syncs of a role, the most frequent first, with how often.
    pub fn threads(&self, role: Role) -> Vec<(String, u64)> {
        let Some(of_role) = self.roles.get(&role) else { return Vec::new() };
        let mut threads: Vec<_> = of_role.threads.iter().map(|(name, &n)| (name.clone(), n)).collect();
        threads.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        threads
    }
}

/// So many samples of equal weight would say as much. A virtual machine that is not run for a while has samples that stand
/// for a long time each.
fn equal_samples(weights: f64, squares: f64) -> f64 {
    weights * weights / squares
}

/// Of a row of threads that do the same ("ib_io_wr-3").
fn without_number(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MARIADB, MYSQL};
    use crate::probe::LogSamples;
    use std::time::Duration;

    #[test]
    fn the_mean_counts_the_empty_samples_too() {
        let one = |thread: &str, role| InFlight {
            thread: thread.into(),
            ..fixture::in_flight(role, "/d/x", Duration::ZERO)
        };
        let server = one("x", Role::Redo).server;
        let start = Instant::now();
        let mut samples = InFlightSamples::begun(server, start);
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
        assert_eq!((redo.by, samples.without_timer()), (By::Thread, None));
        // A sample that stands for as long as all others counts as much as they.
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
        let mut samples = InFlightSamples::begun(MYSQL, start);
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
            let mut samples = InFlightSamples::new(MYSQL);
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
        let mut samples = InFlightSamples::new(MYSQL);
        samples.set_no_timer("Operation not permitted (os error 1)".into());
        let sentence = samples.without_timer().unwrap();
        assert!(sentence.contains("(Operation not permitted (os error 1))"), "{sentence}");
        samples.add(&[], Instant::now() + Duration::from_millis(1));
        assert_eq!(samples.of(Role::Redo).unwrap().by, By::Thread);
    }
}
