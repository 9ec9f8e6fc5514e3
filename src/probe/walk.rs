//! Runs the task iterator over the threads of one process (6.1), or of all: a host has tens of thousands of threads, a
//! server some hundreds.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{Iter, libbpf_sys};

use super::attach::Attached;

/// For more processes than these one walk over all threads is likely to be cheaper.
const MOST_PROCESSES: usize = 16;

/// What the iterator writes for the threads of these processes, or of all where the kernel does not walk those of one.
/// Pid 0 stands for a process that is not known.
pub fn records(attached: &Attached, processes: &[u32]) -> libbpf_rs::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if processes.len() <= MOST_PROCESSES && processes.iter().all(|&pid| append(attached, pid, &mut bytes)) {
        return Ok(bytes);
    }
    bytes.clear();
    Iter::new(&attached.task_iterator)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Appends the records of one process, also if there is none by now. False: this kernel, or these rights, do not allow
/// it.
fn append(attached: &Attached, pid: u32, bytes: &mut Vec<u8>) -> bool {
    if pid == 0 || !attached.in_initial_pid_namespace {
        return false;
    }
    let program = attached.skel.progs.list_in_flight.as_fd().as_raw_fd();
    let mut which = libbpf_sys::bpf_iter_link_info::default();
    which.task.pid = pid;
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        iter_info: &mut which,
        iter_info_len: size_of::<libbpf_sys::bpf_iter_link_info>() as u32,
        ..Default::default()
    };
    // SAFETY: all that it points to outlives the call.
    let link = unsafe { libbpf_sys::bpf_link_create(program, 0, libbpf_sys::BPF_TRACE_ITER, &options) };
    if link < 0 {
        // Before 6.1 the kernel refuses what it does not know.
        return link == -libc::ESRCH;
    }
    // SAFETY: the descriptor is new and ours.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    // SAFETY: no options.
    let iterator = unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if iterator < 0 {
        return false;
    }
    // SAFETY: the descriptor is new and ours; a seq file is read like any other.
    let mut iterator = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(iterator) });
    iterator.read_to_end(bytes).is_ok()
}
