//! Requests of libaio, and how they ended: by the system calls themselves.

#![expect(unsafe_code, reason = "the kernel reads and writes memory that a request names")]

use std::io;
use std::os::fd::RawFd;
use std::ptr::from_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use crate::aio_abi::Block;
use crate::aio_abi::{Event, PWRITE};
use crate::call::{Data, NOWHERE};

/// What a context's address leads to: struct aio_ring of the kernel's fs/aio.c, which libaio knows as well.
#[repr(C)]
struct Ring {
    id: u32,
    entries: u32,
    head: AtomicU32,
    tail: AtomicU32,
}

const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PWRITEV: u16 = 8;

/// The libc crate does not have it.
const IO_PGETEVENTS: libc::c_long = if cfg!(target_arch = "aarch64") { 292 } else { 333 };

const PATIENCE: Duration = Duration::from_secs(60);

impl Block {
    pub fn fsync(fd: RawFd) -> Block {
        Block { opcode: FSYNC, fd, ..Block::default() }
    }

    pub fn fdatasync(fd: RawFd) -> Block {
        Block { opcode: FDSYNC, fd, ..Block::default() }
    }

    /// From one buffer: the data's own, or one that cannot be read.
    pub fn write(fd: RawFd, data: Data) -> Block {
        let address = if data.then_fault { NOWHERE.addr() } else { data.bytes.as_ptr().addr() };
        let (buffer, bytes) = (address as u64, data.bytes.len() as u64);
        Block {
            opcode: PWRITE,
            fd,
            flags: data.flags,
            buffer,
            bytes,
            offset: data.offset,
            ..Block::default()
        }
    }

    /// `vector` has to live until it has ended.
    pub fn write_vector(fd: RawFd, data: Data, vector: &[libc::iovec]) -> Block {
        let (buffer, bytes) = (vector.as_ptr().addr() as u64, vector.len() as u64);
        Block {
            opcode: PWRITEV,
            fd,
            flags: data.flags,
            buffer,
            bytes,
            offset: data.offset,
            ..Block::default()
        }
    }
}

/// How a context's events are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reap {
    Getevents,
    Pgetevents,
    /// Out of the ring that the kernel shares with the process, without a call.
    Oneself,
}

/// A context; dropping it destroys it.
pub struct Context(u64);

impl Context {
    pub fn new(entries: u32) -> io::Result<Context> {
        let mut id = 0u64;
        // SAFETY: it writes one word.
        result(unsafe { libc::syscall(libc::SYS_io_setup, entries, from_mut(&mut id)) })?;
        Ok(Context(id))
    }

    /// How many of them the kernel took. They have to stay where they are until they have ended.
    pub fn submit(&self, blocks: &[*mut Block]) -> io::Result<usize> {
        // SAFETY: the kernel refuses addresses that lead nowhere.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, self.0, blocks.len(), blocks.as_ptr()) };
        Ok(result(taken)? as usize)
    }

    /// Waits for so many to end: what each returned.
    pub fn reap(&self, n: usize, by: Reap) -> io::Result<Vec<io::Result<u64>>> {
        let mut events = vec![Event::default(); n];
        let mut reaped = 0;
        while reaped < n {
            let rest = &mut events[reaped..];
            let (wanted, place) = (rest.len(), rest.as_mut_ptr());
            let call = match by {
                Reap::Getevents => libc::SYS_io_getevents,
                Reap::Pgetevents => IO_PGETEVENTS,
                Reap::Oneself => {
                    self.reap_oneself(n)?;
                    return Ok(Vec::new());
                }
            };
            // SAFETY: there is room for all that are wanted; no time limit and no signals.
            let taken = unsafe { libc::syscall(call, self.0, wanted, wanted, place, 0usize, 0usize) };
            reaped += match result(taken) {
                // A ring of this thread that was closed before has something left to do.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                taken => taken? as usize,
            };
        }
        let ended = |event: &Event| {
            u64::try_from(event.result).map_err(|_| io::Error::from_raw_os_error(-event.result as i32))
        };
        Ok(events.iter().map(ended).collect())
    }

    fn reap_oneself(&self, n: usize) -> io::Result<()> {
        // SAFETY: the kernel has mapped the ring there, until the context is destroyed.
        let ring = unsafe { &*std::ptr::with_exposed_provenance::<Ring>(self.0 as usize) };
        let began = Instant::now();
        loop {
            let (head, tail) = (ring.head.load(Ordering::Acquire), ring.tail.load(Ordering::Acquire));
            if (tail + ring.entries - head) % ring.entries >= n as u32 {
                ring.head.store(tail, Ordering::Release);
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("the requests do not end"));
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it waits for requests in flight; nobody looks at the ring any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

fn result(returned: libc::c_long) -> io::Result<u64> {
    u64::try_from(returned).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_batch_is_taken_up_to_what_is_refused() {
        let file = tempfile::tempfile().expect("a temporary file");
        let fd = file.as_raw_fd();
        let context = Context::new(4).expect("a context");
        let data = Data { bytes: &[7; 100], then_fault: false, offset: 0, flags: 0 };
        let mut blocks = [Block::write(fd, data), Block::fsync(-1), Block::fdatasync(fd)];
        let mut places = blocks.each_mut().map(from_mut);
        assert_eq!(context.submit(&places).expect("it takes the first"), 1);
        assert_eq!(context.reap(1, Reap::Getevents).unwrap().pop().unwrap().unwrap(), 100);
        assert_eq!(context.submit(&places[1..]).unwrap_err().raw_os_error(), Some(libc::EBADF));
        places[1] = NOWHERE.cast();
        assert_eq!(context.submit(&places[1..]).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        for by in [Reap::Pgetevents, Reap::Oneself] {
            assert_eq!(context.submit(&places[2..]).expect("it is taken"), 1);
            let ends = context.reap(1, by).expect("it ends");
            assert_eq!(ends.len(), usize::from(by == Reap::Pgetevents));
        }
    }
}
