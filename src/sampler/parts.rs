//! Which parts of files have a role of their own, while all writes are watched: read by threads of their own,
//! because it opens a file on the disk of a server, and told to the kernel side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::linux::PROC;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::model::{FilePart, Owner, Server, ServerId};
use crate::probe::record;
use crate::server::adapters;
use crate::server::what::settings::Settings;
use crate::server::who::shares::fairly;

/// Servers that are looked at at the same time, and of one owner; then with those that hang; then those that
/// wait.
const ALL: Share = Share { threads: 2, with_abandoned: 8, queue: 1_024 };
const OF_ONE_OWNER: Share = Share { threads: 1, with_abandoned: 2, queue: 64 };
const TIMEOUT: Duration = Duration::from_secs(2);
/// From one change that is told to the next: anybody may start servers all the time, and each change is some
/// hundred system calls.
const REST: Duration = Duration::from_millis(250);

struct Job {
    server: Server,
    settings: Settings,
}

struct Known {
    owner: Owner,
    part: FilePart,
    /// By the monotonic clock.
    told: Option<Duration>,
}

pub(crate) struct Parts {
    readers: Pool<Owner, Job, (ServerId, FilePart)>,
    known: BTreeMap<ServerId, Known>,
    has_changed: bool,
    /// When the kernel side was told last, by the monotonic clock.
    last: Option<Duration>,
}

impl Parts {
    pub fn new() -> Parts {
        let limits = Limits { all: ALL, of_one_owner: OF_ONE_OWNER, job_timeout: TIMEOUT, allowance: None };
        let read = |job: &Job| {
            let Job { server, settings } = job;
            let part = adapters::of_server(server).part_of_file(Path::new(PROC), server, settings)?;
            Some((server.id, part))
        };
        let readers = Pool::new("parts", limits, read);
        Parts { readers, known: BTreeMap::new(), has_changed: false, last: None }
    }

    /// A server was described. What was found once stays where it is for as long as the server lives.
    pub fn look_for(&mut self, owner: Owner, server: &Server, settings: &Settings) {
        let may_have_one = adapters::of_server(server).may_have_part_of_file(server);
        if may_have_one && server.known_by.described && !self.known.contains_key(&server.id) {
            self.readers.submit(owner, Job { server: server.clone(), settings: settings.clone() });
        }
    }

    /// Takes in what was found. `owner`: of a server that lives.
    pub fn take(&mut self, owner: impl Fn(ServerId) -> Option<Owner>) {
        while let Some((server, part)) = self.readers.poll() {
            let Some(owner) = owner(server) else { continue };
            self.has_changed |= self.known.insert(server, Known { owner, part, told: None }).is_none();
        }
    }

    /// Waits for those that are being looked for.
    pub fn wait(&self, end: Instant) {
        while self.readers.pending() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn end(&mut self, server: ServerId) {
        self.has_changed |= self.known.remove(&server).is_some();
    }

    /// Those that are to be told apart, as many as there is room for, if they are others than before.
    pub fn changed(&self, now: Duration) -> Option<Vec<(ServerId, FilePart)>> {
        let is_soon = self.last.is_some_and(|last| now.saturating_sub(last) < REST);
        if !self.has_changed || is_soon {
            return None;
        }
        let all: Vec<_> = self.known.iter().map(|(id, known)| (known.owner, *id, known.part)).collect();
        let fair = fairly(all, record::PARTS, |(owner, ..)| *owner);
        Some(fair.into_iter().map(|(_, id, part)| (id, part)).collect())
    }

    /// The kernel side tells these apart from `now` on, and no others. None: it could not be told all of
    /// them.
    pub fn told(&mut self, parts: Option<&[(ServerId, FilePart)]>, now: Duration) {
        self.has_changed = parts.is_none();
        self.last = Some(now);
        let told: BTreeSet<ServerId> = parts.unwrap_or_default().iter().map(|(id, _)| *id).collect();
        for (id, known) in &mut self.known {
            known.told = told.contains(id).then(|| known.told.unwrap_or(now));
        }
    }

    /// Since when, by the monotonic clock, the part of this server's file is told apart.
    pub fn since(&self, server: ServerId) -> Option<Duration> {
        self.known.get(&server)?.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(inode: u64) -> FilePart {
        FilePart { device: 1, inode, places: [(1, 2), (2, 3)] }
    }

    fn id(pid: u32) -> ServerId {
        ServerId { pid, start_ns: 7 }
    }

    #[test]
    fn the_room_is_shared_out_by_owner_and_who_is_pushed_out_is_not_told_apart_any_more() {
        let mut parts = Parts::new();
        let enter = |parts: &mut Parts, pid: u32, owner| {
            parts.known.insert(id(pid), Known { owner, part: part(pid.into()), told: None });
            parts.has_changed = true;
        };
        let stranger = Owner::Container(7);
        (0..record::PARTS as u32).for_each(|n| enter(&mut parts, 1_000 + n, stranger));
        let at = Duration::from_secs;
        let first = parts.changed(at(1)).unwrap();
        parts.told(Some(&first), at(1));
        assert_eq!((first.len(), parts.changed(at(2))), (record::PARTS, None));
        let later = [(5_000, Owner::Container(8)), (5_001, Owner::System(27)), (5_002, Owner::User(1001))];
        later.iter().for_each(|&(pid, owner)| enter(&mut parts, pid, owner));
        assert_eq!(parts.changed(at(1) + REST / 2), None, "so soon after the last change");
        let second = parts.changed(at(9)).unwrap();
        assert_eq!(second.len(), record::PARTS);
        parts.told(Some(&second), Duration::from_secs(9));
        assert!(later.iter().all(|&(pid, _)| parts.since(id(pid)) == Some(Duration::from_secs(9))));
        let since: Vec<_> = (0..record::PARTS as u32).map(|n| parts.since(id(1_000 + n))).collect();
        assert_eq!(since.iter().filter(|since| since.is_none()).count(), later.len());
        assert!(since.iter().flatten().all(|since| *since == Duration::from_secs(1)));
    }

    #[test]
    fn of_a_server_that_has_ended_nothing_is_told_apart() {
        let mut parts = Parts::new();
        parts.known.insert(id(1), Known { owner: Owner::System(0), part: part(1), told: None });
        parts.told(Some(&[(id(1), part(1))]), Duration::from_secs(1));
        parts.end(id(2));
        assert_eq!(parts.changed(Duration::from_secs(2)), None);
        parts.told(None, Duration::from_secs(2));
        assert_eq!(
            (parts.changed(Duration::from_secs(3)).map(|all| all.len()), parts.since(id(1))),
            (Some(1), None),
            "once more"
        );
        parts.end(id(1));
        assert_eq!((parts.changed(Duration::from_secs(3)), parts.since(id(1))), (Some(Vec::new()), None));
    }
}
