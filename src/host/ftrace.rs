//! The switch that silences fentry: with ftrace disabled its programs load and attach without an error, but
//! count nothing.

use super::roots::Roots;
use super::verdict::Verdict;

pub const NAME: &str = "ftrace";

pub fn check(roots: &Roots) -> Verdict {
    match roots.read_proc("sys/kernel/ftrace_enabled").as_deref() {
        Ok("0") => Verdict::warn(
            NAME,
            "kernel.ftrace_enabled is 0: fentry and kprobe would attach but count nothing",
        )
        .cured_by("`sysctl kernel.ftrace_enabled=1`; until then the tracepoint mode is used"),
        Ok(_) => Verdict::ok(NAME, "enabled"),
        Err(_) => {
            Verdict::warn(NAME, "not in this kernel: fentry and kprobe are unavailable, tracepoints are used")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    #[test]
    fn a_disabled_ftrace_is_found() {
        for (value, status) in [("1\n", Status::Ok), ("0\n", Status::Warn)] {
            let (_keep, roots) = fixture(&[("proc/sys/kernel/ftrace_enabled", value)]);
            assert_eq!(check(&roots).status, status);
        }
        let (_keep, roots) = fixture(&[]);
        assert_eq!(check(&roots).status, Status::Warn);
    }
}
