//! Where a directory lies, whichever mount leads there: on which filesystem, and by which path inside it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::mountinfo::{self, Mount};
use crate::linux::rooted::Root;

/// Overlays that may lie on overlays.
const DEEPEST: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Of the filesystem itself, which all its mounts and subvolumes share.
    device: u32,
    /// From the filesystem's own root.
    path: PathBuf,
}

impl Location {
    pub fn is_within(&self, other: &Location) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

/// Of a directory as a process sees it; `path` without symlinks. On overlayfs also where the overlay keeps it. Empty
/// where that cannot be told.
pub fn of(pid: u32, directory: &OwnedFd, path: &Path) -> Vec<Location> {
    let mut found = Vec::new();
    if let Some(mount) = mount_of(directory, pid) {
        add(&mount, path, DEEPEST, &mut found);
    }
    found
}

fn add(mount: &Mount, path: &Path, deepest: u32, found: &mut Vec<Location>) {
    let Ok(below) = path.strip_prefix(&mount.mount_point) else { return };
    let inside = mount.root.join(below);
    if mount.filesystem == "overlay"
        && let Some(upper) = mount.option("upperdir")
        && let Some(deeper) = deepest.checked_sub(1)
    {
        add_upper(Path::new(upper), &inside, deeper, found);
    }
    found.push(Location { device: mount.device, path: inside });
}

/// What is written to an overlay goes to its upper directory, which whoever mounted it named by a path of their own: here
/// it is taken for one of ours, as with container runtimes on the host.
fn add_upper(upper: &Path, inside: &Path, deepest: u32, found: &mut Vec<Location>) {
    let Ok(root) = Root::at(Path::new("/")) else { return };
    let Some(real) = root.canonical(upper) else { return };
    let Ok(directory) = root.look_up(&real, OFlags::DIRECTORY) else { return };
    if let Some(mount) = mount_of(&directory, std::process::id()) {
        let below = inside.strip_prefix("/").unwrap_or(inside);
        add(&mount, &real.join(below), deepest, found);
    }
}

/// By the number of the mount that the kernel reached it by: a path alone may lead through mounts that others hide.
fn mount_of(directory: &OwnedFd, pid: u32) -> Option<Mount> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd())).ok()?;
    let id: i32 = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
    mountinfo::of_process(Path::new("/proc"), pid).find(|mount| mount.id == id)
}
