//! The PID namespace: BPF programs see process IDs of the initial one, so this process must be in it.

use std::fs;
use std::path::Path;

use super::roots::Roots;
use super::verdict::Verdict;

pub const NAME: &str = "PID namespace";
/// PROC_PID_INIT_INO, include/linux/proc_ns.h.
const INITIAL: &str = "pid:[4026531836]";

pub fn check(roots: &Roots) -> Verdict {
    match fs::read_link(roots.proc.join("self/ns/pid")) {
        Ok(link) if link == Path::new(INITIAL) => Verdict::ok(NAME, "the host's"),
        Ok(_) => {
            Verdict::fail(NAME, "a container's: its process IDs differ from those that BPF programs see")
                .cured_by("`docker run --pid=host`, or `hostPID: true` in the pod")
        }
        Err(error) => Verdict::warn(NAME, format!("unknown: /proc/self/ns/pid: {error}")),
    }
}

/// Whether this process is in the initial namespace; false if unknown.
pub(crate) fn is_initial() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new(INITIAL))
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    #[test]
    fn only_the_hosts_will_do() {
        for (link, status) in [(INITIAL, Status::Ok), ("pid:[4026532200]", Status::Fail)] {
            let (keep, roots) = fixture(&[("proc/self/ns/other", "")]);
            std::os::unix::fs::symlink(link, keep.path().join("proc/self/ns/pid")).unwrap();
            assert_eq!(check(&roots).status, status);
        }
        let (_keep, roots) = fixture(&[]);
        assert_eq!(check(&roots).status, Status::Warn);
    }
}
