//! The loaded programs: attaching them to their hooks, what the kernel tells about them, and waiting until
//! none of them is running any more.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, ProgramMut, TracepointCategory};

use super::aio;
use super::choice;
use super::contract::SyncSkel;
use super::globals;
use super::net::{self, Net};
use super::requests::Requests;
use super::ring;
use crate::model::Op;

/// From include/uapi/linux/membarrier.h.
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
/// Longer than any program runs, preempted or not, by orders of magnitude.
const GRACE_PERIOD: Duration = Duration::from_millis(50);

/// A program that is attached.
pub struct AttachedProgram {
    pub name: String,
    /// The operations whose calls it watches.
    pub ops: Vec<Op>,
    pub is_exit: bool,
    pub fd: OwnedFd,
    /// Instructions after the verifier.
    pub instructions: usize,
}

/// The operations to watch, and the prefixes of the programs' names, at entry and at exit.
pub(super) struct Hooks {
    pub ops: Vec<Op>,
    pub prefixes: [&'static str; 2],
}

impl Hooks {
    /// Attaches every program that was loaded for a hook. An error comes with the program's name.
    pub(super) fn attach(
        &self,
        skel: &mut SyncSkel,
        net: &mut Net,
        rings: &mut Requests,
        aio: &mut Requests,
    ) -> Result<Vec<Link>, (String, libbpf_rs::Error)> {
        let mut links = Vec::new();
        // Nothing is counted before all programs are attached: else a thread that was seen at one operation's
        // entry would seem to have skipped another's, which has no program yet.
        globals::set_stopped(skel, true);
        // Exits first: a call that is under way then ends without an entry, which is noticed, instead of
        // leaving a start behind that a later exit would take for its own.
        for exits in [true, false] {
            for mut program in skel.object_mut().progs_mut().filter(belongs_to_a_hook) {
                let name = name_of(&program);
                if is_exit(&name) == exits {
                    self.attach_program(&mut program, &mut links).map_err(|error| (name, error))?;
                }
            }
        }
        globals::set_stopped(skel, false);
        ring::attach(rings, skel, &mut links);
        aio::attach(aio, skel, &mut links);
        // After all others: a call that is under way is none that nobody watches.
        net.attach(skel, &mut links);
        Ok(links)
    }

    fn attach_program(&self, program: &mut ProgramMut, links: &mut Vec<Link>) -> libbpf_rs::Result<()> {
        let name = name_of(program);
        let calls = || choice::calls_of(&name, &self.prefixes);
        if calls().count() < 2 {
            links.push(program.attach()?);
            return Ok(());
        }
        // One tracepoint for each; libbpf by itself attaches a program once.
        let point = if is_exit(&name) { "sys_exit" } else { "sys_enter" };
        let is_watched = |call: &&str| choice::op_of(call).is_some_and(|op| self.ops.contains(&op));
        for call in calls().filter(is_watched) {
            let tracepoint = format!("{point}_{call}");
            links.push(program.attach_tracepoint(TracepointCategory::Syscalls, tracepoint)?);
        }
        Ok(())
    }

    /// The loaded programs that watch calls.
    pub(super) fn programs(&self, skel: &mut SyncSkel) -> std::io::Result<Vec<AttachedProgram>> {
        let mut programs = Vec::new();
        for program in skel.object_mut().progs_mut().filter(belongs_to_a_hook) {
            let (name, ops) = (name_of(&program), self.watched_by(&program));
            if ops.is_empty() {
                continue; // it follows processes
            }
            let fd = program.as_fd().try_clone_to_owned()?;
            let instructions = info(fd.as_fd()).instructions;
            programs.push(AttachedProgram { instructions, is_exit: is_exit(&name), name, ops, fd });
        }
        Ok(programs)
    }

    fn watched_by(&self, program: &ProgramMut) -> Vec<Op> {
        let mut ops = choice::ops_of(&name_of(program), &self.prefixes);
        ops.retain(|op| self.ops.contains(op));
        ops
    }
}

fn name_of(program: &ProgramMut) -> String {
    program.name().to_string_lossy().into_owned()
}

fn is_exit(name: &str) -> bool {
    ["exit_", "fexit_", "kretprobe_"].iter().any(|prefix| name.starts_with(prefix))
}

/// The other programs run on demand, or belong to the net, to rings or to libaio.
fn belongs_to_a_hook(program: &ProgramMut) -> bool {
    let name = program.name();
    let runs_on_demand = ["list_in_flight", "fill_free_list"].iter().any(|other| name == *other);
    let name = name.to_string_lossy();
    let is_of_others = net::is_of_it(&name) || ring::is_of_it(&name) || aio::is_of_it(&name);
    program.autoload() && !runs_on_demand && !is_of_others
}

/// What the kernel tells about a loaded program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProgramInfo {
    /// After the verifier has removed what this kernel and these options never reach; functions included.
    pub instructions: usize,
    /// `recursion_misses`: runs that the kernel skipped because the program, or for tracepoints any program,
    /// was interrupted on that processor. 0 where the kernel does not count them (5.12, for tracepoints 6.7).
    pub runs_skipped: u64,
}

/// All zeros if the kernel refuses.
pub(super) fn info(program: BorrowedFd<'_>) -> ProgramInfo {
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

/// Returns when every program that was running at the time of the call has ended: programs are RCU readers,
/// and this barrier is an RCU grace period (kernel/sched/membarrier.c). Takes some milliseconds.
pub(super) fn wait_for_running() {
    // SAFETY: it takes no memory of ours.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if done != 0 {
        // With nohz_full the kernel has no such barrier.
        std::thread::sleep(GRACE_PERIOD);
    }
}
