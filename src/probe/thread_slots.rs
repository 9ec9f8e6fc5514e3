//! The threads' own slots (`calls` in bpf/inflight.h). The programs give a slot to each thread that syncs,
//! and do not know which threads are gone or sync no more. Where a thread finds no free slot, its syncs cost
//! a little more, and this side reclaims slots by second chance: it marks all of them, which costs the owner
//! some nanoseconds at its next sync to take away, and some seconds later frees those whose mark is still
//! there.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::array::MappedArray;
use super::contract::record::{RECLAIMING_BIT, REFERENCED_BIT};
use super::contract::types::call;
use super::programs;

const REFERENCED: u64 = 1 << REFERENCED_BIT;
const RECLAIMING: u64 = 1 << RECLAIMING_BIT;
/// The rest is the thread's id.
const THREAD: u64 = REFERENCED - 1;

const START: usize = offset_of!(call, start_ns);
const OWNER: usize = offset_of!(call, owner);
const CLAIMS: usize = offset_of!(call, claims);

/// Slots are reclaimed when this many syncs found none.
const RECLAIM_THRESHOLD: u64 = 100;
/// The second chance: a thread that syncs less often than this can as well look for another slot.
const MARK_TIMEOUT: Duration = Duration::from_secs(5);
/// From the end of one round to the start of the next.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct ThreadSlots {
    calls: MappedArray,
    /// Syncs without a slot up to the end of the last round.
    handled: u64,
    /// When the slots were marked, while a round is under way.
    marked: Option<Instant>,
    ended: Option<Instant>,
}

impl ThreadSlots {
    pub(super) fn new(calls: MappedArray) -> ThreadSlots {
        ThreadSlots { calls, handled: 0, marked: None, ended: None }
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

    /// Reclaims the slot of every thread that is in no sync at this moment, without a second chance.
    pub(super) fn reclaim_all(&mut self) -> std::io::Result<()> {
        self.mark_all()?;
        self.reclaim_marked()
    }

    /// Forgets all syncs in flight. Only while no program is attached.
    pub(super) fn forget_syncs(&mut self) -> std::io::Result<()> {
        for slot in 0..self.calls.entries() {
            if self.calls.read_u64(slot, START)? != 0 {
                self.calls.write_u64(slot, START, 0)?;
            }
        }
        Ok(())
    }

    pub(super) fn unmap(&mut self) {
        self.calls.unmap();
    }

    /// Only the owner's own programs write to its word, and only while there is a mark in it.
    fn mark_all(&mut self) -> std::io::Result<()> {
        for slot in 0..self.calls.entries() {
            let owner = self.calls.read_u64(slot, OWNER)?;
            if owner != 0 && owner & !THREAD == 0 {
                self.calls.write_u64(slot, OWNER, owner | REFERENCED)?;
            }
        }
        Ok(())
    }

    /// An owner that takes its mark away at this very moment may or may not keep its slot; one that is in a
    /// sync does.
    fn reclaim_marked(&mut self) -> std::io::Result<()> {
        let mut leaving = Vec::new();
        for slot in 0..self.calls.entries() {
            let owner = self.calls.read_u64(slot, OWNER)?;
            if owner & REFERENCED != 0 && self.calls.read_u64(slot, START)? == 0 {
                self.calls.write_u64(slot, OWNER, owner & THREAD | RECLAIMING)?;
                leaving.push(slot);
            } else if owner == 0 && self.calls.read_u64(slot, CLAIMS)? != 0 {
                // Two threads claimed it at the same time, and neither got it.
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
            let owner = self.calls.read_u64(slot, OWNER)?;
            let free = owner == 0 || owner & RECLAIMING != 0;
            if !free {
                continue;
            }
            if self.calls.read_u64(slot, START)? != 0 {
                self.calls.write_u64(slot, OWNER, owner & THREAD)?;
                continue;
            }
            self.calls.write_u64(slot, OWNER, 0)?;
            fence(Ordering::Release);
            self.calls.write_u64(slot, CLAIMS, 0)?;
        }
        Ok(())
    }
}
