//! The free slots: queues that the programs take from and this side fills. Only slots that were handed out need
//! looking at, so a large map costs nothing until it is used.

use std::ops::Range;

use libbpf_rs::{MapCore, MapFlags, ProgramInput};

use super::config::Capacity;
use super::record::{FIRST_FILE_SLOT, FIRST_NEIGHBOUR_SLOT, HANDED_OUT_AT_ONCE};
use super::skeleton::{SyncMaps, SyncSkel};

/// Slots without a histogram that are handed out at a time.
const BATCH: u32 = 8_192;

/// The queues, as `hand_out` knows them (bpf/record.h).
#[derive(Clone, Copy)]
enum Queue {
    Hot = 0,
    Cold = 1,
    Neighbour = 2,
}

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
    pub fn begin(&mut self, skel: &SyncSkel) -> libbpf_rs::Result<()> {
        let hot = self.capacity.histogram_slots();
        hand_out(skel, Queue::Neighbour, FIRST_NEIGHBOUR_SLOT..FIRST_FILE_SLOT)?;
        hand_out(skel, Queue::Hot, FIRST_FILE_SLOT..hot)?;
        self.issued = hot;
        self.refill(skel)
    }

    /// A row was seen in this slot, or it is none.
    pub fn was_taken(&mut self, slot: u32) {
        if slot < self.issued {
            self.untaken = self.untaken.max(slot + 1);
        }
    }

    /// Hands out another batch of those without a histogram when less than a batch is left that was never taken.
    pub fn refill(&mut self, skel: &SyncSkel) -> libbpf_rs::Result<()> {
        let first_cold = self.capacity.histogram_slots();
        if self.issued - self.untaken.clamp(first_cold, self.issued) >= BATCH {
            return Ok(());
        }
        let end = self.capacity.slots().min(self.issued + BATCH);
        hand_out(skel, Queue::Cold, self.issued..end)?;
        self.issued = end;
        Ok(())
    }

    pub fn give_back(&mut self, maps: &SyncMaps, slot: u32) -> libbpf_rs::Result<()> {
        push(maps, self.queue_of(slot), slot)
    }

    fn queue_of(&self, slot: u32) -> Queue {
        if slot < FIRST_FILE_SLOT {
            Queue::Neighbour
        } else if slot < self.capacity.histogram_slots() {
            Queue::Hot
        } else {
            Queue::Cold
        }
    }

    pub fn issued(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.issued
    }
}

/// Puts slots into a queue: many at a time by a program that the kernel runs for us; where it does not, one by one.
fn hand_out(skel: &SyncSkel, queue: Queue, slots: Range<u32>) -> libbpf_rs::Result<()> {
    let mut next = slots.start;
    while next < slots.end {
        let done = run(skel, queue, next..slots.end).unwrap_or(0);
        if done == 0 {
            push(&skel.maps, queue, next)?;
        }
        next += done.max(1);
    }
    Ok(())
}

/// How many of the slots one run of `hand_out` put into the queue; None if the kernel does not run it.
fn run(skel: &SyncSkel, queue: Queue, slots: Range<u32>) -> Option<u32> {
    let end = slots.end.min(slots.start + HANDED_OUT_AT_ONCE);
    let mut arguments: Vec<u8> =
        [queue as u32, slots.start, end].into_iter().flat_map(|word| u64::from(word).to_ne_bytes()).collect();
    let input = ProgramInput { context_in: Some(&mut arguments), ..ProgramInput::default() };
    let done = skel.progs.hand_out.test_run(input).ok()?.return_value;
    (done <= end - slots.start).then_some(done)
}

fn push(maps: &SyncMaps, queue: Queue, slot: u32) -> libbpf_rs::Result<()> {
    let queue = match queue {
        Queue::Hot => &maps.free_hot,
        Queue::Cold => &maps.free_cold,
        Queue::Neighbour => &maps.free_neighbour,
    };
    queue.update(&[], &slot.to_ne_bytes(), MapFlags::ANY)
}
