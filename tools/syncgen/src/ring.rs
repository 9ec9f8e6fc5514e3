//! Requests of io_uring, and how they ended.

#![expect(unsafe_code, reason = "the kernel reads memory that a request names")]

use std::io;
use std::os::fd::RawFd;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, Fixed, FsyncFlags};
use io_uring::{IoUring, opcode};

use crate::call::{Data, NOWHERE};

/// Of one file.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    Fsync,
    Fdatasync,
    SyncFileRange,
    /// From a vector, where a buffer that cannot be read follows.
    Write(Data<'a>),
}

/// How the requests are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// By a thread of the kernel.
    pub polled: bool,
    /// The file is one of the ring's own table.
    pub registered: bool,
    /// Each but the last has to succeed before the next begins.
    pub linked: bool,
    /// Only failures are told of.
    pub silent: bool,
}

pub struct Ring {
    ring: IoUring,
    how: How,
}

const ENTRIES: u32 = 8;
const LAST: u64 = u64::MAX;

impl Ring {
    pub fn new(how: How, fd: RawFd) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        if how.polled {
            builder.setup_sqpoll(50);
        }
        let ring = builder.build(ENTRIES)?;
        if how.registered {
            ring.submitter().register_files(&[fd])?;
        }
        Ok(Ring { ring, how })
    }

    /// Makes these requests at once, and waits for their ends: what each returned, in their order; of silent
    /// ones that succeeded, nothing.
    pub fn make(&mut self, fd: RawFd, requests: &[Request]) -> io::Result<Vec<io::Result<u64>>> {
        assert!(requests.len() < ENTRIES as usize);
        let vectors: Vec<[libc::iovec; 2]> = requests.iter().map(vector).collect();
        for (number, (request, vector)) in requests.iter().zip(&vectors).enumerate() {
            let mut flags = Flags::empty();
            flags.set(Flags::SKIP_SUCCESS, self.how.silent);
            let is_last = number + 1 == requests.len();
            flags.set(Flags::IO_LINK, self.how.silent || (self.how.linked && !is_last));
            let entry = self.entry(fd, request, vector).user_data(number as u64).flags(flags);
            // SAFETY: what the entry points to lives until all have ended, below.
            unsafe { self.ring.submission().push(&entry).expect("there is room for all") };
        }
        if self.how.silent {
            // The one that tells that they have ended.
            let last = opcode::Nop::new().build().user_data(LAST);
            // SAFETY: it points to nothing.
            unsafe { self.ring.submission().push(&last).expect("there is room for it") };
        }
        self.ring.submit_and_wait(if self.how.silent { 1 } else { requests.len() })?;
        let mut ends: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        ends.retain(|(number, _)| *number != LAST);
        ends.sort_unstable();
        let result = |(_, result): (u64, i32)| {
            u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
        };
        Ok(ends.into_iter().map(result).collect())
    }

    fn entry(&self, fd: RawFd, request: &Request, vector: &[libc::iovec; 2]) -> Entry {
        macro_rules! on {
            ($opcode:ident ($($argument:expr),*) $(.$option:ident($value:expr))*) => {
                if self.how.registered {
                    opcode::$opcode::new(Fixed(0), $($argument),*)$(.$option($value))*.build()
                } else {
                    opcode::$opcode::new(Fd(fd), $($argument),*)$(.$option($value))*.build()
                }
            };
        }
        const ALL_OF_IT: u32 = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        match request {
            Request::Fsync => on!(Fsync()),
            Request::Fdatasync => on!(Fsync().flags(FsyncFlags::DATASYNC)),
            Request::SyncFileRange => on!(SyncFileRange(0).flags(ALL_OF_IT)),
            Request::Write(data) if data.then_fault => {
                on!(Writev(vector.as_ptr(), 2).offset(data.offset as u64).rw_flags(data.flags))
            }
            Request::Write(data) => {
                let (bytes, length) = (data.bytes.as_ptr(), data.bytes.len() as u32);
                on!(Write(bytes, length).offset(data.offset as u64).rw_flags(data.flags))
            }
        }
    }
}

fn vector(request: &Request) -> [libc::iovec; 2] {
    let bytes: &[u8] = if let Request::Write(data) = request { data.bytes } else { &[] };
    [
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
        libc::iovec { iov_base: NOWHERE, iov_len: 4096 },
    ]
}
