//! The guests: which kernels under which conditions.

use clap::ValueEnum;

use crate::filesystems;

/// What runs in a guest: `guest/NAME.sh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Modes,
    Conditions,
    Lockdown,
    Preemption,
    Filesystems,
}

impl Scenario {
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Modes => "modes",
            Scenario::Conditions => "conditions",
            Scenario::Lockdown => "lockdown",
            Scenario::Preemption => "preemption",
            Scenario::Filesystems => "filesystems",
        }
    }
}

/// As Debian calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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

#[derive(Clone, Copy)]
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
    /// The devices of the filesystems fail, too (guest/faults.sh).
    pub faults: bool,
    /// Only what `check` says and the exact counts of each mode.
    pub quick: bool,
}

/// What a kernel that does not preempt is traced by.
pub const MODES: [&str; 2] = ["fentry", "tracepoint"];

impl Guest {
    /// The modes that serve here. kprobe is for kernels that preempt, and asks for 6.14.
    pub fn modes(&self) -> &'static [&'static str] {
        match self.kernel {
            "7.2" => &["fentry", "kprobe", "tracepoint"],
            _ if self.has_fentry => &MODES,
            _ => &["tracepoint"],
        }
    }

    /// The mode that serves best here: the one that costs least among those that lose no calls.
    pub fn auto(&self) -> &'static str {
        match (self.kernel, self.scenario) {
            ("7.2", _) => "kprobe",
            (_, Scenario::Preemption) => "tracepoint",
            _ => self.modes()[0],
        }
    }

    /// The modes in which a program is skipped where another run of it was preempted.
    pub fn skipping_modes(&self) -> &'static [&'static str] {
        match (self.kernel, self.scenario) {
            ("7.2", _) => &["fentry", "tracepoint"],
            (_, Scenario::Preemption) => &["fentry"],
            _ => &[],
        }
    }

    /// Modules that only this scenario needs.
    pub fn further_filesystems(&self) -> String {
        if self.scenario == Scenario::Filesystems { filesystems::MODULES.join(" ") } else { String::new() }
    }

    /// Whether `explain` has a second level here: 5.10 has no lock that programs of its hooks may take.
    pub fn has_clocks(&self) -> bool {
        self.kernel != "5.10"
    }

    /// Whether the file of a failed write is known: before 5.15, tracepoints do not have the registers at
    /// exit.
    pub fn names_failures(&self, mode: &str) -> bool {
        (self.kernel, mode) != ("5.10", "tracepoint")
    }

    /// Whether all writes can be watched in this mode: 5.10 knows copy_file_range's registers by name only,
    /// and lets no program of fentry read them.
    pub fn watches_all_writes(&self, mode: &str) -> bool {
        (self.kernel, mode) != ("5.10", "fentry")
    }

    /// How the verdict on task storage begins: before 5.13 there is none, and 7.2 refuses it where it lacks
    /// an instruction for it.
    pub fn wait_storage(&self) -> &'static str {
        match (self.kernel, self.cpu) {
            ("5.10", _) => "ok: not to be had",
            ("7.2", NO_CX16) => "ok: this kernel has it and refuses it",
            _ => "ok: what a sync waits for",
        }
    }

    /// The whole addition to the kernel's command line. What is no parameter of the kernel's own is in the
    /// environment of guest/init.
    pub fn command_line(&self) -> String {
        let faults = if self.faults && !self.quick { " faults=1" } else { "" };
        let quick = if self.quick { " quick=1" } else { "" };
        let tried = if self.has_fentry { self.modes() } else { &MODES };
        let (modes, skipping) = (tried.join(" "), self.skipping_modes().join(" "));
        format!("{} MODES=\"{modes}\" one_by_one=\"{skipping}\"{faults}{quick}", self.append)
    }
}

/// QEMU's emulation of cmpxchg16b sometimes leaves the trap flag set, and the kernel warns of a debug
/// exception; its allocator does without the instruction where the processor has none.
const NO_CX16: &str = "max,-cx16";

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
        faults: false,
        quick: false,
    }
}

/// Signing pointers as the architecture has it takes most of the emulator's time.
const ARM64_CPU: &str = "max,pauth-impdef=on";

const fn arm64(name: &'static str, kernel: &'static str, about: &'static str) -> Guest {
    Guest { kernel, architecture: Architecture::Arm64, ..plain(name, about, ARM64_CPU) }
}

const fn modules(name: &'static str, kernel: &'static str, cpu: &'static str) -> Guest {
    let about = "btrfs and overlayfs, which are modules";
    Guest { kernel, scenario: Scenario::Filesystems, ..plain(name, about, cpu) }
}

pub const GUESTS: &[Guest] = &[
    plain("5.10", "Debian 11", NO_CX16),
    plain("6.1", "Debian 12", NO_CX16),
    Guest { faults: true, ..plain("6.12", "Debian 13", NO_CX16) },
    // Without the instruction, this one has no task storage. It preempts by default.
    Guest { faults: true, ..plain("7.2", "Debian's next", "max") },
    Guest {
        name: "7.2-no-task-storage",
        about: "a processor without cmpxchg16b: task storage is refused",
        ..plain("7.2", "", NO_CX16)
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
        name: "6.12-integrity",
        about: "lockdown=integrity, as under Secure Boot",
        append: "lockdown=integrity",
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
    modules("6.12-modules", "6.12", NO_CX16),
    // Since 6.13, what overlayfs knows of an open file is another structure, described in the module's types.
    modules("7.2-modules", "7.2", "max"),
    // fentry programs load there and cannot be attached: trampolines came to arm64 before the means to call
    // them.
    Guest { has_fentry: false, append: "without=fentry", ..arm64("6.1-arm64", "6.1", "Debian 12") },
    arm64("6.12-arm64", "6.12", "Debian 13"),
];

/// Of every commit: the oldest kernel, the one whose verifier allows programs the least stack, the newest,
/// and the other architecture.
const QUICK: [&str; 4] = ["5.10", "6.1", "7.2", "6.12-arm64"];

/// The guests that are asked for: all whose names contain `only` and that are of this architecture, or the
/// few of every commit among them.
pub fn wanted(quick: bool, only: Option<&str>, architecture: Option<Architecture>) -> Vec<Guest> {
    let by_name = |guest: &&Guest| only.is_none_or(|text| guest.name.contains(text));
    let by_architecture = |guest: &&Guest| architecture.is_none_or(|wanted| guest.architecture == wanted);
    let guests = GUESTS
        .iter()
        .filter(by_name)
        .filter(by_architecture)
        .filter(|guest| !quick || QUICK.contains(&guest.name));
    guests.map(|guest| Guest { quick, ..*guest }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_is_tried_on_the_oldest_and_newest_kernel_and_on_the_other_architecture() {
        let guests = wanted(true, None, None);
        assert_eq!(guests.iter().map(|guest| guest.name).collect::<Vec<_>>(), QUICK.to_vec());
        assert!(guests.iter().all(|guest| guest.scenario == Scenario::Modes));
        for guest in &guests {
            let line = guest.command_line();
            assert!(line.contains(" quick=1") && !line.contains("faults=1"), "{line}");
            assert!(guest.modes().iter().all(|mode| line.contains(mode)), "each mode is measured: {line}");
        }
        assert!(wanted(false, None, None).iter().all(|guest| !guest.command_line().contains("quick")));
        assert_eq!(wanted(true, Some("arm64"), None).len(), 1);
        assert_eq!(wanted(true, None, Some(Architecture::Amd64)).len(), QUICK.len() - 1);
    }
}
