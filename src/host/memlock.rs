//! RLIMIT_MEMLOCK, which limits the size of BPF maps before Linux 5.11.

use super::capabilities::{Capability, Effective};
use super::kernel;
use super::memory::megabytes;
use super::roots::Roots;
use super::verdict::Verdict;

pub const NAME: &str = "locked memory";

/// `maps_bytes`: the memory that the maps will use.
pub fn check(roots: &Roots, maps_bytes: u64) -> Verdict {
    if kernel::version(roots).is_none_or(|version| version >= (5, 11)) {
        return Verdict::ok(NAME, "not limited: since Linux 5.11 maps are charged to the memory cgroup");
    }
    let Some(limit) = roots.read_proc("self/limits").ok().and_then(|text| hard_limit(&text)) else {
        return Verdict::warn(NAME, "unknown: /proc/self/limits is not readable");
    };
    let may_raise = Effective::of_this_process(roots).is_some_and(|set| set.allows(Capability::SysResource));
    match limit {
        None => Verdict::ok(NAME, "unlimited"),
        Some(bytes) if bytes >= maps_bytes => Verdict::ok(NAME, format!("{} allowed", megabytes(bytes))),
        Some(_) if may_raise => Verdict::ok(NAME, "limited, but CAP_SYS_RESOURCE lets us raise it"),
        Some(bytes) => Verdict::fail(
            NAME,
            format!("{} allowed, but the maps need {}", megabytes(bytes), megabytes(maps_bytes)),
        )
        .cured_by("`ulimit -l unlimited`, or `LimitMEMLOCK=infinity` in the systemd unit"),
    }
}

/// The hard limit in bytes, from /proc/self/limits; the inner None is "unlimited".
fn hard_limit(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(None),
        bytes => Some(Some(bytes.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    fn verdict(release: &str, hard: &str, capabilities: &str) -> Verdict {
        let limits = format!(
            "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536   {hard}   bytes\n"
        );
        let (_keep, roots) = fixture(&[
            ("proc/sys/kernel/osrelease", release),
            ("proc/self/limits", &limits),
            ("proc/self/status", &format!("CapEff:\t{capabilities}\n")),
        ]);
        check(&roots, 30_000_000)
    }

    #[test]
    fn it_counts_before_5_11_only() {
        assert_eq!(verdict("5.10.0", "65536", "0").status, Status::Fail);
        assert_eq!(verdict("5.11.0", "65536", "0").status, Status::Ok);
        assert!(verdict("5.10.0", "65536", "0").cure.unwrap().contains("LimitMEMLOCK=infinity"));
    }

    #[test]
    fn a_limit_that_is_high_or_can_be_raised_is_none() {
        assert_eq!(verdict("5.10.0", "unlimited", "0").status, Status::Ok);
        assert_eq!(verdict("5.10.0", "30000000", "0").status, Status::Ok);
        assert_eq!(verdict("5.10.0", "65536", "0000000001000000").status, Status::Ok);
    }
}
