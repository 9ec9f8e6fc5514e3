//! The syncs that have begun and not ended, out of the threads' own storage.

use std::io::Read;

use libbpf_rs::{Iter, MapCore, MapFlags};

use super::attach::Attached;
use super::events::view;
use super::skeleton::types;

#[derive(Clone, Debug)]
pub struct RunningCall {
    /// CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// 0 where the state is kept by thread only.
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

pub fn read(attached: &Attached) -> libbpf_rs::Result<Vec<RunningCall>> {
    let mut calls = Vec::new();
    if let Some(link) = &attached.task_iterator {
        let mut bytes = Vec::new();
        Iter::new(link)?.read_to_end(&mut bytes)?;
        calls.extend(bytes.chunks_exact(size_of::<types::in_flight>()).filter_map(view).map(
            |raw: types::in_flight| {
                let name = raw.comm.split(|&b| b == 0).next().unwrap_or_default();
                RunningCall {
                    start_ns: raw.start_ns,
                    tgid: raw.tgid,
                    tid: raw.tid,
                    slot: raw.slot,
                    sequence: raw.sequence,
                    op: raw.op as u8,
                    fd: raw.fd,
                    id: raw.id,
                    thread: name.to_vec(),
                }
            },
        ));
    }
    let refused = attached.skel.maps.bss_data.as_deref().is_some_and(|bss| {
        // SAFETY: one byte that the programs set to 1 once.
        unsafe { std::ptr::from_ref(&bss.storage_refused).cast::<u8>().read_volatile() != 0 }
    });
    if refused || attached.task_iterator.is_none() {
        let map = &attached.skel.maps.calls_by_thread;
        for key in map.keys() {
            let Some(value) = map.lookup(&key, MapFlags::ANY)? else { continue };
            let Some(call) = view::<types::call>(&value) else { continue };
            if call.start_ns > 1 {
                calls.push(RunningCall {
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
    }
    Ok(calls)
}
