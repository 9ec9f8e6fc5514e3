//! What the running kernel offers these programs, found out by trying, never by version.

use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType};
use libbpf_rs::{ProgramType, libbpf_sys};

/// `bpf_func_id` of the kernel's UAPI (include/uapi/linux/bpf.h).
const GET_CURRENT_TASK_BTF: u32 = 158;
const TASK_STORAGE_GET: u32 = 156;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Typed pointers to the current task: plain loads instead of a helper call for each field (5.11).
    pub typed_task: bool,
    /// Storage in the task itself for the start of a call (5.13).
    pub task_storage: bool,
}

/// Whether the kernel refuses every program of fentry, whatever it does, and with which error: some are built so, or
/// have a security module that does. Loading the real ones to find out takes a hundred times as long.
pub fn fentry_refused() -> Option<std::io::Error> {
    // r0 = 0; exit
    let program = [0xb7, 0x95].map(|code| libbpf_sys::bpf_insn { code, ..Default::default() });
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        attempts: 1,
        expected_attach_type: libbpf_sys::BPF_TRACE_FENTRY,
        // No function: where fentry is allowed, the program is found to be wrong.
        attach_btf_id: 1,
        ..Default::default()
    };
    // SAFETY: all that it points to outlives the call.
    let loaded = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_TRACING,
            std::ptr::null(),
            c"Dual BSD/GPL".as_ptr(),
            program.as_ptr(),
            program.len() as libbpf_sys::size_t,
            &mut options,
        )
    };
    if loaded >= 0 {
        // SAFETY: the descriptor is new and ours.
        drop(unsafe { OwnedFd::from_raw_fd(loaded) });
        return None;
    }
    (loaded == -libc::EPERM).then(|| std::io::Error::from_raw_os_error(libc::EPERM))
}

/// Whether programs on the devices' requests get the queue first and the request next, as up to 5.10; some later 5.10.y give
/// them the request alone, as all since do, so that the version does not tell.
pub fn queue_before_request() -> bool {
    let arguments = || {
        let btf = Btf::from_vmlinux().ok()?;
        let hook: Typedef<'_> = btf.type_by_name("btf_trace_block_rq_issue")?;
        let function = FuncProto::try_from(Ptr::try_from(hook.referenced_type()).ok()?.referenced_type());
        Some(function.ok()?.iter().len())
    };
    // The first is the hook's own.
    arguments() == Some(3)
}

impl Features {
    /// Loads a tiny program for each question. Without the right to load programs all answers are no.
    pub fn probe() -> Features {
        let has = |helper| ProgramType::Tracepoint.is_helper_supported(helper).unwrap_or(false);
        let typed_task = has(GET_CURRENT_TASK_BTF);
        Features { typed_task, task_storage: typed_task && has(TASK_STORAGE_GET) }
    }
}
