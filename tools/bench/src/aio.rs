//! Requests of libaio, one at a time: by the system calls themselves.

#![expect(unsafe_code, reason = "the kernel reads and writes memory that a request names")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{from_mut, from_ref};

use crate::aio_abi::{Block, Event, PWRITE};

/// A context; dropping it destroys it.
pub struct Context(u64);

impl Context {
    pub fn new() -> io::Result<Context> {
        let mut id = 0u64;
        // SAFETY: it writes one word.
        returned(unsafe { libc::syscall(libc::SYS_io_setup, 1usize, from_mut(&mut id)) })?;
        Ok(Context(id))
    }

    /// Writes to the beginning of a file, and waits for the event.
    pub fn write(&self, file: &File, data: &[u8]) -> io::Result<()> {
        let mut block = Block {
            opcode: PWRITE,
            fd: file.as_raw_fd(),
            buffer: data.as_ptr().addr() as u64,
            bytes: data.len() as u64,
            ..Block::default()
        };
        let blocks = [from_mut(&mut block)];
        let mut event = Event::default();
        // SAFETY: block and data live until the request has ended, which is waited for below.
        returned(unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1usize, from_ref(&blocks)) })?;
        // SAFETY: there is room for one event; no time limit.
        let reaped = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.0, 1usize, 1usize, from_mut(&mut event), 0usize)
        };
        if returned(reaped)? == 1 && event.result == data.len() as i64 {
            Ok(())
        } else {
            Err(io::Error::other(format!("a request ended with {}", event.result)))
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nothing is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

fn returned(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
