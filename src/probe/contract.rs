//! What both sides share: the structs of the compiled programs, the constants of `bpf/record.h`, and how
//! bytes that the kernel wrote become records. The ground of this room: it imports none of the other files.

pub(super) use skeleton::{OpenSyncMaps, OpenSyncSkel, SyncMaps, SyncSkel, SyncSkelBuilder, types};
pub(crate) use types::histogram as RawHistogram;
pub use types::row as Row;

#[allow(clippy::all, clippy::unwrap_used, unsafe_op_in_unsafe_fn, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sync.skel.rs"));
}

/// The programs as they were compiled (ELF), for tools that measure their size.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sync.bpf.o"));
/// The names of the types that they know, for `min_core_btf::minimize`.
pub static OBJECT_TYPES: &str = include_str!(concat!(env!("OUT_DIR"), "/sync.types"));

/// The constants of `bpf/record.h`, by the types of the compiled object.
#[allow(dead_code, missing_docs, reason = "not all are needed here")]
pub mod record {
    include!(concat!(env!("OUT_DIR"), "/sync.constants.rs"));
}

/// Reads a record from bytes that the kernel wrote; they need not be aligned. None if they are too few.
pub(super) fn view<T: Record>(bytes: &[u8]) -> Option<T> {
    // SAFETY: any bits are a value of a Record, and there are enough of them for one.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Structs of the contract that consist of integers only.
///
/// # Safety
/// Any bits are a value of the type.
pub(super) unsafe trait Record: Copy {}
// SAFETY: integers.
unsafe impl Record for types::sync_event {}
// SAFETY: integers and arrays of them.
unsafe impl Record for types::call_record {}
// SAFETY: integers.
unsafe impl Record for types::call {}
// SAFETY: integers.
unsafe impl Record for types::process {}
// SAFETY: integers.
unsafe impl Record for types::neighbour_identity {}
// SAFETY: integers.
unsafe impl Record for types::pending {}
// SAFETY: integers.
unsafe impl Record for types::error_key {}
// SAFETY: integers.
unsafe impl Record for types::error_count {}
// SAFETY: integers.
unsafe impl Record for types::writeback_error {}

#[cfg(test)]
mod tests {
    use super::super::parts::OF_PARTS;
    use super::record;
    use crate::model::Op;

    #[test]
    fn the_operations_are_those_of_the_programs_in_their_order() {
        let mut ours: Vec<_> = Op::ALL
            .iter()
            .map(|&op| (format!("OP_{}", op.name().to_uppercase().replace(' ', "_")), op as u8))
            .collect();
        let of_part = |op: Op| format!("OP_{}", op.name().to_uppercase().replace("WRITE", "PART_WRITE"));
        ours.extend(OF_PARTS.map(|(op, number)| (of_part(op).replace(' ', "_"), number as u8)));
        ours.push(("OPS".to_owned(), (Op::ALL.len() + OF_PARTS.len()) as u8));
        let theirs: Vec<_> =
            record::ALL_OF_OP.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_number_above_the_greatest_with_a_sign_comes_over_whole() {
        assert_eq!((record::SELF_SLOT, record::NO_SLOT), (u32::MAX - 1, u32::MAX));
    }
}
