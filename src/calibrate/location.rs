//! The location of a directory, independent of mounts: its filesystem, and its path inside that filesystem.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::PROC;
use crate::linux::mountinfo::{self, Mount};
use crate::linux::rooted::Root;

/// Maximum nesting of overlays.
const MAX_OVERLAYS: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The device number of the filesystem itself, common to all its mounts and subvolumes.
    device: u32,
    /// Relative to the filesystem's own root.
    path: PathBuf,
}

impl Location {
    pub(crate) fn is_within(&self, other: &Location) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

/// Locations of a directory as a process sees it; `path` must not contain symlinks. On overlayfs this
/// includes the directory in the overlay's upper layer. Empty if unknown.
pub fn of(pid: u32, directory: &OwnedFd, path: &Path) -> Vec<Location> {
    let mut found = Vec::new();
    if let Some(mount) = mount_of(directory, pid) {
        add(&mount, path, MAX_OVERLAYS, &mut found);
    }
    found
}

fn add(mount: &Mount, path: &Path, overlays_left: u32, found: &mut Vec<Location>) {
    let Ok(below) = path.strip_prefix(&mount.mount_point) else { return };
    let inside = mount.root.join(below);
    if mount.filesystem == "overlay"
        && let Some(upper) = mount.option("upperdir")
        && let Some(deeper) = overlays_left.checked_sub(1)
    {
        add_upper(Path::new(upper), &inside, deeper, found);
    }
    found.push(Location { device: mount.device, path: inside });
}

/// Writes to an overlay go to its upper directory. Its path is the one given at mount time; it is resolved
/// in our own root, which is correct for container runtimes that run on the host.
fn add_upper(upper: &Path, inside: &Path, overlays_left: u32, found: &mut Vec<Location>) {
    let Ok(root) = Root::at(Path::new("/")) else { return };
    let Some(real) = root.canonical(upper) else { return };
    let Ok(directory) = root.look_up(&real, OFlags::DIRECTORY) else { return };
    if let Some(mount) = mount_of(&directory, std::process::id()) {
        let below = inside.strip_prefix("/").unwrap_or(inside);
        add(&mount, &real.join(below), overlays_left, found);
    }
}

/// Looks the mount up by the ID under which the kernel reached it: a path alone may cross mounts that are
/// hidden by others.
fn mount_of(directory: &OwnedFd, pid: u32) -> Option<Mount> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd())).ok()?;
    let id: i32 = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
    mountinfo::of_process(Path::new(PROC), pid).find(|mount| mount.id == id)
}
