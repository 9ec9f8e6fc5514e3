//! What /proc says of a process: processor time, memory, BPF objects.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::time::ClockId;
use nix::unistd::Pid;

/// The processor time that a process has used, with that of its threads that have ended.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid as i32))?;
    Ok(clock.now()?.into())
}

/// In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Memory {
    /// Pages of this process alone that no file backs, or that differ from their file.
    pub private: u64,
    pub resident: u64,
    pub peak: u64,
}

pub fn memory(pid: u32) -> Result<Memory> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).context(name.to_owned());
    Ok(memory_of(&read("smaps_rollup")?, &read("status")?))
}

fn memory_of(rollup: &str, status: &str) -> Memory {
    let bytes = |text: &str, name: &str| -> u64 {
        let kilobytes = text.lines().find_map(|line| {
            line.strip_prefix(name)?.strip_prefix(':')?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
        });
        kilobytes.unwrap_or(0) << 10
    };
    Memory {
        private: bytes(rollup, "Private_Dirty"),
        resident: bytes(rollup, "Rss"),
        peak: bytes(status, "VmHWM"),
    }
}

/// The BPF objects that a process holds, by id, with the kernel memory that they take ("memlock"). `kind`:
/// "prog_id" or "map_id", as `fdinfo` calls it.
pub fn bpf_ids(pid: u32, kind: &str) -> BTreeMap<u32, u64> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let found = infos.filter_map(|info| {
        let text = fs::read_to_string(info.path()).ok()?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<u64>().ok())
        };
        // A link names its program, too, but takes no memory of its own.
        Some((u32::try_from(field(kind)?).ok()?, field("memlock")?))
    });
    found.collect()
}

/// The kernel memory of a process's BPF maps, in bytes.
pub fn map_bytes(pid: u32) -> u64 {
    bpf_ids(pid, "map_id").values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_what_the_process_alone_has_written_to() {
        let rollup = "55d0-7ffd ---p 00000000 00:00 0    [rollup]\nRss:    9000 kB\nPrivate_Clean:   3000 kB\n\
                      Private_Dirty:   2000 kB\n";
        let status = "Name:\tfsynctop\nVmHWM:\t   9500 kB\n";
        let expected = Memory { private: 2000 << 10, resident: 9000 << 10, peak: 9500 << 10 };
        assert_eq!(memory_of(rollup, status), expected);
    }
}
