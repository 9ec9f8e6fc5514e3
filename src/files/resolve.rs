//! From a kernel identity to a path: through a descriptor that still holds the file, or through the name that
//! the kernel side sent. A link that does not verify against the identity is not used.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::engine::rule::FIRST_BYTES;
use crate::linux::PROC;
use crate::linux::mountinfo::{self, Mount};
use crate::linux::mounts::{SeenFrom, as_seen_inside, device_name, find_mount, inside, mount_of};
use crate::linux::open_files::{DescriptorInfo, descriptors};
use crate::linux::rooted::{self, Root};
use crate::model::FileId;

/// How many of a process's descriptors [`find_open_descriptors`] looks at.
pub(crate) const DESCRIPTOR_LIMIT: usize = 65_536;
/// What the kernel adds to the last name of a file that has none any more.
pub(crate) const DELETED: &[u8] = b" (deleted)";
/// The first component of a path whose beginning is not known: the file lies deeper than the kernel side
/// follows. Such a path is not absolute.
pub(crate) const CUT_OFF: &str = "…";

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Inside the server's own root; any bytes. Outside of it only where the file lies outside (a chroot that
    /// was entered with open descriptors).
    pub path: PathBuf,
    /// It has no name any more; the path is its last one.
    pub deleted: bool,
    /// None: not known, because no descriptor holds the file any more.
    pub is_directory: Option<bool>,
    /// "/dev/vda1", or "8:1" where no device node is known.
    pub device: String,
    /// Inside the server's own root, as far as that reaches it.
    pub mount: Option<PathBuf>,
    pub filesystem: Option<String>,
}

/// The file behind a descriptor, if that still holds this identity. It does not wait for the file's
/// filesystem, but for two: NFS with a dead server, and any filesystem if a file's name ends in " (deleted)"
/// but it has names left.
pub fn resolve(proc_root: &Path, pid: u32, fd: i32, id: FileId) -> Option<Resolved> {
    // Held, so that all that is read is of one file: its descriptor may be closed and used again meanwhile.
    let held = rooted::hold(&proc_root.join(format!("{pid}/fd/{fd}"))).ok()?;
    let info = DescriptorInfo::read(Path::new(PROC), std::process::id(), held.as_raw_fd())?;
    let attributes = rooted::attributes(&held).ok();
    if info.inode.or(attributes.map(|file| file.inode))? != id.inode {
        return None;
    }
    let mount = info.mount_id.and_then(|mount_id| mount_of(proc_root, pid, mount_id));
    let device = match &mount {
        Some(mount) if !keeps_subvolumes(mount) => mount.device,
        // The subvolume's own. Of a mount that nobody lists: the same as the superblock's but on overlayfs.
        _ => attributes?.device,
    };
    if device != id.device {
        return None;
    }
    let target = rooted::link_of(&held)?;
    let (path, deleted) = match target.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(name) if is_deleted(proc_root, pid, &target, attributes.map(|file| file.links), id) => {
            (PathBuf::from(OsStr::from_bytes(name)), true)
        }
        _ => (target, false),
    };
    let path = inside(proc_root, pid, &path);
    Some(located(proc_root, pid, path, deleted, attributes.map(|file| file.is_directory), mount, id))
}

/// The file by the name it had when it was synced: `components` from the file itself up to, but without, the
/// root of the mount, as the kernel walks them (leaf first); if they are not `complete`, up to a directory
/// below it. For descriptors closed in the meantime and
/// processes that have gone; of a process that has gone, the path is as this program's own root shows it.
/// Nothing is looked up at that path, so a stuck filesystem does not matter.
pub fn from_dentry(
    proc_root: &Path,
    pid: u32,
    mount_id: i32,
    components: &[Vec<u8>],
    complete: bool,
    id: FileId,
) -> Option<Resolved> {
    // Which subvolume a file of btrfs was in cannot be told once it is closed; the mount's number then
    // suffices.
    let mount = find_mount(proc_root, pid, mount_id)
        .filter(|(mount, _)| mount.device == id.device || keeps_subvolumes(mount));
    if components.is_empty() && mount.is_none() {
        return None;
    }
    let start = match &mount {
        _ if !complete => Path::new(CUT_OFF),
        Some((mount, _)) => &mount.mount_point,
        None => Path::new("/"),
    };
    let path = components.iter().rev().fold(start.to_owned(), |path, name| {
        let name = OsStr::from_bytes(name);
        // A component is one name; an absolute one would throw away what stands before it.
        if name.as_bytes().contains(&b'/') { path } else { path.join(name) }
    });
    // A chroot inside of a mount: only the whole path leads into it, the mount point does not.
    let seen_from_outside = mount.as_ref().is_some_and(|(_, seen)| *seen == SeenFrom::Outside);
    let path = if seen_from_outside { inside(proc_root, pid, &path) } else { path };
    let mount = mount.map(|mount| as_seen_inside(proc_root, pid, mount));
    Some(located(proc_root, pid, path, false, None, mount, id))
}

/// btrfs shows a device number of its own for each subvolume, as `stat` and the kernel side do; no mount
/// lists it.
fn keeps_subvolumes(mount: &Mount) -> bool {
    mount.filesystem == "btrfs"
}

fn located(
    proc_root: &Path,
    pid: u32,
    path: PathBuf,
    deleted: bool,
    is_directory: Option<bool>,
    mount: Option<Mount>,
    id: FileId,
) -> Resolved {
    let device = match &mount {
        Some(mount) => device_name([mount], mount.device),
        None => device_name(mountinfo::of_process(proc_root, pid), id.device),
    };
    let (mount, filesystem) = mount.map(|mount| (mount.mount_point, mount.filesystem)).unzip();
    Resolved { path, deleted, is_directory, device, mount, filesystem }
}

/// Whether the " (deleted)" that a link ends in was added by the kernel: no name is left, or the name that is
/// written there does not lead to the file.
fn is_deleted(proc_root: &Path, pid: u32, target: &Path, links: Option<u32>, id: FileId) -> bool {
    links == Some(0)
        || !look_at(proc_root, pid, &inside(proc_root, pid, target))
            .is_ok_and(|found| found.inode == id.inode)
}

struct Found {
    inode: u64,
    links: u32,
}

/// What stands at a path of the process's root now; the last component is not followed if it is a symlink.
fn look_at(proc_root: &Path, pid: u32, path: &Path) -> std::io::Result<Found> {
    let file = Root::of_process(proc_root, pid)?.look_up(path, OFlags::NOFOLLOW)?;
    Ok(Found { inode: rooted::kernel_inode(&file)?, links: rooted::attributes(&file)?.links })
}

/// The result of checking whether a file is still in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// The same inode number stands at the path. (A number that was handed out again *for the same path*
    /// counts as the same: the row then retires later, never too early.)
    Same,
    /// Nothing, or another file, stands there: the file was unlinked, or renamed.
    Unlinked,
    /// Cannot be told: the process has gone, or the path cannot be looked at.
    Unknown,
}

/// Looks at the path again. It can wait where the path's filesystem is stuck: not for a hot path.
pub fn still_exists(proc_root: &Path, pid: u32, path: &Path, id: FileId) -> Existence {
    // What is not absolute leads nowhere: a pipe, or a path that was cut off.
    if !path.is_absolute() {
        return Existence::Unknown;
    }
    match look_at(proc_root, pid, path) {
        Ok(found) if found.inode == id.inode && found.links > 0 => Existence::Same,
        Ok(_) => Existence::Unlinked,
        Err(error) => {
            let missing = matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NOTDIR));
            // The process itself may be what is missing.
            let alive = missing && proc_root.join(format!("{pid}/root")).read_link().is_ok();
            if alive { Existence::Unlinked } else { Existence::Unknown }
        }
    }
}

/// Those of the files that a process has open, each with the lowest of its descriptors that holds it. It
/// looks at [`DESCRIPTOR_LIMIT`] at most and not beyond `until`, at several microseconds each: only for what
/// is rare.
pub fn find_open_descriptors(
    proc_root: &Path,
    pid: u32,
    wanted: &[FileId],
    until: Instant,
) -> Vec<(FileId, i32)> {
    let mut found: Vec<(FileId, i32)> = Vec::new();
    for fd in descriptors(proc_root, pid).take(DESCRIPTOR_LIMIT) {
        if found.len() == wanted.len() || Instant::now() >= until {
            break;
        }
        let Some(info) = DescriptorInfo::read(proc_root, pid, fd) else { continue };
        let may_be = |id: &&FileId| info.inode.is_none_or(|inode| inode == id.inode);
        let open = wanted.iter().filter(may_be).find(|id| resolve(proc_root, pid, fd, **id).is_some());
        if let Some(&id) = open
            && found.iter().all(|(known, _)| *known != id)
        {
            found.push((id, fd));
        }
    }
    found
}

/// Whether a process may have a file open. False only if all of its descriptors were looked at and lead
/// elsewhere, or it has gone. It waits as [`resolve`] does.
pub(crate) fn may_have_open(proc_root: &Path, pid: u32, id: FileId, until: Instant) -> bool {
    let entries = match std::fs::read_dir(proc_root.join(format!("{pid}/fd"))) {
        Ok(entries) => entries,
        Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
    };
    for entry in entries {
        let Ok(entry) = entry else { return true };
        if Instant::now() >= until {
            return true;
        }
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { return true };
        // One that cannot be read was closed meanwhile.
        let Some(info) = DescriptorInfo::read(proc_root, pid, fd) else { continue };
        let number = || rooted::attributes_of(&entry.path()).ok().map(|file| file.inode);
        if info.inode.or_else(number).is_some_and(|number| number != id.inode) {
            continue;
        }
        // Small numbers are those of many files, each on a filesystem of its own.
        let mount = info.mount_id.and_then(|mount_id| mount_of(proc_root, pid, mount_id));
        if !mount.is_some_and(|mount| !keeps_subvolumes(&mount) && mount.device != id.device) {
            return true;
        }
    }
    false
}

/// The first bytes of a file, for rules that look at the content. None where the path does not lead to that
/// file. It reads from the file, without changing its access time: not where its filesystem may be stuck.
pub fn first_bytes(proc_root: &Path, pid: u32, path: &Path, id: FileId) -> Option<Vec<u8>> {
    let root = Root::of_process(proc_root, pid).ok()?;
    let open = |flags| root.open_file(path, OFlags::NOFOLLOW | flags);
    // Only the owner of a file or CAP_FOWNER may leave its access time alone.
    let file = open(OFlags::NOATIME).or_else(|_| open(OFlags::empty())).ok()?;
    if rooted::kernel_inode(&file).ok()? != id.inode {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FIRST_BYTES as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
