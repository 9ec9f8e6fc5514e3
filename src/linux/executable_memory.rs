//! Memory that can be written and executed: nothing here makes any.

use std::io;

/// From now on, neither this process nor one that it starts gets memory that can be executed and could be
/// written, at the same time or before: what somebody has smuggled in as data cannot be run (prctl,
/// PR_SET_MDWE; Linux 6.3, on x86-64 and arm64). It cannot be taken back.
pub fn refuse() -> io::Result<()> {
    // SAFETY: prctl with these arguments changes a flag of this process and takes no pointers; the unused
    // arguments must be 0.
    #[expect(unsafe_code, reason = "neither rustix nor std has it")]
    let done = unsafe { libc::prctl(libc::PR_SET_MDWE, libc::PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
