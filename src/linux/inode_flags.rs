//! Whether a flag of its inode (`chattr +S`) makes each write to a file durable.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Linux 6.17; no binding has it yet. The number is the same on x86-64 and arm64.
const SYS_FILE_GETATTR: libc::c_long = 468;

/// include/uapi/linux/fs.h: struct file_attr, as it was first.
#[repr(C)]
#[derive(Default)]
struct FileAttr {
    xflags: u64,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
}

const FS_XFLAG_SYNC: u64 = 0x20;

/// Those that read the flags where they stand in memory (fileattr_get of their inodes). XFS takes the inode's
/// lock for it, which may be what a write that hangs holds, and FUSE asks whoever serves it.
const FILESYSTEMS: [&str; 5] = ["ext2", "ext3", "ext4", "btrfs", "f2fs"];

/// `link`: one of /proc/PID/fd. The file behind it is not opened: that could wait, break a lease, or be
/// noticed. False where it is not known: on other filesystems and before Linux 6.17.
pub(crate) fn is_synchronous(link: &Path, filesystem: &str) -> bool {
    if !FILESYSTEMS.contains(&filesystem) {
        return false;
    }
    let Ok(link) = CString::new(link.as_os_str().as_bytes()) else { return false };
    let mut attributes = FileAttr::default();
    #[expect(unsafe_code, reason = "there is no safe binding")]
    // SAFETY: the path ends with a zero, and the kernel writes no more than the size that it is given.
    let failed = unsafe {
        libc::syscall(
            SYS_FILE_GETATTR,
            libc::AT_FDCWD,
            link.as_ptr(),
            &raw mut attributes,
            size_of::<FileAttr>(),
            0,
        )
    };
    failed == 0 && attributes.xflags & FS_XFLAG_SYNC != 0
}
