//! What this host supports: those verdicts of `fsynctop check` that need no BPF program, and how they
//! explain a program that could not be loaded.

mod btf;
mod capabilities;
mod explain;
mod ftrace;
pub(crate) mod kernel;
mod lockdown;
mod memlock;
mod memory;
mod perf;
mod pid_namespace;
mod preemption;
mod private_mount;
mod render;
mod roots;
pub mod tracefs;
mod verdict;

pub(crate) use btf::MAGIC as BTF_MAGIC;
pub(crate) use explain::explain_load_error;
#[cfg(test)]
pub(crate) use kernel::OLDEST;
pub(crate) use pid_namespace::is_initial as in_initial_pid_namespace;
pub(crate) use preemption::Skips;
pub(crate) use render::{json, table};
pub use roots::Roots;
pub use verdict::{Status, Verdict};

/// Whether tracing fails for the user of this process only because it is not root.
pub(crate) fn lacks_root() -> bool {
    capabilities::lacks_root(&Roots::default(), rustix::process::geteuid().as_raw())
}

/// Whether nothing but a security module keeps other users' processes from this one.
pub(crate) fn may_look_into_others() -> bool {
    use capabilities::{Capability, Effective};
    let needed = [Capability::SysPtrace, Capability::DacReadSearch];
    let effective = Effective::of_this_process(&Roots::default());
    effective.is_some_and(|effective| needed.into_iter().all(|capability| effective.allows(capability)))
}

/// All checks, in display order. `maps_bytes`: the memory that the maps will use.
pub fn checks(maps_bytes: u64) -> Vec<Verdict> {
    checks_in(&Roots::default(), maps_bytes)
}

fn checks_in(roots: &Roots, maps_bytes: u64) -> Vec<Verdict> {
    vec![
        kernel::check(roots),
        preemption::check(roots),
        btf::check(roots),
        capabilities::check(roots),
        lockdown::check(roots),
        tracefs::check(roots),
        perf::check(roots),
        ftrace::check(roots),
        pid_namespace::check(roots),
        memlock::check(roots, maps_bytes),
        memory::check(roots, maps_bytes),
    ]
}

/// Whether this kernel may preempt a program and then skip the same program's other runs on that CPU. True
/// if unknown.
pub fn may_skip_programs() -> bool {
    preemption::find(&Roots::default()).0.preempts()
}

/// The kinds of programs that this kernel may skip after preempting one. If unknown, the largest set that
/// any kernel skips.
pub fn skips() -> Skips {
    preemption::skips(&Roots::default())
}

/// Whether this process and the kernel's programs see the same process IDs.
pub(crate) fn pid_namespace() -> Verdict {
    pid_namespace::check(&Roots::default())
}

/// The release of the running kernel, as `uname -r` prints it.
pub(crate) fn kernel_release() -> Option<String> {
    kernel::release(&Roots::default())
}

/// What the host calls itself, as `uname -n` prints it.
pub(crate) fn node_name() -> Option<String> {
    kernel::node_name(&Roots::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_gives_its_verdict_on_this_host_and_none_twice() {
        let verdicts = checks(1 << 20);
        println!("{}", table(&verdicts, false));
        let mut names: Vec<_> = verdicts.iter().map(|verdict| verdict.name).collect();
        assert_eq!(names.len(), 11);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 11);
        assert!(verdicts.iter().all(|verdict| !verdict.detail.is_empty()));
    }
}
