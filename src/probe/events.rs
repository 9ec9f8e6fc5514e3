//! The events that the programs send through the ring buffer: reads and decodes them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use super::contract::record::{EVENT_FILE, EVENT_SYNC};
use super::contract::{Record, types, view};

/// How many events are decoded, and held in memory, at a time.
const BATCH: usize = 512;

#[derive(Clone, Debug)]
pub enum Event {
    File(Box<FileEvent>),
    Sync(SyncEvent),
}

/// A file was synced for the first time in its row.
#[derive(Clone, Debug)]
pub struct FileEvent {
    pub id: types::identity,
    /// The thread that synced it first.
    pub tid: u32,
    pub fd: i32,
    pub mount_id: i32,
    /// File type and permissions, as `st_mode`.
    pub mode: u32,
    /// The device of the layer that a file of an overlay lies on.
    pub below: Option<u32>,
    /// From the file upwards to the mount's root, if they are complete.
    pub components: Vec<Vec<u8>>,
    /// False: the file lies deeper than names are followed (NAME_COMPONENTS and NAME_BYTES of bpf/record.h).
    pub complete: bool,
}

/// One finished sync that no row, or no histogram, could take.
#[derive(Clone, Debug)]
pub struct SyncEvent {
    pub id: types::identity,
    /// `record::NO_SLOT`: to be counted; else the row counts it, and only its latency is news.
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
    below: u32,
}
const _: () = assert!(size_of::<FileHeader>() == std::mem::offset_of!(types::file_event, name));

/// The reader of the ring buffer.
pub(super) struct Events {
    ring: RingBuffer<'static>,
    /// Where libbpf's callback puts what it is given while the ring is being consumed.
    decoded: Receiver<Event>,
    map: OwnedFd,
}

impl Events {
    pub(super) fn new(map: &impl MapCore) -> libbpf_rs::Result<Events> {
        let (sender, decoded) = channel();
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            // The receiver lives as long as the ring.
            decode(bytes).map(|event| sender.send(event));
            0
        })?;
        Ok(Events { ring: builder.build()?, decoded, map: map.as_fd().try_clone_to_owned()? })
    }

    /// The next events, at most [`BATCH`] of them.
    pub(super) fn take(&mut self) -> libbpf_rs::Result<Vec<Event>> {
        match self.ring.consume_raw_n(BATCH) {
            error if error < 0 => Err(libbpf_rs::Error::from_raw_os_error(-error)),
            _ => Ok(self.decoded.try_iter().collect()),
        }
    }
}

impl AsFd for Events {
    /// Readable when there are events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// None for a record of an unknown kind, or one that is cut off.
fn decode(bytes: &[u8]) -> Option<Event> {
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
                tid: raw.tid,
                fd: raw.fd,
                mount_id: raw.mount_id,
                mode: raw.mode,
                below: (raw.below != 0).then_some(raw.below),
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

// SAFETY: integers.
unsafe impl Record for FileHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_event_gives_its_components_from_the_file_upwards() {
        let mut raw = types::file_event { r#type: EVENT_FILE, ..Default::default() };
        let names = b"a\nb.ibd\0shop\0data\0";
        raw.name[..names.len()].copy_from_slice(names);
        raw.length = names.len() as u32;
        raw.complete = 1;
        // SAFETY: plain integers.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&raw).cast::<u8>(), size_of::<types::file_event>())
        };
        let bytes = &bytes[..std::mem::offset_of!(types::file_event, name) + names.len()];
        let Some(Event::File(event)) = decode(bytes) else { panic!("not a file event") };
        assert_eq!(event.components, [&b"a\nb.ibd"[..], b"shop", b"data"]);
        assert!(event.complete);
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
