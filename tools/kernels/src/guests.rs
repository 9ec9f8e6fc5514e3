//! The guests: which kernels under which conditions.

/// What runs in a guest: `guest/NAME.sh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Modes,
    Conditions,
    Lockdown,
    Preemption,
}

impl Scenario {
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Modes => "modes",
            Scenario::Conditions => "conditions",
            Scenario::Lockdown => "lockdown",
            Scenario::Preemption => "preemption",
        }
    }
}

/// As Debian calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
        }
    }
}

pub struct Guest {
    pub name: &'static str,
    pub about: &'static str,
    /// As tools/kernels/fetch calls it.
    pub kernel: &'static str,
    pub architecture: Architecture,
    /// Whether this kernel can attach fentry programs.
    pub has_fentry: bool,
    pub scenario: Scenario,
    pub cpu: &'static str,
    pub cpus: u32,
    /// To the kernel's command line.
    pub append: &'static str,
}

/// QEMU's emulation of cmpxchg16b sometimes leaves the trap flag set, and the kernel warns of a debug exception; its allocator does
/// without the instruction where the processor has none.
const NO_CX16: &str = "max,-cx16";

/// For guest/load.sh. A kernel that preempts a program skips other threads' runs of it: there, with threads that take turns on a processor,
/// counts are exact but for what is lost, which is the preemption scenario's matter.
const ONE_BY_ONE: &str = "threads=1";

const fn plain(name: &'static str, about: &'static str, cpu: &'static str) -> Guest {
    Guest {
        name,
        about,
        kernel: name,
        architecture: Architecture::Amd64,
        has_fentry: true,
        scenario: Scenario::Modes,
        cpu,
        cpus: 1,
        append: "",
    }
}

/// Signing pointers as the architecture has it takes most of the emulator's time.
const ARM64_CPU: &str = "max,pauth-impdef=on";

const fn arm64(name: &'static str, kernel: &'static str, about: &'static str) -> Guest {
    Guest { kernel, architecture: Architecture::Arm64, ..plain(name, about, ARM64_CPU) }
}

pub const GUESTS: &[Guest] = &[
    plain("5.10", "Debian 11", NO_CX16),
    plain("6.1", "Debian 12", NO_CX16),
    plain("6.12", "Debian 13", NO_CX16),
    // Without the instruction, this one has no task storage. It preempts by default.
    Guest { append: ONE_BY_ONE, ..plain("7.2", "Debian's next", "max") },
    Guest {
        name: "7.2-no-task-storage",
        about: "a processor without cmpxchg16b: task storage is refused",
        cpu: NO_CX16,
        append: ONE_BY_ONE,
        ..plain("7.2", "", "")
    },
    Guest { name: "6.12-two-processors", about: "two processors", cpus: 2, ..plain("6.12", "", NO_CX16) },
    Guest {
        name: "6.12-conditions",
        about: "without tracefs, ftrace, BTF, capabilities; with a few capabilities",
        scenario: Scenario::Conditions,
        ..plain("6.12", "", NO_CX16)
    },
    Guest {
        name: "6.12-lockdown",
        about: "lockdown=confidentiality",
        scenario: Scenario::Lockdown,
        append: "lockdown=confidentiality",
        ..plain("6.12", "", NO_CX16)
    },
    Guest {
        name: "6.12-preempt-full",
        about: "preempt=full, 16 threads on one processor",
        scenario: Scenario::Preemption,
        append: "preempt=full",
        ..plain("6.12", "", NO_CX16)
    },
    Guest {
        name: "7.2-preempt-lazy",
        about: "preemption as it ships (lazy), 16 threads on one processor",
        scenario: Scenario::Preemption,
        ..plain("7.2", "", "max")
    },
    // fentry programs load there and cannot be attached: trampolines came to arm64 before the means to call them.
    Guest { has_fentry: false, append: "without=fentry", ..arm64("6.1-arm64", "6.1", "Debian 12") },
    arm64("6.12-arm64", "6.12", "Debian 13"),
];
