//! The open descriptors of another process, and what /proc tells of each without asking its filesystem.

use std::path::Path;

use crate::linux::proc_file;

/// As include/uapi/asm-generic/fcntl.h has them; O_SYNC contains O_DSYNC.
const O_DSYNC: u32 = 0o10000;
const O_ACCMODE: u32 = 0o3;
const O_WRONLY: u32 = 0o1;
const O_RDWR: u32 = 0o2;

/// Fields of /proc/PID/fdinfo/FD; older kernels lack some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DescriptorInfo {
    pub flags: Option<u32>,
    pub mount_id: Option<i32>,
    /// The kernel's own number; since Linux 5.14.
    pub inode: Option<u64>,
}

impl DescriptorInfo {
    pub fn parse(text: &str) -> DescriptorInfo {
        let field = |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
        DescriptorInfo {
            flags: field("flags:").and_then(|octal| u32::from_str_radix(octal, 8).ok()),
            mount_id: field("mnt_id:").and_then(|id| id.parse().ok()),
            inode: field("ino:").and_then(|inode| inode.parse().ok()),
        }
    }

    pub fn read(proc_root: &Path, pid: u32, fd: i32) -> Option<DescriptorInfo> {
        let path = proc_root.join(format!("{pid}/fdinfo/{fd}"));
        // Epoll and inotify descriptors list everything that they watch; what is wanted stands in front.
        let text = proc_file::read_once::<512>(&path).ok()?;
        Some(DescriptorInfo::parse(&String::from_utf8_lossy(&text)))
    }
}

/// The open file flags (O_RDWR, O_DSYNC, …) of a descriptor.
pub fn flags(proc_root: &Path, pid: u32, fd: i32) -> Option<u32> {
    DescriptorInfo::read(proc_root, pid, fd)?.flags
}

/// With these flags it can be written.
pub(crate) fn writes(flags: u32) -> bool {
    matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR)
}

/// With these flags each write is durable when it returns: O_DSYNC, or O_SYNC, which contains it.
pub(crate) fn writes_are_durable(flags: u32) -> bool {
    flags & O_DSYNC != 0
}

/// The open descriptors of a process, in the kernel's (ascending) order. None if it has gone or is another
/// user's.
pub fn descriptors(proc_root: &Path, pid: u32) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(proc_root.join(format!("{pid}/fd"))).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
