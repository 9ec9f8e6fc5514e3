//! The syncs that have begun and not ended, of the threads that have places, and of those that have none.

use std::collections::HashSet;

use libbpf_rs::{MapCore, MapFlags};

use super::attach::Attached;
use super::events::view;
use super::skeleton::types;
use super::walk;

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

/// What the threads' places hold.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    pub running: Vec<RunningCall>,
    /// Threads that have begun a sync since the programs are there: whatever they did before has ended.
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

/// `without_place`: how many syncs so far were of threads that have none.
pub fn read(attached: &Attached, processes: &[u32], without_place: u64) -> libbpf_rs::Result<Calls> {
    let mut calls = Calls::default();
    let bytes = walk::records(attached, processes)?;
    for raw in bytes.chunks_exact(size_of::<types::in_flight>()).filter_map(view::<types::in_flight>) {
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
    if without_place > 0 {
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
