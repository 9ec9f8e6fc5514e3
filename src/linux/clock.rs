//! The clocks by which the kernel side and other processes tell times.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, as `bpf_ktime_get_ns` reads it.
pub(crate) fn monotonic() -> Duration {
    since_epoch(ClockId::Monotonic)
}

pub(crate) fn monotonic_ns() -> u64 {
    monotonic().as_nanos() as u64
}

/// CLOCK_BOOTTIME, as the kernel's `start_boottime`.
pub(crate) fn boot_ns() -> u64 {
    since_epoch(ClockId::Boottime).as_nanos() as u64
}

/// When the host was started, by the clock that starts of processes are told by. Ask once: the clocks drift,
/// and the start of a process must not.
pub(crate) fn boot_time() -> SystemTime {
    SystemTime::now().checked_sub(since_epoch(ClockId::Boottime)).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn since_epoch(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
