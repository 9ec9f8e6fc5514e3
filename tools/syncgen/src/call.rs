//! The system calls that sync and write themselves, one each, with nothing of the C library's between: also
//! on a descriptor that is not open, or from a buffer that is not there. No safe binding offers these.

#![expect(unsafe_code, reason = "the system calls themselves")]

use std::io;
use std::os::fd::RawFd;

use clap::ValueEnum;
use memmap2::{MmapOptions, MmapRaw};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Op {
    Fsync,
    Fdatasync,
    SyncFileRange,
    Msync,
    Syncfs,
    Sync,
}

/// Makes exactly one system call. `mapping` is the file's, for msync.
pub fn sync(op: Op, fd: RawFd, mapping: Option<&MmapRaw>) -> io::Result<()> {
    // SAFETY: none of these calls touches this process's memory, whatever the descriptor.
    let result = match op {
        Op::Fsync => unsafe { libc::fsync(fd) },
        Op::Fdatasync => unsafe { libc::fdatasync(fd) },
        Op::SyncFileRange => {
            let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            unsafe { libc::sync_file_range(fd, 0, 0, flags) }
        }
        Op::Syncfs => unsafe { libc::syncfs(fd) },
        Op::Sync => {
            unsafe { libc::sync() };
            0
        }
        Op::Msync => match mapping {
            Some(mapping) => return mapping.flush(),
            None => return Err(io::Error::other("msync needs a mapped file")),
        },
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The first `length` bytes of a file, shared.
pub fn map(fd: RawFd, length: usize) -> io::Result<MmapRaw> {
    MmapOptions::new().len(length).map_raw(fd)
}

/// The calls that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCall {
    Write,
    Pwrite64,
    Writev,
    Pwritev,
    Pwritev2,
}

/// What one write takes its bytes from, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    pub bytes: &'a [u8],
    /// After these bytes comes a buffer that cannot be read; of calls without vectors, it is the only one.
    pub then_fault: bool,
    pub offset: i64,
    /// Of pwritev2.
    pub flags: i32,
}

/// An address that no process has mapped.
pub const NOWHERE: *mut libc::c_void = std::ptr::without_provenance_mut(8);

/// Makes exactly one system call; what it returned.
pub fn write(call: WriteCall, fd: RawFd, data: Data) -> io::Result<u64> {
    let address: *const libc::c_void = if data.then_fault { NOWHERE } else { data.bytes.as_ptr().cast() };
    let base = data.bytes.as_ptr().cast_mut().cast();
    let vector = [
        libc::iovec { iov_base: base, iov_len: data.bytes.len() },
        libc::iovec { iov_base: NOWHERE, iov_len: 4096 },
    ];
    let buffers = if data.then_fault { 2 } else { 1 };
    let (length, vector) = (data.bytes.len(), vector.as_ptr());
    // SAFETY: the kernel only reads what the addresses lead to, and refuses those that lead nowhere.
    let result = unsafe {
        match call {
            WriteCall::Write => libc::syscall(libc::SYS_write, fd, address, length),
            WriteCall::Pwrite64 => libc::syscall(libc::SYS_pwrite64, fd, address, length, data.offset),
            WriteCall::Writev => libc::syscall(libc::SYS_writev, fd, vector, buffers),
            WriteCall::Pwritev => libc::syscall(libc::SYS_pwritev, fd, vector, buffers, data.offset, 0i64),
            WriteCall::Pwritev2 => {
                libc::syscall(libc::SYS_pwritev2, fd, vector, buffers, data.offset, 0i64, data.flags)
            }
        }
    };
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_not_open_fails_with_ebadf() {
        for op in [Op::Fsync, Op::Fdatasync, Op::SyncFileRange, Op::Syncfs] {
            let error = sync(op, -1, None).expect_err("no such descriptor");
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{op:?}");
        }
    }

    #[test]
    fn a_vector_is_written_up_to_the_buffer_that_is_not_there() {
        use std::os::fd::AsRawFd;
        let file = tempfile::tempfile().expect("a temporary file");
        let data = |then_fault| Data { bytes: &[7; 100], then_fault, offset: 0, flags: 0 };
        let calls = [WriteCall::Writev, WriteCall::Pwritev, WriteCall::Pwritev2];
        for call in [WriteCall::Write, WriteCall::Pwrite64].into_iter().chain(calls) {
            assert_eq!(write(call, file.as_raw_fd(), data(false)).expect("it can be written"), 100);
            let faulty = write(call, file.as_raw_fd(), data(true)).map_err(|error| error.raw_os_error());
            assert_eq!(faulty, if calls.contains(&call) { Ok(100) } else { Err(Some(libc::EFAULT)) });
            assert!(write(call, -1, data(false)).is_err());
        }
    }
}
