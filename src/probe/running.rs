//! Where each processor keeps the pointer to its current task (`bpf/running.h`). Looked for only where calls
//! are dear.

use libbpf_rs::ProgramInput;
use libbpf_rs::libbpf_sys::BPF_F_TEST_RUN_ON_CPU;

use super::contract::SyncSkel;
use super::min_core_btf::MinimizedBtf;

/// From the processor's run queue to that pointer, in bytes, as the kernel's description of the variables
/// that each processor has tells. None: on this architecture or version it is kept elsewhere.
pub(super) fn from_queue(types: &MinimizedBtf) -> Option<i64> {
    let queue = types.per_cpu_offset("runqueues")?;
    // From 6.2 to 6.14 it is the first of several in `pcpu_hot`.
    let current = types.per_cpu_offset("current_task").or_else(|| types.per_cpu_offset("pcpu_hot"))?;
    Some(i64::from(current) - i64::from(queue))
}

/// Looks on each processor, which takes microseconds. Returns on how many it was found; on the others, one
/// that is switched off for example, the programs ask the helper.
pub(super) fn find(skel: &SyncSkel) -> usize {
    let processors = libbpf_rs::num_possible_cpus().unwrap_or(0) as u32;
    let found = |&cpu: &u32| {
        let input = ProgramInput { cpu, flags: BPF_F_TEST_RUN_ON_CPU, ..ProgramInput::default() };
        skel.progs.find_running.test_run(input).is_ok_and(|output| output.return_value == 1)
    };
    (0..processors).filter(found).count()
}
