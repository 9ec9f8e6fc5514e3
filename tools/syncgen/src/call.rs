//! The sync system calls themselves, one each, with nothing of the C library's between: also on a descriptor
//! that is not open. The only place with `unsafe`; no safe binding offers sync_file_range, or a call on a
//! descriptor known to be bad.

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
}
