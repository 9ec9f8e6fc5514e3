//! How the tracing goes.

use std::time::Duration;

use crate::live;

/// The intervals that one can choose, in milliseconds.
const INTERVALS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

#[derive(Debug)]
pub(crate) struct Tracing {
    /// False until the probes are attached for the first time.
    pub attached: bool,
    pub sampling: live::State,
    /// The time from one snapshot to the next that was asked for.
    pub interval: Duration,
}

impl Tracing {
    pub(super) fn new(interval: Duration) -> Tracing {
        Tracing { attached: false, sampling: live::State::Running, interval }
    }

    /// How long it is from one snapshot to the next.
    pub(crate) fn expected_interval(&self) -> Duration {
        match self.sampling {
            live::State::Degraded { interval } => interval.max(self.interval),
            _ => self.interval,
        }
    }

    /// Asks for the next longer or shorter interval. False: there is none.
    pub(super) fn change_interval(&mut self, longer: bool) -> bool {
        let now = self.interval.as_millis() as u64;
        let next = match longer {
            true => INTERVALS.into_iter().find(|choice| *choice > now),
            false => INTERVALS.into_iter().rev().find(|choice| *choice < now),
        };
        self.interval = next.map_or(self.interval, Duration::from_millis);
        next.is_some()
    }
}
