//! Explains why a program could not be loaded or attached, and what to do.

use std::io;

use super::verdict::{Status, Verdict};
use super::{btf, capabilities, ftrace, lockdown, memlock, memory, perf, pid_namespace, tracefs};

/// The kernel's internal ENOTSUPP, returned for features that an architecture lacks; libc does not define
/// it.
const ENOTSUPP: i32 = 524;

/// The checks that may explain an error, the most likely first, and what the error means if none does.
fn suspects(errno: i32) -> (&'static [&'static str], &'static str) {
    match errno {
        libc::EPERM => (
            &[capabilities::NAME, lockdown::NAME, memlock::NAME, perf::NAME, tracefs::NAME],
            "the kernel refused it although every check passed: the cause may be a security module (see the audit \
             log), seccomp in a container, or a kernel without support for such programs",
        ),
        libc::EACCES => (
            &[capabilities::NAME, perf::NAME, tracefs::NAME, lockdown::NAME],
            "either a file is not readable, or the kernel's verifier rejected the program \
             (--verbose shows why)",
        ),
        libc::ENOENT => {
            (&[tracefs::NAME, lockdown::NAME, btf::NAME], "this kernel has no such tracepoint or function")
        }
        libc::ESRCH => (&[btf::NAME], "this kernel has no such function, or no type information about it"),
        libc::EINVAL => (
            &[btf::NAME, lockdown::NAME],
            "this kernel is too old for the program, or its verifier rejected it \
             (--verbose shows why)",
        ),
        libc::ENOMEM | libc::E2BIG | libc::ENOSPC => {
            (&[memory::NAME, memlock::NAME], "the kernel had no memory or space for it: track fewer files")
        }
        libc::EOPNOTSUPP | ENOTSUPP => (
            &[ftrace::NAME],
            "this kernel cannot attach such programs (fentry on arm64 before 6.4, kprobe without CONFIG_FPROBE): \
             the tracepoint mode is used instead",
        ),
        libc::EBUSY => (&[], "another tool has exclusive use of the same hook"),
        _ => (&[], "the cause is unknown"),
    }
}

/// The message for the user: the error, then the failed checks that explain it with their cures, or the
/// error's own meaning if every check passed. `verdicts` come from [`super::checks`]. `refused`: what the
/// kernel's verifier said. It refuses what a lockdown forbids in its own words, so the checks go first; a
/// warning explains nothing that it says.
pub(crate) fn explain_load_error(error: &io::Error, verdicts: &[Verdict], refused: Option<&str>) -> String {
    // Errors from libbpf carry an errno; others are self-explanatory.
    let Some(errno) = error.raw_os_error() else { return error.to_string() };
    let (suspects, by_itself) = suspects(errno.abs());
    let failed_for = |name: &&str| verdicts.iter().find(|verdict| verdict.name == *name);
    let is_cause = |verdict: &&Verdict| match refused {
        Some(_) => verdict.status == Status::Fail,
        None => verdict.status != Status::Ok,
    };
    let mut causes: Vec<&Verdict> = suspects.iter().filter_map(failed_for).filter(is_cause).collect();
    // Failures come before warnings.
    causes.sort_by_key(|verdict| std::cmp::Reverse(verdict.status));
    if causes.is_empty() {
        let anything = verdicts.iter().filter(|v| v.status == Status::Fail && v.name != pid_namespace::NAME);
        causes.extend(anything);
    }
    let what = io::Error::from_raw_os_error(errno.abs());
    let what =
        if errno.abs() == ENOTSUPP { "not supported (os error 524)".to_owned() } else { what.to_string() };
    if causes.is_empty() {
        return refused.map_or_else(|| format!("{what}: {by_itself}"), str::to_owned);
    }
    let causes: Vec<String> = causes
        .iter()
        .map(|verdict| match &verdict.cure {
            Some(cure) => format!("{}: {}. To do: {cure}", verdict.name, verdict.detail),
            None => format!("{}: {}", verdict.name, verdict.detail),
        })
        .collect();
    format!("{what}: {}", causes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(errno: i32, verdicts: &[Verdict]) -> String {
        explain_load_error(&io::Error::from_raw_os_error(errno), verdicts, None)
    }

    fn healthy() -> Vec<Verdict> {
        [capabilities::NAME, lockdown::NAME, tracefs::NAME, btf::NAME]
            .map(|name| Verdict::ok(name, "fine"))
            .to_vec()
    }

    #[test]
    fn a_refusal_is_explained_by_the_check_that_failed() {
        let missing = Verdict::fail(capabilities::NAME, "missing: CAP_BPF").cured_by("run it as root");
        let text = explain(libc::EPERM, &[missing, Verdict::ok(lockdown::NAME, "none")]);
        assert!(text.contains("capabilities: missing: CAP_BPF. To do: run it as root"), "{text}");
        assert!(!text.contains("lockdown"), "{text}");
    }

    #[test]
    fn what_the_verifier_said_counts_unless_a_check_failed() {
        let refused = |verdicts: &[Verdict]| {
            let error = io::Error::from_raw_os_error(libc::EACCES);
            explain_load_error(&error, verdicts, Some("the kernel's verifier refuses net_file: too much"))
        };
        assert_eq!(refused(&healthy()), "the kernel's verifier refuses net_file: too much");
        let warned = Verdict::warn(tracefs::NAME, "not mounted");
        assert_eq!(refused(&[warned]), "the kernel's verifier refuses net_file: too much");
        let text = refused(&[Verdict::fail(lockdown::NAME, "confidentiality")]);
        assert!(text.contains("lockdown: confidentiality") && !text.contains("net_file"), "{text}");
    }

    #[test]
    fn lockdown_outranks_a_warning_and_explains_a_missing_tracepoint() {
        let unmounted = Verdict::warn(tracefs::NAME, "not mounted").cured_by("mount it");
        let locked = Verdict::fail(lockdown::NAME, "confidentiality");
        let text = explain(libc::ENOENT, &[unmounted, locked]);
        let (first, second) = (text.find("confidentiality").unwrap(), text.find("mount it").unwrap());
        assert!(first < second, "{text}");
    }

    #[test]
    fn on_a_healthy_host_the_error_itself_is_explained() {
        assert!(explain(libc::EPERM, &healthy()).contains("security module"));
        assert!(explain(libc::ENOENT, &healthy()).contains("no such tracepoint"));
        assert!(explain(libc::EINVAL, &healthy()).contains("too old"));
        assert!(explain(libc::ENOMEM, &healthy()).contains("fewer files"));
        assert!(explain(524, &healthy()).contains("arm64"));
        assert!(explain(libc::ETXTBSY, &healthy()).contains("the cause is unknown"));
    }

    #[test]
    fn a_negative_number_as_libbpf_returns_it_is_understood() {
        assert_eq!(explain(-libc::EPERM, &healthy()), explain(libc::EPERM, &healthy()));
    }

    #[test]
    fn an_unexpected_error_still_names_what_failed() {
        let no_btf = Verdict::fail(btf::NAME, "no type information").cured_by("another kernel");
        assert!(explain(libc::EPERM, &[no_btf]).contains("BTF: no type information. To do: another kernel"));
    }

    #[test]
    fn an_error_without_a_number_speaks_for_itself() {
        assert_eq!(explain_load_error(&io::Error::other("no skeleton"), &healthy(), None), "no skeleton");
    }
}
