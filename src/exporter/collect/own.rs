//! The exporter's metrics about itself: whether it traces, and what it costs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use procfs::process::{LimitValue, Process};

use crate::exporter::recording::Facts;
use crate::exporter::verdict::Told;
use crate::exporter::web::Figures;

#[derive(Clone, Debug, Default)]
pub struct Own {
    pub is_tracing: bool,
    pub is_paused: bool,
    /// From one regular snapshot to the next.
    pub interval: Duration,
    /// When calls of its own were last seen to be counted.
    pub self_test: Option<SystemTime>,
    /// The web server's counters.
    pub web: Figures,
    pub map_bytes: u64,
    pub history_bytes: usize,
    pub history_length: Duration,
    pub history_is_short: bool,
    pub process: Option<ProcessFacts>,
    pub verdicts: Option<Arc<Told>>,
    /// Those of the process that serves.
    pub web_process: Option<ProcessFacts>,
    /// None: nothing is recorded.
    pub recording: Option<Facts>,
    pub recorder: Option<ProcessFacts>,
}

/// The process metrics that Prometheus' client libraries export.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessFacts {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    pub open_fds: usize,
    /// None: unlimited.
    pub max_fds: Option<u64>,
    pub threads: i64,
    /// Since boot.
    pub started: Duration,
}

impl ProcessFacts {
    /// Reads those of this process. None where /proc cannot be read.
    pub fn read() -> Option<ProcessFacts> {
        ProcessFacts::of(&Process::myself().ok()?)
    }

    /// Reads those of another process, whose descriptors may be looked at.
    pub fn read_of(pid: u32) -> Option<ProcessFacts> {
        ProcessFacts::of(&Process::new(pid.try_into().ok()?).ok()?)
    }

    fn of(process: &Process) -> Option<ProcessFacts> {
        let stat = process.stat().ok()?;
        let ticks = procfs::ticks_per_second() as f64;
        let max_fds = match process.limits().ok()?.max_open_files.soft_limit {
            LimitValue::Value(most) => Some(most),
            LimitValue::Unlimited => None,
        };
        Some(ProcessFacts {
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
            resident_bytes: stat.rss * procfs::page_size(),
            virtual_bytes: stat.vsize,
            open_fds: process.fd_count().ok()?,
            max_fds,
            threads: stat.num_threads,
            started: Duration::from_secs_f64(stat.starttime as f64 / ticks),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::clock::boot_time;

    #[test]
    fn this_process_is_described_as_it_is() {
        let block = vec![1u8; 32 << 20];
        let facts = ProcessFacts::read().unwrap();
        assert!(facts.resident_bytes > 32 << 20 && facts.virtual_bytes > facts.resident_bytes, "{facts:?}");
        assert!(facts.open_fds >= 3 && facts.threads >= 1, "{facts:?}");
        drop(block);
        let started = boot_time() + facts.started;
        let age = SystemTime::now().duration_since(started).unwrap();
        assert!(age < Duration::from_secs(3_600), "{age:?}");
        let me = std::fs::metadata("/proc/self").unwrap().modified();
        assert!(me.is_ok());
    }
}
