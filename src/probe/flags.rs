//! Flags that the programs and this side share: what the programs found out about this kernel as they ran, which they set
//! once, and whether they are to begin anything.

use super::attach::Attached;
use super::skeleton::SyncSkel;
use super::skeleton::types::bss;

/// Where `explain` keeps what a thread in a sync waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStorage {
    /// In the thread itself.
    Task,
    /// In a hash by thread: this kernel has no such storage for tracing programs (Linux 5.13 has).
    Hash,
    /// In a hash by thread: the kernel offers storage in the thread, and refused it when it was asked for.
    HashBecauseRefused,
}

impl Attached {
    /// As the calls of the self-test have found it; None unless the configuration prepared for the waits.
    pub fn wait_storage(&self) -> Option<WaitStorage> {
        self.watch_waits.then(|| match (self.features.task_storage, storage_refused(self)) {
            (false, _) => WaitStorage::Hash,
            (true, true) => WaitStorage::HashBecauseRefused,
            (true, false) => WaitStorage::Task,
        })
    }
}

/// Whether no sync is begun: the programs at the entries look at this first.
pub fn set_stopped(skel: &mut SyncSkel, stopped: bool) {
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        // SAFETY: a flag that only this side writes; the programs read it at any moment.
        unsafe { std::ptr::from_mut(&mut bss.stopped).cast::<u8>().write_volatile(stopped.into()) };
    }
}

/// What some thread waits for is kept in the hash although threads have storage.
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
