//! kernel.perf_event_paranoid, by which some distributions restrict perf events, and so syscall
//! tracepoints, to CAP_SYS_ADMIN.

use super::capabilities::{Capability, Effective};
use super::roots::Roots;
use super::verdict::Verdict;

pub const NAME: &str = "perf events";

/// Mainline's highest level is 2. Above it, Debian's and Ubuntu's kernels refuse perf events to every
/// process without CAP_SYS_ADMIN, even with CAP_PERFMON; Debian's default is 3.
pub fn check(roots: &Roots) -> Verdict {
    let Some(level) = roots
        .read_proc("sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok())
    else {
        return Verdict::warn(NAME, "not in this kernel: the tracepoint mode is unavailable");
    };
    let administrator = Effective::of_this_process(roots).is_some_and(|set| set.allows(Capability::SysAdmin));
    if level <= 2 || administrator {
        return Verdict::ok(NAME, "allowed");
    }
    Verdict::warn(
        NAME,
        format!("kernel.perf_event_paranoid is {level}: the tracepoint mode may need CAP_SYS_ADMIN"),
    )
    .cured_by("`sysctl kernel.perf_event_paranoid=2`, or run it as root; fentry does not need it")
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    #[test]
    fn only_a_high_level_without_cap_sys_admin_is_in_the_way() {
        let (perfmon, administrator) = ("CapEff:\t000000c000000000\n", "CapEff:\t000001ffffffffff\n");
        for (level, status, expected) in [
            ("3\n", perfmon, Status::Warn),
            ("3\n", administrator, Status::Ok),
            ("2\n", perfmon, Status::Ok),
            ("-1\n", perfmon, Status::Ok),
        ] {
            let files = [("proc/sys/kernel/perf_event_paranoid", level), ("proc/self/status", status)];
            let (_keep, roots) = fixture(&files);
            assert_eq!(check(&roots).status, expected, "{level} {status}");
        }
        let (_keep, roots) = fixture(&[]);
        assert_eq!(check(&roots).status, Status::Warn);
    }
}
