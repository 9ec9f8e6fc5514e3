//! tracefs, which the tracepoint mode needs for one purpose: to look up the IDs of tracepoints.
//!
//! It need not be mounted: [`with_tracefs`] mounts it privately while programs are attached.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::private_mount::with_mounted;
use super::roots::Roots;
use super::verdict::Verdict;
use crate::linux::mountinfo;

pub const NAME: &str = "tracefs";
const TRACEFS: &str = "/sys/kernel/tracing";
/// Where debugfs automounts it on access.
const IN_DEBUGFS: &str = "/sys/kernel/debug/tracing";
const ONE_TRACEPOINT: &str = "events/syscalls/sys_enter_fsync/id";

/// The mount point of tracefs, if it is mounted.
pub fn locate() -> Option<PathBuf> {
    locate_in(&Roots::default())
}

fn locate_in(roots: &Roots) -> Option<PathBuf> {
    let has_events = |point: &&str| roots.locate(Path::new(point)).join("events").is_dir();
    if let Some(point) = [TRACEFS, IN_DEBUGFS].into_iter().find(has_events) {
        return Some(point.into());
    }
    // It may be mounted elsewhere, or we may lack access. The thread's own mountinfo covers a private
    // namespace.
    let mounts = mountinfo::parse(&fs::read(roots.proc.join("thread-self/mountinfo")).ok()?);
    mounts.into_iter().find(|mount| mount.filesystem == "tracefs").map(|mount| mount.mount_point)
}

/// The directory that libbpf uses: debugfs's if it exists, mounted or not (`tracefs_path()` in libbpf.c).
fn libbpf_path() -> &'static Path {
    Path::new(if Path::new(IN_DEBUGFS).exists() { IN_DEBUGFS } else { TRACEFS })
}

/// Runs `attach` where libbpf finds tracefs: directly if it is mounted, else with a private mount for this
/// thread until `attach` returns. Attached programs stay attached. If tracefs can be neither found nor
/// mounted, returns the error without running `attach`.
pub fn with_tracefs<R>(attach: impl FnOnce() -> R) -> io::Result<R> {
    let point = libbpf_path();
    match fs::metadata(point.join(ONE_TRACEPOINT)) {
        Ok(_) => Ok(attach()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        Err(_) => with_mounted("tracefs", point, attach),
    }
}

/// As [`with_tracefs`], but runs `attach` without tracefs if need be: fentry does not use it.
pub fn with_tracefs_if_possible<R>(attach: impl FnOnce() -> R) -> R {
    let mut attach = Some(attach);
    let mut run = || attach.take().map(|attach| attach());
    with_tracefs(&mut run).ok().flatten().unwrap_or_else(|| run().expect("it has not run yet"))
}

pub fn check(roots: &Roots) -> Verdict {
    check_with(roots, || with_tracefs(|| fs::read(libbpf_path().join(ONE_TRACEPOINT)))?.map(drop))
}

/// `try_private` tests whether a private mount works.
fn check_with(roots: &Roots, try_private: impl FnOnce() -> io::Result<()>) -> Verdict {
    const MOUNT: &str = "`mount -t tracefs tracefs /sys/kernel/tracing`";
    const CONSEQUENCE: &str = "the tracepoint mode is unavailable";
    let Some(point) = locate_in(roots) else {
        return match try_private() {
            Ok(()) => Verdict::ok(NAME, "not mounted; it is mounted privately while attaching"),
            Err(error) => {
                Verdict::warn(NAME, format!("not mounted, and cannot be mounted: {error}; {CONSEQUENCE}"))
                    .cured_by(MOUNT)
            }
        };
    };
    let shown = point.display();
    match fs::read(roots.locate(&point).join(ONE_TRACEPOINT)) {
        Ok(_) => Verdict::ok(NAME, shown.to_string()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Verdict::warn(NAME, format!("{shown} is not readable by this process; {CONSEQUENCE}"))
                .cured_by("run it as root or with CAP_DAC_READ_SEARCH")
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Verdict::warn(NAME, format!("{shown} has no system call tracepoints; {CONSEQUENCE}")).cured_by(
                "run a kernel that was built with CONFIG_FTRACE_SYSCALLS=y, without lockdown=confidentiality",
            )
        }
        Err(error) => Verdict::warn(NAME, format!("{shown}: {error}; {CONSEQUENCE}")).cured_by(
            "check /sys/kernel/security/lockdown, and the audit log for denials by a security module",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    fn refused() -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }

    #[test]
    fn it_is_found_at_either_place() {
        for point in ["tracing", "debug/tracing"] {
            let id = format!("sys/kernel/{point}/{ONE_TRACEPOINT}");
            let (_keep, roots) = fixture(&[(&id, "651\n")]);
            let verdict = check_with(&roots, refused);
            assert_eq!(verdict, Verdict::ok(NAME, format!("/sys/kernel/{point}")));
        }
    }

    #[test]
    fn not_mounted_is_all_right_where_it_can_be_mounted_privately() {
        let (_keep, roots) =
            fixture(&[("proc/thread-self/mountinfo", "23 1 254:0 / / rw - ext4 /dev/root rw\n")]);
        assert_eq!(check_with(&roots, || Ok(())).status, Status::Ok);
        let verdict = check_with(&roots, refused);
        assert_eq!(verdict.status, Status::Warn);
        assert!(verdict.cure.unwrap().contains("mount -t tracefs tracefs /sys/kernel/tracing"));
    }

    #[test]
    fn a_kernel_without_the_tracepoints_differs_from_a_missing_mount() {
        let (_keep, roots) = fixture(&[("sys/kernel/tracing/events/sched/enable", "0")]);
        let verdict = check_with(&roots, refused);
        assert_eq!(verdict.status, Status::Warn);
        assert!(verdict.cure.unwrap().contains("CONFIG_FTRACE_SYSCALLS"));
    }

    #[test]
    fn a_mount_that_cannot_be_read_is_still_found() {
        let mountinfo = "42 23 0:13 / /sys/kernel/tracing rw,relatime - tracefs t rw\n";
        let (_keep, roots) = fixture(&[("proc/thread-self/mountinfo", mountinfo)]);
        assert_eq!(locate_in(&roots).unwrap(), Path::new(TRACEFS));
    }
}
