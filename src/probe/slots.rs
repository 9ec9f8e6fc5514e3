//! The free lists of row slots: queues that this side fills and the programs pop. Only slots that were popped
//! need to be read, so a large map costs nothing until it is used.

use std::ops::Range;

use libbpf_rs::{MapCore, MapFlags, ProgramInput};

use super::config::Capacity;
use super::contract::record::{
    FIRST_FILE_SLOT, FIRST_NEIGHBOUR_SLOT, FREE_COLD, FREE_HOT, FREE_LIST_BATCH, FREE_NEIGHBOUR,
};
use super::contract::{SyncMaps, SyncSkel};
use super::globals;

/// Slots without a histogram are put into their queue this many at a time.
const BATCH: u32 = 8_192;

/// The queues, as `fill_free_list` knows them (bpf/record.h).
#[derive(Clone, Copy)]
enum Queue {
    Hot = FREE_HOT as isize,
    Cold = FREE_COLD as isize,
    Neighbour = FREE_NEIGHBOUR as isize,
}

pub(super) struct FreeSlots {
    capacity: Capacity,
    /// Every slot below was put into a queue.
    issued: u32,
}

/// How often each queue was popped so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Popped {
    pub hot: u64,
    pub cold: u64,
    pub neighbour: u64,
}

impl Popped {
    pub(super) fn read(skel: &SyncSkel) -> Popped {
        let popped = globals::slots_popped(skel);
        let of = |queue: Queue| popped[queue as usize];
        Popped { hot: of(Queue::Hot), cold: of(Queue::Cold), neighbour: of(Queue::Neighbour) }
    }
}

impl FreeSlots {
    pub(super) fn new(capacity: Capacity) -> Self {
        FreeSlots { capacity, issued: FIRST_FILE_SLOT }
    }

    /// Fills the queues: the neighbours' slots, all that have histograms, and a first batch of those that
    /// have none.
    pub(super) fn fill(&mut self, skel: &SyncSkel) -> libbpf_rs::Result<()> {
        let hot = self.capacity.histogram_slots();
        fill(skel, Queue::Neighbour, FIRST_NEIGHBOUR_SLOT..FIRST_FILE_SLOT)?;
        fill(skel, Queue::Hot, FIRST_FILE_SLOT..hot)?;
        self.issued = hot;
        self.refill(skel)
    }

    /// Adds another batch of slots without a histogram when less than a batch is left that was never popped.
    pub(super) fn refill(&mut self, skel: &SyncSkel) -> libbpf_rs::Result<()> {
        let not_popped = up_to(self.capacity.histogram_slots()..self.issued, Popped::read(skel).cold).end;
        if self.issued - not_popped >= BATCH {
            return Ok(());
        }
        let end = self.capacity.slots().min(self.issued + BATCH);
        fill(skel, Queue::Cold, self.issued..end)?;
        self.issued = end;
        Ok(())
    }

    pub(super) fn free(&mut self, maps: &SyncMaps, slot: u32) -> libbpf_rs::Result<()> {
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

    /// The slots that may hold a row, ascending: the reserved ones, and of each queue as many as were popped.
    /// A queue yields the slots that were never used first, in their order, and only then those that were
    /// freed.
    pub(super) fn in_use(&self, popped: Popped) -> impl Iterator<Item = u32> + use<> {
        let first_cold = self.capacity.histogram_slots();
        (0..FIRST_NEIGHBOUR_SLOT)
            .chain(up_to(FIRST_NEIGHBOUR_SLOT..FIRST_FILE_SLOT, popped.neighbour))
            .chain(up_to(FIRST_FILE_SLOT..first_cold, popped.hot))
            .chain(up_to(first_cold..self.issued, popped.cold))
    }
}

/// The first `popped` of these slots.
fn up_to(slots: Range<u32>, popped: u64) -> Range<u32> {
    let popped = u32::try_from(popped).unwrap_or(u32::MAX);
    slots.start..slots.start.saturating_add(popped).min(slots.end)
}

/// Puts slots into a queue: many at a time by a program that the kernel runs for us, or one by one where it
/// does not.
fn fill(skel: &SyncSkel, queue: Queue, slots: Range<u32>) -> libbpf_rs::Result<()> {
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

/// How many of the slots one run of `fill_free_list` put into the queue; None if the kernel does not run it.
fn run(skel: &SyncSkel, queue: Queue, slots: Range<u32>) -> Option<u32> {
    let end = slots.end.min(slots.start + FREE_LIST_BATCH);
    let mut arguments: Vec<u8> =
        [queue as u32, slots.start, end].into_iter().flat_map(|word| u64::from(word).to_ne_bytes()).collect();
    let input = ProgramInput { context_in: Some(&mut arguments), ..ProgramInput::default() };
    let done = skel.progs.fill_free_list.test_run(input).ok()?.return_value;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_as_many_slots_are_looked_at_as_were_popped_of_each_queue() {
        let capacity = Capacity { files: 64, histograms: 16, threads: 16 };
        let slots = FreeSlots { capacity, issued: capacity.slots() };
        let in_use = |hot, cold, neighbour| -> Vec<u32> {
            slots.in_use(Popped { hot, cold, neighbour }).skip(FIRST_NEIGHBOUR_SLOT as usize).collect()
        };
        assert!(in_use(0, 0, 0).is_empty());
        assert_eq!(in_use(2, 1, 1), [64, 256, 257, 272]);
        // Slots that were freed are popped again: no more than there are.
        assert_eq!(in_use(1_000, u64::MAX, 1_000).len(), 192 + 64);
        assert_eq!(slots.in_use(Popped::default()).count(), 64);
    }
}
