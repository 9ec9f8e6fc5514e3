//! The open descriptors of another process, and what /proc tells of each without asking its filesystem. A
//! thread may have descriptors of its own: wherever a process's number is taken here, a thread's will do.

use std::collections::BTreeSet;
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

/// What kcmp(2) compares: the descriptors of two threads (include/uapi/linux/kcmp.h).
pub(crate) const KCMP_FILES: libc::c_int = 2;
/// Tables of descriptors that one process has; more are not looked for.
const MAX_TABLES: usize = 64;

/// The threads of a process by which all of its descriptors are found: as a rule its first one alone. Others
/// are there where that has ended (its descriptors are gone with it, while others hang), or where a thread
/// has given up sharing them (unshare(CLONE_FILES)).
pub(crate) fn tables(proc_root: &Path, pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(proc_root.join(format!("{pid}/task"))).into_iter().flatten();
    let tids: BTreeSet<u32> = tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&tid| tid != pid)
        .collect();
    let mut tables: Vec<u32> = Vec::new();
    for tid in std::iter::once(pid).chain(tids) {
        // Of thousands of threads nearly all share them, which one call tells.
        if !tables.iter().any(|&other| share_descriptors(other, tid)) && has_descriptors(proc_root, tid) {
            tables.push(tid);
        }
        if tables.len() == MAX_TABLES {
            break;
        }
    }
    tables
}

/// A thread that has ended has none, and its directory cannot be read.
fn has_descriptors(proc_root: &Path, tid: u32) -> bool {
    descriptors(proc_root, tid).next().is_some()
}

/// True also where the kernel does not tell: most share them.
fn share_descriptors(one: u32, other: u32) -> bool {
    #[expect(unsafe_code, reason = "there is no safe binding")]
    // SAFETY: it takes no pointers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) };
    order <= 0
}

/// The open descriptors of a process, in the kernel's (ascending) order. None if it has gone or is another
/// user's.
pub fn descriptors(proc_root: &Path, pid: u32) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(proc_root.join(format!("{pid}/fd"))).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_with_descriptors_of_its_own_is_found_and_those_that_share_them_are_not() {
        let (told, tid) = channel();
        let (end, ends) = channel::<()>();
        let own = std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES).unwrap();
            told.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
            let _ = ends.recv();
        });
        let tid = tid.recv().unwrap();
        let pid = std::process::id();
        let found = tables(Path::new("/proc"), pid);
        assert!(found[0] == pid && found.contains(&tid), "{found:?}");
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(found.len() < threads || threads == 2, "{found:?} of {threads}");
        drop(end);
        own.join().unwrap();
    }
}
