//! Kernel lockdown: in confidentiality mode no program may read kernel memory, not even root's.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use super::private_mount::with_mounted;
use super::roots::Roots;
use super::verdict::Verdict;

pub const NAME: &str = "lockdown";
const FILE: &str = "/sys/kernel/security/lockdown";

pub fn check(roots: &Roots) -> Verdict {
    check_with(roots, read_privately)
}

fn check_with(roots: &Roots, read_privately: impl FnOnce() -> io::Result<String>) -> Verdict {
    let current = match roots.read_sys("kernel/security/lockdown") {
        Ok(text) => Some(text),
        // securityfs is mounted, but this kernel has no lockdown.
        Err(_) if roots.sys.join("kernel/security/lsm").exists() => {
            return Verdict::ok(NAME, "not in this kernel");
        }
        Err(_) => read_privately().ok(),
    };
    match current.as_deref().and_then(mode) {
        Some("confidentiality") => Verdict::fail(
            NAME,
            "confidentiality: the kernel refuses every program that reads its memory, and tracepoints",
        )
        .cured_by("boot with `lockdown=integrity`, or without Secure Boot where the distribution ties it to lockdown"),
        Some(mode) => Verdict::ok(NAME, mode),
        None => by_command_line(&roots.read_proc("cmdline").unwrap_or_default()),
    }
}

/// Parses "none [integrity] confidentiality": the active mode is in brackets.
fn mode(text: &str) -> Option<&str> {
    let (_, after) = text.split_once('[')?;
    Some(after.split_once(']')?.0)
}

/// The fallback if securityfs cannot be read.
fn by_command_line(command_line: &str) -> Verdict {
    if command_line.split_ascii_whitespace().any(|word| word == "lockdown=confidentiality") {
        return Verdict::fail(
            NAME,
            "confidentiality, according to the kernel's command line: BPF programs are refused",
        )
        .cured_by("boot with `lockdown=integrity`");
    }
    Verdict::ok(NAME, "unknown, because securityfs is not mounted; the kernel's command line requests none")
}

/// Uses a thread of its own, whose mount namespace ends with it.
fn read_privately() -> io::Result<String> {
    let reader = thread::Builder::new().spawn(|| {
        with_mounted("securityfs", Path::new("/sys/kernel/security"), || fs::read_to_string(FILE))?
    })?;
    reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader of securityfs panicked")))
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    fn nothing() -> io::Result<String> {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }

    #[test]
    fn only_confidentiality_fails() {
        for (text, status) in [
            ("[none] integrity confidentiality\n", Status::Ok),
            ("none [integrity] confidentiality\n", Status::Ok),
            ("none integrity [confidentiality]\n", Status::Fail),
        ] {
            let (_keep, roots) = fixture(&[("sys/kernel/security/lockdown", text)]);
            assert_eq!(check_with(&roots, nothing).status, status, "{text}");
            let (_keep, unmounted) = fixture(&[]);
            assert_eq!(check_with(&unmounted, || Ok(text.to_owned())).status, status, "{text}");
        }
    }

    #[test]
    fn without_securityfs_the_command_line_is_asked() {
        let (_keep, roots) = fixture(&[("proc/cmdline", "ro lockdown=confidentiality quiet")]);
        assert_eq!(check_with(&roots, nothing).status, Status::Fail);
        let (_keep, roots) = fixture(&[("proc/cmdline", "ro quiet")]);
        let verdict = check_with(&roots, nothing);
        assert_eq!(verdict.status, Status::Ok);
        assert!(verdict.detail.starts_with("unknown"));
    }

    #[test]
    fn a_kernel_without_lockdown_is_all_right() {
        let (_keep, roots) = fixture(&[("sys/kernel/security/lsm", "capability,yama")]);
        assert_eq!(check_with(&roots, nothing), Verdict::ok(NAME, "not in this kernel"));
    }
}
