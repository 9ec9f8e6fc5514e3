//! Proves after attaching that calls are counted and files are recognised: fentry can attach without an error
//! and count nothing (ftrace_enabled=0), and a field that is not where it was thought to be reads as
//! something else. The calls do no I/O: a descriptor that is not open, and a file in memory.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::contract::SyncSkel;
use super::globals;
use super::identity::Of;
use crate::model::{Op, SystemCall, Via};

/// Ok if each call of ours was seen at entry and at exit and the file was recognised; else what went wrong,
/// in words.
pub(super) fn run(skel: &mut SyncSkel, ops: &[Op]) -> Result<(), String> {
    // Other threads of this process may sync meanwhile.
    globals::set_self_test_thread(skel, rustix::thread::gettid().as_raw_nonzero().get() as u32);
    for &op in ops.iter().filter(|op| op.via() == Via::Call) {
        let before = globals::self_test_calls(skel, op);
        let made = call(op, -1);
        let counted = globals::self_test_calls(skel, op) - before;
        if counted != made {
            return Err(format!("of {made} {} calls of its own it counted {counted}", op.name()));
        }
        if matches!(op, Op::Fsync | Op::Fdatasync | Op::DsyncWrite) {
            let memory = memory_file().map_err(|error| format!("memfd_create: {error}"))?;
            let before = globals::self_test_calls(skel, op);
            match op {
                Op::DsyncWrite => write_nothing(&op.calls()[..1], memory.as_raw_fd()),
                _ => call(op, memory.as_raw_fd()),
            };
            let counted = globals::self_test_calls(skel, op) - before;
            if counted != 1 {
                return Err(format!("of 1 {} call on a file in memory it counted {counted}", op.name()));
            }
            recognise(skel, op, &memory)?;
        }
    }
    if globals::returns_limited(skel) {
        return Err(
            "this kernel follows only a few calls at a time to their end (Linux 6.14 follows all)".into()
        );
    }
    Ok(())
}

/// Makes each of an operation's calls once, so that it fails or does nothing, and returns how many it made:
/// 0 for sync, which has no such form.
fn call(op: Op, fd: i32) -> u64 {
    if matches!(op, Op::DsyncWrite | Op::Write | Op::Fallocate) {
        return write_nothing(op.calls(), fd);
    }
    // SAFETY: none of these touches memory of ours: msync is refused for its odd address.
    unsafe {
        match op {
            Op::Fsync => libc::fsync(fd),
            Op::Fdatasync => libc::fdatasync(fd),
            Op::SyncFileRange => libc::sync_file_range(fd, 0, 0, 0),
            Op::Syncfs => libc::syncfs(fd),
            Op::Msync => libc::msync(std::ptr::without_provenance_mut(1), 0, libc::MS_ASYNC),
            _ => return 0,
        };
    }
    1
}

/// The programs take each write of the self-test for a durable one, and each copy for one that is not.
fn write_nothing(calls: &[SystemCall], fd: i32) -> u64 {
    const NONE: libc::c_long = 0;
    for call in calls {
        // SAFETY: no bytes from no address, which are the second and third argument of each call that writes;
        // the others, an offset and flags, are zero. Those that copy, and fallocate, have a length of zero.
        unsafe { libc::syscall(call.native, fd, std::ptr::null::<u8>(), NONE, NONE, NONE, NONE) };
    }
    calls.len() as u64
}

fn memory_file() -> std::io::Result<OwnedFd> {
    // SAFETY: the name is a C string; the descriptor is new and ours.
    unsafe {
        let fd = libc::memfd_create(c"fsynctop-self-test".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(std::io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn recognise(skel: &SyncSkel, op: Op, file: &OwnedFd) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let clone = file.try_clone().map_err(|error| error.to_string())?;
    let truth = std::fs::File::from(clone).metadata().map_err(|error| error.to_string())?;
    let Of::File(seen) = globals::self_test_file(skel, op).of() else {
        return Err("a file in memory was taken for no file".to_owned());
    };
    let device = libc::makedev(seen.device >> 20, seen.device & 0xfffff);
    if (device, seen.inode) == (truth.dev(), truth.ino()) {
        return Ok(());
    }
    Err(format!(
        "a file in memory, device {} inode {}, was taken for device {device} inode {}",
        truth.dev(),
        truth.ino(),
        seen.inode
    ))
}
