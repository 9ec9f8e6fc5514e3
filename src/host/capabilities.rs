//! The privileges of this process: root, or the few capabilities that tracing needs.

use std::fs;
use std::path::Path;

use super::kernel;
use super::roots::Roots;
use super::verdict::{Status, Verdict};

pub const NAME: &str = "capabilities";
/// The target of /proc/self/ns/user in the initial user namespace (PROC_USER_INIT_INO,
/// include/linux/proc_ns.h).
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// Capabilities and their bit numbers (include/uapi/linux/capability.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capability {
    DacOverride = 1,
    DacReadSearch = 2,
    SysPtrace = 19,
    SysAdmin = 21,
    SysResource = 24,
    Syslog = 34,
    Perfmon = 38,
    Bpf = 39,
}

impl Capability {
    fn name(self) -> &'static str {
        match self {
            Capability::DacOverride => "CAP_DAC_OVERRIDE",
            Capability::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysResource => "CAP_SYS_RESOURCE",
            Capability::Syslog => "CAP_SYSLOG",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// An effective capability set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effective(u64);

impl Effective {
    /// From /proc/self/status.
    pub fn parse(status: &str) -> Option<Effective> {
        let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(set.trim(), 16).ok().map(Effective)
    }

    pub(crate) fn of_this_process(roots: &Roots) -> Option<Effective> {
        Effective::parse(&roots.read_proc("self/status").ok()?)
    }

    /// Whether the set contains the capability, or another one that implies it.
    pub fn allows(self, capability: Capability) -> bool {
        let has = |wanted: Capability| self.0 & (1 << wanted as u32) != 0;
        has(capability)
            || match capability {
                // bpf_capable() and perfmon_capable()
                Capability::Bpf | Capability::Perfmon => has(Capability::SysAdmin),
                Capability::DacReadSearch => has(Capability::DacOverride),
                _ => false,
            }
    }
}

/// The capabilities needed, and the purpose of each.
const WANTED: [(Capability, &str); 5] = [
    (Capability::Bpf, "to load BPF programs"),
    (Capability::Perfmon, "to attach them"),
    (
        Capability::DacReadSearch,
        "to read tracefs for the tracepoint mode, and other users' processes in /proc",
    ),
    (Capability::SysPtrace, "to see other users' open files, and syncs that started before tracing"),
    (Capability::Syslog, "to read the kernel's symbols"),
];

pub fn check(roots: &Roots) -> Verdict {
    let Some(effective) = Effective::of_this_process(roots) else {
        return Verdict::warn(NAME, "unknown: /proc/self/status is not readable");
    };
    if !in_initial_user_namespace(roots) {
        return Verdict::fail(NAME, "this is a user namespace, whose root is not root to the kernel")
            .cured_by("run it outside of the rootless container or `unshare -U`");
    }
    if !has_cap_bpf(roots) {
        return before_5_8(effective);
    }
    let missing: Vec<_> = WANTED.iter().filter(|(capability, _)| !effective.allows(*capability)).collect();
    if missing.is_empty() {
        return Verdict::ok(NAME, "all that are needed");
    }
    let names: Vec<String> =
        missing.iter().map(|(capability, why)| format!("{} ({why})", capability.name())).collect();
    let detail = format!("missing: {}", names.join(", "));
    let essential = [Capability::Bpf, Capability::Perfmon];
    let verdict = if missing.iter().any(|(capability, _)| essential.contains(capability)) {
        Verdict::fail(NAME, detail)
    } else {
        Verdict::warn(NAME, detail)
    };
    verdict.cured_by(cure(&program()))
}

/// Whether tracing fails for this user only because it is not root.
pub(crate) fn lacks_root(roots: &Roots, uid: u32) -> bool {
    uid != 0 && in_initial_user_namespace(roots) && check(roots).status == Status::Fail
}

/// Also where it cannot be told.
fn in_initial_user_namespace(roots: &Roots) -> bool {
    let namespace = fs::read_link(roots.proc.join("self/ns/user"));
    !namespace.is_ok_and(|link| link != Path::new(INITIAL_USER_NAMESPACE))
}

/// Whether this kernel knows CAP_BPF. It came with Linux 5.8, but a version does not say what a distribution
/// has backported (RHEL 8 calls its kernel 4.18): so the kernel's greatest capability is asked for first.
fn has_cap_bpf(roots: &Roots) -> bool {
    let greatest = roots.read_proc("sys/kernel/cap_last_cap").ok();
    match greatest.and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(greatest) => greatest >= Capability::Bpf as u32,
        None => kernel::version(roots).is_none_or(|version| version >= (5, 8)),
    }
}

/// CAP_BPF and CAP_PERFMON exist since Linux 5.8.
fn before_5_8(effective: Effective) -> Verdict {
    if effective.allows(Capability::SysAdmin) {
        Verdict::ok(NAME, "CAP_SYS_ADMIN, which BPF requires before Linux 5.8")
    } else {
        Verdict::fail(NAME, "missing: CAP_SYS_ADMIN, which BPF requires before Linux 5.8")
            .cured_by("run it as root")
    }
}

/// The commands to type.
fn cure(program: &str) -> String {
    let names = WANTED.map(|(capability, _)| capability.name());
    format!(
        "run it as root, or `setcap {}=ep {program}`, or in a systemd unit `AmbientCapabilities={}`",
        names.join(",").to_lowercase(),
        names.join(" ")
    )
}

fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/fsynctop".into());
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::*;

    fn verdict(set: u64, release: &str) -> Verdict {
        let status = format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{set:016x}\n");
        let (_keep, roots) =
            fixture(&[("proc/self/status", &status), ("proc/sys/kernel/osrelease", release)]);
        check(&roots)
    }

    fn set(capabilities: &[Capability]) -> u64 {
        capabilities.iter().map(|&capability| 1 << capability as u32).sum()
    }

    #[test]
    fn root_has_all() {
        assert_eq!(verdict(0x1ff_ffff_ffff, "6.1.0").status, Status::Ok);
        assert_eq!(verdict(0x1ff_ffff_ffff, "5.4.0").status, Status::Ok);
    }

    #[test]
    fn no_privilege_fails_and_the_cure_can_be_typed() {
        let verdict = verdict(0, "6.1.0");
        assert_eq!(verdict.status, Status::Fail);
        assert!(verdict.detail.starts_with("missing: CAP_BPF (to load BPF programs), CAP_PERFMON"));
        let cure = verdict.cure.unwrap();
        let setcap = "setcap cap_bpf,cap_perfmon,cap_dac_read_search,cap_sys_ptrace,cap_syslog=ep /";
        assert!(cure.contains(setcap), "{cure}");
        assert!(cure.contains("AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH"), "{cure}");
    }

    #[test]
    fn the_two_essential_ones_alone_are_a_warning() {
        let verdict = verdict(set(&[Capability::Bpf, Capability::Perfmon]), "6.1.0");
        assert_eq!(verdict.status, Status::Warn);
        assert!(verdict.detail.contains("CAP_SYS_PTRACE") && !verdict.detail.contains("CAP_BPF"));
    }

    #[test]
    fn one_capability_can_stand_for_another() {
        use Capability::*;
        assert_eq!(verdict(set(&[SysAdmin, DacOverride, SysPtrace, Syslog]), "6.1.0").status, Status::Ok);
    }

    #[test]
    fn before_5_8_only_cap_sys_admin_will_do() {
        use Capability::*;
        assert_eq!(
            verdict(set(&[Bpf, Perfmon, DacReadSearch, SysPtrace, Syslog]), "5.7.0").status,
            Status::Fail
        );
        assert_eq!(verdict(set(&[SysAdmin]), "5.7.0").status, Status::Ok);
    }

    #[test]
    fn what_the_kernel_knows_outranks_its_version() {
        let of = |release: &str, greatest: &str| {
            let (_keep, roots) = fixture(&[
                ("proc/self/status", "CapEff:\t000000c000000000\n"),
                ("proc/sys/kernel/osrelease", release),
                ("proc/sys/kernel/cap_last_cap", greatest),
            ]);
            check(&roots)
        };
        // CAP_BPF and CAP_PERFMON alone: enough to attach where the kernel has them.
        assert_eq!(of("4.18.0-553.el8_10.x86_64", "40\n").status, Status::Warn);
        let without = of("4.18.0-80.el8.x86_64", "37\n");
        assert_eq!(without.status, Status::Fail);
        assert!(without.detail.contains("CAP_SYS_ADMIN"), "{without:?}");
        assert_eq!(of("5.10.0", "37\n").status, Status::Fail);
    }

    #[test]
    fn root_of_a_user_namespace_is_not_root() {
        let (keep, roots) = fixture(&[("proc/self/status", "CapEff:\t000001ffffffffff\n")]);
        fs::create_dir(keep.path().join("proc/self/ns")).unwrap();
        std::os::unix::fs::symlink("user:[4026532200]", keep.path().join("proc/self/ns/user")).unwrap();
        assert_eq!(check(&roots).status, Status::Fail);
        assert!(!lacks_root(&roots, 1000), "sudo would not lead out of it");
    }

    #[test]
    fn who_is_not_root_and_cannot_trace_lacks_root() {
        let of = |set: u64, uid: u32| {
            let status = format!("CapEff:\t{set:016x}\n");
            let (_keep, roots) =
                fixture(&[("proc/self/status", &status), ("proc/sys/kernel/osrelease", "6.1.0")]);
            lacks_root(&roots, uid)
        };
        assert!(of(0, 1000));
        assert!(!of(0, 0), "root of a container lacks capabilities");
        assert!(!of(set(&[Capability::Bpf, Capability::Perfmon]), 1000));
    }
}
