//! Needs root and FUSE: more threads than have a slot of their own. Their syncs are counted and seen in
//! flight like all others, and slots of threads that are gone go to new ones.

use std::time::{Duration, Instant};

use crate::common::faults::FaultFs;
use crate::common::rows::{self, count, syncgen, syncs_of};
use crate::common::{needs, wait_until};
use fsynctop::probe::{Capacity, Probe, ProbeConfig};

const THREADS: u64 = 12;
const SYNCS: u64 = 2_000;

/// Traces the processes of this name, with slots for four threads.
fn attach(comm: &str) -> Probe {
    rows::attach(&ProbeConfig {
        capacity: Capacity { threads: 4, ..Capacity::default() },
        ..rows::of_comm(comm)
    })
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn threads_without_a_slot_are_counted_to_the_call_and_get_the_slots_of_those_that_are_gone() {
    needs(&[]);
    let mut probe = attach("slotgen");
    count(&mut probe, "slotgen", THREADS, SYNCS);
    let unlucky = probe.counters().without_thread_slot;
    // Four of the twelve have slots at most; others on this machine may have taken some.
    assert!(unlucky >= (THREADS - 4) * SYNCS, "{unlucky}");

    // All slots belong to threads that are gone.
    count(&mut probe, "slotgen", 1, SYNCS);
    // Of others on this machine, too.
    assert!(probe.counters().without_thread_slot >= unlucky + SYNCS);
    let began = Instant::now();
    probe.reclaim_slots().unwrap();
    while began.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(500));
        probe.reclaim_slots().unwrap();
    }
    let before = probe.counters().without_thread_slot;
    count(&mut probe, "slotgen", 1, SYNCS);
    assert!(probe.counters().without_thread_slot < before + SYNCS);
    let counters = probe.counters();
    assert_eq!(
        (counters.entries_without_exit, counters.no_call_state, counters.no_row),
        (0, 0, 0),
        "{counters:?}"
    );
}

/// A slot is given up and taken all the time while threads come, sync and go.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn nothing_is_lost_while_slots_change_hands() {
    needs(&[]);
    let mut probe = attach("handgen");
    let directory = tempfile::tempdir().unwrap();
    let mut load = syncgen(directory.path(), "handgen", THREADS, 50_000);
    let began = Instant::now();
    while load.0.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(120));
        probe.reclaim_all_thread_slots().unwrap();
    }
    let all = THREADS * 50_000;
    assert_eq!(syncs_of(&mut probe, load.0.id()), (all, all), "{:?}", probe.counters());
    let counters = probe.counters();
    assert_eq!((counters.entries_without_exit, counters.exits_without_entry), (0, 0), "{counters:?}");
    assert!(counters.without_thread_slot > 0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn syncs_that_hang_are_in_flight_also_of_threads_without_a_slot() {
    needs(&["/dev/fuse"]);
    let probe = attach("hanggen");
    let mount = FaultFs::mount("hang on sync-0");
    let load = syncgen(mount.path(), "hanggen", THREADS, 1);
    mount.wait_for_hanging(1);
    let pid = load.0.id();
    let threads = || -> std::collections::BTreeSet<u32> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
    };
    wait_until("every thread's sync", || {
        let calls = probe.in_flight(&[pid]).unwrap();
        let mut seen: Vec<u32> =
            calls.running.iter().map(|call| call.tid).filter(|tid| threads().contains(tid)).collect();
        seen.sort_unstable();
        seen.len() as u64 == THREADS && seen.windows(2).all(|two| two[0] != two[1])
    });
    mount.control("release");
}

/// The end of a sync that is under way then goes unseen, and the same thread's next end is not taken for it.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn counting_goes_on_after_a_pause_without_a_latency_that_never_was() {
    needs(&["/dev/fuse"]);
    const PAUSE: Duration = Duration::from_secs(3);
    let mut probe = attach("pausegen");
    let mount = FaultFs::mount("delay 200ms on sync-0");
    let mut load = syncgen(mount.path(), "pausegen", 1, 30);
    let pid = load.0.id();
    let in_flight =
        |probe: &Probe| probe.in_flight(&[pid]).unwrap().running.iter().any(|call| call.tgid == pid);
    wait_until("a sync", || in_flight(&probe));
    probe.detach();
    let (begun, finished) = syncs_of(&mut probe, pid);
    assert_eq!(begun, finished + 1, "one was cut off");
    std::thread::sleep(PAUSE);
    assert_eq!(syncs_of(&mut probe, pid), (begun, finished), "detached");
    probe.reattach().unwrap();
    assert!(load.0.wait().unwrap().success());
    let (begun_in_all, finished_in_all) = syncs_of(&mut probe, pid);
    assert_eq!(begun_in_all - begun, finished_in_all - finished, "all that began since have ended");
    assert!((5..30).contains(&finished_in_all), "{finished_in_all}");
    let longest = |probe: &mut Probe| {
        let slots: Vec<_> = probe.slots_in_use().collect();
        let rows = slots.into_iter().map(|slot| probe.row(slot).unwrap());
        rows.filter(|row| row.id.tgid == pid).map(|row| row.max_ns).max().unwrap()
    };
    let longest = Duration::from_nanos(longest(&mut probe));
    assert!(longest >= Duration::from_millis(200) && longest < PAUSE, "{longest:?}");
}
