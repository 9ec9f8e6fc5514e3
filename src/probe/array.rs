//! An array map of the kernel, mapped into this process a window at a time: reading a row is a load, and
//! raises none of the guards by which a map system call makes the kernel skip programs.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::MapCore;
use memmap2::{MmapMut, MmapOptions};

/// The kernel puts every page of a mapping in place at once, and each counts as memory of this process: one
/// window at a time is mapped. Moving it takes some microseconds; entries are best asked for in their order.
const WINDOW: usize = 256 << 10;

/// Words that are read together: a cache line.
pub(super) const TOGETHER: usize = 8;

pub(super) struct MappedArray {
    map: OwnedFd,
    entries: u32,
    stride: usize,
    window: Option<(usize, MmapMut)>,
}

impl MappedArray {
    /// `stride` is a power of two.
    pub(super) fn new(map: &impl MapCore, stride: usize) -> std::io::Result<MappedArray> {
        debug_assert!(stride.is_power_of_two() && stride <= WINDOW);
        let entries = map.max_entries();
        let map = map.as_fd().try_clone_to_owned()?;
        Ok(MappedArray { map, entries, stride, window: None })
    }

    fn place(&mut self, slot: u32) -> std::io::Result<*mut u8> {
        assert!(slot < self.entries, "slot {slot} of an array of {}", self.entries);
        let at = slot as usize * self.stride;
        let begin = at - at % WINDOW;
        let window = match self.window.take() {
            Some(same) if same.0 == begin => same,
            other => {
                drop(other);
                (begin, self.map(begin)?)
            }
        };
        let (_, window) = self.window.insert(window);
        Ok(window[at - begin..].as_mut_ptr())
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Gives the window back until the next entry is asked for.
    pub(super) fn unmap(&mut self) {
        self.window = None;
    }

    fn map(&self, begin: usize) -> std::io::Result<MmapMut> {
        let end = (self.entries as usize * self.stride).next_multiple_of(rustix::param::page_size());
        let mut options = MmapOptions::new();
        options.offset(begin as u64).len(WINDOW.min(end - begin));
        // SAFETY: the mapping is of a BPF array, which never shrinks; the kernel changes it at any moment, so
        // it is only ever read and written through volatile accesses.
        unsafe { options.map_mut(self.map.as_raw_fd()) }
    }

    /// A copy of an entry. The kernel may be writing to it: each field is a value it had a moment ago.
    pub(super) fn read<T: Copy>(&mut self, slot: u32) -> std::io::Result<T> {
        assert!(size_of::<T>() <= self.stride);
        let place = self.place(slot)?.cast::<T>();
        // SAFETY: the place lies within the mapping and is aligned, for strides are powers of two of at least
        // 32; T is plain integers, any bits of which are a value.
        Ok(unsafe { place.read_volatile() })
    }

    /// Adds the words of an entry that are not zero, by their place. They are read where they lie: of a
    /// histogram few are filled, and to copy thousands of them takes longer than to read them. `words`: from
    /// one multiple of eight to another.
    pub(super) fn filled_words(
        &mut self,
        slot: u32,
        words: Range<usize>,
        into: &mut Vec<(usize, u64)>,
    ) -> std::io::Result<()> {
        assert!(words.end * size_of::<u64>() <= self.stride);
        assert!(words.start.is_multiple_of(TOGETHER) && words.end.is_multiple_of(TOGETHER));
        let place = self.place(slot)?.cast::<u64>();
        for first in words.step_by(TOGETHER) {
            // SAFETY: within the entry, and aligned, as above.
            let line: [u64; TOGETHER] =
                std::array::from_fn(|i| unsafe { place.add(first + i).read_volatile() });
            if line.iter().any(|&n| n != 0) {
                let filled = line.iter().enumerate().filter(|&(_, &n)| n != 0);
                into.extend(filled.map(|(i, &n)| (first + i, n)));
            }
        }
        Ok(())
    }

    /// Overwrites an entry that no program uses.
    pub(super) fn write<T: Copy>(&mut self, slot: u32, value: &T) -> std::io::Result<()> {
        assert!(size_of::<T>() <= self.stride);
        let place = self.place(slot)?.cast::<T>();
        // SAFETY: as for reading.
        unsafe { place.write_volatile(*value) };
        Ok(())
    }

    /// A word of an entry, `at` bytes from its beginning, as it is now.
    pub(super) fn read_u64(&mut self, slot: u32, at: usize) -> std::io::Result<u64> {
        assert!(at + 8 <= self.stride && at.is_multiple_of(8));
        let place = self.place(slot)?;
        // SAFETY: within the entry, and aligned.
        Ok(unsafe { place.add(at).cast::<u64>().read_volatile() })
    }

    pub(super) fn write_u64(&mut self, slot: u32, at: usize, value: u64) -> std::io::Result<()> {
        assert!(at + 8 <= self.stride && at.is_multiple_of(8));
        let place = self.place(slot)?;
        // SAFETY: as for reading.
        unsafe { place.add(at).cast::<u64>().write_volatile(value) };
        Ok(())
    }

    /// Adds to a word of an entry to which the programs add as well.
    pub(super) fn add_u64(&mut self, slot: u32, at: usize, n: u64) -> std::io::Result<()> {
        assert!(at + 8 <= self.stride && at.is_multiple_of(8));
        let place = self.place(slot)?;
        // SAFETY: within the entry, and aligned; whoever else writes to it adds to it at once, too.
        unsafe { AtomicU64::from_ptr(place.add(at).cast()) }.fetch_add(n, Ordering::SeqCst);
        Ok(())
    }

    /// Overwrites two bytes of an entry, `at` bytes from its beginning.
    pub(super) fn write_u16(&mut self, slot: u32, at: usize, value: u16) -> std::io::Result<()> {
        assert!(at + 2 <= self.stride && at.is_multiple_of(2));
        let place = self.place(slot)?;
        // SAFETY: within the entry, and aligned.
        unsafe { place.add(at).cast::<u16>().write_volatile(value) };
        Ok(())
    }
}
