//! Root directories of the kernel's files: the host's own, or a fixture's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    pub boot: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: "/proc".into(), sys: "/sys".into(), boot: "/boot".into() }
    }
}

impl Roots {
    /// A fixture: a directory that contains proc, sys and boot.
    #[cfg(test)]
    pub fn under(directory: &Path) -> Self {
        Roots { proc: directory.join("proc"), sys: directory.join("sys"), boot: directory.join("boot") }
    }

    /// Reads a file below /proc, trimmed.
    pub(crate) fn read_proc(&self, file: &str) -> io::Result<String> {
        read_trimmed(&self.proc.join(file))
    }

    /// Reads a file below /sys, trimmed.
    pub(crate) fn read_sys(&self, file: &str) -> io::Result<String> {
        read_trimmed(&self.sys.join(file))
    }

    /// Maps a mount point below /sys into these roots.
    pub fn locate(&self, mount_point: &Path) -> PathBuf {
        match mount_point.strip_prefix("/sys") {
            Ok(rest) => self.sys.join(rest),
            Err(_) => mount_point.to_path_buf(),
        }
    }
}

fn read_trimmed(path: &Path) -> io::Result<String> {
    // A kernel command line may contain arbitrary bytes.
    Ok(String::from_utf8_lossy(&fs::read(path)?).trim().to_owned())
}

/// Fixtures for the checks' tests.
#[cfg(test)]
pub(crate) fn fixture(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
    let directory = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let roots = Roots::under(directory.path());
    (directory, roots)
}
