//! What the programs could not count, and what the kernel skipped.

use std::os::fd::AsFd;

use super::contract::SyncSkel;
use super::globals;
use super::programs::{self, AttachedProgram};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By threads that had not been seen before: the call started before the probes, or its entry was
    /// skipped.
    pub exits_without_entry: u64,
    /// By threads that had been seen before: the entry was skipped.
    pub exits_of_skipped_entries: u64,
    pub entries_without_exit: u64,
    pub neighbour_entries_without_exit: u64,
    pub no_call_state: u64,
    /// Syncs that are counted, but whose waits `explain` cannot tell.
    pub no_wait_state: u64,
    /// Syncs of threads that have no slot of their own: a little slower, and counted like all others.
    pub without_thread_slot: u64,
    /// The same of requests of rings.
    pub without_request_slot: u64,
    pub no_row: u64,
    pub retired_row: u64,
    pub names_dropped: u64,
    pub latencies_dropped: u64,
    pub errors_dropped: u64,
    pub processes_dropped: u64,
    pub neighbours_folded: u64,
    /// Syncs of traced processes that reached their filesystem outside of the watched calls.
    pub unwatched: u64,
    /// The same of processes that are not traced.
    pub neighbours_unwatched: u64,
    /// Requests of which the kernel did not tell how they ended.
    pub unreported: u64,
    /// Bytes that are not known to be synced or not: there was no room for their file.
    pub unsynced_dropped: u64,
    /// Changes of writeback errors that are counted for no file, at most: those for which there was no room,
    /// and runs of the program that the kernel skipped, each of which may have been one.
    pub writeback_errors_dropped: u64,
    /// Runs of the entry programs of syncs that the kernel skipped (`recursion_misses`; 5.12, for tracepoints
    /// 6.7).
    pub entries_skipped: u64,
    /// The same of the exit programs.
    pub exits_skipped: u64,
}

/// Each of its runs is a call that counts. Most runs of a write's programs are of writes that do not, so how
/// many the kernel skipped of them says nothing: a durable write of which one end was skipped shows by the
/// other.
fn counts_all(program: &AttachedProgram) -> bool {
    program.ops.iter().any(|op| op.makes_durable() && !op.writes())
}

impl Counters {
    pub(super) fn read(skel: &SyncSkel, programs: &[AttachedProgram]) -> Counters {
        let raw = globals::counters(skel);
        let skipped = |exit: bool| {
            let those = programs.iter().filter(|program| program.is_exit == exit && counts_all(program));
            those.map(|program| programs::info(program.fd.as_fd()).runs_skipped).sum()
        };
        Counters {
            exits_without_entry: raw.exits_without_entry,
            exits_of_skipped_entries: raw.entries_skipped,
            entries_without_exit: raw.entries_without_exit,
            neighbour_entries_without_exit: raw.neighbour_entries_without_exit,
            no_call_state: raw.no_call_state,
            no_wait_state: raw.no_wait_state,
            without_thread_slot: raw.without_thread_slot,
            without_request_slot: raw.without_request_slot,
            no_row: raw.no_row,
            retired_row: raw.retired_row,
            names_dropped: raw.names_dropped,
            latencies_dropped: raw.latencies_dropped,
            errors_dropped: raw.errors_dropped,
            processes_dropped: raw.processes_dropped,
            neighbours_folded: raw.neighbours_folded,
            unwatched: raw.unwatched,
            neighbours_unwatched: raw.neighbours_unwatched,
            unreported: raw.unreported,
            unsynced_dropped: raw.unsynced_dropped,
            writeback_errors_dropped: raw.writeback_errors_dropped
                + programs::info(skel.progs.net_writeback.as_fd()).runs_skipped,
            entries_skipped: skipped(false),
            exits_skipped: skipped(true),
        }
    }
}
