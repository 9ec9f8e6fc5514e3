//! From one snapshot to the next: what is remembered of each server, and what follows from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::failures::Failures;
use super::remembered::{MAX_SERVERS, OfServer, Remembered};
use super::slow::Log;
use super::stalled::stalled;
use super::verdicts::storage_of;
use super::{Because, State, Thresholds, Tracing, Verdict, Verdicts};
use crate::model::{FileId, Interval, Role, RoleRow, Server, ServerId, Snapshot, Stats};

/// For so long at least after something had no room it is not known how those stand whom it may be of.
const CROWDED: Duration = Duration::from_secs(60);
const NO_ROOM: &str =
    "its owner's processes have more calls in flight, or open more new files, than there is room for";

/// Fed with every snapshot. Its memory is bounded by the servers that are there.
#[derive(Debug)]
pub struct Judge {
    thresholds: Thresholds,
    latest: Option<Arc<Snapshot>>,
    servers: BTreeMap<ServerId, Known>,
    /// Failures of before, whose servers have not been seen here yet.
    unclaimed: Vec<OfServer>,
}

#[derive(Debug)]
struct Known {
    /// All that it has made durable.
    count: u64,
    /// When that last rose.
    active: Option<Instant>,
    /// What of it, or of others of its owner, had no room on the kernel side, and when that last rose.
    refused: u64,
    crowded: Option<Instant>,
    logs: BTreeMap<Role, Log>,
    failures: Failures,
    verdict: Option<Verdict>,
}

impl Judge {
    pub fn new(thresholds: Thresholds) -> Judge {
        Judge { thresholds, latest: None, servers: BTreeMap::new(), unclaimed: Vec::new() }
    }

    /// Goes on with failures that another process has seen. To be called before the first snapshot.
    pub fn restore(&mut self, remembered: Remembered) {
        self.unclaimed = remembered.servers;
        self.unclaimed.truncate(MAX_SERVERS);
    }

    /// The failures that are not over.
    pub fn remembered(&self) -> Remembered {
        let of = |(&server, known): (&ServerId, &Known)| {
            let since = known.failures.since()?;
            Some(OfServer { server, since, failures: known.failures.remembered() })
        };
        let seen = self.servers.iter().filter_map(of);
        Remembered { servers: seen.chain(self.unclaimed.iter().cloned()).take(MAX_SERVERS).collect() }
    }

    /// What follows from the latest snapshot; nothing before there is one.
    pub fn verdicts(&mut self, tracing: &Tracing) -> Arc<Verdicts> {
        let snapshot = self.latest.clone();
        let (made, made_wall) = match &snapshot {
            Some(snapshot) => (snapshot.taken, snapshot.taken_wall),
            None => (Instant::now(), SystemTime::now()),
        };
        let judged = snapshot.iter().flat_map(|snapshot| {
            let servers = snapshot.servers.iter().filter(|server| is_judged(server));
            servers.map(|server| (server.clone(), snapshot.clone()))
        });
        Arc::new(Verdicts {
            made,
            made_wall,
            valid_for: Verdicts::valid_for(tracing),
            tracing: tracing.clone(),
            servers: judged
                .filter_map(|(server, snapshot)| self.judge(&server, &snapshot, tracing))
                .collect(),
        })
    }

    /// `m`: what happened since the snapshot before; before the first one, since tracing began.
    pub fn enter(&mut self, snapshot: &Arc<Snapshot>, m: &Interval) {
        self.latest = Some(snapshot.clone());
        let begin = snapshot.taken.checked_sub(m.span.duration).unwrap_or(snapshot.taken);
        let mut counts: BTreeMap<ServerId, u64> = BTreeMap::new();
        for row in &snapshot.files {
            *counts.entry(row.server).or_default() += row.stats.count;
        }
        let alive = || snapshot.servers.iter().filter(|server| is_judged(server)).map(|server| server.id);
        let list: std::collections::BTreeSet<ServerId> = alive().collect();
        self.servers.retain(|id, _| list.contains(id));
        for id in list {
            let count = counts.get(&id).copied().unwrap_or(0);
            let unclaimed = &mut self.unclaimed;
            let known = self.servers.entry(id).or_insert_with(|| {
                let of_before = unclaimed.iter().position(|one| one.is(id)).map(|at| unclaimed.remove(at));
                Known::new(of_before)
            });
            if count > known.count {
                known.active = Some(snapshot.taken);
            }
            known.count = count;
            for role in Role::SERIAL {
                let syncs = of_log(&m.roles, id, role);
                if syncs.is_some() || known.logs.contains_key(&role) {
                    let log = known.logs.entry(role).or_default();
                    log.add(begin, snapshot.taken, syncs.as_ref(), &self.thresholds);
                }
            }
        }
        for &(id, refused) in &snapshot.refused {
            if let Some(known) = self.servers.get_mut(&id).filter(|known| known.refused < refused) {
                (known.refused, known.crowded) = (refused, Some(snapshot.taken));
            }
        }
        for row in m.files.iter().chain(&m.failures) {
            if let Some(known) = self.servers.get_mut(&row.server) {
                known.failures.add(row, snapshot.taken_wall);
            }
        }
        for (id, known) in self.servers.iter_mut().filter(|(_, known)| !known.failures.is_empty()) {
            let all = snapshot.files.iter().chain(&snapshot.failures).chain(&snapshot.writes);
            known.failures.learn(all.filter(|row| row.server == *id));
        }
    }

    fn judge(&mut self, server: &Server, snapshot: &Snapshot, tracing: &Tracing) -> Option<Verdict> {
        let thresholds = &self.thresholds;
        let known = self.servers.get_mut(&server.id)?;
        let (state, because) = known.state(server, snapshot, tracing, thresholds);
        let (since, since_wall) = match (&known.verdict, known.failures.since()) {
            (Some(before), Some(since)) if before.state == state && before.since_wall == since => {
                (before.since, since)
            }
            // Whatever came in between, and whoever saw it first.
            (_, Some(since)) if state == State::Failing => (moment_of(since, snapshot), since),
            (Some(before), _) if before.state == state => (before.since, before.since_wall),
            _ => (snapshot.taken, snapshot.taken_wall),
        };
        let storage = storage_of(server);
        let verdict = Verdict { server: server.id, state, since, since_wall, because, storage };
        known.verdict = Some(verdict.clone());
        Some(verdict)
    }

    /// The files that keep a server failing, a few of each: whether they are still open is to be found out
    /// elsewhere.
    pub fn failed_files(&self) -> Vec<(ServerId, FileId)> {
        let of = |(id, known): (&ServerId, &Known)| {
            known.failures.files().map(|file| (*id, file)).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(of).collect()
    }

    /// The server has no descriptor of this file any more.
    pub fn closed(&mut self, server: ServerId, file: FileId) {
        if let Some(known) = self.servers.get_mut(&server) {
            known.failures.close(file);
        }
    }

    /// An operator knows of its failures. Returns how many files they were of; what fails from now on counts
    /// again.
    pub fn acknowledge(&mut self, server: ServerId) -> usize {
        let known = self.servers.get_mut(&server);
        known.map_or(0, |known| std::mem::take(&mut known.failures).len())
    }
}

impl Known {
    /// What waits for the call that had no room does nothing else, and is refused nothing more: it is known
    /// again how it stands when something of it was counted since.
    fn is_crowded(&self, now: Instant) -> bool {
        let was_counted = |since| self.active.is_some_and(|at| at > since);
        let is_so = |at| now.saturating_duration_since(at) < CROWDED || !was_counted(at);
        self.crowded.is_some_and(is_so)
    }

    fn new(of_before: Option<OfServer>) -> Known {
        let mut failures = Failures::default();
        if let Some(OfServer { since, failures: remembered, .. }) = of_before {
            failures.restore(since, remembered);
        }
        Known {
            count: 0,
            active: None,
            refused: 0,
            crowded: None,
            logs: BTreeMap::new(),
            failures,
            verdict: None,
        }
    }

    /// The worst that is known of it. What has been seen needs no description of the server, which can be
    /// missing because its option files lie on what hangs.
    fn state(
        &self,
        server: &Server,
        snapshot: &Snapshot,
        tracing: &Tracing,
        thresholds: &Thresholds,
    ) -> (State, Option<Because>) {
        if let Tracing::Not { why } = tracing {
            return (State::Unknown, Some(Because::unknown(why)));
        }
        if let Some(because) = self.failures.because() {
            return (State::Failing, Some(because));
        }
        if let Some(because) = stalled(snapshot.in_flight.iter(), server.id, thresholds.stalled) {
            return (State::Stalled, Some(because));
        }
        if !server.known_by.described {
            return (State::Unknown, Some(Because::unknown("the process has not been described yet")));
        }
        if self.is_crowded(snapshot.taken) {
            return (State::Unknown, Some(Because::unknown(NO_ROOM)));
        }
        let slow = self.logs.iter().filter_map(|(role, log)| Some((*role, log.slow(thresholds)?)));
        if let Some((role, slow)) = slow.max_by_key(|(_, slow)| slow.p99) {
            let because = Because {
                role: Some(role),
                p99: Some(slow.p99),
                per_second: Some(slow.per_second),
                ..Because::default()
            };
            return (State::Slow, Some(because));
        }
        let is_active = self
            .active
            .is_some_and(|at| snapshot.taken.saturating_duration_since(at) < thresholds.idle_after);
        // What is in flight has not been counted.
        let waits = snapshot.in_flight.iter().any(|sync| sync.server == server.id);
        (if is_active || waits { State::Ok } else { State::Idle }, None)
    }
}

/// A time of the wall clock as the other clock would have had it.
fn moment_of(wall: SystemTime, now: &Snapshot) -> Instant {
    let ago = now.taken_wall.duration_since(wall).unwrap_or_default();
    now.taken.checked_sub(ago).unwrap_or(now.taken)
}

/// One that has ended is no server to ask about.
fn is_judged(server: &Server) -> bool {
    server.alive && server.id != ServerId::NONE && server.id != ServerId::ENDED
}

/// All operations of a log together.
pub(super) fn of_log(roles: &[RoleRow], server: ServerId, role: Role) -> Option<Stats> {
    let mut rows = roles.iter().filter(|row| row.server == server && row.role == role);
    let mut sum = rows.next()?.stats.clone();
    rows.for_each(|row| sum.merge(&row.stats));
    Some(sum)
}
