//! The programs of libaio (`bpf/aio.h`): where they are attached, and how requests are forgotten of which
//! nobody will ever tell how they ended.

use std::collections::HashMap;
use std::path::Path;

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, TracepointCategory};

use super::contract::{SyncSkel, types, view};
use super::features::Features;
use super::globals;
use super::requests::Requests;
use crate::linux::proc_file;
use crate::model::{Op, Via};

/// Run on demand, attached to no hook.
const FORGET: &str = "forget_process";
/// The call whose entry is watched, and after it those of which only the exit is.
const SUBMIT: &str = "io_submit";
const OTHERS: [&str; 3] = ["io_getevents", "io_pgetevents", "io_destroy"];
/// Where the stack began, in /proc/PID/stat (proc(5)), counted from the state, which is the third.
const STACK_FIELD: usize = 28 - 3;

/// `is_built_in`: the kernel was configured with it.
pub(super) fn wanted(ops: &[Op], features: &Features, is_built_in: bool) -> Requests {
    let can = match (is_built_in, features.loops) {
        (false, _) => Err("this kernel has no libaio"),
        (true, false) => Err("Linux 5.17 and later let programs read a batch of requests"),
        (true, true) => Ok(()),
    };
    Requests::wanted(Via::Aio, ops, can)
}

/// Whether a program of this name belongs here.
pub(super) fn is_of_it(program: &str) -> bool {
    program == FORGET || calls_of(program).all(|call| call == SUBMIT || OTHERS.contains(&call))
}

/// The calls in a program's name, behind how those of its mode begin.
fn calls_of(program: &str) -> impl Iterator<Item = &str> {
    program.split_once('_').map_or("", |(_, calls)| calls).split("_or_")
}

/// Whether one of those is for this mode, by how the names of its programs begin.
pub(super) fn is_wanted(program: &str, [entry, exit]: &[&str; 2]) -> bool {
    program == FORGET || program.strip_prefix(entry) == Some(SUBMIT) || program.starts_with(exit)
}

/// Attaches what was loaded.
pub(super) fn attach(aio: &mut Requests, skel: &mut SyncSkel, links: &mut Vec<Link>) {
    if !aio.are_watched() {
        return;
    }
    match attach_all(skel) {
        Ok(all) => links.extend(all),
        Err(why) => *aio = Requests::Refused(why),
    }
    globals::set_aio_watched(skel, aio.are_watched());
}

/// Exits first: the end of a request that was not seen to begin goes unnoticed.
fn attach_all(skel: &mut SyncSkel) -> Result<Vec<Link>, String> {
    let mut links = Vec::new();
    for is_entry in [false, true] {
        for program in skel.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let enters = ["enter_", "fentry_", "kprobe_"].iter().any(|prefix| name.starts_with(prefix));
            if !program.autoload() || !is_of_it(&name) || name == FORGET || enters != is_entry {
                continue;
            }
            let failed = |error| format!("{name}: {error:#}");
            if calls_of(&name).count() < 2 {
                links.push(program.attach().map_err(failed)?);
                continue;
            }
            for call in calls_of(&name) {
                let tracepoint = format!("sys_exit_{call}");
                let link = program.attach_tracepoint(TracepointCategory::Syscalls, tracepoint);
                links.push(link.map_err(failed)?);
            }
        }
    }
    Ok(links)
}

/// The requests in flight, as the programs keep them, with those of whose end nobody will tell.
pub(super) fn requests(skel: &SyncSkel) -> libbpf_rs::Result<Vec<types::pending>> {
    let map = &skel.maps.aio_requests;
    let mut requests = Vec::new();
    for key in map.keys() {
        let value = map.lookup(&key, MapFlags::ANY)?;
        let request = value.as_deref().and_then(view::<types::pending>);
        requests.extend(request);
    }
    Ok(requests)
}

/// Forgets requests of processes that have ended or execute another program by now: the kernel has ended
/// them, and told nobody. They count as such of which it is not known how they ended.
pub(super) fn forget_ended(skel: &SyncSkel, requests: &mut Vec<types::pending>) -> libbpf_rs::Result<()> {
    let mut is_over = HashMap::new();
    for request in requests.iter() {
        let life = (request.tgid, request.stack);
        is_over.entry(life).or_insert_with(|| has_ended(life));
    }
    for (&(tgid, stack), _) in is_over.iter().filter(|(_, over)| **over) {
        let mut arguments: Vec<u8> =
            [u64::from(tgid), stack].into_iter().flat_map(u64::to_ne_bytes).collect();
        let input = ProgramInput { context_in: Some(&mut arguments), ..ProgramInput::default() };
        skel.progs.forget_process.test_run(input)?;
    }
    requests.retain(|request| is_over.get(&(request.tgid, request.stack)) != Some(&true));
    Ok(())
}

/// A program that is executed gets a new stack, at a place that the kernel chooses at random.
fn has_ended((pid, stack): (u32, u64)) -> bool {
    match proc_file::read(Path::new(&format!("/proc/{pid}/stat"))) {
        Ok(stat) => is_zombie(pid, &stat) || stack_of(&stat).is_some_and(|now| now != stack),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether the process has ended, however long nobody asks how. A first thread that has ended leaves a
/// zombie, too, while others go on.
pub(super) fn is_over(pid: u32) -> bool {
    match proc_file::read(Path::new(&format!("/proc/{pid}/stat"))) {
        Ok(stat) => is_zombie(pid, &stat),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn is_zombie(pid: u32, stat: &[u8]) -> bool {
    let state = String::from_utf8_lossy(stat).rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    state == Some('Z') && threads() < 2
}

/// None: it is not shown, because the process is another user's and this one's rights do not suffice.
fn stack_of(stat: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(stat);
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(STACK_FIELD)?.parse().ok().filter(|stack| *stack != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_the_programs_that_begin_like_its_others() {
        let of = |prefixes| {
            let all = [
                "enter_io_submit",
                "kprobe_io_submit",
                "exit_io_submit_or_io_destroy",
                "fexit_io_destroy",
                FORGET,
            ];
            assert!(all.iter().all(|program| is_of_it(program)));
            all.into_iter().filter(|program| is_wanted(program, &prefixes)).collect::<Vec<_>>()
        };
        assert_eq!(of(["enter_", "exit_"]), ["enter_io_submit", "exit_io_submit_or_io_destroy", FORGET]);
        assert_eq!(of(["kprobe_", "fexit_"]), ["kprobe_io_submit", "fexit_io_destroy", FORGET]);
        assert!(
            !["net_inode", "ring_submit", "exit_fsync", "exit_fsync_or_write"]
                .iter()
                .any(|program| is_of_it(program))
        );
    }

    #[test]
    fn a_process_that_goes_on_is_told_by_its_stack_from_one_that_has_ended() {
        let own = std::process::id();
        let stat = std::fs::read("/proc/self/stat").unwrap();
        let stack = stack_of(&stat).expect("one's own is shown");
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let (begin, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let within = u64::from_str_radix(begin, 16).unwrap()..u64::from_str_radix(end, 16).unwrap();
        assert!(within.contains(&stack), "{line}: {stack:x}");
        assert!(!has_ended((own, stack)));
        assert!(has_ended((own, stack - 4096)), "it has executed another program");
        assert!(has_ended((u32::MAX, stack)), "there is no such process");
        assert_eq!(stack_of(b"1 (a) b) S 1 1"), None);
    }

    #[test]
    fn what_is_lacking_is_said() {
        let features = |loops| Features { typed_task: true, task_storage: true, task_registers: true, loops };
        let with = |loops, built_in| wanted(&[Op::Fsync], &features(loops), built_in);
        assert!(with(true, true).are_watched());
        let Requests::Refused(why) = with(false, true) else { panic!("it has no loops") };
        assert!(why.contains("5.17"), "{why}");
        assert!(matches!(with(true, false), Requests::Refused(_)));
    }
}
