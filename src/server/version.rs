//! Finds a server's product and version in the text of its executable, without running it or asking it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use regex::bytes::Regex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    MySql,
    MariaDb,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub flavour: Flavour,
    /// "9.7.4", "8.0.36-28".
    pub number: String,
}

impl Version {
    /// "9.7" of "9.7.4", as in the names of option groups.
    pub fn series(&self) -> &str {
        self.number.match_indices('.').nth(1).map_or(&self.number, |(at, _)| &self.number[..at])
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.flavour {
            Flavour::MySql => "MySQL",
            Flavour::MariaDb => "MariaDB",
        };
        write!(f, "{name} {}", self.number)
    }
}

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

/// A server's option groups name its series ("mysqld-9.7"), and the redo log's creator its version ("MySQL
/// 9.7.4", from 5.7 on). The two together tell the server's own version from other versions that it mentions.
static TEXT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?-u)(?:(?P<group>mysqld-)|(?P<creator>MySQL |MariaDB ))(?P<number>[0-9]+\.[0-9]+[0-9A-Za-z.-]*)\x00";
    Regex::new(pattern).expect("a constant pattern, covered by tests")
});
/// Before 5.7 the version stands alone ("5.6.51", "5.5.62-log"), and MariaDB's own with its name.
static PLAIN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?-u)\x00(?P<number>[0-9]+\.[0-9]+\.[0-9]+)(?P<mariadb>-MariaDB)?[0-9A-Za-z.-]*\x00";
    Regex::new(pattern).expect("a constant pattern, covered by tests")
});

const CHUNK: usize = 256 << 10;
/// Longer than any of the texts.
const OVERLAP: usize = 128;
/// Twice the largest read-only data seen in a server; more is not searched.
const SEARCH_LIMIT: u64 = 64 << 20;
/// MariaDB mentions some forty.
const MAX_VERSIONS: usize = 1_000;
const MAX_NUMBER: usize = 64;

fn of_executable(file: &File, over: &dyn Fn() -> bool) -> io::Result<Option<Version>> {
    let Some((start, length)) = read_only_data(file)? else { return Ok(None) };
    let mut finder = Finder::default();
    let end = start.saturating_add(length.min(SEARCH_LIMIT));
    let mut buffer = vec![0; CHUNK];
    let mut at = start;
    while at < end && !over() {
        let wanted = CHUNK.min((end - at) as usize);
        file.read_exact_at(&mut buffer[..wanted], at)?;
        if let Some(version) = finder.look_at(&buffer[..wanted]) {
            return Ok(Some(version));
        }
        if wanted < CHUNK {
            break;
        }
        at += (CHUNK - OVERLAP) as u64;
    }
    Ok(finder.second_best())
}

/// The verdict on the texts seen so far.
#[derive(Default)]
struct Finder {
    series: Option<String>,
    creators: Vec<Version>,
    plain: Vec<Version>,
}

impl Finder {
    /// Returns the version once it is certain.
    fn look_at(&mut self, text: &[u8]) -> Option<Version> {
        let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for found in TEXT.captures_iter(text) {
            let number = string(&found["number"]);
            match found.name("creator") {
                Some(creator) => {
                    let mysql = creator.as_bytes() == b"MySQL ";
                    let flavour = if mysql { Flavour::MySql } else { Flavour::MariaDb };
                    push(&mut self.creators, Version { flavour, number });
                }
                None => {
                    self.series.get_or_insert(number);
                }
            }
        }
        for found in PLAIN.captures_iter(text) {
            let mariadb = found.name("mariadb").is_some();
            let flavour = if mariadb { Flavour::MariaDb } else { Flavour::MySql };
            push(&mut self.plain, Version { flavour, number: string(&found["number"]) });
        }
        self.best(&self.creators).cloned()
    }

    fn best<'a>(&self, candidates: &'a [Version]) -> Option<&'a Version> {
        let series = self.series.as_deref()?;
        candidates.iter().find(|version| version.series() == series)
    }

    fn second_best(self) -> Option<Version> {
        let mariadb: Vec<_> =
            self.plain.iter().filter(|version| version.flavour == Flavour::MariaDb).cloned().collect();
        self.best(&mariadb).or_else(|| self.best(&self.plain)).cloned()
    }
}

/// Of an executable that mentions thousands of versions, nobody knows which it is.
fn push(versions: &mut Vec<Version>, version: Version) {
    if versions.len() < MAX_VERSIONS && version.number.len() <= MAX_NUMBER {
        versions.push(version);
    }
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

    fn found(text: &[u8]) -> Option<String> {
        let mut finder = Finder::default();
        finder.look_at(text).or_else(|| finder.second_best()).map(|version| version.to_string())
    }

    #[test]
    fn the_version_is_the_one_whose_series_the_option_groups_have() {
        let mysql = b"\x009.7.4.0\0mysqld-9.7\0MariaDB 10.5.1\0MySQL 8.0.3\0MySQL 9.7.4\0";
        assert_eq!(found(mysql).unwrap(), "MySQL 9.7.4");
        let mariadb = b"5.7.31\0mysqld-10.11\0mariadb-10.11\0MySQL 5.7.9\0MariaDB 10.11.19\0";
        assert_eq!(found(mariadb).unwrap(), "MariaDB 10.11.19");
        assert_eq!(found(b"mysqld-8.0\0MySQL 8.0.36-28\0").unwrap(), "MySQL 8.0.36-28");
    }

    #[test]
    fn servers_without_a_creator_are_known_by_their_plain_version() {
        assert_eq!(found(b"\x005.5.1\0mysqld-5.6\0\x005.6.51\0").unwrap(), "MySQL 5.6.51");
        assert_eq!(found(b"mysqld-10.0\0\x0010.0.38-MariaDB\0\x0010.0.1\0").unwrap(), "MariaDB 10.0.38");
    }

    #[test]
    fn what_is_no_server_has_no_version() {
        assert_eq!(found(b"\0MySQL 9.7.4\0"), None, "a client or a backup tool mentions versions, too");
        assert_eq!(found(b"mysqld-9.7\0"), None);
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

    #[test]
    fn the_series_is_what_stands_before_the_second_dot() {
        let series =
            |number: &str| Version { flavour: Flavour::MySql, number: number.into() }.series().to_owned();
        assert_eq!(series("10.11.14"), "10.11");
        assert_eq!(series("9.7"), "9.7");
    }
}
