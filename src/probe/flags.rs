//! What the programs found out about this kernel as they ran: flags that they set once.

use super::attach::Attached;
use super::skeleton::types::bss;

/// Where the start of a call is kept between its entry and its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStorage {
    /// In the thread itself.
    Task,
    /// In a hash by thread: this kernel has no such storage for tracing programs (Linux 5.13 has).
    Hash,
    /// In a hash by thread: the kernel offers storage in the thread, and refused it when it was asked for.
    HashBecauseRefused,
}

impl Attached {
    /// As the calls so far have found it, which are at least those of the self-test.
    pub fn call_storage(&self) -> CallStorage {
        match (self.features.task_storage, storage_refused(self)) {
            (false, _) => CallStorage::Hash,
            (true, true) => CallStorage::HashBecauseRefused,
            (true, false) => CallStorage::Task,
        }
    }
}

/// Some thread's call is, or was, kept in the hash although threads have storage.
pub fn storage_refused(attached: &Attached) -> bool {
    set(attached, |bss| std::ptr::from_ref(&bss.storage_refused).cast())
}

/// kprobe mode: only so many calls at a time are followed to their end.
pub fn returns_limited(attached: &Attached) -> bool {
    set(attached, |bss| std::ptr::from_ref(&bss.returns_limited).cast())
}

fn set(attached: &Attached, flag: impl FnOnce(&bss) -> *const u8) -> bool {
    let bss = attached.skel.maps.bss_data.as_deref().expect("the object has a .bss");
    // SAFETY: one byte of `bss`, which the programs may set to 1 at any moment.
    unsafe { flag(bss).read_volatile() != 0 }
}
