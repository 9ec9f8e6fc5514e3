//! The global variables of the programs (`.bss`), which the programs and this side read and write while both
//! run.

use std::sync::atomic::{AtomicU64, Ordering};

use super::contract::{SyncSkel, types};
use crate::model::Op;

fn bss<'a>(skel: &'a SyncSkel) -> &'a types::bss {
    skel.maps.bss_data.as_deref().expect("the object has a .bss")
}

/// What the programs could not count.
pub(super) fn counters(skel: &SyncSkel) -> types::counters {
    // SAFETY: the kernel changes these words at any moment; each is read once.
    unsafe { std::ptr::from_ref(&bss(skel).counters).read_volatile() }
}

/// How often each queue of free slots was popped.
pub(super) fn slots_popped(skel: &SyncSkel) -> [u64; 3] {
    // SAFETY: words that the programs change at any moment; each is read once.
    unsafe { std::ptr::from_ref(&bss(skel).slots_popped).read_volatile() }
}

/// How often a slot for a file's unsynced bytes was taken.
pub(super) fn unsynced_popped(skel: &SyncSkel) -> u64 {
    // SAFETY: a word that the programs change at any moment; it is read once.
    unsafe { std::ptr::from_ref(&bss(skel).unsynced_popped).read_volatile() }
}

/// Which half of the maxima of unsynced bytes counts from now on.
pub(super) fn set_unsynced_epoch(skel: &mut SyncSkel, epoch: u32) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    // SAFETY: one word that only this side writes; the programs read it at any moment.
    unsafe { std::ptr::from_mut(&mut bss.unsynced_epoch).write_volatile(epoch) };
}

/// All parts of files that are told apart lie between these offsets; none: between 0 and 0.
pub(super) fn set_parts(skel: &mut SyncSkel, begin: u64, end: u64) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    // SAFETY: words that only this side writes; the programs read them at any moment.
    unsafe {
        std::ptr::from_mut(&mut bss.parts_begin).write_volatile(begin);
        std::ptr::from_mut(&mut bss.parts_end).write_volatile(end);
    }
}

/// While this is set, no sync is counted that starts: the programs at the entries look at it first.
pub(super) fn set_stopped(skel: &mut SyncSkel, stopped: bool) {
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        // SAFETY: a flag that only this side writes; the programs read it at any moment.
        unsafe { std::ptr::from_mut(&mut bss.stopped).cast::<u8>().write_volatile(stopped.into()) };
    }
}

/// An owner makes no more rows than it is allowed.
pub(super) fn set_rows_limited(skel: &mut SyncSkel) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    // SAFETY: a flag that only this side writes; the programs read it at any moment.
    unsafe { std::ptr::from_mut(&mut bss.rows_limited).cast::<u8>().write_volatile(true.into()) };
}

/// One less is taken of a table.
pub(super) fn give_room(skel: &SyncSkel, room: usize) {
    let taken = std::ptr::from_ref(&bss(skel).room_taken[room]).cast_mut();
    // SAFETY: a word of memory that the kernel shares with this side, to which all add at once.
    unsafe { AtomicU64::from_ptr(taken) }.fetch_sub(1, Ordering::SeqCst);
}

/// How much is taken of a table.
pub(super) fn room_taken(skel: &SyncSkel, room: usize) -> u64 {
    // SAFETY: a word that the programs change at any moment; it is read once.
    unsafe { std::ptr::from_ref(&bss(skel).room_taken[room]).read_volatile() }
}

/// A request of a ring without a slot is in flight no more.
pub(super) fn forget_in_flight_without_slot(skel: &SyncSkel) {
    let number = std::ptr::from_ref(&bss(skel).in_flight_without_slot).cast_mut();
    // SAFETY: as in `give_room`.
    unsafe { AtomicU64::from_ptr(number) }.fetch_sub(1, Ordering::SeqCst);
}

/// Nothing is taken of it. Only while no program is attached.
pub(super) fn clear_room(skel: &mut SyncSkel, room: usize) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    bss.room_taken[room] = 0;
}

/// How many requests of rings without a slot are in flight.
pub(super) fn in_flight_without_slot(skel: &SyncSkel) -> u64 {
    // SAFETY: a word that the programs change at any moment.
    unsafe { std::ptr::from_ref(&bss(skel).in_flight_without_slot).read_volatile() }
}

/// There are none. Only while no program is attached.
pub(super) fn clear_in_flight_without_slot(skel: &mut SyncSkel) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    bss.in_flight_without_slot = 0;
}

/// What rings sync is from now on counted as their requests.
pub(super) fn set_rings_watched(skel: &mut SyncSkel, watched: bool) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    // SAFETY: a flag that only this side writes; the programs read it at any moment.
    unsafe { std::ptr::from_mut(&mut bss.rings_watched).cast::<u8>().write_volatile(watched.into()) };
}

/// The same of libaio.
pub(super) fn set_aio_watched(skel: &mut SyncSkel, watched: bool) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    // SAFETY: a flag that only this side writes; the programs read it at any moment.
    unsafe { std::ptr::from_mut(&mut bss.aio_watched).cast::<u8>().write_volatile(watched.into()) };
}

/// The kernel offered storage in the thread, and refused it when a program asked for it.
pub(super) fn storage_refused(skel: &SyncSkel) -> bool {
    is_set(&bss(skel).storage_refused)
}

/// kprobe mode: only a limited number of calls at a time is followed to the end.
pub(super) fn returns_limited(skel: &SyncSkel) -> bool {
    is_set(&bss(skel).returns_limited)
}

fn is_set(flag: &bool) -> bool {
    // SAFETY: one byte, which the programs may set to 1 at any moment.
    unsafe { std::ptr::from_ref(flag).cast::<u8>().read_volatile() != 0 }
}

/// The thread of this process whose calls are the self-test.
pub(super) fn set_self_test_thread(skel: &mut SyncSkel, thread: u32) {
    let bss = skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    // SAFETY: one word that only this side writes; the programs read it at any moment.
    unsafe { std::ptr::from_mut(&mut bss.self_tid).write_volatile(thread) };
}

/// How many calls of the self-test were seen at entry and at exit.
pub(super) fn self_test_calls(skel: &SyncSkel, op: Op) -> u64 {
    // SAFETY: one word that only the programs write, on this thread's own calls.
    unsafe { std::ptr::from_ref(&bss(skel).counters.self_test[op as usize]).read_volatile() }
}

/// The file of the last of them, as the programs identified it.
pub(super) fn self_test_file(skel: &SyncSkel, op: Op) -> types::identity {
    // SAFETY: plain integers, written on this thread's own calls.
    unsafe { std::ptr::from_ref(&bss(skel).counters.self_file[op as usize]).read_volatile() }
}
