//! Which ways of attaching are tried, in which order, and why the others are not. Pure: what works is found
//! out by trying.

use crate::host::Skips;
use crate::model::AttachMode::{self, Fentry, Kprobe, Tracepoint};
use crate::model::Op;

/// fentry costs only the calls that it watches. A kernel that preempts may preempt a program inside it, and
/// skips the same program's other runs on that processor until it goes on; the same holds for syscall
/// tracepoints in newer kernels (docs/kernels.md). kprobe.multi runs programs with preemption off: it costs
/// more than fentry, but no program makes the kernel skip another.
pub(super) fn order(preemptible: bool) -> &'static [AttachMode] {
    if preemptible { &[Kprobe, Tracepoint, Fentry] } else { &[Fentry, Tracepoint] }
}

/// Why the modes that come after the chosen one were not tried.
pub(super) fn untried(chosen: AttachMode, preemptible: bool) -> Vec<(AttachMode, String)> {
    let order = order(preemptible);
    let after = order.iter().skip_while(|mode| **mode != chosen).skip(1);
    after
        .map(|&mode| {
            let why = match mode {
                Tracepoint => {
                    format!("{} works, and costs only the calls that it watches", chosen.name())
                }
                Fentry | Kprobe => "this kernel preempts its programs, and then skips others".to_owned(),
            };
            (mode, format!("not tried: {why}"))
        })
        .collect()
}

/// How the names of a mode's programs begin, at entry and at exit.
///
/// Where this mode's programs may be skipped, entries are watched by kprobe, which is not. An exit that is
/// skipped leaves the start of its call behind; if the entry of the thread's next call could be skipped as
/// well, that call would end with a start that is not its own, and with a latency that never was.
pub(super) fn programs(mode: AttachMode, skips: Skips) -> [&'static str; 2] {
    let [entry, exit] = match mode {
        Fentry => ["fentry_", "fexit_"],
        Kprobe => ["kprobe_", "kretprobe_"],
        Tracepoint => ["enter_", "exit_"],
    };
    [if skips.any_of(mode) { "kprobe_" } else { entry }, exit]
}

/// Whether a program is of this choice, where syncs and writes leave by one program or by two: by two where
/// entries are watched by kprobe because exits may be skipped, so that the kernel counts the skipped ends of
/// syncs apart.
pub(super) fn has_its_exits(program: &str, prefixes: &[&str; 2]) -> bool {
    let exits = program.strip_prefix("exit_").unwrap_or_default();
    match (exits.starts_with("fsync_or_fdatasync"), exits.contains("write_or_pwrite64")) {
        (false, false) => true,
        (syncs, writes) => (syncs && writes) != (prefixes[0] == "kprobe_"),
    }
}

/// The system calls whose entries or exits a program watches: they stand in its name.
pub(super) fn calls_of<'a>(
    program: &'a str,
    prefixes: &[&str],
) -> impl Iterator<Item = &'static str> + use<'a> {
    let names = prefixes.iter().find_map(|prefix| program.strip_prefix(prefix)).unwrap_or_default();
    let all = Op::ALL.iter().flat_map(|op| op.calls()).map(|call| call.name);
    all.filter(move |call| names.split("_or_").any(|name| name == *call))
}

/// The operation that is made by a system call of this name.
pub(super) fn op_of(call: &str) -> Option<Op> {
    Op::ALL.into_iter().find(|op| op.calls().iter().any(|its| its.name == call))
}

/// The operations of these calls, each once.
pub(super) fn ops_of(program: &str, prefixes: &[&str]) -> Vec<Op> {
    let mut ops: Vec<Op> = calls_of(program, prefixes).filter_map(op_of).collect();
    ops.dedup();
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_that_was_not_tried_has_its_reason() {
        let names = |chosen, preemptible| {
            untried(chosen, preemptible)
                .iter()
                .map(|(mode, why)| format!("{}: {why}", mode.name()))
                .collect::<Vec<_>>()
        };
        let cheap =
            |mode| format!("tracepoint: not tried: {mode} works, and costs only the calls that it watches");
        let skips = "fentry: not tried: this kernel preempts its programs, and then skips others";
        assert_eq!(names(Fentry, false), [cheap("fentry")]);
        assert_eq!(names(Tracepoint, false), [""; 0]);
        assert_eq!(names(Kprobe, true), [&cheap("kprobe"), skips]);
        assert_eq!(names(Tracepoint, true), [skips]);
        assert_eq!(names(Fentry, true), [""; 0]);
    }

    #[test]
    fn no_entry_is_watched_by_a_program_that_may_be_skipped() {
        let full = Skips::Fentry;
        assert_eq!(programs(Fentry, Skips::None), ["fentry_", "fexit_"]);
        assert_eq!(programs(Fentry, full), ["kprobe_", "fexit_"]);
        assert_eq!(programs(Tracepoint, full), ["enter_", "exit_"]);
        assert_eq!(programs(Tracepoint, Skips::FentryAndTracepoints), ["kprobe_", "exit_"]);
        assert_eq!(programs(Kprobe, Skips::FentryAndTracepoints), ["kprobe_", "kretprobe_"]);
    }

    #[test]
    fn exits_of_syncs_and_writes_are_apart_where_they_may_be_skipped() {
        let of = |prefixes| {
            let all = ["exit_fsync_or_fdatasync_or_write_or_pwrite64", "exit_fsync_or_fdatasync"];
            let others = ["exit_write_or_pwrite64", "exit_syncfs_or_sync", "fexit_fsync"];
            let all = all.into_iter().chain(others);
            all.filter(|program| has_its_exits(program, &prefixes)).collect::<Vec<_>>()
        };
        let [together, syncs, writes, others, fexit] = [
            "exit_fsync_or_fdatasync_or_write_or_pwrite64",
            "exit_fsync_or_fdatasync",
            "exit_write_or_pwrite64",
            "exit_syncfs_or_sync",
            "fexit_fsync",
        ];
        assert_eq!(of(["enter_", "exit_"]), [together, others, fexit]);
        assert_eq!(of(["kprobe_", "exit_"]), [syncs, writes, others, fexit]);
    }

    #[test]
    fn a_program_watches_the_operations_in_its_name() {
        let ops = |name| ops_of(name, &["enter_", "exit_"]).into_iter().map(Op::name).collect::<Vec<_>>();
        assert_eq!(ops("enter_fsync_or_fdatasync"), ["fsync", "fdatasync"]);
        assert_eq!(ops("exit_sync_file_range"), ["sync_file_range"]);
        assert_eq!(ops("exit_sync"), ["sync"]);
        assert_eq!(ops("fexit_fsync"), [""; 0]);
        assert_eq!(ops("fill_free_list"), [""; 0]);
        assert_eq!(ops("exit_write_or_pwritev2"), ["dsync_write"]);
        let calls = |name| calls_of(name, &["enter_", "fexit_"]).collect::<Vec<_>>();
        assert_eq!(calls("enter_write_or_pwrite64"), ["write", "pwrite64"]);
        assert_eq!(calls("fexit_pwritev"), ["pwritev"]);
    }
}
