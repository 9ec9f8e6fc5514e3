//! The free slots: queues that the programs take from and this side fills. Only slots that were handed out need
//! looking at, so a large map costs nothing until it is used.

use libbpf_rs::{MapCore, MapFlags};

use super::config::Capacity;
use super::record::{FIRST_FILE_SLOT, FIRST_NEIGHBOUR_SLOT};
use super::skeleton::SyncMaps;

/// Slots without a histogram that are handed out at a time.
const BATCH: u32 = 8_192;

pub struct FreeSlots {
    capacity: Capacity,
    /// Every slot below was handed out.
    issued: u32,
    /// Every slot from here on is still in a queue: they leave it in the order in which they were handed out.
    untaken: u32,
}

impl FreeSlots {
    pub fn new(capacity: Capacity) -> Self {
        FreeSlots { capacity, issued: FIRST_FILE_SLOT, untaken: FIRST_FILE_SLOT }
    }

    /// The neighbours' slots, all that have histograms, and a first batch of those that have none.
    pub fn begin(&mut self, maps: &SyncMaps) -> libbpf_rs::Result<()> {
        for slot in FIRST_NEIGHBOUR_SLOT..FIRST_FILE_SLOT {
            push(&maps.free_neighbour, slot)?;
        }
        let hot = self.capacity.histogram_slots();
        for slot in FIRST_FILE_SLOT..hot {
            push(&maps.free_hot, slot)?;
        }
        self.issued = hot;
        self.refill(maps)
    }

    /// A row was seen in this slot, or it is none.
    pub fn was_taken(&mut self, slot: u32) {
        if slot < self.issued {
            self.untaken = self.untaken.max(slot + 1);
        }
    }

    /// Hands out another batch of those without a histogram when less than a batch is left that was never taken.
    pub fn refill(&mut self, maps: &SyncMaps) -> libbpf_rs::Result<()> {
        let first_cold = self.capacity.histogram_slots();
        if self.issued - self.untaken.clamp(first_cold, self.issued) >= BATCH {
            return Ok(());
        }
        let end = self.capacity.slots().min(self.issued + BATCH);
        for slot in self.issued..end {
            push(&maps.free_cold, slot)?;
            self.issued = slot + 1;
        }
        Ok(())
    }

    pub fn give_back(&mut self, maps: &SyncMaps, slot: u32) -> libbpf_rs::Result<()> {
        if slot < FIRST_FILE_SLOT {
            push(&maps.free_neighbour, slot)
        } else if slot < self.capacity.histogram_slots() {
            push(&maps.free_hot, slot)
        } else {
            push(&maps.free_cold, slot)
        }
    }

    pub fn issued(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.issued
    }
}

fn push(queue: &impl MapCore, slot: u32) -> libbpf_rs::Result<()> {
    queue.update(&[], &slot.to_ne_bytes(), MapFlags::ANY)
}
