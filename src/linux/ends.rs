//! Tells which processes have ended, and costs nothing while none does: a host may have thousands of servers
//! that do nothing.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Descriptors that are used for this at most, and at most the half of those that there may be.
const MOST: u64 = 16_384;
/// What is taken in at a time.
const EVENTS: usize = 256;

pub(crate) struct Ends<K> {
    /// None: there is no room for one.
    epoll: Option<OwnedFd>,
    watched: HashMap<u64, (K, OwnedFd)>,
    most: usize,
    next: u64,
}

impl<K: Copy> Ends<K> {
    pub fn new(descriptors: u64) -> Ends<K> {
        Ends {
            epoll: epoll::create(CreateFlags::CLOEXEC).ok(),
            watched: HashMap::new(),
            most: usize::try_from(MOST.min(descriptors / 2)).unwrap_or(0),
            next: 0,
        }
    }

    /// Watches whichever process has this number now; whether that is the one that is meant is to be looked
    /// at afterwards. False: there is no room, or no such process.
    pub fn watch(&mut self, pid: u32, key: K) -> bool {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let (Some(epoll), Some(pid)) = (&self.epoll, pid.filter(|_| self.watched.len() < self.most)) else {
            return false;
        };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        let at = self.next;
        self.next += 1;
        // Readable once all of its threads have ended (pidfd_open(2)).
        if epoll::add(epoll, &process, EventData::new_u64(at), EventFlags::IN).is_err() {
            return false;
        }
        self.watched.insert(at, (key, process));
        true
    }

    /// Those that have ended since this was asked last; they are watched no longer.
    pub fn take(&mut self) -> Vec<K> {
        let Some(epoll) = &self.epoll else { return Vec::new() };
        let mut ended = Vec::new();
        loop {
            let mut events = Vec::with_capacity(EVENTS);
            let waited = epoll::wait(epoll, spare_capacity(&mut events), Some(&Timespec::default()));
            if waited.is_err() || events.is_empty() {
                return ended;
            }
            ended.extend(events.iter().filter_map(|event| Some(self.watched.remove(&event.data.u64())?.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::child::Sleeper;

    #[test]
    fn who_ends_is_told_once_and_who_lives_is_not() {
        let (mut one, other) = (Sleeper::start(), Sleeper::start());
        let mut ends = Ends::new(1_024);
        assert!(ends.watch(one.id(), "one") && ends.watch(other.id(), "other"));
        assert!(!ends.watch(1 << 30, "nobody") && !ends.watch(0, "nobody"));
        assert!(ends.take().is_empty());
        one.kill();
        // Not waited for yet: it does nothing more all the same.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut told = Vec::new();
        while told.is_empty() && std::time::Instant::now() < end {
            told = ends.take();
        }
        assert_eq!(told, ["one"]);
        assert!(ends.take().is_empty());
    }

    #[test]
    fn more_than_half_of_the_descriptors_are_not_used() {
        let mut ends = Ends::new(5);
        let own = std::process::id();
        assert_eq!([1, 2, 3].map(|key| ends.watch(own, key)), [true, true, false]);
    }
}
