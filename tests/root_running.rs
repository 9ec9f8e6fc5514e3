//! Needs root: an exit that reads which thread it is of, where calls are dear, counts what one does that asks the helper.

mod common;

use common::needs;
use common::rows::{attach, count, of_comm};
use fsynctop::probe::ProbeConfig;

const THREADS: u64 = 12;
const SYNCS: u64 = 5_000;

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn whether_calls_are_dear_or_not_each_exit_finds_its_entry() {
    needs(&[]);
    for calls_are_dear in [true, false] {
        let mut probe = attach(&ProbeConfig { calls_are_dear, ..of_comm("exitgen") });
        // More threads than processors, so that they are moved about.
        count(&mut probe, "exitgen", THREADS, SYNCS);
        let counters = probe.counters();
        assert_eq!(
            (counters.entries_without_exit, counters.entries_skipped, counters.exits_without_entry),
            (0, 0, 0),
            "{counters:?}"
        );
        assert_eq!(
            probe.attached().processors_that_say_what_runs,
            if calls_are_dear && cfg!(target_arch = "x86_64") { online() } else { 0 }
        );
    }
}

fn online() -> usize {
    // SAFETY: it reads a number.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(processors).unwrap()
}
