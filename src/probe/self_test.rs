//! Proves after attaching that calls are counted and files are recognised: fentry can attach without an error and
//! count nothing (ftrace_enabled=0), and a field that is not where it was thought to be reads as something else.
//! The calls do no I/O: a descriptor that is not open, and a file in memory.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::attach::Attached;
use super::flags;
use crate::model::Op;

/// What went wrong, in words; Ok if each call of ours was seen at entry and at exit, and the file recognised.
pub fn run(attached: &mut Attached) -> Result<(), String> {
    count_this_thread(attached);
    for op in attached.ops().to_vec() {
        let before = seen(attached, op);
        let made = call(op, -1);
        let counted = seen(attached, op) - before;
        if counted != made {
            return Err(format!("of {made} {} calls of its own it counted {counted}", op.name()));
        }
        if matches!(op, Op::Fsync | Op::Fdatasync) {
            let memory = memory_file().map_err(|error| format!("memfd_create: {error}"))?;
            let before = seen(attached, op);
            call(op, memory.as_raw_fd());
            let counted = seen(attached, op) - before;
            if counted != 1 {
                return Err(format!("of 1 {} call on a file in memory it counted {counted}", op.name()));
            }
            recognised(attached, op, &memory)?;
        }
    }
    if flags::returns_limited(attached) {
        return Err(
            "this kernel follows only a few calls at a time to their end (Linux 6.14 follows all)".into()
        );
    }
    Ok(())
}

/// Other threads of this process may sync meanwhile: only this one's calls are a test.
fn count_this_thread(attached: &mut Attached) {
    let bss = attached.skel.maps.bss_data.as_deref_mut().expect("the object has a .bss");
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // SAFETY: one word that only this side writes; the programs read it at any moment.
    unsafe { std::ptr::from_mut(&mut bss.self_tid).write_volatile(thread) };
}

/// Makes one call that fails or does nothing, and says how many it made: sync has no such form.
fn call(op: Op, fd: i32) -> u64 {
    // SAFETY: none of these touches memory of ours: msync is refused for its odd address.
    unsafe {
        match op {
            Op::Fsync => libc::fsync(fd),
            Op::Fdatasync => libc::fdatasync(fd),
            Op::SyncFileRange => libc::sync_file_range(fd, 0, 0, 0),
            Op::Syncfs => libc::syncfs(fd),
            Op::Msync => libc::msync(std::ptr::without_provenance_mut(1), 0, libc::MS_ASYNC),
            Op::Sync => return 0,
        };
    }
    1
}

fn seen(attached: &Attached, op: Op) -> u64 {
    let bss = attached.skel.maps.bss_data.as_deref().expect("the object has a .bss");
    // SAFETY: one word that only the programs write, on this thread's own calls.
    unsafe { std::ptr::from_ref(&bss.counters.self_test[op as usize]).read_volatile() }
}

fn memory_file() -> std::io::Result<OwnedFd> {
    // SAFETY: the name is a C string; the descriptor is new and ours.
    unsafe {
        let fd = libc::memfd_create(c"fsynctop-self-test".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(std::io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn recognised(attached: &Attached, op: Op, file: &OwnedFd) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let clone = file.try_clone().map_err(|error| error.to_string())?;
    let truth = std::fs::File::from(clone).metadata().map_err(|error| error.to_string())?;
    let bss = attached.skel.maps.bss_data.as_deref().expect("the object has a .bss");
    // SAFETY: plain integers, written on this thread's own calls.
    let id = unsafe { std::ptr::from_ref(&bss.counters.self_file[op as usize]).read_volatile() };
    let device = libc::makedev(id.device >> 20, id.device & 0xfffff);
    if (device, id.object) == (truth.dev(), truth.ino()) {
        return Ok(());
    }
    Err(format!(
        "a file in memory, device {} inode {}, was taken for device {device} inode {}",
        truth.dev(),
        truth.ino(),
        id.object
    ))
}
