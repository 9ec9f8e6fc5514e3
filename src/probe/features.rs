//! What the running kernel offers these programs, found out by trying, never by version.

use libbpf_rs::ProgramType;

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

impl Features {
    /// Loads a tiny program for each question. Without the right to load programs all answers are no.
    pub fn probe() -> Features {
        let has = |helper| ProgramType::Tracepoint.is_helper_supported(helper).unwrap_or(false);
        let typed_task = has(GET_CURRENT_TASK_BTF);
        Features { typed_task, task_storage: typed_task && has(TASK_STORAGE_GET) }
    }
}
