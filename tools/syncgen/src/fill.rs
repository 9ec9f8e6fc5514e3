//! The calls that fill a file otherwise than from memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, copy_file_range, fallocate, sendfile};
use rustix::pipe::{SpliceFlags, splice};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub enum Fill {
    Sendfile,
    CopyFileRange,
    Splice,
    Fallocate,
}

/// What is copied, again and again.
pub const BYTES: usize = 700;

/// Makes exactly one call that fills the file from the beginning; what it returned. `source` has [`BYTES`].
pub fn fill(call: Fill, file: &File, source: &File) -> io::Result<u64> {
    let (mut from, mut to) = (0, 0);
    let copied = match call {
        Fill::Sendfile => sendfile(file.as_fd(), source.as_fd(), Some(&mut from), BYTES)?,
        Fill::CopyFileRange => {
            copy_file_range(source.as_fd(), Some(&mut from), file.as_fd(), Some(&mut to), BYTES)?
        }
        Fill::Splice => {
            let (reader, writer) = io::pipe()?;
            rustix::io::write(&writer, &[b's'; BYTES])?;
            splice(reader.as_fd(), None, file.as_fd(), Some(&mut to), BYTES, SpliceFlags::empty())?
        }
        Fill::Fallocate => {
            fallocate(file.as_fd(), FallocateFlags::empty(), 0, BYTES as u64)?;
            0
        }
    };
    Ok(copied as u64)
}
