//! Enforces the limit of processor time (`--max-cpu`). Pure: it is given the time used, and decides
//! what to do.
//!
//! Above the limit, intervals get longer, step by step; when there is room again for long enough, shorter
//! again. If it stays above even at the longest, tracing is paused: an overloaded host must not pay for being
//! watched. It goes on by itself when there has been room for a while, longer after each relapse. What is
//! used while attaching and just after (names of all the files, descriptions of the servers) does not count.
//! A burst, however large, lengthens intervals for a while and never pauses the tracing: for that the limit
//! must have been exceeded without a break for two windows at the longest interval.

use std::collections::VecDeque;
use std::str::FromStr;
use std::time::Duration;

/// A share of one processor, averaged over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// 0.01 is one percent of one processor.
    pub share: f64,
    pub window: Duration,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { share: 0.01, window: Duration::from_secs(60) }
    }
}

/// `1`, `0.5%`, `2%/30s`: percent of one processor, and the time over which it is averaged (a minute if not
/// given).
impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let (share, window) =
            text.split_once('/').map_or((text, None), |(share, window)| (share, Some(window)));
        let number = share.trim().trim_end_matches('%').trim_end();
        let percent: f64 = number.parse().map_err(|_| format!("{share:?} is no percentage"))?;
        if !(0.001..=10_000.0).contains(&percent) {
            return Err("a percentage from 0.001 to 10000, or off".into());
        }
        let window = match window {
            None => Limit::default().window,
            Some(window) => humantime::parse_duration(window.trim()).map_err(|error| error.to_string())?,
        };
        if window < Duration::from_secs(1) || window > Duration::from_secs(3_600) {
            return Err("it is averaged over a second to an hour".into());
        }
        Ok(Limit { share: percent / 100.0, window })
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%/{}", self.share * 100.0, humantime::format_duration(self.window))
    }
}

/// The decision after a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    GoOn,
    /// From now on, intervals are so long; `share` of a processor was used.
    Every {
        interval: Duration,
        share: f64,
    },
    /// The longest intervals do not suffice: nothing is to be traced.
    Pause {
        share: f64,
    },
    /// There is room again: tracing goes on, with intervals so long.
    GoOnTracing {
        interval: Duration,
    },
}

/// Before tracing is paused, intervals get as long as half a window, and so many times longer than asked for.
const LONGER_AT_LEAST: u32 = 4;
/// How much longer in one step, at most: the more, the more the limit is exceeded.
const GREATEST_STEP: f64 = 8.0;
/// Intervals get shorter again when no more than this part of the limit was used: a step doubles the work at
/// most.
const ROOM: f64 = 0.25;
/// Windows with room before intervals get shorter, at most: the number doubles with each relapse.
const MAX_PATIENCE: u32 = 60;
/// A pause ends when no more than this part of the limit is used: what is used in it is not tracing.
const ROOM_IN_A_PAUSE: f64 = 0.5;
/// Windows with room before tracing goes on after a pause, at most: the number doubles with each pause.
const MAX_PAUSE: u32 = 10;
/// A window is looked at so many times at most.
const LOOKS: u32 = 120;

/// The controller. Times are of any clock that only goes forward.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limit: Limit,
    asked: Duration,
    /// How many times longer intervals are than asked for.
    factor: u32,
    /// (time, used up to then), from a window ago on.
    looks: VecDeque<(Duration, Duration)>,
    /// What was used before does not count.
    counts_from: Option<Duration>,
    /// When the interval last changed.
    changed: Duration,
    /// Since when the limit is exceeded without a break.
    over_since: Option<Duration>,
    /// Windows with room before intervals get shorter.
    patience: u32,
    shortened: bool,
    paused: bool,
    /// Windows with room before tracing goes on after the next pause.
    pause: u32,
}

impl Budget {
    pub fn new(limit: Limit, asked: Duration) -> Budget {
        Budget {
            limit,
            asked,
            factor: 1,
            looks: VecDeque::new(),
            counts_from: None,
            changed: Duration::ZERO,
            over_since: None,
            patience: 1,
            shortened: false,
            paused: false,
            pause: 1,
        }
    }

    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// How long intervals are now.
    pub fn interval(&self) -> Duration {
        self.asked.saturating_mul(self.factor).min(self.longest())
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.factor > 1
    }

    #[cfg(test)]
    fn is_paused(&self) -> bool {
        self.paused
    }

    /// Other intervals are asked for. Where they are degraded, they stay as long as they are at least.
    pub fn ask(&mut self, asked: Duration) {
        let now = self.interval();
        self.asked = asked;
        self.factor = if self.factor > 1 { step(now.as_secs_f64() / asked.as_secs_f64()) } else { 1 };
    }

    fn longest(&self) -> Duration {
        (self.limit.window / 2).max(self.asked.saturating_mul(LONGER_AT_LEAST))
    }

    /// `now`: of the clock; `used`: processor time of the process up to now.
    pub(crate) fn decide(&mut self, now: Duration, used: Duration) -> Verdict {
        let settle = self.limit.window / 6;
        let from = *self.counts_from.get_or_insert_with(|| now + settle);
        let soon = self.looks.back().is_some_and(|&(last, _)| now < last + self.limit.window / LOOKS);
        if now < from || soon {
            return Verdict::GoOn;
        }
        self.looks.push_back((now, used));
        let span = self.span();
        // One that is older than the span stays: the span begins there.
        while self.looks.get(1).is_some_and(|&(time, _)| time + span <= now) {
            self.looks.pop_front();
        }
        let begin = self.changed.max(now.saturating_sub(span));
        let &(begin, before) = self.looks.iter().rfind(|(time, _)| *time <= begin).unwrap_or(&self.looks[0]);
        let (time, used) = (now - begin, used.saturating_sub(before));
        // As if nothing were used in what is left of the window: what is too much now is too much for all of
        // it.
        let allowed = time.max(self.limit.window).mul_f64(self.limit.share);
        if used > allowed {
            let over_since = *self.over_since.get_or_insert(now);
            self.over(now, over_since, time, used.as_secs_f64() / time.as_secs_f64())
        } else {
            self.over_since = None;
            let room = if self.paused { ROOM_IN_A_PAUSE } else { ROOM };
            self.within(now, time, used < allowed.mul_f64(room))
        }
    }

    /// The time over which use is averaged: with the work of two intervals at least.
    fn span(&self) -> Duration {
        self.limit.window.max(self.interval() * 2)
    }

    /// `share`: what was used of a processor in `time`.
    fn over(&mut self, now: Duration, over_since: Duration, time: Duration, share: f64) -> Verdict {
        if self.paused {
            return Verdict::GoOn;
        }
        if self.interval() >= self.longest() {
            if now >= over_since + 2 * self.span() {
                self.paused = true;
                self.changed = now;
                return Verdict::Pause { share };
            }
            return Verdict::GoOn;
        }
        // How far to go is seen only after a while.
        if time < self.limit.window / 6 {
            return Verdict::GoOn;
        }
        if std::mem::take(&mut self.shortened) {
            self.patience = (self.patience * 2).min(MAX_PATIENCE);
        }
        let times = step((share / self.limit.share).clamp(2.0, GREATEST_STEP));
        self.factor = self.factor.saturating_mul(times);
        self.change(now, share)
    }

    fn within(&mut self, now: Duration, time: Duration, has_room: bool) -> Verdict {
        if self.paused {
            return self.within_a_pause(now, time, has_room);
        }
        let calm = now >= self.changed + self.span() * self.patience && time >= self.span();
        if self.factor == 1 || !has_room || !calm {
            return Verdict::GoOn;
        }
        self.shortened = true;
        // The factor may go beyond the longest interval.
        let reached = step(self.interval().as_secs_f64() / self.asked.as_secs_f64());
        self.factor = (self.factor.min(reached) / 2).max(1);
        self.change(now, self.limit.share * ROOM)
    }

    fn within_a_pause(&mut self, now: Duration, time: Duration, has_room: bool) -> Verdict {
        let window = self.limit.window;
        if !has_room || now < self.changed + window * self.pause || time < window {
            return Verdict::GoOn;
        }
        self.paused = false;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        self.changed = now;
        Verdict::GoOnTracing { interval: self.interval() }
    }

    fn change(&mut self, now: Duration, share: f64) -> Verdict {
        self.changed = now;
        self.over_since = None;
        Verdict::Every { interval: self.interval(), share }
    }
}

/// The power of two at or above a factor; 1 at least.
fn step(times: f64) -> u32 {
    (times.ceil().clamp(1.0, f64::from(1 << 30)) as u32).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A tool whose every snapshot costs something, and that uses something else besides.
    struct Tool {
        budget: Budget,
        now: Duration,
        used: Duration,
        next: Duration,
        /// Of a processor, whatever the interval, while it traces.
        always: f64,
        each_snapshot: Duration,
        /// (second, what happened)
        log: Vec<(u64, Verdict)>,
    }

    impl Tool {
        fn new(always: f64, each_snapshot: Duration) -> Tool {
            let budget = Budget::new(Limit::default(), SECOND);
            // It has used much while it attached.
            let used = Duration::from_secs(5);
            Tool { budget, now: SECOND, used, next: SECOND, always, each_snapshot, log: Vec::new() }
        }

        /// Looks every tenth of a second; false once it has paused.
        fn run(&mut self, seconds: u64) -> bool {
            let end = self.now + SECOND * seconds as u32;
            while self.now < end {
                self.now += SECOND / 10;
                if !self.budget.is_paused() {
                    self.used += (SECOND / 10).mul_f64(self.always);
                }
                if self.now >= self.next && !self.budget.is_paused() {
                    self.used += self.each_snapshot;
                    self.next = self.now + self.budget.interval();
                }
                match self.budget.decide(self.now, self.used) {
                    Verdict::GoOn => {}
                    verdict => self.log.push((self.now.as_secs(), verdict)),
                }
                if matches!(self.log.last(), Some((_, Verdict::Pause { .. }))) {
                    return false;
                }
            }
            true
        }
    }

    #[test]
    fn below_the_limit_nothing_happens() {
        let mut tool = Tool::new(0.004, Duration::from_millis(5));
        assert!(tool.run(7_200));
        assert_eq!(tool.log, []);
    }

    #[test]
    fn what_it_costs_to_begin_does_not_count() {
        let mut tool = Tool::new(1.0, Duration::ZERO);
        assert!(tool.run(9));
        tool.always = 0.002;
        assert!(tool.run(600));
        assert_eq!(tool.log, []);
    }

    #[test]
    fn snapshots_that_cost_too_much_are_taken_less_often_until_they_fit() {
        // 3.5 % of a processor at one a second.
        let mut tool = Tool::new(0.001, Duration::from_millis(35));
        assert!(tool.run(3_600));
        let interval = tool.budget.interval();
        assert!(
            tool.budget.is_degraded() && interval >= 4 * SECOND && interval <= 16 * SECOND,
            "{:?}",
            tool.log
        );
        let before = (tool.now, tool.used);
        assert!(tool.run(600));
        let share = (tool.used - before.1).as_secs_f64() / (tool.now - before.0).as_secs_f64();
        assert!(share <= 0.01, "{share}");
    }

    #[test]
    fn it_is_noticed_within_a_minute_of_the_limit_being_exceeded() {
        let mut tool = Tool::new(0.001, Duration::from_millis(20));
        tool.run(120);
        let &(second, _) = tool.log.first().expect("the limit is exceeded");
        assert!((20..=71).contains(&second), "{:?}", tool.log);
    }

    #[test]
    fn what_longer_intervals_do_not_cure_pauses_the_tracing() {
        let mut tool = Tool::new(0.3, Duration::from_millis(1));
        assert!(!tool.run(3_600));
        assert!(tool.now < Duration::from_secs(300), "{:?}", tool.log);
        let steps: Vec<_> = tool.log.iter().map(|(_, verdict)| *verdict).collect();
        let [.., Verdict::Every { interval, .. }, Verdict::Pause { share }] = steps[..] else {
            panic!("{steps:?}")
        };
        assert_eq!(interval, 30 * SECOND);
        assert!((0.29..0.32).contains(&share), "{share}");
    }

    #[test]
    fn a_pause_ends_by_itself_and_each_is_longer_than_the_one_before_up_to_a_limit() {
        let mut tool = Tool::new(0.3, Duration::from_millis(1));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            while tool.run(1) {}
            let began = tool.now;
            tool.log.clear();
            while tool.log.is_empty() {
                tool.run(1);
            }
            assert_eq!(tool.log[0].1, Verdict::GoOnTracing { interval: 30 * SECOND });
            pauses.push((tool.now - began).as_secs());
        }
        assert!((60..=65).contains(&pauses[0]), "{pauses:?}");
        assert!((120..=125).contains(&pauses[1]) && (240..=245).contains(&pauses[2]), "{pauses:?}");
        assert!((600..=605).contains(&pauses[5]), "{pauses:?}");
        // What it cost is over: it goes back to what was asked for.
        tool.always = 0.0;
        tool.log.clear();
        assert!(tool.run(1_800));
        assert!(!tool.budget.is_degraded() && !tool.budget.is_paused(), "{:?}", tool.log);
    }

    #[test]
    fn a_burst_lengthens_intervals_for_a_while_and_ends_nothing() {
        let mut tool = Tool::new(0.001, Duration::from_millis(2));
        tool.run(300);
        // Sixty thousand files at once: all of a processor for twenty seconds.
        tool.always = 1.0;
        assert!(tool.run(20));
        tool.always = 0.001;
        assert!(tool.run(900));
        assert!(!tool.log.is_empty());
        assert_eq!(tool.budget.interval(), SECOND, "{:?}", tool.log);
        // One that stays within what a minute allows is not even noticed.
        tool.log.clear();
        tool.always = 1.0;
        tool.run(0);
        tool.used += Duration::from_millis(350);
        tool.always = 0.001;
        assert!(tool.run(300));
        assert_eq!(tool.log, []);
    }

    #[test]
    fn a_burst_every_few_minutes_does_not_end_it_even_at_the_longest_interval() {
        let mut tool = Tool::new(0.02, Duration::from_millis(1));
        tool.run(100);
        tool.always = 0.001;
        for _ in 0..20 {
            tool.used += 10 * SECOND;
            assert!(tool.run(200), "{:?}", tool.log);
        }
    }

    #[test]
    fn relapses_make_it_wait_longer_before_it_tries_again() {
        let mut tool = Tool::new(0.0, Duration::ZERO);
        let mut changes = Vec::new();
        // Now and then there is much to do.
        for _ in 0..20 {
            tool.each_snapshot = Duration::from_millis(30);
            assert!(tool.run(90));
            tool.each_snapshot = Duration::from_micros(500);
            assert!(tool.run(200));
            changes.push(std::mem::take(&mut tool.log).len());
        }
        let (early, late) = (changes[..5].iter().sum::<usize>(), changes[15..].iter().sum::<usize>());
        assert!(early >= 8 && late <= early / 2, "{changes:?}");
        // In the end, when all is quiet for long enough, it is as it was asked for.
        tool.run(4 * 3_600);
        assert!(!tool.budget.is_degraded());
    }

    #[test]
    fn another_interval_is_never_shorter_than_what_fits() {
        let mut budget = Budget::new(Limit::default(), SECOND);
        budget.factor = 8;
        budget.ask(2 * SECOND);
        assert_eq!(budget.interval(), 8 * SECOND);
        budget.ask(SECOND / 10);
        assert!(budget.interval() >= 8 * SECOND, "{:?}", budget.interval());
        budget.ask(60 * SECOND);
        assert_eq!((budget.interval(), budget.is_degraded()), (60 * SECOND, false));
    }

    #[test]
    fn limits_are_percentages_with_a_window() {
        let limit = |percent: f64, seconds| Ok(Limit { share: percent / 100.0, window: SECOND * seconds });
        assert_eq!("1".parse(), limit(1.0, 60));
        assert_eq!("0.5%".parse(), limit(0.5, 60));
        assert_eq!("2 % / 30s".parse(), limit(2.0, 30));
        assert_eq!("150%/5m".parse(), limit(150.0, 300));
        for wrong in ["", "x", "0", "-1", "nan", "1/", "1/0s", "1/2d", "1%/5"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong}");
        }
        assert_eq!(Limit::default().to_string().parse(), Ok(Limit::default()));
        assert_eq!(Limit::default().to_string(), "1%/1m");
    }
}
