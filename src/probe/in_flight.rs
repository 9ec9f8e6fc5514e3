//! The syncs in flight: those of threads with a slot of their own, by the task iterator, and the others, from
//! a hash.

use std::collections::HashSet;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::{Iter, MapCore, MapFlags, libbpf_sys};

use super::aio;
use super::attach::Attached;
use super::contract::{record, types, view};
use super::globals;
use super::owned_slots::OwnedSlots;
use super::shares::Shares;

/// For more processes than this, one walk over all threads is likely to be cheaper.
const MAX_PROCESSES: usize = 16;

/// A sync in flight.
#[derive(Clone, Debug)]
pub struct RunningCall {
    /// CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// 0 where it is not known.
    pub tgid: u32,
    pub tid: u32,
    pub slot: u32,
    pub sequence: u32,
    pub op: u8,
    pub fd: i32,
    pub id: types::identity,
    /// Without the ending NULs; empty where it is not known.
    pub thread: Vec<u8>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    pub running: Vec<RunningCall>,
    /// Threads that have started a sync since the probes were attached: whatever they did before has ended.
    pub seen: HashSet<u32>,
}

impl Calls {
    fn add(&mut self, call: RunningCall) {
        self.seen.insert(call.tid);
        // 0: none now. 1: a call of our own.
        if call.start_ns > 1 {
            self.running.push(call);
        }
    }
}

/// Requests belong to no thread; the one that made them stands for it.
fn running(request: &types::pending) -> RunningCall {
    RunningCall {
        start_ns: request.start_ns,
        tgid: request.tgid,
        tid: request.tid,
        slot: request.slot,
        sequence: request.sequence,
        op: request.op as u8,
        fd: request.fd,
        id: request.id,
        thread: Vec::new(),
    }
}

pub(super) fn add_requests_of_rings(
    attached: &Attached,
    slots: &mut OwnedSlots,
    calls: &mut Calls,
) -> libbpf_rs::Result<()> {
    let slots = slots.in_flight::<types::request_slot>().map_err(libbpf_rs::Error::from)?;
    let mut requests: Vec<_> = slots.into_iter().map(|slot| slot.request).collect();
    if globals::in_flight_without_slot(&attached.skel) > 0 {
        let map = &attached.skel.maps.requests_without_slot;
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY)?;
            requests.extend(value.as_deref().and_then(view::<types::pending>));
        }
    }
    calls.running.extend(requests.iter().filter(|request| request.silent == 0).map(running));
    Ok(())
}

pub(super) fn add_requests_of_libaio(attached: &Attached, calls: &mut Calls) -> libbpf_rs::Result<()> {
    if attached.aio().are_watched() {
        let mut requests = aio::requests(&attached.skel)?;
        aio::forget_ended(&attached.skel, &mut requests)?;
        calls.running.extend(requests.iter().filter(|request| request.silent == 0).map(running));
    }
    Ok(())
}

/// Makes room in the tables of calls and requests in flight, where they are more than half full: of threads
/// and processes that are gone, whose end was missed.
pub(super) fn forget_gone(attached: &Attached, shares: &mut Shares) -> std::io::Result<()> {
    let skel = &attached.skel;
    let is_crowded = |room, capacity: u64| globals::room_taken(skel, room) > capacity / 2;
    if is_crowded(record::ROOM_CALLS, record::CALLS_WITHOUT_SLOT) {
        let map = &skel.maps.calls_by_thread;
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(std::io::Error::other)?;
            let Some(call) = value.as_deref().and_then(view::<types::call>) else { continue };
            let thread = u32::from_ne_bytes(key[..4].try_into().expect("four bytes"));
            if !Path::new(&format!("/proc/{thread}")).exists() && map.delete(&key).is_ok() {
                shares.give_back(skel, call.claims as u32, record::ROOM_CALLS)?;
            }
        }
    }
    if attached.rings.are_watched() && is_crowded(record::ROOM_REQUESTS, record::REQUESTS_WITHOUT_SLOT) {
        let map = &skel.maps.requests_without_slot;
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(std::io::Error::other)?;
            let Some(request) = value.as_deref().and_then(view::<types::pending>) else { continue };
            if aio::is_over(request.tgid) && map.delete(&key).is_ok() {
                shares.give_back(skel, request.share, record::ROOM_REQUESTS)?;
                globals::forget_in_flight_without_slot(skel);
            }
        }
    }
    if attached.aio().are_watched() && is_crowded(record::ROOM_AIO, record::AIO_REQUESTS) {
        let mut requests = aio::requests(skel).map_err(std::io::Error::other)?;
        aio::forget_ended(skel, &mut requests).map_err(std::io::Error::other)?;
    }
    Ok(())
}

/// `without_slot`: how many syncs so far were made by threads that have no slot of their own.
pub(super) fn read(attached: &Attached, processes: &[u32], without_slot: u64) -> libbpf_rs::Result<Calls> {
    let mut calls = Calls::default();
    let bytes = records(attached, processes)?;
    for raw in bytes.chunks_exact(size_of::<types::call_record>()).filter_map(view::<types::call_record>) {
        calls.add(RunningCall {
            start_ns: raw.start_ns,
            tgid: raw.tgid,
            tid: raw.tid,
            slot: raw.slot,
            sequence: raw.sequence,
            op: raw.op as u8,
            fd: raw.fd,
            id: raw.id,
            thread: raw.comm.split(|&b| b == 0).next().unwrap_or_default().to_vec(),
        });
    }
    if without_slot > 0 {
        let map = &attached.skel.maps.calls_by_thread;
        for key in map.keys() {
            let Some(value) = map.lookup(&key, MapFlags::ANY)? else { continue };
            let Some(call) = view::<types::call>(&value) else { continue };
            calls.add(RunningCall {
                start_ns: call.start_ns,
                tgid: 0,
                tid: u32::from_ne_bytes(key[..4].try_into().expect("four bytes")),
                slot: call.slot,
                sequence: call.sequence,
                op: call.op as u8,
                fd: call.fd,
                id: call.id,
                thread: Vec::new(),
            });
        }
    }
    Ok(calls)
}

/// Runs the task iterator over the threads of these processes, or over all threads where the kernel cannot
/// walk those of one process (before 6.1): a host has tens of thousands of threads, a server some hundreds.
/// Pid 0 is an unknown process.
fn records(attached: &Attached, processes: &[u32]) -> libbpf_rs::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if processes.len() <= MAX_PROCESSES && processes.iter().all(|&pid| append(attached, pid, &mut bytes)) {
        return Ok(bytes);
    }
    bytes.clear();
    Iter::new(&attached.task_iterator)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Appends the records of one process; none if it has ended. False if this kernel, or these rights, do not
/// allow it.
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
