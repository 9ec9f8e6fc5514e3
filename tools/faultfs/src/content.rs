//! The bytes of one file, in chunks that exist only where something was written: sparse files cost nothing.

use std::collections::BTreeMap;

const CHUNK: u64 = 64 * 1024;

#[derive(Default)]
pub struct Content {
    size: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
}

impl Content {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What the chunks occupy, in bytes.
    pub fn allocated(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.each_chunk(offset, data.len() as u64, |content, index, within, done| {
            let chunk = content.chunks.entry(index).or_insert_with(|| vec![0; CHUNK as usize].into());
            let length = within.len();
            chunk[within].copy_from_slice(&data[done..done + length]);
        });
        self.size = self.size.max(offset + data.len() as u64);
    }

    pub fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let mut data = vec![0; length.min(self.size.saturating_sub(offset)) as usize];
        self.each_chunk(offset, data.len() as u64, |content, index, within, done| {
            if let Some(chunk) = content.chunks.get(&index) {
                let length = within.len();
                data[done..done + length].copy_from_slice(&chunk[within]);
            }
        });
        data
    }

    /// Reads as zeros from now on.
    pub fn punch(&mut self, offset: u64, length: u64) {
        self.each_chunk(offset, length, |content, index, within, _| {
            if within.len() as u64 == CHUNK {
                content.chunks.remove(&index);
            } else if let Some(chunk) = content.chunks.get_mut(&index) {
                chunk[within].fill(0);
            }
        });
    }

    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.chunks.retain(|index, _| index * CHUNK < size);
            self.punch(size, (size / CHUNK + 1) * CHUNK - size);
        }
        self.size = size;
    }

    /// Calls back with each chunk's index, the range inside it, and how much came before.
    fn each_chunk(
        &mut self,
        offset: u64,
        length: u64,
        mut visit: impl FnMut(&mut Self, u64, std::ops::Range<usize>, usize),
    ) {
        let end = offset + length;
        let mut position = offset;
        while position < end {
            let (index, start) = (position / CHUNK, position % CHUNK);
            let stop = CHUNK.min(start + end - position);
            visit(self, index, start as usize..stop as usize, (position - offset) as usize);
            position += stop - start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_across_chunks_is_read_back_and_holes_are_zero() {
        let mut content = Content::default();
        content.write(CHUNK - 2, b"abcd");
        assert_eq!(content.size(), CHUNK + 2);
        assert_eq!(content.read(CHUNK - 3, 100), b"\0abcd");
        content.write(100 * CHUNK, b"z");
        assert_eq!(content.allocated(), 3 * CHUNK);
        assert_eq!(content.read(50 * CHUNK, 2), [0, 0]);
    }

    #[test]
    fn cut_off_bytes_do_not_come_back() {
        let mut content = Content::default();
        content.write(0, b"abcdef");
        content.resize(2);
        content.resize(6);
        assert_eq!(content.read(0, 10), b"ab\0\0\0\0");
    }

    #[test]
    fn a_punched_range_is_zero_and_its_neighbours_stay() {
        let mut content = Content::default();
        content.write(0, &vec![7; 3 * CHUNK as usize]);
        content.punch(CHUNK - 1, CHUNK + 2);
        assert_eq!(content.allocated(), 2 * CHUNK);
        assert_eq!(content.read(CHUNK - 2, 2), [7, 0]);
        assert_eq!(content.read(2 * CHUNK, 2), [0, 7]);
    }
}
