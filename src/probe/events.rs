//! Decodes the records of the ring. Pure but for the two views of bytes as records.

use super::skeleton::types;

const EVENT_FILE: u32 = 1;
const EVENT_SYNC: u32 = 2;

#[derive(Clone, Debug)]
pub enum Event {
    File(Box<FileEvent>),
    Sync(SyncEvent),
}

/// A file was synced for the first time in its row.
#[derive(Clone, Debug)]
pub struct FileEvent {
    pub id: types::identity,
    /// [`super::record::NO_SLOT`]: the map was full.
    pub slot: u32,
    pub sequence: u32,
    pub fd: i32,
    pub mount_id: i32,
    /// File type and permissions, as `st_mode`.
    pub mode: u32,
    pub tid: u32,
    /// From the file upwards to the mount's root.
    pub components: Vec<Vec<u8>>,
    /// The components reach the mount's root.
    pub complete: bool,
}

/// One finished sync that no row, or no histogram, could take.
#[derive(Clone, Debug)]
pub struct SyncEvent {
    pub id: types::identity,
    /// [`super::record::NO_SLOT`]: to be counted; else the row counts it, and only its latency is news.
    pub slot: u32,
    pub sequence: u32,
    /// What the call returned: 0, or a negative errno.
    pub result: i32,
    pub latency_ns: u64,
}

/// A file event up to its name, which ends where the record does.
#[derive(Clone, Copy)]
#[repr(C)]
struct FileHeader {
    kind: u32,
    slot: u32,
    id: types::identity,
    sequence: u32,
    fd: i32,
    mount_id: i32,
    mode: u32,
    tid: u32,
    length: u32,
    complete: u32,
    reserved: u32,
}
const _: () = assert!(size_of::<FileHeader>() == std::mem::offset_of!(types::file_event, name));

/// The longest record's length.
pub const LONGEST: usize = size_of::<types::file_event>();

/// None for a record that this side does not know.
pub fn decode(bytes: &[u8]) -> Option<Event> {
    let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    match kind {
        EVENT_FILE => {
            let (raw, names) = bytes.split_at_checked(std::mem::offset_of!(types::file_event, name))?;
            let raw: FileHeader = view(raw)?;
            let names = names.get(..raw.length as usize)?;
            let components =
                names.split(|&b| b == 0).filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
            Some(Event::File(Box::new(FileEvent {
                id: raw.id,
                slot: raw.slot,
                sequence: raw.sequence,
                fd: raw.fd,
                mount_id: raw.mount_id,
                mode: raw.mode,
                tid: raw.tid,
                components,
                complete: raw.complete != 0,
            })))
        }
        EVENT_SYNC => {
            let raw: types::sync_event = view(bytes)?;
            Some(Event::Sync(SyncEvent {
                id: raw.id,
                slot: raw.slot,
                sequence: raw.sequence,
                result: raw.result,
                latency_ns: raw.latency_ns,
            }))
        }
        _ => None,
    }
}

/// A record out of bytes of the kernel, wherever they lie.
pub fn view<T: Record>(bytes: &[u8]) -> Option<T> {
    // SAFETY: a Record is integers without padding that matters, any bits of which are a value, and the bytes
    // suffice; they need not be aligned.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a key.
pub fn as_bytes(id: &types::identity) -> &[u8] {
    // SAFETY: an identity is 32 bytes of integers, laid out without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(id).cast(), size_of::<types::identity>()) }
}

/// Structs of the contract that consist of integers only.
///
/// # Safety
/// Any bits are a value of the type.
pub unsafe trait Record: Copy {}
// SAFETY: integers.
unsafe impl Record for FileHeader {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_event_gives_its_components_from_the_file_upwards() {
        let mut raw = types::file_event { r#type: EVENT_FILE, slot: 300, complete: 1, ..Default::default() };
        let names = b"a\nb.ibd\0shop\0data\0";
        raw.name[..names.len()].copy_from_slice(names);
        raw.length = names.len() as u32;
        // SAFETY: plain integers.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&raw).cast::<u8>(), size_of::<types::file_event>())
        };
        let bytes = &bytes[..std::mem::offset_of!(types::file_event, name) + names.len()];
        let Some(Event::File(event)) = decode(bytes) else { panic!("not a file event") };
        assert_eq!(event.components, [&b"a\nb.ibd"[..], b"shop", b"data"]);
        assert!(event.complete);
        assert_eq!(event.slot, 300);
        assert!(decode(&bytes[..bytes.len() - 1]).is_none(), "cut off");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_event_within_them_or_none(mut bytes: Vec<u8>, kind in 0u32..4, length: u32) {
            bytes.resize(bytes.len().max(size_of::<FileHeader>()), 0);
            bytes[..4].copy_from_slice(&kind.to_ne_bytes());
            let at = std::mem::offset_of!(FileHeader, length);
            bytes[at..at + 4].copy_from_slice(&(length % 200).to_ne_bytes());
            if let Some(Event::File(event)) = decode(&bytes) {
                let names: usize = event.components.iter().map(Vec::len).sum();
                proptest::prop_assert!(names <= bytes.len() - size_of::<FileHeader>());
                proptest::prop_assert!(event.components.iter().all(|name| !name.is_empty() && !name.contains(&0)));
            }
            proptest::prop_assert!(decode(&bytes[..bytes.len() / 2]).is_none() || bytes.len() > 8);
        }
    }

    #[test]
    fn short_and_unknown_records_are_refused() {
        assert!(decode(&[]).is_none());
        assert!(decode(&EVENT_SYNC.to_ne_bytes()).is_none());
        assert!(decode(&[9; 2000]).is_none());
    }
}
