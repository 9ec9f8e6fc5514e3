//! What the running kernel offers and allows these programs, found out by trying, never by version.

use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType};
use libbpf_rs::{ProgramType, libbpf_sys};

/// `bpf_func_id` of the kernel's UAPI (include/uapi/linux/bpf.h).
const GET_CURRENT_TASK_BTF: u32 = 158;
const TASK_STORAGE_GET: u32 = 156;
const TASK_PT_REGS: u32 = 175;
const LOOP: u32 = 181;

/// Where `explain` keeps what a thread in a sync waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitStorage {
    /// In the thread itself.
    Task,
    /// In a hash by thread: this kernel has no such storage for tracing programs (Linux 5.13 has).
    Hash,
    /// In a hash by thread: the kernel offers storage in the thread, and refused it when a program asked for
    /// it.
    HashBecauseRefused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Typed pointers to the current task: plain loads instead of a helper call for each field (5.11).
    pub typed_task: bool,
    /// Storage in the task itself for the start of a call (5.13).
    pub task_storage: bool,
    /// The registers with which a task entered the kernel (5.15).
    pub task_registers: bool,
    /// Loops whose bodies are checked once (5.17).
    pub loops: bool,
}

/// Whether the kernel refuses every program of fentry, whatever it does, and with which error: some are built
/// so, or have a security module that does. Loading the real ones to find out takes a hundred times as long.
pub(super) fn fentry_refused() -> Option<std::io::Error> {
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

/// Whether programs on the devices' requests get the queue first and the request next, as up to 5.10; some
/// later 5.10.y give them the request alone, as all since do, so that the version does not tell.
pub(super) fn queue_before_request() -> bool {
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
    pub(super) fn probe() -> Features {
        let has = |helper| ProgramType::Tracepoint.is_helper_supported(helper).unwrap_or(false);
        let typed_task = has(GET_CURRENT_TASK_BTF);
        Features {
            typed_task,
            task_storage: typed_task && has(TASK_STORAGE_GET),
            task_registers: typed_task && has(TASK_PT_REGS),
            loops: typed_task && has(LOOP),
        }
    }
}

/// Whether the calling thread may still make the bpf() calls that an attached probe needs: those on maps and
/// programs that it has open. Before 5.19 the kernel refuses all of bpf() without CAP_BPF where
/// kernel.unprivileged_bpf_disabled is set; since then loading alone.
pub(crate) fn may_use_open_maps() -> bool {
    let mut value = 0u64;
    let place = std::ptr::from_mut(&mut value).cast();
    // SAFETY: there is no such descriptor, so nothing is read or written; the kernel checks the right to call
    // first, then the descriptor.
    let outcome = unsafe { libbpf_sys::bpf_map_lookup_elem(-1, place, place) };
    outcome != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}
