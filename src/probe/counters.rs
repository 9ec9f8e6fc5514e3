//! What the programs could not count, and what the kernel skipped.

use std::os::fd::AsFd;

use super::attach::Attached;
use super::program_info;
use super::skeleton::types;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of threads that were never seen: the call began before the probes, or its entry was skipped.
    pub exits_without_entry: u64,
    /// Of threads that were seen before: the entry was skipped.
    pub exits_of_skipped_entries: u64,
    pub entries_without_exit: u64,
    pub neighbour_entries_without_exit: u64,
    pub no_call_state: u64,
    /// Syncs that are counted, but of which `explain` does not know where they wait.
    pub no_wait_state: u64,
    /// Syncs of threads without a place of their own: slower, and lost in no way.
    pub without_place: u64,
    pub no_row: u64,
    pub retired_row: u64,
    pub names_dropped: u64,
    pub latencies_dropped: u64,
    pub errors_dropped: u64,
    pub processes_dropped: u64,
    pub neighbours_folded: u64,
    /// Runs of the entry programs that the kernel skipped (`recursion_misses`; 5.12, for tracepoints 6.7).
    pub entries_skipped: u64,
    /// The same of the exit programs.
    pub exits_skipped: u64,
}

/// Syncs so far of threads that have no place.
pub fn without_place(attached: &Attached) -> u64 {
    raw(attached).without_place
}

fn raw(attached: &Attached) -> types::counters {
    let bss = attached.skel.maps.bss_data.as_deref().expect("the object has a .bss");
    // SAFETY: the kernel changes these words at any moment; each is read once.
    unsafe { std::ptr::from_ref(&bss.counters).read_volatile() }
}

pub fn read(attached: &Attached) -> Counters {
    let raw = raw(attached);
    let skipped = |exit: bool| {
        attached
            .programs
            .iter()
            .filter(|program| program.is_exit == exit)
            .map(|p| program_info::read(p.fd.as_fd()).runs_skipped)
            .sum()
    };
    Counters {
        exits_without_entry: raw.exits_without_entry,
        exits_of_skipped_entries: raw.entries_skipped,
        entries_without_exit: raw.entries_without_exit,
        neighbour_entries_without_exit: raw.neighbour_entries_without_exit,
        no_call_state: raw.no_call_state,
        no_wait_state: raw.no_wait_state,
        without_place: raw.without_place,
        no_row: raw.no_row,
        retired_row: raw.retired_row,
        names_dropped: raw.names_dropped,
        latencies_dropped: raw.latencies_dropped,
        errors_dropped: raw.errors_dropped,
        processes_dropped: raw.processes_dropped,
        neighbours_folded: raw.neighbours_folded,
        entries_skipped: skipped(false),
        exits_skipped: skipped(true),
    }
}
