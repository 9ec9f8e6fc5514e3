//! Another effective user, for this thread alone and for a moment: whoever a local socket leads to may ask
//! the kernel which user connects.

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

/// Gives the thread its own user back.
struct Restored(Uid);

impl Drop for Restored {
    fn drop(&mut self) {
        // It cannot fail: the saved user is still that one. If it did, this thread would be allowed less.
        let _ = set_thread_res_uid(None, self.0, None);
    }
}

/// Does something as that user, if we may become it; else as ourselves.
///
/// The kernel keeps a user for each thread, and this is its own system call, not the C library's, which would
/// change all threads of the process. Only the effective user changes: the real and the saved one stay
/// root's, so that the thread can return, and that user can neither trace nor signal it (kernel/ptrace.c and
/// kernel/signal.c look at those two). Capabilities are not in effect meanwhile.
pub(crate) fn with_effective_user<T>(user: u32, work: impl FnOnce() -> T) -> T {
    let own = geteuid();
    // The kernel has no such user: it means "as it is".
    let is_one = user != u32::MAX && user != own.as_raw();
    if !own.is_root() || !is_one || set_thread_res_uid(None, Uid::from_raw(user), None).is_err() {
        return work();
    }
    let _restored = Restored(own);
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("Uid:")).unwrap().to_owned()
    }

    /// Real, effective and saved user; what files are opened as follows the effective one.
    #[test]
    fn only_the_effective_user_of_this_thread_changes_and_only_for_a_moment() {
        let before = users();
        let (inside, other) = with_effective_user(65_534, || {
            (users(), std::thread::scope(|scope| scope.spawn(|| 7).join().unwrap()))
        });
        assert_eq!((users(), other), (before.clone(), 7));
        let expected = if geteuid().is_root() { "Uid:\t0\t65534\t0\t65534" } else { &before };
        assert_eq!(inside, expected);
        let result = std::panic::catch_unwind(|| with_effective_user(65_534, || panic!("on purpose")));
        assert!(result.is_err());
        assert_eq!((users(), with_effective_user(u32::MAX, users)), (before.clone(), before));
    }
}
