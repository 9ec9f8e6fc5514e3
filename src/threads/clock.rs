//! The time on the clocks that /proc/TID/sched uses, from which follows how long a blocked thread has been
//! blocked.
//!
//! `se.exec_start` there is the moment at which the thread last ran, on `rq_clock_task` of its CPU
//! (kernel/sched/fair.c). That clock leaves out the time stolen by a hypervisor and, where configured, the
//! time in interrupts, so it differs from CPU to CPU (52 ms after 20 minutes were seen) and is later than no
//! other clock. The only way to read it is to run on that CPU and look at one's own `se.exec_start`. Since it
//! never runs faster than time, and a blocked thread's CPU field does not change, the difference is a lower
//! bound.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::thread_files::parse_last_ran;
use crate::linux::blocking::Threads;
use crate::linux::proc_file;

/// One for each CPU. Those that never get their CPU count for as long as they wait for it.
static THREADS: Threads = Threads::new("clock", 512);

/// The time on the clock of each of these CPUs, as far as they can be read within `timeout` (a CPU may be
/// offline, outside of our cpuset or held by a real-time thread).
pub fn read(proc_root: &Path, cpus: &BTreeSet<u32>, timeout: Duration) -> BTreeMap<u32, Duration> {
    let (sender, receiver) = mpsc::channel();
    for &cpu in cpus {
        let sender = sender.clone();
        let own = proc_root.join("thread-self/sched");
        // Without a thread, this clock is not known.
        THREADS.start(move || {
            let mut only = CpuSet::new();
            let now = (only.set(cpu as usize).is_ok() && sched_setaffinity(Pid::from_raw(0), &only).is_ok())
                .then(|| parse_last_ran(&proc_file::read(&own).ok()?))
                .flatten();
            let _ = sender.send((cpu, now));
        });
    }
    drop(sender);
    let until = Instant::now() + timeout;
    let mut clocks = BTreeMap::new();
    while let Ok((cpu, now)) = receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if let Some(now) = now {
            clocks.insert(cpu, now);
        }
    }
    clocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_no_cpu_has_is_left_out_and_the_others_advance() {
        let own = Path::new("/proc/thread-self/sched");
        if parse_last_ran(&proc_file::read(own).unwrap_or_default()).is_none() {
            eprintln!("SKIPPED: this kernel has no /proc/TID/sched");
            return;
        }
        let cpus = BTreeSet::from([0, 100_000]);
        let first = read(Path::new("/proc"), &cpus, Duration::from_secs(5));
        assert_eq!(first.keys().copied().collect::<Vec<_>>(), [0]);
        std::thread::sleep(Duration::from_millis(60));
        let second = read(Path::new("/proc"), &cpus, Duration::from_secs(5));
        // stolen time may slow it, and a tick may be missing
        assert!(second[&0] > first[&0], "{first:?} {second:?}");
    }
}
