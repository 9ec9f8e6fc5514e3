//! Which rights the probe still needs once it is attached.

use std::io;

/// Whether the calling thread may make the bpf() calls that a probe makes once it is attached: those on maps and
/// programs that it has open. Before 5.19 the kernel refuses all of bpf() without CAP_BPF where
/// kernel.unprivileged_bpf_disabled is set; since then loading alone.
pub fn may_use_open_maps() -> bool {
    let mut value = 0u64;
    let place = std::ptr::from_mut(&mut value).cast();
    // SAFETY: there is no such descriptor, so nothing is read or written; the kernel checks the right to call first,
    // then the descriptor.
    let outcome = unsafe { libbpf_sys::bpf_map_lookup_elem(-1, place, place) };
    outcome != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}
