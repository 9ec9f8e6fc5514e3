//! Whether the kernel guards the return of each of its functions against speculation, which makes calls dear: 5.5 ns each
//! under Safe RET on an AMD EPYC (family 25, model 17), measured as four more calls of a helper in a program. The guard
//! against retbleed, of older ones, is the same kind of detour; what it takes was not measured.

use super::roots::Roots;

/// How the kernel says so (arch/x86/kernel/cpu/bugs.c). "no safe RET" is the opposite, and differs by its first letter.
const GUARDS: [(&str, &str); 2] =
    [("spec_rstack_overflow", "Safe RET"), ("retbleed", "untrained return thunk")];

pub fn are_guarded(roots: &Roots) -> bool {
    GUARDS.iter().any(|(vulnerability, guard)| {
        let said = roots.read_sys(&format!("devices/system/cpu/vulnerabilities/{vulnerability}"));
        said.is_ok_and(|said| said.contains(guard))
    })
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let guarded = |file: &str, said: &str| {
            let path = format!("sys/devices/system/cpu/vulnerabilities/{file}");
            let (_keep, roots) = fixture(&[(path.as_str(), said)]);
            are_guarded(&roots)
        };
        assert!(guarded("spec_rstack_overflow", "Mitigation: Safe RET\n"));
        assert!(guarded("spec_rstack_overflow", "Vulnerable: Safe RET, no microcode\n"));
        assert!(guarded("retbleed", "Mitigation: untrained return thunk; SMT disabled\n"));
        assert!(!guarded("spec_rstack_overflow", "Vulnerable: Microcode, no safe RET\n"));
        assert!(!guarded("spec_rstack_overflow", "Mitigation: SMT disabled\n"));
        assert!(!guarded("retbleed", "Mitigation: Enhanced IBRS\n"));
        assert!(!guarded("retbleed", "Not affected\n"));
        assert!(!guarded("meltdown", "Safe RET\n"), "another file");
    }
}
