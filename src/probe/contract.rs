//! What both sides share: the structs of the compiled programs, the constants of `bpf/record.h`, and how
//! bytes that the kernel wrote become records. The ground of this room: it imports none of the other files.

pub(super) use skeleton::{SyncMaps, SyncSkel, SyncSkelBuilder, types};
pub use types::{histogram as RawHistogram, identity as Identity, row as Row};

#[allow(clippy::all, unsafe_op_in_unsafe_fn, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sync.skel.rs"));
}

/// The programs as they were compiled (ELF), for tools that measure their size.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sync.bpf.o"));
/// The names of the types that they know, for `min_core_btf::minimize`.
pub static OBJECT_TYPES: &str = include_str!(concat!(env!("OUT_DIR"), "/sync.types"));

/// The constants of `bpf/record.h`, which the object's types do not carry.
pub mod record {
    pub const KIND_FREE: u8 = 0;
    pub const KIND_FILE: u8 = 1;
    pub const KIND_FILESYSTEM: u8 = 2;
    pub const KIND_NO_FILE: u8 = 3;
    pub const KIND_BAD_DESCRIPTOR: u8 = 4;
    pub const KIND_THREAD: u8 = 5;
    pub const KIND_NEIGHBOUR: u8 = 6;
    pub const IDENTITY_WEAK: u16 = 1;
    pub const NEIGHBOUR_OVERFLOW_SLOT: u32 = 7;
    pub const FIRST_SHARED_SLOT: u32 = 8;
    pub const FIRST_NEIGHBOUR_SLOT: u32 = 64;
    pub const FIRST_FILE_SLOT: u32 = 256;
    pub const NO_SLOT: u32 = u32::MAX;
    pub const ROW_READY: u32 = 1;
    pub const HANDED_OUT_AT_ONCE: u32 = 48;
    pub const HISTOGRAM_BUCKETS: usize = 512;
    pub const EVENT_FILE: u32 = 1;
    pub const EVENT_SYNC: u32 = 2;
    pub const OWNER_ASKED: u64 = 1 << 32;
    pub const OWNER_LEAVES: u64 = 1 << 33;
}

/// Reads a record from bytes that the kernel wrote; they need not be aligned. None if they are too few.
pub(super) fn view<T: Record>(bytes: &[u8]) -> Option<T> {
    // SAFETY: any bits are a value of a Record, and there are enough of them for one.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// An identity as the key of a map.
pub(super) fn as_bytes(id: &types::identity) -> &[u8] {
    // SAFETY: an identity is 32 bytes of integers, laid out without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(id).cast(), size_of::<types::identity>()) }
}

/// Structs of the contract that consist of integers only.
///
/// # Safety
/// Any bits are a value of the type.
pub(super) unsafe trait Record: Copy {}
// SAFETY: integers.
unsafe impl Record for types::sync_event {}
// SAFETY: integers and arrays of them.
unsafe impl Record for types::in_flight {}
// SAFETY: integers.
unsafe impl Record for types::call {}

impl PartialEq for types::identity {
    fn eq(&self, other: &Self) -> bool {
        as_bytes(self) == as_bytes(other)
    }
}
impl Eq for types::identity {}
impl std::hash::Hash for types::identity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        as_bytes(self).hash(state);
    }
}
