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
    /// Of the first page only.
    FsyncRange,
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
    /// As many as [`MANY`] at a time.
    pub many: bool,
    /// Completions are posted when the program waits for them.
    pub deferred: bool,
    /// The device is polled by the program that waits, instead of interrupting.
    pub polled_for: bool,
    /// They are submitted by another than who made the ring, who reaps them.
    pub by_another: Option<Another>,
}

/// Who has the ring as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Another {
    Thread,
    /// A child, by the descriptor that it inherits; one that is sent (SCM_RIGHTS) is of the same open file.
    Process,
}

pub struct Ring {
    ring: IoUring,
    how: How,
}

const ENTRIES: u32 = 8;
/// More than a tracer has room for in one place.
pub const MANY: usize = 6_000;
const LAST: u64 = u64::MAX;

impl Ring {
    pub fn new(how: How, fd: RawFd) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        if how.polled {
            builder.setup_sqpoll(50);
        }
        if how.deferred {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        if how.polled_for {
            builder.setup_iopoll();
        }
        let ring = builder.build(if how.many { MANY.next_power_of_two() as u32 } else { ENTRIES })?;
        if how.registered {
            ring.submitter().register_files(&[fd])?;
        }
        Ok(Ring { ring, how })
    }

    /// Makes these requests at once, and waits for their ends: what each returned, in their order; of silent
    /// ones that succeeded, nothing.
    pub fn make(&mut self, fd: RawFd, requests: &[Request]) -> io::Result<Vec<io::Result<u64>>> {
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
        let expected = if self.how.silent { 1 } else { requests.len() };
        self.submit_and_wait(expected)?;
        let mut ends: Vec<(u64, i32)> = Vec::new();
        loop {
            ends.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            if ends.len() >= expected {
                break;
            }
            // Where the program polls, what a worker makes meanwhile is not waited for.
            self.ring.submitter().submit_and_wait(expected - ends.len())?;
        }
        ends.retain(|(number, _)| *number != LAST);
        ends.sort_unstable();
        let result = |(_, result): (u64, i32)| {
            u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
        };
        Ok(ends.into_iter().map(result).collect())
    }

    fn submit_and_wait(&self, n: usize) -> io::Result<()> {
        let submit = || self.ring.submitter().submit_and_wait(n);
        match self.how.by_another {
            None => submit().map(drop),
            Some(Another::Thread) => {
                let submitted = std::thread::scope(|scope| scope.spawn(submit).join());
                submitted.map_err(|_| io::Error::other("it panicked"))?.map(drop)
            }
            Some(Another::Process) => {
                // SAFETY: there is no other thread, and the child does nothing but this one call.
                match unsafe { libc::fork() } {
                    -1 => Err(io::Error::last_os_error()),
                    // SAFETY: it ends the child.
                    0 => unsafe { libc::_exit(i32::from(submit().is_err())) },
                    child => {
                        let mut status = 0;
                        // SAFETY: it writes one word.
                        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
                        if waited == child && status == 0 {
                            Ok(())
                        } else {
                            Err(io::Error::other(format!("the child ended with {status}")))
                        }
                    }
                }
            }
        }
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
            Request::FsyncRange => of_first_page(on!(Fsync())),
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

/// The crate knows no length of an fsync.
fn of_first_page(mut entry: Entry) -> Entry {
    /// Of `len` in struct io_uring_sqe (include/uapi/linux/io_uring.h).
    const AT: usize = 24;
    const { assert!(size_of::<Entry>() >= AT + size_of::<u32>()) };
    // SAFETY: an entry is the kernel's struct and nothing else, of integers: it is large enough, and
    // aligned.
    unsafe { std::ptr::from_mut(&mut entry).cast::<u8>().add(AT).cast::<u32>().write(4096) };
    entry
}

fn vector(request: &Request) -> [libc::iovec; 2] {
    let bytes: &[u8] = if let Request::Write(data) = request { data.bytes } else { &[] };
    [
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
        libc::iovec { iov_base: NOWHERE, iov_len: 4096 },
    ]
}
