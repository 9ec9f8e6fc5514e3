//! What the kernel says of a loaded program.

use std::os::fd::{AsRawFd, BorrowedFd};

#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramInfo {
    /// After the verifier has removed what this kernel and these options never reach; functions included.
    pub instructions: usize,
    /// `recursion_misses`: runs that the kernel skipped because the program, or for tracepoints any program, was
    /// interrupted on that processor. 0 where the kernel does not count them (5.12, for tracepoints 6.7).
    pub runs_skipped: u64,
}

/// All zeros if the kernel does not tell.
pub fn read(program: BorrowedFd<'_>) -> ProgramInfo {
    // SAFETY: all zeros is a valid request for no arrays, and the length is that of the struct.
    let info = unsafe {
        let mut info: libbpf_sys::bpf_prog_info = std::mem::zeroed();
        let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        let place = std::ptr::from_mut(&mut info).cast();
        match libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), place, &mut length) {
            0 => info,
            _ => return ProgramInfo::default(),
        }
    };
    ProgramInfo {
        instructions: info.xlated_prog_len as usize / size_of::<u64>(),
        runs_skipped: info.recursion_misses,
    }
}
