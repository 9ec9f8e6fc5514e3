//! The programs of io_uring (`bpf/ring.h`): where they are attached.

use libbpf_rs::skel::Skel;
use libbpf_rs::{ErrorKind, Link};

use super::contract::SyncSkel;
use super::globals;
use super::requests::Requests;
use crate::model::{Op, Via};

/// The hook at a request's beginning, by its later and its earlier name.
const SUBMIT: [&str; 2] = ["io_uring_submit_req", "io_uring_submit_sqe"];
const COMPLETE: &str = "io_uring_complete";
/// What a completion is given: up to 6.15 its result among other things, since then the ring's entry. The
/// kernel refuses a program that reads more than there is, so the first that it takes is the right one.
const COMPLETE_PROGRAMS: [&str; 2] = ["ring_complete_with_result", "ring_complete_with_entry"];

/// Whether a program of this name belongs here.
pub(super) fn is_of_it(program: &str) -> bool {
    program.starts_with("ring_")
}

/// `known`: the kernel's requests are such as the programs know.
pub(super) fn wanted(ops: &[Op], known: bool) -> Requests {
    let can = if known { Ok(()) } else { Err("Linux 6.0 and later have the hooks for it") };
    Requests::wanted(Via::IoUring, ops, can)
}

/// Attaches what was loaded.
pub(super) fn attach(rings: &mut Requests, skel: &mut SyncSkel, links: &mut Vec<Link>) {
    if !rings.are_watched() {
        return;
    }
    match attach_both(skel) {
        Ok(both) => links.extend(both),
        Err(why) => *rings = Requests::Refused(why),
    }
    globals::set_rings_watched(skel, rings.are_watched());
}

/// Where a request begins and ends; or why that is not possible.
fn attach_both(skel: &mut SyncSkel) -> Result<[Link; 2], String> {
    let mut one_of = |programs: &[&str], hooks: &[&str]| -> Result<Link, String> {
        let mut refused = String::from("this kernel has no such hook");
        for (name, hook) in programs.iter().flat_map(|name| hooks.iter().map(move |hook| (name, hook))) {
            let mut all = skel.object_mut().progs_mut();
            let Some(program) = all.find(|program| program.name() == *name) else { continue };
            match program.attach_raw_tracepoint(hook) {
                Ok(link) => return Ok(link),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => refused = format!("{hook}: {error:#}"),
            }
        }
        Err(refused)
    };
    // The end first: a request that is under way then ends unnoticed.
    let end = one_of(&COMPLETE_PROGRAMS, &[COMPLETE])?;
    Ok([end, one_of(&["ring_submit"], &SUBMIT)?])
}
