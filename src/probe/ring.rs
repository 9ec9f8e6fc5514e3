//! The ring of events, read in place. libbpf's own reader maps the whole of it, twice: 4 MB that count as memory of
//! this process. Here a window of it is mapped, which moves along.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapCore;
use memmap2::{Mmap, MmapMut, MmapOptions};

// The layout of the map (kernel/bpf/ringbuf.c, the same since 5.8): a page with the reader's position, one with the
// writers', then the records, mapped twice in a row by the kernel so that none of them is cut in two.
/// A record's header: its length with the two flags, and a word that only the kernel uses.
const HEADER: u64 = 8;
/// The writer has not finished.
const BUSY: u32 = 1 << 31;
/// It gave the record up.
const DISCARDED: u32 = 1 << 30;

const WINDOW: u64 = 128 << 10;

pub struct Ring {
    map: OwnedFd,
    page: u64,
    /// The size of the ring, a power of two.
    size: u64,
    /// No record is longer.
    longest: u64,
    reader: MmapMut,
    writers: Mmap,
    window: Option<(u64, Mmap)>,
}

impl Ring {
    /// `longest`: the length of the longest record.
    pub fn new(map: &impl MapCore, longest: usize) -> std::io::Result<Ring> {
        let size = u64::from(map.max_entries());
        debug_assert!(size.is_power_of_two());
        let map = map.as_fd().try_clone_to_owned()?;
        let page = rustix::param::page_size();
        // SAFETY: a page that this side alone writes, and the kernel reads.
        let reader = unsafe { MmapOptions::new().len(page).map_mut(map.as_raw_fd())? };
        // SAFETY: a page that the kernel writes at any moment; it is only read as an atomic word.
        let writers = unsafe { MmapOptions::new().offset(page as u64).len(page).map(map.as_raw_fd())? };
        let page = page as u64;
        let longest = HEADER + longest as u64;
        Ok(Ring { map, page, size, longest, reader, writers, window: None })
    }

    /// The records that were not read yet, `most` at a time.
    pub fn take(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> std::io::Result<()> {
        let mut at = self.position().load(Ordering::Relaxed);
        for _ in 0..most {
            // SAFETY: the first word of the writers' page, which is aligned.
            let written = unsafe { &*self.writers.as_ptr().cast::<AtomicU64>() }.load(Ordering::Acquire);
            if at >= written {
                break;
            }
            let record = self.record(at)?;
            // SAFETY: records begin at multiples of 8 bytes, within the window.
            let header = unsafe { &*record.as_ptr().cast::<AtomicU32>() }.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = u64::from(header & !DISCARDED);
            if header & DISCARDED == 0 {
                let end = (HEADER + length) as usize;
                each(record.get(HEADER as usize..end).unwrap_or_default());
            }
            at += (HEADER + length).next_multiple_of(8);
            self.position().store(at, Ordering::Release);
        }
        Ok(())
    }

    fn position(&self) -> &AtomicU64 {
        // SAFETY: the first word of the reader's page, which is aligned, and written by nobody else.
        unsafe { &*self.reader.as_ptr().cast::<AtomicU64>() }
    }

    /// What is mapped from a record's header on: the whole record, and more.
    fn record(&mut self, position: u64) -> std::io::Result<&[u8]> {
        let offset = position & (self.size - 1);
        let begin = offset - offset % WINDOW.min(self.size);
        let window = match self.window.take() {
            Some(same) if same.0 == begin => same,
            other => {
                drop(other);
                (begin, self.map(begin)?)
            }
        };
        let (_, window) = self.window.insert(window);
        Ok(&window[(offset - begin) as usize..])
    }

    /// Gives the window back until there is another record.
    pub fn unmap(&mut self) {
        self.window = None;
    }

    fn map(&self, begin: u64) -> std::io::Result<Mmap> {
        let length = WINDOW.min(self.size) + self.longest.next_multiple_of(self.page);
        let mut options = MmapOptions::new();
        options.offset(2 * self.page + begin).len(length as usize);
        // SAFETY: the kernel writes here at any moment, but not to a record that is complete and not yet read, and
        // nothing else is read but headers, as atomic words.
        unsafe { options.map(self.map.as_raw_fd()) }
    }
}

impl AsFd for Ring {
    /// Readable when there are records.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
