//! Samples this process's processor time, and words the consequences.

use std::fmt;
use std::time::{Duration, Instant};

use super::budget::{Budget, Limit, Verdict};
use super::clients;
use crate::linux::cpu_time::of_this_process;
use crate::text::interval;

/// A change of the sampling, for the log and the views.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Intervals get another length. `degraded`: they are longer than asked for.
    Every { interval: Duration, degraded: bool, why: String },
    /// Nothing is to be traced.
    Pause { why: String },
    /// Tracing is to go on.
    GoOn { interval: Duration, why: String },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Every { why, .. } | Change::Pause { why } | Change::GoOn { why, .. } => f.write_str(why),
        }
    }
}

/// Processor time used by this process, but for its clients, against what it may use.
pub(crate) struct CpuWatch {
    budget: Option<Budget>,
    asked: Duration,
    begun: Instant,
    used: Duration,
}

impl CpuWatch {
    /// Begins to watch. Without a limit it changes nothing, ever.
    pub fn new(limit: Option<Limit>, asked: Duration) -> CpuWatch {
        let budget = limit.map(|limit| Budget::new(limit, asked));
        CpuWatch { budget, asked, begun: Instant::now(), used: Duration::ZERO }
    }

    /// How long intervals are now.
    pub fn interval(&self) -> Duration {
        self.budget.as_ref().map_or(self.asked, Budget::interval)
    }

    pub fn asked(&self) -> Duration {
        self.asked
    }

    /// Other intervals are asked for.
    pub fn ask(&mut self, asked: Duration) {
        self.asked = asked;
        if let Some(budget) = &mut self.budget {
            budget.ask(asked);
        }
    }

    /// To be called often. `apart`: processor time that this process has used for work with an allowance of
    /// its own.
    pub fn sample(&mut self, apart: Duration) -> Option<Change> {
        let budget = self.budget.as_mut()?;
        let limit = budget.limit();
        // What clients cost is known a moment later than what the process has used.
        self.used = self.used.max(of_this_process().saturating_sub(clients::spent() + apart));
        match budget.decide(self.begun.elapsed(), self.used) {
            Verdict::GoOn => None,
            Verdict::Every { interval: now, share } => {
                let degraded = budget.is_degraded();
                let why = if degraded {
                    format!(
                        "intervals are {} instead of {}: with shorter ones, fsynctop used {} of a processor, and it \
                         may use {} (--max-cpu)",
                        interval(now),
                        interval(self.asked),
                        percent(share),
                        percent(limit.share)
                    )
                } else {
                    format!("intervals are {} again, as asked for", interval(now))
                };
                Some(Change::Every { interval: now, degraded, why })
            }
            Verdict::Pause { share } => {
                let why = format!(
                    "tracing is paused: even with intervals of {} fsynctop used {} of a processor, and it may use {} \
                     (--max-cpu)",
                    interval(budget.interval()),
                    percent(share),
                    percent(limit.share)
                );
                Some(Change::Pause { why })
            }
            Verdict::GoOnTracing { interval: now } => {
                let why = format!(
                    "tracing goes on, with intervals of {}: fsynctop has used no more than it may for a while",
                    interval(now)
                );
                Some(Change::GoOn { interval: now, why })
            }
        }
    }
}

/// `1 %`, `0.5 %`, `23 %`: two digits that count.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent {
        p if p >= 9.95 => 0,
        p if p >= 0.995 => 1,
        p if p >= 0.0995 => 2,
        _ => 3,
    };
    let text = format!("{percent:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_limit_nothing_is_watched() {
        let mut watch = CpuWatch::new(None, Duration::from_secs(1));
        assert_eq!((watch.sample(Duration::ZERO), watch.interval()), (None, Duration::from_secs(1)));
        watch.ask(Duration::from_secs(5));
        assert_eq!((watch.interval(), watch.asked()), (Duration::from_secs(5), Duration::from_secs(5)));
    }

    #[test]
    fn a_process_that_spins_exceeds_its_limit_and_is_told_so() {
        let limit = Limit { share: 0.001, window: Duration::from_secs(1) };
        let mut watch = CpuWatch::new(Some(limit), Duration::from_millis(100));
        let end = Instant::now() + Duration::from_secs(60);
        let change = loop {
            if let Some(change) = watch.sample(Duration::ZERO) {
                break change;
            }
            assert!(Instant::now() < end, "the limit was exceeded, and nothing followed");
            std::hint::spin_loop();
        };
        assert!(matches!(change, Change::Every { degraded: true, .. }), "{change:?}");
        let text = change.to_string();
        assert!(text.starts_with("intervals are 0.") && text.contains("instead of 0.10 s"), "{text}");
        assert!(text.ends_with("and it may use 0.1 % (--max-cpu)"), "{text}");
    }

    #[test]
    fn shares_are_shown_as_short_as_they_can_be() {
        let texts = [0.01, 0.005, 0.0123, 0.1, 0.234, 1.5, 0.0001].map(percent);
        assert_eq!(texts, ["1 %", "0.5 %", "1.2 %", "10 %", "23 %", "150 %", "0.01 %"]);
    }
}
