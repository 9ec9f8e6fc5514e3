//! Parts of files that have a role of their own, as `bpf/parts.h` tells them: where they lie, and which
//! operations are of one.

use libbpf_rs::{MapCore, MapFlags};

use super::contract::{SyncSkel, record};
use super::globals;
use crate::model::{FilePart, Op};

/// What rows and calls have as their operation, and whether it is of a part of the file.
pub fn operation(number: u32) -> Option<(Op, bool)> {
    let of_part = OF_PARTS.iter().find(|&&(_, ours)| ours == number).map(|&(op, _)| (op, true));
    of_part.or_else(|| Some((*Op::ALL.get(number as usize)?, false)))
}

/// Their numbers on the kernel side follow those of [`Op::ALL`].
pub(super) const OF_PARTS: [(Op, u32); 3] = [
    (Op::Write, record::OP_PART_WRITE as u32),
    (Op::IoUringWrite, record::OP_IO_URING_PART_WRITE as u32),
    (Op::AioWrite, record::OP_AIO_PART_WRITE as u32),
];

/// From now on these are told apart, each of a process, and no others; of too many, the first.
pub(super) fn set(skel: &mut SyncSkel, parts: &[(u32, FilePart)]) -> libbpf_rs::Result<()> {
    let parts = &parts[..parts.len().min(record::PARTS)];
    let wanted: Vec<Vec<u8>> = parts.iter().map(|(process, part)| key(*process, part)).collect();
    for gone in skel.maps.parts.keys().filter(|key| !wanted.contains(key)).collect::<Vec<_>>() {
        skel.maps.parts.delete(&gone)?;
    }
    for (key, (_, part)) in wanted.iter().zip(parts) {
        skel.maps.parts.update(key, &value(part), MapFlags::ANY)?;
    }
    let places = || parts.iter().flat_map(|(_, part)| part.places);
    let begin = places().map(|(begin, _)| begin).min().unwrap_or(0);
    let end = places().map(|(_, end)| end).max().unwrap_or(0);
    globals::set_parts(skel, begin, end);
    Ok(())
}

/// `struct part_key`.
fn key(process: u32, part: &FilePart) -> Vec<u8> {
    [&part.inode.to_ne_bytes()[..], &part.device.to_ne_bytes(), &process.to_ne_bytes()].concat()
}

/// `struct part`.
fn value(part: &FilePart) -> Vec<u8> {
    let [(begin, end), (other_begin, other_end)] = part.places;
    [begin, other_begin, end, other_end].iter().flat_map(|offset| offset.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::contract::types;
    use super::*;

    #[test]
    fn keys_and_values_are_laid_out_as_the_programs_read_them() {
        let part = FilePart { device: 2, inode: 3, places: [(10, 20), (30, 40)] };
        let (key, value) = (key(7, &part), value(&part));
        let word = |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_ne_bytes(key[at..at + 4].try_into().unwrap());
        assert_eq!(key.len(), size_of::<types::part_key>());
        assert_eq!(word(&key, std::mem::offset_of!(types::part_key, inode)), 3);
        assert_eq!(half(std::mem::offset_of!(types::part_key, device)), 2);
        assert_eq!(half(std::mem::offset_of!(types::part_key, tgid)), 7);
        assert_eq!(value.len(), size_of::<types::part>());
        let at = |field: usize, place: usize| word(&value, field + 8 * place);
        let (begin, end) = (std::mem::offset_of!(types::part, begin), std::mem::offset_of!(types::part, end));
        assert_eq!((at(begin, 0), at(end, 0), at(begin, 1), at(end, 1)), (10, 20, 30, 40));
    }

    #[test]
    fn a_write_to_a_part_is_a_write() {
        assert_eq!(operation(Op::Fsync as u32), Some((Op::Fsync, false)));
        assert_eq!(operation(record::OP_AIO_PART_WRITE as u32), Some((Op::AioWrite, true)));
        assert_eq!(operation(record::OPS as u32), None);
    }
}
