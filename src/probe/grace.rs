//! Waiting until every program that is under way has ended.

use std::time::Duration;

/// From include/uapi/linux/membarrier.h.
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
/// Longer than any program runs, preempted or not, by orders of magnitude.
const LONG: Duration = Duration::from_millis(50);

/// Returns when each program that had begun before the call has ended: programs run as RCU readers, and this barrier
/// is a grace period of RCU (kernel/sched/membarrier.c). Takes some milliseconds.
pub fn wait() {
    // SAFETY: it takes no memory of ours.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if done != 0 {
        // With nohz_full the kernel has no such barrier.
        std::thread::sleep(LONG);
    }
}
