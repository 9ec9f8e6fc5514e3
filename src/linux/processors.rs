//! How much of the processors' time was idle between two moments.

use std::path::Path;

/// Clock ticks of all processors together since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessorTimes {
    idle: u64,
    all: u64,
}

impl ProcessorTimes {
    /// None where /proc/stat cannot be read.
    pub fn read(proc_root: &Path) -> Option<ProcessorTimes> {
        parse(&std::fs::read_to_string(proc_root.join("stat")).ok()?)
    }

    /// The share that was idle since, waiting for I/O included; None if no time has passed.
    pub(crate) fn idle_share_since(&self, earlier: &ProcessorTimes) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|&ticks| ticks > 0)?;
        Some((self.idle.saturating_sub(earlier.idle) as f64 / all as f64).min(1.0))
    }
}

/// "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; the guests' time is part of the
/// users'.
fn parse(text: &str) -> Option<ProcessorTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
    Some(ProcessorTimes { idle, all: ticks.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_io_is_idle_time() {
        let at = |text| parse(text).unwrap();
        let earlier = at("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 1 1 1\n");
        let later = at("cpu  130 0 60 840 70 0 0 0 9 0\n");
        assert_eq!(later.idle_share_since(&earlier), Some(0.6));
        assert_eq!(earlier.idle_share_since(&earlier), None);
        assert_eq!(parse("intr 1 2 3"), None);
        assert!(ProcessorTimes::read(Path::new("/proc")).is_some());
    }
}
