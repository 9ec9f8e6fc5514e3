//! A thread that samples must run when its time comes. If it had to wait until a processor is free, it would
//! look just when the others wait, and see more of them in a sync than there are on average.

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// The highest that there is without being a real-time thread.
const HIGHEST: i32 = -20;

/// Raises this thread's priority for as long as this lives. It sleeps nearly all the time, so nobody is kept
/// waiting.
#[derive(Debug)]
pub(crate) struct Punctual {
    thread: Pid,
    before: Option<i32>,
}

impl Punctual {
    /// Where that is not allowed (CAP_SYS_NICE), the priority stays.
    pub fn begin() -> Punctual {
        let thread = gettid();
        let raise = || {
            let before = getpriority_process(Some(thread)).ok()?;
            setpriority_process(Some(thread), HIGHEST).ok()?;
            Some(before)
        };
        Punctual { thread, before: raise() }
    }

    /// Whether the priority could be raised.
    #[cfg(test)]
    fn is_raised(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // To lower it is always allowed.
            let _ = setpriority_process(Some(self.thread), before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_is_given_back() {
        let now = || getpriority_process(Some(gettid())).unwrap();
        let before = now();
        let punctual = Punctual::begin();
        assert_eq!(now(), if punctual.is_raised() { HIGHEST } else { before });
        drop(punctual);
        assert_eq!(now(), before);
    }
}
