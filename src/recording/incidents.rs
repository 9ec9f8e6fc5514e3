//! What went wrong when: hangs, failures, slow phases and saturated logs of servers, each with its beginning,
//! its end and what was seen meanwhile of its cause. Made of intervals as they come, in bounded memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::incident::{Beside, Incident, JOINED_WITHIN, SLOW_TIMES, What, Worst};
use super::usual::{Usual, Usually};
use crate::model::{Errors, FileRow, Interval, Max, Op, Place, Role, SATURATED, ServerId, Stats, neighbours};

/// A log is slow while the median of its syncs, or their p99, is [`SLOW_TIMES`] its usual one, and at least
/// so long. Of fewer syncs than these in an interval, p99 is one sync's chance.
const SLOW_FROM: Duration = Duration::from_millis(5);
const SLOW_TAIL_FROM: Duration = Duration::from_millis(10);
const TAIL_OF: u64 = 100;
/// A slow phase or a saturated time that other incidents of the server cover to this share is a part of them.
const COVERED: f64 = 0.8;

/// Incidents that are kept, and those that go on. Of a server with most of them, the least is dropped.
const MAX_KEPT: usize = 64;
const MAX_OPEN: usize = 512;
/// Causes that are told apart for one incident.
const MAX_WAITS: usize = 8;
/// Servers whose neighbours are looked at in one interval: those with the worst incidents.
const MAX_LOOKED_AT: usize = 16;

/// What an interval tells of one incident.
struct Sign {
    what: What,
    server: ServerId,
    role: Role,
    begin: SystemTime,
    worst: Worst,
    errors: Errors,
    usual_ns: Option<u64>,
    busy: Duration,
    /// It is so at the end of the interval.
    goes_on: bool,
    waits_for: Option<String>,
}

impl Sign {
    fn key(&self) -> Key {
        // Of hangs and failures, all roles of a server are one incident: they have one cause.
        (self.server, self.what, (self.what < What::Hang).then_some(self.role))
    }
}

type Key = (ServerId, What, Option<Role>);

#[derive(Clone, Debug)]
pub struct Incidents {
    /// From this on a sync hangs.
    hang_after: Duration,
    open: BTreeMap<Key, Incident>,
    over: Vec<Incident>,
    /// There was no room for all.
    is_short_of_room: bool,
    usual: Usual,
}

impl Incidents {
    pub fn new(hang_after: Duration) -> Incidents {
        let usual = Usual::default();
        Incidents { hang_after, open: BTreeMap::new(), over: Vec::new(), is_short_of_room: false, usual }
    }

    pub fn hang_after(&self) -> Duration {
        self.hang_after
    }

    pub fn record(&mut self, m: &Interval) {
        let mut signs = Vec::new();
        self.long_syncs(m, &mut signs);
        failures(m, &mut signs);
        let busy = self.slow_logs(m, &mut signs);
        let mut seen = BTreeSet::new();
        for sign in signs {
            let key = sign.key();
            let is_first = !seen.contains(&key);
            let time = if is_first { m.span.duration } else { Duration::ZERO };
            let is_another = |known: &Incident| is_first && !known.goes_on_with(sign.begin, time);
            if self.open.get(&key).is_some_and(is_another) {
                let ended = self.open.remove(&key);
                self.end(ended);
            }
            if self.has_room_for(&key) {
                seen.insert(key);
                self.enter(sign, m.span.end, time);
            }
        }
        for (key, incident) in self.open.iter_mut().filter(|(key, _)| !seen.contains(key)) {
            incident.goes_on = false;
            let busy = key.2.and_then(|role| busy.get(&(key.0, role))).copied().unwrap_or_default();
            incident.pass(m.span.duration, busy);
        }
        self.circumstances(m, &seen);
        self.close(m.span.end);
    }

    /// Makes room by the least of those that go on, if that weighs less.
    fn has_room_for(&mut self, key: &Key) -> bool {
        if self.open.len() < MAX_OPEN || self.open.contains_key(key) {
            return true;
        }
        self.is_short_of_room = true;
        let least = self.open.iter().min_by_key(|(_, incident)| incident.weight());
        let Some((least, _)) = least.filter(|(least, _)| least.1 < key.1) else { return false };
        let least = *least;
        self.open.remove(&least);
        true
    }

    /// Takes in one sign. `time`: the interval's, which counts once however many signs there are in it.
    fn enter(&mut self, sign: Sign, end: SystemTime, time: Duration) {
        let known = self.open.entry(sign.key()).or_insert_with(|| Incident {
            what: sign.what,
            server: sign.server,
            roles: BTreeSet::new(),
            begin: sign.begin,
            end,
            goes_on: false,
            worst: sign.worst.clone(),
            errors: Errors::default(),
            usual_ns: sign.usual_ns,
            busy: Duration::ZERO,
            time: Duration::ZERO,
            shown: Duration::ZERO,
            since: (Duration::ZERO, Duration::ZERO),
            no_log_sync: Duration::ZERO,
            waits: BTreeMap::new(),
            neighbours: BTreeMap::new(),
        });
        let (passed, busy) = std::mem::take(&mut known.since);
        known.roles.insert(sign.role);
        known.begin = known.begin.min(sign.begin);
        known.end = end;
        known.goes_on = sign.goes_on || time.is_zero() && known.goes_on;
        known.time += passed + time;
        known.shown += time;
        known.busy += busy + sign.busy;
        let is_worse = sign.worst.rank > known.worst.rank;
        // Of the same length: it has ended, or its file is known.
        let is_better_known = sign.worst.rank == known.worst.rank
            && (known.worst.path.is_none() || known.worst.is_minimum && !sign.worst.is_minimum);
        if is_worse || is_better_known {
            (known.worst, known.usual_ns) = (sign.worst, sign.usual_ns);
        }
        for (&errno, &n) in &sign.errors {
            let sum = known.errors.entry(errno).or_default();
            *sum = sum.saturating_add(n);
        }
        if let Some(wait) = sign.waits_for
            && (known.waits.len() < MAX_WAITS || known.waits.contains_key(&wait))
        {
            *known.waits.entry(wait).or_default() += 1;
        }
    }

    /// Syncs that hang, and those that ended after as long.
    fn long_syncs(&self, m: &Interval, signs: &mut Vec<Sign>) {
        let hang_ns = u64::try_from(self.hang_after.as_nanos()).unwrap_or(u64::MAX);
        let sign = |server, role, op, path, took: Max, is_minimum, waits_for: Option<&String>| {
            let began = m.span.end.checked_sub(Duration::from_nanos(took.ns)).unwrap_or(m.span.end);
            Sign {
                what: What::Hang,
                server,
                role,
                // When one has ended is known to the interval.
                begin: if is_minimum { began } else { began.min(m.span.start) },
                worst: Worst {
                    role,
                    op: Some(op),
                    path,
                    took: Some(took),
                    is_tail: false,
                    is_minimum,
                    rank: (false, took.ns),
                },
                errors: Errors::default(),
                usual_ns: self.usual.of(server, role).map(|usual| usual.median),
                busy: Duration::ZERO,
                goes_on: is_minimum,
                waits_for: waits_for.cloned(),
            }
        };
        for sync in m.in_flight.iter().filter(|sync| sync.age >= self.hang_after) {
            let ns = u64::try_from(sync.age.as_nanos()).unwrap_or(u64::MAX);
            let took = Max { ns, exact: true };
            let path = sync.path.clone();
            signs.push(sign(sync.server, sync.role, sync.op, path, took, true, sync.waits_for.as_ref()));
        }
        for row in m.files.iter().filter(|row| row.stats.max.ns >= hang_ns) {
            let path = row.info.path.clone();
            signs.push(sign(row.server, row.info.role, row.op, path, row.stats.max, false, None));
        }
        // Where its file is not told apart, this is all that is known of the longest sync.
        for row in m.roles.iter().filter(|row| row.stats.max.ns >= hang_ns) {
            signs.push(sign(row.server, row.role, row.op, None, row.stats.max, false, None));
        }
    }

    /// Logs that are slow, or saturated; learns how long their syncs usually take. Returns for how long each
    /// log was busy.
    fn slow_logs(&mut self, m: &Interval, signs: &mut Vec<Sign>) -> BTreeMap<(ServerId, Role), Duration> {
        let duration = m.span.duration;
        let mut busy = BTreeMap::new();
        if duration.is_zero() {
            return busy;
        }
        self.usual.pass(duration);
        // What stands for many servers is no log.
        let is_one = |server: ServerId| server != ServerId::NONE && server != ServerId::ENDED;
        let mut logs: BTreeMap<(ServerId, Role), (Stats, Duration)> = BTreeMap::new();
        for row in m.roles.iter().filter(|row| row.role.is_serial() && is_one(row.server)) {
            logs.entry((row.server, row.role)).or_default().0.merge(&row.stats);
        }
        for sync in m.in_flight.iter().filter(|sync| sync.role.is_serial() && is_one(sync.server)) {
            let oldest = &mut logs.entry((sync.server, sync.role)).or_default().1;
            *oldest = (*oldest).max(sync.age);
        }
        for ((server, role), (stats, oldest)) in logs {
            let slow = self.usual.of(server, role).and_then(|usual| slow(&stats, usual));
            // Also what is slow: after long enough, it is the usual.
            self.is_short_of_room |= !self.usual.learn(server, role, &stats.histogram, duration);
            let share = if oldest >= duration { 1.0 } else { stats.in_flight_mean(duration).min(1.0) };
            busy.insert((server, role), duration.mul_f64(share));
            let sign = |what, took, is_tail, usual_ns, rank| Sign {
                what,
                server,
                role,
                begin: m.span.start,
                worst: Worst {
                    role,
                    op: None,
                    path: busiest_file(m, server, role),
                    took,
                    is_tail,
                    is_minimum: false,
                    rank,
                },
                errors: Errors::default(),
                usual_ns,
                busy: duration.mul_f64(share),
                goes_on: true,
                waits_for: None,
            };
            if let Some(Slow { ns, is_tail, usual_ns }) = slow {
                let took = Some(Max { ns, exact: false });
                signs.push(sign(What::Slow, took, is_tail, Some(usual_ns), (!is_tail, ns)));
            }
            if share >= SATURATED {
                signs.push(sign(What::Saturated, None, false, None, (false, (share * 1e6) as u64)));
            }
        }
        busy
    }

    /// What else happened while incidents go on.
    fn circumstances(&mut self, m: &Interval, seen: &BTreeSet<Key>) {
        let mut servers: BTreeMap<ServerId, What> = BTreeMap::new();
        for &(server, what, _) in seen {
            let worst = servers.entry(server).or_insert(what);
            *worst = what.max(*worst);
        }
        let waits = m.in_flight.iter().filter(|sync| sync.role.is_serial() && sync.age >= m.span.duration);
        let silent: BTreeSet<ServerId> = waits.map(|sync| sync.server).collect();
        let none_ended = |server| m.logs_of(server).values().all(|syncs| syncs.count == 0);
        for server in silent.into_iter().filter(|&server| none_ended(server)) {
            let key = (server, What::Hang, None);
            if let Some(hang) = self.open.get_mut(&key).filter(|_| seen.contains(&key)) {
                hang.no_log_sync += m.span.duration;
            }
        }
        let mut servers: Vec<(ServerId, What)> = servers.into_iter().collect();
        servers.sort_by_key(|&(server, what)| (Reverse(what), server));
        for (server, _) in servers.into_iter().take(MAX_LOOKED_AT) {
            for device in neighbours::devices(m, &[server]) {
                for neighbour in &device.neighbours {
                    let place = match &neighbour.place {
                        Place::Here => &device.name,
                        Place::SameDisk(other) => other,
                        Place::AnyDevice => continue,
                    };
                    let (comm, pid) = (&neighbour.comm, neighbour.pid);
                    let from = self.open.range_mut((server, What::Saturated, None)..);
                    let own = from.take_while(|(key, _)| key.0 == server);
                    for (_, incident) in own.filter(|(key, _)| seen.contains(key)) {
                        let beside = Beside { comm: comm.clone(), pid, device: place.clone() };
                        incident.add_neighbour(beside, neighbour.stats.all());
                    }
                }
            }
        }
    }

    fn end(&mut self, incident: Option<Incident>) {
        let ended = incident.map(|incident| Incident { goes_on: false, ..incident });
        self.over.extend(ended.filter(Incident::is_worth_telling));
    }

    /// Ends those of which nothing was seen for a while.
    fn close(&mut self, now: SystemTime) {
        let mut ended = Vec::new();
        self.open.retain(|_, incident| {
            // A clock that was set back must not keep one open for ever.
            let apart = now.duration_since(incident.end).unwrap_or(JOINED_WITHIN);
            let stays = incident.since.0.is_zero() || apart < JOINED_WITHIN;
            if !stays {
                ended.push(incident.clone());
            }
            stays
        });
        self.over.extend(ended.into_iter().filter(Incident::is_worth_telling));
        while self.over.len() > MAX_KEPT {
            let mut of_server: BTreeMap<ServerId, usize> = BTreeMap::new();
            self.over.iter().for_each(|incident| *of_server.entry(incident.server).or_default() += 1);
            let most = of_server.values().max().copied().unwrap_or_default();
            let candidates = self.over.iter().enumerate();
            let candidates = candidates.filter(|(_, incident)| of_server[&incident.server] == most);
            let least = candidates.min_by_key(|(_, incident)| incident.weight()).map(|(at, _)| at);
            self.over.remove(least.unwrap_or_default());
            self.is_short_of_room = true;
        }
    }

    /// The next interval does not begin where the last one ended.
    pub fn leave_gap(&mut self) {
        std::mem::take(&mut self.open).into_values().for_each(|incident| self.end(Some(incident)));
    }

    pub fn retain_servers(&mut self, wanted: impl Fn(ServerId) -> bool) {
        self.usual.retain_servers(&wanted);
        // What is nobody's concerns each.
        let wanted = |incident: &Incident| incident.server == ServerId::NONE || wanted(incident.server);
        self.open.retain(|_, incident| wanted(incident));
        self.over.retain(wanted);
    }

    /// There was no room for all.
    pub fn is_short_of_room(&self) -> bool {
        self.is_short_of_room
    }

    /// Whether it was to be seen that a log was slow, as what is usual of each was known, where logs were
    /// synced and there was room for all of them.
    pub fn tells_slow_logs(&self) -> Option<bool> {
        self.usual.is_known().filter(|_| !self.is_short_of_room)
    }

    /// A sync hung, or one that there was no room for may have.
    pub fn has_hung(&self) -> bool {
        let is_hang = |incident: &Incident| incident.what == What::Hang;
        self.is_short_of_room || self.over.iter().chain(self.open.values()).any(is_hang)
    }

    /// The longest sync of a hang was not seen to end: whether it failed is not known.
    pub fn hangs(&self) -> bool {
        let is_unended = |one: &Incident| one.what == What::Hang && (one.goes_on || one.worst.is_minimum);
        self.over.iter().chain(self.open.values()).any(is_unended)
    }

    /// All that are worth telling, by their beginnings. What is a part of another one is left out.
    pub fn list(&self) -> Vec<&Incident> {
        let told = self.over.iter().chain(self.open.values()).filter(|incident| incident.is_worth_telling());
        let mut all: Vec<&Incident> = told.collect();
        let worse = all.clone();
        all.retain(|incident| {
            let over = |other: &&&Incident| other.server == incident.server && other.what > incident.what;
            let over = worse.iter().filter(over).filter(|other| other.what != What::Failure);
            let covered = covered(incident, over.copied()).as_secs_f64();
            let length = incident.length();
            incident.what >= What::Hang || length.is_zero() || covered < COVERED * length.as_secs_f64()
        });
        all.sort_by_key(|incident| (incident.begin, Reverse(incident.what)));
        all
    }
}

/// For how long of an incident there was any of the others.
fn covered<'a>(incident: &Incident, others: impl Iterator<Item = &'a Incident>) -> Duration {
    let mut spans: Vec<(SystemTime, SystemTime)> = others
        .map(|other| (other.begin.max(incident.begin), other.end.min(incident.end)))
        .filter(|(begin, end)| begin < end)
        .collect();
    spans.sort_unstable();
    let mut sum = Duration::ZERO;
    let mut until = incident.begin;
    for (begin, end) in spans {
        sum += end.duration_since(begin.max(until)).unwrap_or_default();
        until = until.max(end);
    }
    sum
}

/// What is slow in an interval.
struct Slow {
    ns: u64,
    is_tail: bool,
    usual_ns: u64,
}

fn slow(stats: &Stats, usual: Usually) -> Option<Slow> {
    let is_slow = |ns: u64, usual_ns: u64, from: Duration| {
        u128::from(ns) >= from.as_nanos() && ns >= usual_ns.saturating_mul(SLOW_TIMES)
    };
    let median = stats.quantile_ns(0.5)?;
    if is_slow(median, usual.median, SLOW_FROM) {
        return Some(Slow { ns: median, is_tail: false, usual_ns: usual.median });
    }
    let p99 = stats.quantile_ns(0.99).filter(|_| stats.histogram.count() >= TAIL_OF)?;
    is_slow(p99, usual.p99, SLOW_TAIL_FROM).then_some(Slow { ns: p99, is_tail: true, usual_ns: usual.p99 })
}

/// Syncs and writes that failed, and what could not be written back.
fn failures(m: &Interval, signs: &mut Vec<Sign>) {
    let mut sign = |server, role, op, path: Option<PathBuf>, errors: &Errors| {
        let all = errors.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
        signs.push(Sign {
            what: What::Failure,
            server,
            role,
            begin: m.span.start,
            // The file with most failures at once is the worst.
            worst: Worst {
                role,
                op: Some(op),
                path,
                took: None,
                is_tail: false,
                is_minimum: false,
                rank: (false, all),
            },
            errors: errors.clone(),
            usual_ns: None,
            busy: Duration::ZERO,
            goes_on: false,
            waits_for: None,
        });
    };
    let mut of_files: BTreeMap<(ServerId, Role, Op), Errors> = BTreeMap::new();
    let failed = |row: &&FileRow| row.stats.error_count() > 0;
    for row in m.files.iter().filter(failed).chain(m.failures.iter().filter(failed)) {
        sign(row.server, row.info.role, row.op, row.info.path.clone(), &row.stats.errors);
        let sum = of_files.entry((row.server, row.info.role, row.op)).or_default();
        for (&errno, &n) in &row.stats.errors {
            let known = sum.entry(errno).or_default();
            *known = known.saturating_add(n);
        }
    }
    // Of files that are not told apart.
    for row in m.roles.iter().filter(|row| row.stats.error_count() > 0) {
        let known = of_files.get(&(row.server, row.role, row.op));
        let rest = row.stats.errors.iter().filter_map(|(&errno, &n)| {
            let rest = n.saturating_sub(known.and_then(|known| known.get(&errno)).copied().unwrap_or(0));
            (rest > 0).then_some((errno, rest))
        });
        let rest: Errors = rest.collect();
        if !rest.is_empty() {
            sign(row.server, row.role, row.op, None, &rest);
        }
    }
}

/// The file of a log that took most of the time.
fn busiest_file(m: &Interval, server: ServerId, role: Role) -> Option<PathBuf> {
    let of_log = m.files_of(server).iter().filter(|row| row.info.role == role);
    of_log.max_by_key(|row| row.stats.sum_ns).and_then(|row| row.info.path.clone())
}

#[cfg(test)]
#[path = "incidents_tests.rs"]
mod tests;
