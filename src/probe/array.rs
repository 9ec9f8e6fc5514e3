//! An array map of the kernel, mapped into this process a window at a time: reading a row is a load, and raises
//! none of the guards by which a map system call makes the kernel skip programs.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

use libbpf_rs::MapCore;
use memmap2::{MmapMut, MmapOptions};

/// Windows stay mapped up to a limit, because each mapped page counts as memory of this process.
pub struct MappedArray {
    map: OwnedFd,
    entries: u32,
    stride: usize,
    per_window: usize,
    windows: VecDeque<(usize, MmapMut)>,
    most_windows: usize,
}

impl MappedArray {
    /// `stride` x `per_window` is a multiple of the page size.
    pub fn new(
        map: &impl MapCore,
        stride: usize,
        per_window: usize,
        most_windows: usize,
    ) -> std::io::Result<MappedArray> {
        debug_assert_eq!(stride * per_window % 4096, 0);
        let entries = map.max_entries();
        let map = map.as_fd().try_clone_to_owned()?;
        Ok(MappedArray { map, entries, stride, per_window, windows: VecDeque::new(), most_windows })
    }

    fn window(&mut self, slot: u32) -> std::io::Result<*mut u8> {
        assert!(slot < self.entries, "slot {slot} of an array of {}", self.entries);
        let (number, within) = (slot as usize / self.per_window, slot as usize % self.per_window);
        let at = match self.windows.iter().position(|&(n, _)| n == number) {
            Some(at) => at,
            None => {
                if self.windows.len() >= self.most_windows {
                    self.windows.pop_front();
                }
                let bytes = self.stride * self.per_window;
                let end = (self.entries as usize * self.stride).next_multiple_of(4096);
                let offset = number * bytes;
                // SAFETY: the mapping is of a BPF array, which never shrinks; the kernel changes it at any moment,
                // so it is only ever read and written through volatile accesses.
                let mapping = unsafe {
                    MmapOptions::new()
                        .offset(offset as u64)
                        .len(bytes.min(end - offset))
                        .map_mut(self.map.as_raw_fd())?
                };
                self.windows.push_back((number, mapping));
                self.windows.len() - 1
            }
        };
        let base = self.windows[at].1.as_mut_ptr();
        // SAFETY: `within` is below `per_window`, and the slot was checked against the number of entries.
        Ok(unsafe { base.add(within * self.stride) })
    }

    /// A copy of an entry. The kernel may be writing to it: each field is a value it had a moment ago.
    pub fn read<T: Copy>(&mut self, slot: u32) -> std::io::Result<T> {
        assert!(size_of::<T>() <= self.stride);
        let place = self.window(slot)?.cast::<T>();
        // SAFETY: the place lies within the mapping and is aligned, for strides are powers of two of at least 128;
        // T is plain integers, any bits of which are a value.
        Ok(unsafe { place.read_volatile() })
    }

    /// Overwrites an entry that no program uses.
    pub fn write<T: Copy>(&mut self, slot: u32, value: &T) -> std::io::Result<()> {
        assert!(size_of::<T>() <= self.stride);
        let place = self.window(slot)?.cast::<T>();
        // SAFETY: as for reading.
        unsafe { place.write_volatile(*value) };
        Ok(())
    }

    /// Overwrites one word of an entry, `at` bytes from its beginning.
    pub fn write_u32(&mut self, slot: u32, at: usize, value: u32) -> std::io::Result<()> {
        assert!(at + 4 <= self.stride && at.is_multiple_of(4));
        let place = self.window(slot)?;
        // SAFETY: within the entry, and aligned.
        unsafe { place.add(at).cast::<u32>().write_volatile(value) };
        Ok(())
    }
}
