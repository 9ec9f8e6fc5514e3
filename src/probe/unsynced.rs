//! Unsynced bytes by file, as `bpf/unsynced.h` keeps them where all writes are watched.

use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags};

use super::array::MappedArray;
use super::contract::record::{KIND_FREE, ROOM_UNSYNCED, UNSYNCED_FILES, UNSYNCED_GENERATIONS};
use super::contract::{SyncMaps, SyncSkel, types::unsynced as Raw};
use super::identity::Identity;
use super::shares::Shares;
use super::{globals, programs};

/// One file of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsyncedFile {
    pub slot: u32,
    /// As a row's, without an operation.
    pub id: Identity,
    /// Of all writes since the file was first written; tells whether anything has happened.
    pub written: u64,
    pub bytes: u64,
    /// When the oldest unsynced write began (CLOCK_MONOTONIC), or shortly before; None where none is
    /// unsynced.
    pub oldest_ns: Option<u64>,
    /// The greatest number of unsynced bytes just before a sync ended, since this was last read.
    pub most_bytes: u64,
    /// The greatest age of the oldest of them, in nanoseconds.
    pub most_age_ns: u64,
    /// Bytes that a sync should have covered that failed.
    pub lost: u64,
}

impl UnsyncedFile {
    fn of(slot: u32, raw: &Raw) -> UnsyncedFile {
        let bytes = raw.written.saturating_sub(raw.synced);
        UnsyncedFile {
            slot,
            id: raw.id,
            written: raw.written,
            bytes,
            oldest_ns: (bytes > 0).then(|| oldest(raw)).flatten(),
            most_bytes: 0,
            most_age_ns: 0,
            lost: raw.lost,
        }
    }
}

/// The time and the generation are one word, as `first_write` packs them.
fn time_of(first: u64) -> u64 {
    first >> 16 << 10
}

fn first_of(raw: &Raw, generation: u64) -> Option<u64> {
    let first = raw.first[generation as usize % UNSYNCED_GENERATIONS];
    (first as u16 == generation as u16).then(|| time_of(first))
}

/// The first write of the first generation that is not covered. While a write ends, its bytes may be counted
/// and its time not be there yet: then that of the generation before is too early, and not too late.
fn oldest(raw: &Raw) -> Option<u64> {
    let open = raw.covered + 1..=raw.generation;
    open.take(UNSYNCED_GENERATIONS)
        .find_map(|generation| first_of(raw, generation))
        .or_else(|| first_of(raw, raw.covered))
}

/// The files' state, mapped, and which half of the maxima counts.
pub(super) struct Unsynced {
    files: MappedArray,
    epoch: u32,
}

/// Puts all slots into the queue: before anything is attached.
pub(super) fn fill(maps: &SyncMaps) -> libbpf_rs::Result<()> {
    (0..UNSYNCED_FILES as u32).try_for_each(|slot| push(maps, slot))
}

fn push(maps: &SyncMaps, slot: u32) -> libbpf_rs::Result<()> {
    maps.free_unsynced.update(&[], &slot.to_ne_bytes(), MapFlags::ANY)
}

impl Unsynced {
    pub(super) fn new(maps: &SyncMaps) -> std::io::Result<Unsynced> {
        Ok(Unsynced { files: MappedArray::new(&maps.unsynced, size_of::<Raw>())?, epoch: 0 })
    }

    /// Slots leave their queue in their order, and those that were freed last.
    fn slots(skel: &SyncSkel) -> std::ops::Range<u32> {
        let popped = globals::unsynced_popped(skel);
        0..u32::try_from(popped).unwrap_or(u32::MAX).min(UNSYNCED_FILES as u32)
    }

    /// Every file with a slot. From now on the maxima are those of another interval.
    pub(super) fn read(&mut self, skel: &mut SyncSkel) -> std::io::Result<Vec<UnsyncedFile>> {
        let (bytes_at, age_at) = (offset_of!(Raw, most_bytes), offset_of!(Raw, most_age));
        let half = |at: usize, epoch: u32| at + 8 * (epoch as usize % 2);
        let (before, now) = (self.epoch, self.epoch.wrapping_add(1));
        for slot in Self::slots(skel) {
            for at in [half(bytes_at, now), half(age_at, now)] {
                if self.files.read_u64(slot, at)? > 0 {
                    self.files.write_u64(slot, at, 0)?;
                }
            }
        }
        globals::set_unsynced_epoch(skel, now);
        self.epoch = now;
        let mut files = Vec::new();
        for slot in Self::slots(skel) {
            let raw: Raw = self.files.read(slot)?;
            if raw.id.kind == KIND_FREE || raw.sequence % 2 == 1 {
                continue;
            }
            // In this order: a sync that ends in between leaves its maximum before it lowers what is
            // unsynced.
            files.push(UnsyncedFile {
                most_bytes: self.files.read_u64(slot, half(bytes_at, before))?,
                most_age_ns: self.files.read_u64(slot, half(age_at, before))?,
                ..UnsyncedFile::of(slot, &raw)
            });
        }
        Ok(files)
    }

    /// Gives slots back. One in which something has become unsynced meanwhile stays, unless `dirty` may go as
    /// well: how many bytes went with them, unsynced or possibly lost.
    pub(super) fn free(
        &mut self,
        skel: &SyncSkel,
        shares: &mut Shares,
        slots: &[u32],
        dirty: bool,
    ) -> std::io::Result<u64> {
        let maps = &skel.maps;
        let mut dropped = 0;
        for &slot in slots {
            let raw: Raw = self.files.read(slot)?;
            match maps.unsynced_slots.delete(raw.id.as_bytes()) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(std::io::Error::other(error));
                }
                // The rows' references are to an earlier life from now on. One that is taken just now is to a
                // life that ends below.
                _ => self.set_sequence(slot, raw.sequence.wrapping_add(1))?,
            }
        }
        if !slots.is_empty() {
            programs::wait_for_running();
        }
        for &slot in slots {
            let raw: Raw = self.files.read(slot)?;
            let is_clean = raw.written <= raw.synced && raw.lost == 0;
            let sequence = raw.sequence.wrapping_add(1);
            if !is_clean && !dirty && self.take_back(maps, slot, &raw, sequence)? {
                continue;
            }
            self.files.write(slot, &Raw { sequence, ..Raw::default() })?;
            push(maps, slot).map_err(std::io::Error::other)?;
            shares.give_back(skel, raw.share as u32, ROOM_UNSYNCED)?;
            if dirty {
                dropped += raw.written.saturating_sub(raw.synced).max(raw.lost);
            }
        }
        Ok(dropped)
    }

    fn set_sequence(&mut self, slot: u32, sequence: u64) -> std::io::Result<()> {
        self.files.write_u64(slot, offset_of!(Raw, sequence), sequence)
    }

    /// What was written while the slot was taken out of use. False: the file has another slot by now, which
    /// has these bytes as well, and the older time.
    fn take_back(&mut self, maps: &SyncMaps, slot: u32, raw: &Raw, sequence: u64) -> std::io::Result<bool> {
        self.set_sequence(slot, sequence)?;
        let key = raw.id.as_bytes();
        if maps.unsynced_slots.update(key, &slot.to_ne_bytes(), MapFlags::NO_EXIST).is_ok() {
            return Ok(true);
        }
        let other = maps.unsynced_slots.lookup(key, MapFlags::ANY).map_err(std::io::Error::other)?;
        let Some(other) = other.and_then(|slot| slot.first_chunk().copied()).map(u32::from_ne_bytes) else {
            return Ok(false);
        };
        let heir: Raw = self.files.read(other)?;
        self.files.add_u64(other, offset_of!(Raw, written), raw.written - raw.synced)?;
        self.files.add_u64(other, offset_of!(Raw, lost), raw.lost)?;
        if let Some(time) = oldest(raw) {
            let time = first_of(&heir, heir.generation).map_or(time, |known| known.min(time));
            let at = offset_of!(Raw, first) + 8 * (heir.generation as usize % UNSYNCED_GENERATIONS);
            self.files.write_u64(other, at, time >> 10 << 16 | u64::from(heir.generation as u16))?;
        }
        Ok(false)
    }

    /// Nothing of the file is possibly lost any more, unless another sync has failed meanwhile.
    pub(super) fn clear_lost(&mut self, slot: u32, known: u64) -> std::io::Result<()> {
        let at = offset_of!(Raw, lost);
        if self.files.read_u64(slot, at)? == known {
            self.files.write_u64(slot, at, 0)?;
        }
        Ok(())
    }

    pub(super) fn unmap(&mut self) {
        self.files.unmap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_write_is_of_the_first_generation_that_no_sync_has_covered() {
        let first = |time: u64, generation: u64| time >> 10 << 16 | generation;
        let mut raw = Raw { written: 9, synced: 2, generation: 12, covered: 9, ..Raw::default() };
        for generation in [5, 9, 11, 12] {
            raw.first[generation % UNSYNCED_GENERATIONS] = first(1 << 10 << generation, generation as u64);
        }
        assert_eq!(oldest(&raw), Some(1 << 10 << 11), "generation 10 has none");
        raw.covered = 11;
        assert_eq!(oldest(&raw), Some(1 << 10 << 12));
        // The bytes are there, their time not yet.
        (raw.generation, raw.covered) = (13, 12);
        assert_eq!(oldest(&raw), Some(1 << 10 << 12));
        let file = |synced| UnsyncedFile::of(3, &Raw { synced, ..raw });
        assert_eq!((file(2).bytes, file(2).oldest_ns), (7, Some(1 << 10 << 12)));
        assert_eq!((file(9).bytes, file(9).oldest_ns), (0, None));
    }
}
