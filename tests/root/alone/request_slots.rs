//! Needs root and io_uring: more requests in flight than have slots of their own are counted to the request,
//! and so are those whose slots are taken away from under them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::rows::{self, syncs_of};
use crate::common::{Running, built, needs};

const MANY: u64 = 6_000;

/// Requests of a ring, in a process of this name.
fn requests(directory: &Path, comm: &str, way: &str, n: u64) -> Running {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(["--comm", comm, "--ways", way, "--syncs", &n.to_string()]);
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn requests_without_a_slot_are_counted_to_the_request_and_slots_are_given_up() {
    needs(&[]);
    let mut probe = rows::attach(&rows::of_comm("manyring"));
    let directory = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let before = probe.counters();
        let mut load = requests(directory.path(), "manyring", "ring-many", 2 * MANY);
        assert!(load.0.wait().unwrap().success());
        let counters = probe.counters();
        assert_eq!(syncs_of(&mut probe, load.0.id()), (2 * MANY, 2 * MANY), "{counters:?}");
        // Two thirds at most have slots.
        let unlucky = counters.without_request_slot - before.without_request_slot;
        assert!(unlucky > MANY / 4, "{unlucky} in round {round}");
        // Each time anew: nearly all slots are taken by then, and none is needed any more.
        probe.reclaim_all_request_slots().unwrap();
        let after = probe.counters().without_request_slot;
        let mut few = requests(directory.path(), "manyring", "ring-fsync", 100);
        assert!(few.0.wait().unwrap().success());
        assert_eq!(syncs_of(&mut probe, few.0.id()), (100, 100));
        assert_eq!(probe.counters().without_request_slot, after, "all slots were free");
        assert_eq!((counters.no_call_state, counters.unreported), (0, 0), "{counters:?}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn nothing_is_lost_while_slots_of_requests_are_given_up_and_taken() {
    needs(&[]);
    let mut probe = rows::attach(&rows::of_comm("handring"));
    let directory = tempfile::tempdir().unwrap();
    let mut load = requests(directory.path(), "handring", "ring-threads", 5_000);
    let mut rounds = 0;
    while load.0.try_wait().unwrap().is_none() {
        probe.reclaim_all_request_slots().unwrap();
        rounds += 1;
    }
    assert!(rounds > 1);
    let counters = probe.counters();
    assert_eq!(syncs_of(&mut probe, load.0.id()), (5_000, 5_000), "{counters:?}");
    assert_eq!((counters.no_call_state, counters.unreported), (0, 0), "{counters:?}");
    // One that was being given up at that moment.
    assert!(counters.without_request_slot < 5_000, "{counters:?}");
}
