//! What the programs could not count, and what the kernel skipped.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::attach::Attached;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub exits_without_entry: u64,
    pub entries_without_exit: u64,
    pub no_call_state: u64,
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

pub fn read(attached: &Attached) -> Counters {
    let bss = attached.skel.maps.bss_data.as_deref().expect("the object has a .bss");
    // SAFETY: the kernel changes these words at any moment; each is read once.
    let raw = unsafe { std::ptr::from_ref(&bss.counters).read_volatile() };
    let skipped = |exit: bool| {
        attached.programs.iter().filter(|program| program.is_exit == exit).map(|p| misses(p.fd.as_fd())).sum()
    };
    Counters {
        exits_without_entry: raw.exits_without_entry,
        entries_without_exit: raw.entries_without_exit,
        no_call_state: raw.no_call_state,
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

/// `recursion_misses` of a program; 0 where the kernel does not tell.
fn misses(program: BorrowedFd<'_>) -> u64 {
    // SAFETY: all zeros is a valid request for no arrays, and the length is that of the struct.
    unsafe {
        let mut info: libbpf_sys::bpf_prog_info = std::mem::zeroed();
        let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        let result = libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            std::ptr::from_mut(&mut info).cast(),
            &mut length,
        );
        if result == 0 { info.recursion_misses } else { 0 }
    }
}
