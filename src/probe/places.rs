//! The threads' places (`calls` in bpf/inflight.h). The programs give a place to each thread that syncs; which threads are
//! gone, or do not sync any more, they do not know. Where a thread finds none, its syncs cost a little more, and this side
//! makes room: it asks the owners of all places whether they still sync, and later gives up the places of those that
//! have not answered. Asking costs an owner some nanoseconds at its next sync.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::array::MappedArray;
use super::grace;
use super::skeleton::types::call;

/// From bpf/record.h.
const OWNER_ASKED: u64 = 1 << 32;
const OWNER_LEAVES: u64 = 1 << 33;
const THREAD: u64 = OWNER_ASKED - 1;

const START: usize = offset_of!(call, start_ns);
const OWNER: usize = offset_of!(call, owner);
const CLAIMS: usize = offset_of!(call, claims);

/// So many syncs without a place are worth the effort.
const WORTH_IT: u64 = 100;
/// Owners have so long to answer. A thread that syncs less often can as well find another place.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two times.
const PAUSE: Duration = Duration::from_secs(10);

pub struct Places {
    calls: MappedArray,
    /// The syncs without a place that nothing needs to be done about.
    settled: u64,
    asked: Option<Instant>,
    ended: Option<Instant>,
}

impl Places {
    pub fn new(calls: MappedArray) -> Places {
        Places { calls, settled: 0, asked: None, ended: None }
    }

    /// The next step, if it is time for one. `without_place`: syncs so far of threads that found no place.
    pub fn tend(&mut self, without_place: u64) -> std::io::Result<()> {
        match self.asked {
            Some(asked) if asked.elapsed() >= PATIENCE => {
                self.give_up_idle()?;
                (self.asked, self.ended, self.settled) = (None, Some(Instant::now()), without_place);
            }
            Some(_) => {}
            None => {
                let rested = self.ended.is_none_or(|ended| ended.elapsed() >= PAUSE);
                if rested && without_place - self.settled >= WORTH_IT {
                    self.ask()?;
                    self.asked = Some(Instant::now());
                }
            }
        }
        Ok(())
    }

    /// Without waiting for answers.
    pub fn give_up_all(&mut self) -> std::io::Result<()> {
        self.ask()?;
        self.give_up_idle()
    }

    /// No sync is in flight any more, as far as is known. While no program runs.
    pub fn forget_syncs(&mut self) -> std::io::Result<()> {
        for place in 0..self.calls.entries() {
            if self.calls.read_u64(place, START)? != 0 {
                self.calls.write_u64(place, START, 0)?;
            }
        }
        Ok(())
    }

    pub fn unmap(&mut self) {
        self.calls.unmap();
    }

    /// Only an owner's own programs write to its word, and not while it stands there without a mark.
    fn ask(&mut self) -> std::io::Result<()> {
        for place in 0..self.calls.entries() {
            let owner = self.calls.read_u64(place, OWNER)?;
            if owner != 0 && owner & !THREAD == 0 {
                self.calls.write_u64(place, OWNER, owner | OWNER_ASKED)?;
            }
        }
        Ok(())
    }

    /// An owner that answers at this very moment may or may not keep its place; a sync that is begun meanwhile does.
    fn give_up_idle(&mut self) -> std::io::Result<()> {
        let mut leaving = Vec::new();
        for place in 0..self.calls.entries() {
            let owner = self.calls.read_u64(place, OWNER)?;
            if owner & OWNER_ASKED != 0 && self.calls.read_u64(place, START)? == 0 {
                self.calls.write_u64(place, OWNER, owner & THREAD | OWNER_LEAVES)?;
                leaving.push(place);
            } else if owner == 0 && self.calls.read_u64(place, CLAIMS)? != 0 {
                // Two wanted it at once, and neither got it.
                leaving.push(place);
            }
        }
        if leaving.is_empty() {
            return Ok(());
        }
        // No program is under way any more that has seen these places without the mark, or that is claiming one.
        grace::wait();
        for place in leaving {
            let owner = self.calls.read_u64(place, OWNER)?;
            let free = owner == 0 || owner & OWNER_LEAVES != 0;
            if !free {
                continue;
            }
            if self.calls.read_u64(place, START)? != 0 {
                self.calls.write_u64(place, OWNER, owner & THREAD)?;
                continue;
            }
            self.calls.write_u64(place, OWNER, 0)?;
            fence(Ordering::Release);
            self.calls.write_u64(place, CLAIMS, 0)?;
        }
        Ok(())
    }
}
