//! Slots that belong to a thread (`calls` in bpf/inflight.h) or to the address of a ring's request
//! (`request_slots` in bpf/request_slots.h). The programs give one to each that comes by, and do not know
//! which are gone or come no more. Where one finds no free slot, its syncs cost a little more, and this side
//! reclaims slots by second chance: it marks all of them, which costs the owner some nanoseconds at its next
//! sync to take away, and some seconds later frees those whose mark is still there.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use libbpf_rs::MapCore;

use super::array::MappedArray;
use super::contract::record::{
    RECLAIMING_BIT, REFERENCED_BIT, REQUEST_RECLAIMING_BIT, REQUEST_REFERENCED_BIT,
};
use super::contract::types::{call, request_slot};
use super::programs;

/// Where the words of a slot are, and the two marks in the owner's.
#[derive(Clone, Copy)]
struct Layout {
    start: usize,
    owner: usize,
    claims: usize,
    referenced: u64,
    reclaiming: u64,
}

const OF_THREADS: Layout = Layout {
    start: offset_of!(call, start_ns),
    owner: offset_of!(call, owner),
    claims: offset_of!(call, claims),
    referenced: 1 << REFERENCED_BIT,
    reclaiming: 1 << RECLAIMING_BIT,
};

const OF_REQUESTS: Layout = Layout {
    start: offset_of!(request_slot, request.start_ns),
    owner: offset_of!(request_slot, owner),
    claims: offset_of!(request_slot, claims),
    referenced: 1 << REQUEST_REFERENCED_BIT,
    reclaiming: 1 << REQUEST_RECLAIMING_BIT,
};

/// Slots are reclaimed when this many syncs found none.
const RECLAIM_THRESHOLD: u64 = 100;
/// The second chance: who syncs less often than this can as well look for another slot.
const MARK_TIMEOUT: Duration = Duration::from_secs(5);
/// From the end of one round to the start of the next.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct OwnedSlots {
    slots: MappedArray,
    layout: Layout,
    /// Syncs without a slot up to the end of the last round.
    handled: u64,
    /// When the slots were marked, while a round is under way.
    marked: Option<Instant>,
    ended: Option<Instant>,
}

impl OwnedSlots {
    pub(super) fn of_threads(map: &impl MapCore) -> std::io::Result<OwnedSlots> {
        OwnedSlots::new(MappedArray::new(map, size_of::<call>())?, OF_THREADS)
    }

    pub(super) fn of_requests(map: &impl MapCore) -> std::io::Result<OwnedSlots> {
        OwnedSlots::new(MappedArray::new(map, size_of::<request_slot>())?, OF_REQUESTS)
    }

    fn new(slots: MappedArray, layout: Layout) -> std::io::Result<OwnedSlots> {
        Ok(OwnedSlots { slots, layout, handled: 0, marked: None, ended: None })
    }

    /// Those in which something is in flight.
    pub(super) fn in_flight<T: Copy>(&mut self) -> std::io::Result<Vec<T>> {
        let mut found = Vec::new();
        for slot in 0..self.slots.entries() {
            let start = self.slots.read_u64(slot, self.layout.start)?;
            if start == 0 {
                continue;
            }
            let copy = self.slots.read::<T>(slot)?;
            // Else it ended meanwhile, and what was copied may be of two.
            if self.slots.read_u64(slot, self.layout.start)? == start {
                found.push(copy);
            }
        }
        Ok(found)
    }

    /// The next step of reclaiming, if one is due. `without_slot`: how many syncs so far found no slot.
    pub(super) fn reclaim_if_due(&mut self, without_slot: u64) -> std::io::Result<()> {
        match self.marked {
            Some(marked) if marked.elapsed() >= MARK_TIMEOUT => {
                self.reclaim_marked()?;
                (self.marked, self.ended, self.handled) = (None, Some(Instant::now()), without_slot);
            }
            Some(_) => {}
            None => {
                let rested = self.ended.is_none_or(|ended| ended.elapsed() >= RECLAIM_INTERVAL);
                if rested && without_slot - self.handled >= RECLAIM_THRESHOLD {
                    self.mark_all()?;
                    self.marked = Some(Instant::now());
                }
            }
        }
        Ok(())
    }

    /// Reclaims every slot in which nothing is in flight at this moment, without a second chance.
    pub(super) fn reclaim_all(&mut self) -> std::io::Result<()> {
        self.mark_all()?;
        self.reclaim_marked()
    }

    /// Forgets all syncs in flight. Only while no program is attached.
    pub(super) fn forget_syncs(&mut self) -> std::io::Result<()> {
        for slot in 0..self.slots.entries() {
            if self.slots.read_u64(slot, self.layout.start)? != 0 {
                self.slots.write_u64(slot, self.layout.start, 0)?;
            }
        }
        Ok(())
    }

    pub(super) fn unmap(&mut self) {
        self.slots.unmap();
    }

    fn marks(&self) -> u64 {
        self.layout.referenced | self.layout.reclaiming
    }

    /// Only the owner's own programs write to its word, and only while there is a mark in it.
    fn mark_all(&mut self) -> std::io::Result<()> {
        for slot in 0..self.slots.entries() {
            let owner = self.slots.read_u64(slot, self.layout.owner)?;
            if owner != 0 && owner & self.marks() == 0 {
                self.slots.write_u64(slot, self.layout.owner, owner | self.layout.referenced)?;
            }
        }
        Ok(())
    }

    /// An owner that takes its mark away at this very moment may or may not keep its slot; one that is in a
    /// sync does.
    fn reclaim_marked(&mut self) -> std::io::Result<()> {
        let mut leaving = Vec::new();
        for slot in 0..self.slots.entries() {
            let owner = self.slots.read_u64(slot, self.layout.owner)?;
            if owner & self.layout.referenced != 0 && self.slots.read_u64(slot, self.layout.start)? == 0 {
                self.slots.write_u64(
                    slot,
                    self.layout.owner,
                    owner & !self.marks() | self.layout.reclaiming,
                )?;
                leaving.push(slot);
            } else if owner == 0 && self.slots.read_u64(slot, self.layout.claims)? != 0 {
                // Two claimed it at the same time, and neither got it.
                leaving.push(slot);
            }
        }
        if leaving.is_empty() {
            return Ok(());
        }
        // After this no program is running that has seen these slots without the mark, or that is claiming
        // one.
        programs::wait_for_running();
        for slot in leaving {
            let owner = self.slots.read_u64(slot, self.layout.owner)?;
            let free = owner == 0 || owner & self.layout.reclaiming != 0;
            if !free {
                continue;
            }
            if self.slots.read_u64(slot, self.layout.start)? != 0 {
                self.slots.write_u64(slot, self.layout.owner, owner & !self.marks())?;
                continue;
            }
            self.slots.write_u64(slot, self.layout.owner, 0)?;
            fence(Ordering::Release);
            self.slots.write_u64(slot, self.layout.claims, 0)?;
        }
        Ok(())
    }
}
