//! Mounts as a process sees them: by number, by path, and the names of their devices.

use std::borrow::Borrow;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::OFlags;

use crate::linux::PROC;
use crate::linux::mountinfo::{self, Mount};
use crate::linux::open_files::DescriptorInfo;
use crate::linux::proc_file;
use crate::linux::rooted::{self, Root, strip_root};

/// How many ancestors of a process are asked for a mount that its own root does not reach.
const ANCESTOR_LIMIT: usize = 16;
/// Bytes of a name that is a mount's: whoever may mount chooses it.
const LONGEST_NAME: usize = 100;
/// The kernel allows two, one over the other (FILESYSTEM_MAX_STACK_DEPTH).
const MAX_OVERLAYS: usize = 4;

/// A path as our own root shows it, as the process's root shows it. The links of a process in a chroot begin
/// with the chroot's directory; those of one in another mount namespace begin at its own root already.
pub fn inside(proc_root: &Path, pid: u32, path: &Path) -> PathBuf {
    root_of(proc_root, pid).and_then(|root| strip_root(path, &root)).unwrap_or_else(|| path.to_owned())
}

/// The directory in which a process is chrooted. None: in none, or in another mount namespace, or it has
/// gone. The link is read, not followed: nothing blocks.
pub(crate) fn root_of(proc_root: &Path, pid: u32) -> Option<PathBuf> {
    let root = std::fs::read_link(proc_root.join(format!("{pid}/root"))).ok()?;
    (root != Path::new("/")).then_some(root)
}

/// A filesystem behind which stands another process or machine. Who waits for one that has gone cannot even
/// be killed: nothing is read from files of these unless it must be.
pub(crate) fn may_never_answer(filesystem: &str) -> bool {
    filesystem.starts_with("fuse")
        || filesystem.starts_with("nfs")
        || matches!(filesystem, "9p" | "afs" | "ceph" | "cifs" | "smb3" | "virtiofs")
}

/// Whether what is written to a filesystem's files is taken in by the kernel and stored nowhere, as a
/// thread's name in /proc/self/comm is.
pub(crate) fn stores_nothing(filesystem: &str) -> bool {
    const OF_THE_KERNEL: [&str; 9] =
        ["proc", "sysfs", "devpts", "cgroup", "cgroup2", "tracefs", "debugfs", "configfs", "securityfs"];
    OF_THE_KERNEL.contains(&filesystem)
}

/// The device number of all pipes, which lie on a filesystem that is mounted nowhere; as
/// [`crate::model::FileId::device`].
pub(crate) fn device_of_pipes() -> Option<u32> {
    static DEVICE: LazyLock<Option<u32>> = LazyLock::new(|| {
        let (pipe, _) = std::io::pipe().ok()?;
        Some(rooted::attributes(&pipe).ok()?.device)
    });
    *DEVICE
}

/// Whose root a mount point is seen from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenFrom {
    Process,
    Outside,
}

/// A mount by its number. A process's mountinfo lists only what its root reaches: one in a chroot that is no
/// mount point lists nothing. Numbers are unique on the host, so others help.
pub(crate) fn find_mount(proc_root: &Path, pid: u32, mount_id: i32) -> Option<(Mount, SeenFrom)> {
    let find = |pid| mountinfo::of_process(proc_root, pid).find(|mount| mount.id == mount_id);
    if let Some(mount) = find(pid) {
        return Some((mount, SeenFrom::Process));
    }
    let ancestors = std::iter::successors(parent(proc_root, pid), |&pid| parent(proc_root, pid));
    let others = std::iter::once(std::process::id()).chain(ancestors.take(ANCESTOR_LIMIT)).chain([1]);
    Some((others.into_iter().find_map(find)?, SeenFrom::Outside))
}

/// The mount with its mount point as the process sees it.
pub(crate) fn as_seen_inside(proc_root: &Path, pid: u32, (mut mount, seen): (Mount, SeenFrom)) -> Mount {
    if seen == SeenFrom::Outside {
        mount.mount_point = inside(proc_root, pid, &mount.mount_point);
    }
    mount
}

/// A mount by its number, its mount point as the process sees it, as far as its root reaches it.
pub(crate) fn mount_of(proc_root: &Path, pid: u32, mount_id: i32) -> Option<Mount> {
    Some(as_seen_inside(proc_root, pid, find_mount(proc_root, pid, mount_id)?))
}

/// The mount that a path of the process's root lies on.
pub(crate) fn mount_of_path(proc_root: &Path, pid: u32, path: &Path) -> Option<Mount> {
    let file = Root::of_process(proc_root, pid).ok()?.look_up(path, OFlags::empty()).ok()?;
    let info = DescriptorInfo::read(Path::new(PROC), std::process::id(), file.as_raw_fd())?;
    mount_of(proc_root, pid, info.mount_id?)
}

/// The mount that an overlay's upper layer lies on, by the path that it was mounted with, as our own root
/// shows it: right for container runtimes that run on the host. None: no overlay, one that cannot be written
/// to, or a path that is not known here. Paths are compared and not looked up: nothing blocks.
pub(crate) fn upper_mount(own: &[Mount], overlay: &Mount) -> Option<Mount> {
    let mut mount = overlay;
    // An overlay may lie on another one.
    for _ in 0..MAX_OVERLAYS {
        if mount.filesystem != "overlay" {
            break;
        }
        mount = mountinfo::covering(own, Path::new(mount.option("upperdir")?))?;
    }
    (mount.filesystem != "overlay").then(|| mount.clone())
}

/// All mounts of this process.
pub(crate) fn own() -> Vec<Mount> {
    mountinfo::of_process(Path::new(PROC), std::process::id()).collect()
}

fn parent(proc_root: &Path, pid: u32) -> Option<u32> {
    let process = procfs::process::Process::new_with_root(proc_root.join(pid.to_string())).ok()?;
    u32::try_from(process.stat().ok()?.ppid).ok().filter(|&parent| parent != 0)
}

/// A device's name: from the mount it is the source of, or by the kernel's own name for it. Of a filesystem
/// without one, what it is mounted from if that is another host, else where it is mounted; its number,
/// "0:42", where that is nowhere or longer than a name should be.
pub(crate) fn device_name(mounts: impl IntoIterator<Item = impl Borrow<Mount>>, device: u32) -> String {
    let mut place = None;
    let source = mounts.into_iter().find_map(|mount| {
        let mount: &Mount = mount.borrow();
        let source = Some(&mount.source).filter(|_| mount.device == device)?.as_bytes();
        let is_remote = source.windows(2).any(|two| two == b":/") || source.starts_with(b"//");
        let name = if is_remote { source } else { mount.mount_point.as_os_str().as_bytes() };
        if !source.starts_with(b"/dev/") {
            place.get_or_insert_with(|| String::from_utf8_lossy(name).into_owned());
            return None;
        }
        // "/dev/root" is what some boots call whatever the root filesystem is on.
        (source != b"/dev/root").then(|| String::from_utf8_lossy(source).into_owned())
    });
    let number = mountinfo::format_device(device);
    let named = || {
        let uevent = proc_file::read(Path::new(&format!("/sys/dev/block/{number}/uevent"))).ok()?;
        let name = uevent.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"DEVNAME="))?;
        Some(format!("/dev/{}", String::from_utf8_lossy(name)))
    };
    let place = place.filter(|place| place.len() <= LONGEST_NAME);
    source.or_else(named).or(place).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_lies_where_its_upper_directory_does() {
        let own = mountinfo::parse(
            b"\
27 1 254:0 / / rw - ext4 /dev/vda rw
31 27 8:16 / /var/lib/docker rw - xfs /dev/sdb rw
34 27 0:44 / /merged rw - overlay overlay rw,lowerdir=/a,upperdir=/var/lib/docker/overlay2/1/diff,workdir=/w
35 27 0:45 / /nested rw - overlay overlay rw,lowerdir=/a,upperdir=/merged/diff,workdir=/w
36 27 0:46 / /read-only rw - overlay overlay rw,lowerdir=/a:/b
37 27 0:47 / /itself rw - overlay overlay rw,lowerdir=/a,upperdir=/itself/diff,workdir=/w
",
        );
        let upper = |point: &str| {
            let mount = own.iter().find(|mount| mount.mount_point == Path::new(point)).unwrap();
            upper_mount(&own, mount).map(|mount| mount.source.into_string().unwrap())
        };
        assert_eq!(upper("/merged").as_deref(), Some("/dev/sdb"));
        assert_eq!(upper("/nested").as_deref(), Some("/dev/sdb"));
        assert_eq!((upper("/read-only"), upper("/itself")), (None, None));
        assert_eq!(upper("/var/lib/docker").as_deref(), Some("/dev/sdb"), "it is none");
    }

    #[test]
    fn files_of_other_machines_and_processes_are_not_opened() {
        for filesystem in ["fuse", "fuse.glusterfs", "fuseblk", "nfs4", "cifs", "virtiofs"] {
            assert!(may_never_answer(filesystem), "{filesystem}");
        }
        for filesystem in ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs"] {
            assert!(!may_never_answer(filesystem), "{filesystem}");
        }
    }
}
