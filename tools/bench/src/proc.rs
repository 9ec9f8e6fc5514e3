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
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Memory {
    pub resident: u64,
    /// Pages that other processes share count in part.
    pub proportional: u64,
    /// Of the resident memory, the kernel's maps that the process looks into.
    pub maps_in_view: u64,
    pub peak: u64,
}

pub fn memory(pid: u32) -> Result<Memory> {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).context("no memory map")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("no status")?;
    let kilobytes = |line: &str, name: &str| -> Option<u64> {
        line.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    let mut memory = Memory::default();
    let mut is_bpf_map = false;
    for line in smaps.lines() {
        // "7f…-7f… rw-s 00000000 00:0f 123 anon_inode:bpf-map" begins a mapping.
        if line.split(' ').next().is_some_and(|word| word.contains('-')) {
            is_bpf_map = line.ends_with("bpf-map");
        } else if let Some(resident) = kilobytes(line, "Rss:") {
            memory.resident += resident << 10;
            memory.maps_in_view += if is_bpf_map { resident << 10 } else { 0 };
        } else if let Some(proportional) = kilobytes(line, "Pss:") {
            memory.proportional += proportional << 10;
        }
    }
    memory.peak = status.lines().find_map(|line| kilobytes(line, "VmHWM:")).unwrap_or(0) << 10;
    Ok(memory)
}

/// The BPF objects that a process holds, by id, with the kernel memory that they take ("memlock"). `kind`: "prog_id"
/// or "map_id", as `fdinfo` calls it.
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
