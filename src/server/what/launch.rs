//! What of a process decides its settings: its command line, its environment and its working directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::linux::proc_file;

/// Maximum size of /proc/PID/cmdline and environ, whose length the process chooses.
const STRINGS_LIMIT: u64 = 256 << 10;
/// Arguments that are looked at; a server has some dozens.
const MAX_ARGUMENTS: usize = 2_048;

/// Read by [`Launch::read`], or made up by a test.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    pub command_line: Vec<OsString>,
    pub environment: BTreeMap<OsString, OsString>,
    /// Inside its own root. A server's is its data directory once it has started.
    pub working_directory: Option<PathBuf>,
}

impl Launch {
    /// `variables`: those of its environment that are kept. None: it has gone, or has no memory any more. May
    /// wait for the process's memory lock: not for a hot path.
    pub fn read(proc_root: &Path, pid: u32, variables: &[&str]) -> Option<Launch> {
        let directory = proc_root.join(pid.to_string());
        let strings = |file: &str| {
            let mut bytes = proc_file::read_start(&directory.join(file), STRINGS_LIMIT).unwrap_or_default();
            // Each string ends with a NUL, but for one that was cut off, which means something else without
            // its rest, and for that of a process that has written over its own.
            if bytes.len() as u64 == STRINGS_LIMIT || bytes.ends_with(b"\0") {
                bytes.truncate(bytes.iter().rposition(|&b| b == 0).unwrap_or(0));
            }
            bytes
        };
        let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let command_line: Vec<_> =
            strings("cmdline").split(|&b| b == 0).take(MAX_ARGUMENTS).map(word).collect();
        if command_line.first().is_none_or(|program| program.is_empty()) {
            return None;
        }
        let environment = if variables.is_empty() { Vec::new() } else { strings("environ") };
        let environment = environment
            .split(|&b| b == 0)
            .filter_map(|entry| {
                let (name, value) = entry.split_at(entry.iter().position(|&b| b == b'=')?);
                let name = variables.iter().find(|wanted| wanted.as_bytes() == name)?;
                Some((name.into(), word(&value[1..])))
            })
            .collect();
        let root = std::fs::read_link(directory.join("root")).ok();
        let cwd = std::fs::read_link(directory.join("cwd")).ok();
        let working_directory =
            root.zip(cwd).and_then(|(root, cwd)| crate::linux::rooted::strip_root(&cwd, &root));
        Some(Launch { command_line, environment, working_directory })
    }

    pub fn variable(&self, name: &str) -> Option<&Path> {
        self.environment.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(Path::new)
    }
}
