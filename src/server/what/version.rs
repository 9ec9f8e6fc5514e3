//! Finds a server's product and version in the text of its executable, without running it or asking it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use super::product::{Version, VersionFinder};
use crate::server::adapters;

/// Device, inode, size, and the times of the last modification and change (seconds, nanoseconds) of an
/// executable. Its owner chooses the first of the times, and nobody the second.
type ExecutableId = (u64, u64, u64, [i64; 4]);

/// One per executable: a handful, if nobody makes more of them.
const MAX_CACHED: usize = 256;
static CACHE: LazyLock<Mutex<HashMap<ExecutableId, Option<Version>>>> = LazyLock::new(Mutex::default);

/// Of a running process; also where its executable was replaced since. Some milliseconds the first time: not
/// for a hot path. None: no server that is known here, or not allowed to read it. `over`: true once the
/// search is to end, which then has found nothing.
pub fn of_process(proc_root: &Path, pid: u32, over: &dyn Fn() -> bool) -> Option<Version> {
    let executable = File::open(proc_root.join(pid.to_string()).join("exe")).ok()?;
    let stat = executable.metadata().ok()?;
    let times = [stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec()];
    let id = (stat.dev(), stat.ino(), stat.size(), times);
    let cached = CACHE.lock().ok()?.get(&id).cloned();
    cached.unwrap_or_else(|| {
        let version = of_executable(&executable, over).ok().flatten();
        if !over() {
            let mut cache = CACHE.lock().ok()?;
            if cache.len() >= MAX_CACHED {
                cache.clear();
            }
            cache.insert(id, version.clone());
        }
        version
    })
}

const CHUNK: usize = 256 << 10;
/// Longer than any of the texts.
const OVERLAP: usize = 512;
/// Twice the largest read-only data seen in a server; more is not searched.
const SEARCH_LIMIT: u64 = 64 << 20;

fn of_executable(file: &File, over: &dyn Fn() -> bool) -> io::Result<Option<Version>> {
    let Some((start, length)) = read_only_data(file)? else { return Ok(None) };
    let mut finders: Vec<Box<dyn VersionFinder>> =
        adapters::all().filter_map(|adapter| adapter.version_finder()).collect();
    let end = start.saturating_add(length.min(SEARCH_LIMIT));
    let mut buffer = vec![0; CHUNK];
    let mut at = start;
    while at < end && !over() {
        let wanted = CHUNK.min((end - at) as usize);
        file.read_exact_at(&mut buffer[..wanted], at)?;
        let text = &buffer[..wanted];
        if let Some(version) = finders.iter_mut().find_map(|finder| finder.look_at(text)) {
            return Ok(Some(version));
        }
        if wanted < CHUNK {
            break;
        }
        at += (CHUNK - OVERLAP) as u64;
    }
    Ok(finders.iter().find_map(|finder| finder.second_best()))
}

/// Where `.rodata` lies in a 64-bit little-endian ELF file: (offset, length).
fn read_only_data(file: &File) -> io::Result<Option<(u64, u64)>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    if header[..6] != *b"\x7fELF\x02\x01" {
        return Ok(None);
    }
    let sections_at = u64_at(&header, 0x28);
    let (entry, count, names) = (u16_at(&header, 0x3a), u16_at(&header, 0x3c), u16_at(&header, 0x3e));
    if entry != 64 || names >= count {
        return Ok(None);
    }
    let mut table = vec![0; usize::from(count) * 64];
    file.read_exact_at(&mut table, sections_at)?;
    let sections: Vec<&[u8]> = table.chunks_exact(64).collect();
    let names_at = u64_at(sections[usize::from(names)], 0x18);
    for section in sections {
        let mut name = [0; 8];
        let name_at = names_at.saturating_add(u64::from(u32_at(section, 0)));
        if file.read_exact_at(&mut name, name_at).is_ok() && name == *b".rodata\0" {
            return Ok(Some((u64_at(section, 0x18), u64_at(section, 0x20))));
        }
    }
    Ok(None)
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_server_has_no_version() {
        assert_eq!(of_executable(&File::open("/bin/sh").unwrap(), &|| false).unwrap(), None);
        assert_eq!(of_process(Path::new("/nonexistent"), 1, &|| false), None);
    }

    #[test]
    fn broken_executables_are_refused_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exe");
        let mut elf = vec![0xff; 4096];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for contents in [&b""[..], b"#!/bin/sh", &elf] {
            std::fs::write(&path, contents).unwrap();
            assert_eq!(of_executable(&File::open(&path).unwrap(), &|| false).ok().flatten(), None);
        }
    }
}
