//! A filesystem on which a sync really hangs, in D state.
//!
//! An ext4 filesystem lies in a file on another one, which is frozen: the inner one's data cannot be written,
//! so its fdatasync waits for as long as the freeze lasts. (On a frozen filesystem itself nothing is dirty to
//! sync.)

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Two ext4 filesystems, the inner one in a file of the outer one. Thawed and unmounted in the end, whatever
/// happens: a filesystem left frozen would block the machine's next `sync`.
pub struct Nested {
    directory: tempfile::TempDir,
}

impl Nested {
    pub fn new() -> Result<Nested, String> {
        let nested = Nested { directory: tempfile::tempdir().map_err(|error| error.to_string())? };
        make_filesystem(&nested.directory.path().join("outer.img"), 48 << 20, &nested.outer())?;
        make_filesystem(&nested.outer().join("inner.img"), 16 << 20, &nested.inner())?;
        Ok(nested)
    }

    fn outer(&self) -> PathBuf {
        self.directory.path().join("outer")
    }

    pub fn inner(&self) -> PathBuf {
        self.directory.path().join("inner")
    }

    pub fn freeze(&self) {
        run("fsfreeze -f", &[&self.outer()]).unwrap();
    }

    pub fn thaw(&self) {
        run("fsfreeze -u", &[&self.outer()]).unwrap();
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let _ = run("fsfreeze -u", &[&self.outer()]);
        // the hung thread closes its file a moment after the thaw
        for _ in 0..100 {
            if run("umount", &[&self.inner()]).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = run("umount", &[&self.outer()]);
    }
}

fn make_filesystem(image: &Path, size: u64, point: &Path) -> Result<(), String> {
    File::create(image).and_then(|file| file.set_len(size)).map_err(|error| error.to_string())?;
    fs::create_dir(point).map_err(|error| error.to_string())?;
    run("mkfs.ext4 -q", &[image])?;
    run("mount -o loop", &[image, point])
}

fn run(command: &str, arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new(command.split(' ').next().unwrap_or(command))
        .args(command.split(' ').skip(1))
        .args(arguments)
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{command}: {}", message.trim()))
}
