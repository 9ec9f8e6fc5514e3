use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also where a thread panicked while it held the lock: what is behind it stays usable at each step.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
