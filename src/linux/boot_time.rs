//! When this host was started.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// When the host was started, by the clock that starts of processes are told by. Ask once: the clocks drift,
/// and the start of a process must not.
pub(crate) fn boot_time() -> SystemTime {
    let since_boot = clock_gettime(ClockId::Boottime);
    let since_boot = Duration::new(since_boot.tv_sec.max(0) as u64, since_boot.tv_nsec.max(0) as u32);
    SystemTime::now().checked_sub(since_boot).unwrap_or(SystemTime::UNIX_EPOCH)
}
