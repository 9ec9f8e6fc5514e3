//! The version of the running kernel.

use super::roots::Roots;
use super::verdict::Verdict;

pub const NAME: &str = "kernel";

/// Major and minor.
pub type Version = (u32, u32);

/// The oldest kernel on which everything was tested.
pub(crate) const OLDEST: Version = (5, 10);

/// Parses "6.12.0-1-amd64" as (6, 12).
pub(crate) fn parse_version(release: &str) -> Option<Version> {
    let (major, rest) = release.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The release, as `uname -r` prints it.
pub fn release(roots: &Roots) -> Option<String> {
    roots.read_proc("sys/kernel/osrelease").ok()
}

/// What the host calls itself, as `uname -n` prints it; in a container with a UTS namespace of its own, what
/// the container does.
pub fn node_name(roots: &Roots) -> Option<String> {
    roots.read_proc("sys/kernel/hostname").ok()
}

pub fn version(roots: &Roots) -> Option<Version> {
    parse_version(&release(roots)?)
}

pub fn check(roots: &Roots) -> Verdict {
    let Some(release) = release(roots) else {
        return Verdict::warn(NAME, "unknown: /proc/sys/kernel/osrelease is not readable");
    };
    match parse_version(&release) {
        Some(version) if version >= OLDEST => Verdict::ok(NAME, release),
        Some(_) => Verdict::warn(NAME, format!("{release}: older than 5.10, the oldest that was tested")),
        None => Verdict::warn(NAME, format!("{release}: unrecognised version")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    #[test]
    fn releases_of_all_kinds_are_understood() {
        assert_eq!(parse_version("6.12.0-1-amd64"), Some((6, 12)));
        assert_eq!(parse_version("5.10"), Some((5, 10)));
        assert_eq!(parse_version("7.2-rc1"), Some((7, 2)));
        assert_eq!(parse_version("linux"), None);
    }

    #[test]
    fn an_old_kernel_is_a_warning() {
        let (_keep, roots) = fixture(&[("proc/sys/kernel/osrelease", "5.9.16\n")]);
        let verdict = check(&roots);
        assert_eq!(verdict.status, Status::Warn);
        assert!(verdict.detail.starts_with("5.9.16: older"));
        let (_keep, roots) = fixture(&[("proc/sys/kernel/osrelease", "5.10.0-28\n")]);
        assert_eq!(check(&roots), Verdict::ok(NAME, "5.10.0-28"));
    }
}
