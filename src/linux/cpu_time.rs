//! Processor time: what a thread has used, and an allowance (a token bucket) for work whose amount others
//! decide.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Processor time that the calling thread has used, in user space and in the kernel.
pub(crate) fn of_this_thread() -> Duration {
    of(ClockId::ThreadCPUTime)
}

/// The same of all threads of this process together, of those that have ended too.
pub(crate) fn of_this_process() -> Duration {
    of(ClockId::ProcessCPUTime)
}

fn of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How much processor time some kind of work may use: a share of one processor in the long run, and a burst
/// of it at once. Work that has begun is never cut off, so the allowance may be overdrawn, and no more is
/// begun until it has recovered.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    /// 0.01 is one percent of one processor.
    share: f64,
    burst: f64,
    /// Seconds; below zero it is overdrawn.
    left: f64,
    at: Instant,
    spent: Duration,
}

impl Allowance {
    pub fn new(share: f64, burst: Duration) -> Allowance {
        let burst = burst.as_secs_f64();
        Allowance { share, burst, left: burst, at: Instant::now(), spent: Duration::ZERO }
    }

    /// Whether more work may be begun.
    pub(crate) fn has_room(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.left = (self.left + passed * self.share).min(self.burst);
        self.left > 0.0
    }

    pub fn spend(&mut self, time: Duration) {
        self.left -= time.as_secs_f64();
        self.spent += time;
    }

    /// Overdrawn by more than the burst, as of the last [`Allowance::has_room`].
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left < -self.burst
    }

    /// All that was ever spent.
    pub fn spent(&self) -> Duration {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_gives_a_burst_and_then_its_share() {
        let mut allowance = Allowance::new(0.01, Duration::from_secs(2));
        let begin = Instant::now();
        let mut used = Duration::ZERO;
        // Always something to do, half a second of work each time.
        for second in 0..1_000 {
            if allowance.has_room(begin + Duration::from_secs(second)) {
                allowance.spend(Duration::from_millis(500));
                used += Duration::from_millis(500);
            }
        }
        assert_eq!(allowance.spent(), used);
        // 2 s at once, 10 s in a thousand seconds, and what it was overdrawn by.
        assert!((Duration::from_secs(11)..Duration::from_millis(12_500)).contains(&used), "{used:?}");
    }

    #[test]
    fn what_was_not_used_is_kept_up_to_the_burst() {
        let mut allowance = Allowance::new(0.5, Duration::from_secs(1));
        let begin = Instant::now();
        allowance.spend(Duration::from_secs(3));
        assert!(!allowance.has_room(begin + Duration::from_secs(3)));
        assert!(allowance.has_room(begin + Duration::from_secs(3_600)));
        allowance.spend(Duration::from_secs(1));
        assert!(!allowance.has_room(begin + Duration::from_secs(3_600)));
    }

    #[test]
    fn a_thread_that_works_uses_processor_time() {
        // In this order: what is used between the two readings is the process's as well.
        let (process, thread) = (of_this_process(), of_this_thread());
        while of_this_thread() < thread + Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(of_this_process() >= process + Duration::from_millis(20));
    }
}
