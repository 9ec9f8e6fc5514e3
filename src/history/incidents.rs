//! What went wrong when: hangs, failures, slow phases and saturated logs of servers, each with its beginning,
//! its end and what was seen meanwhile of its cause. Made of intervals as they come, in bounded memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::usual::Usual;
use crate::model::{Errors, FileRow, Interval, Max, Op, Place, Role, SATURATED, ServerId, Stats, neighbours};

/// Two incidents of one kind and server with less than this between them are one.
const JOINED_WITHIN: Duration = Duration::from_secs(5);
/// A log is slow while the median of its syncs is so many times its usual one, and at least so long.
const SLOW_TIMES: u64 = 5;
const SLOW_FROM: Duration = Duration::from_millis(5);
/// What is slow or saturated for less than this is no incident.
const SLOW_FOR: Duration = Duration::from_secs(3);
const SATURATED_FOR: Duration = Duration::from_secs(10);
/// A slow phase or a saturated time that other incidents of the server cover to this share is a part of them.
const COVERED: f64 = 0.8;

/// Incidents that are kept, and those that go on. Of a server with most of them, the least is dropped.
const MAX_KEPT: usize = 64;
const MAX_OPEN: usize = 512;
/// Causes that are told apart for one incident.
const MAX_WAITS: usize = 8;
const MAX_NEIGHBOURS: usize = 16;

/// In the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum What {
    /// The log was busy for 80 % of the time.
    Saturated,
    /// The log's syncs took many times as long as they usually do.
    Slow,
    /// A sync took as long as a hang does.
    Hang,
    /// A sync or a write failed, or the kernel could not write back.
    Failure,
}

impl What {
    pub const ALL: [What; 4] = [What::Hang, What::Failure, What::Slow, What::Saturated];

    pub fn name(self) -> &'static str {
        match self {
            What::Saturated => "saturated",
            What::Slow => "slow",
            What::Hang => "hang",
            What::Failure => "failure",
        }
    }
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Incident {
    pub what: What,
    /// [`ServerId::NONE`]: of a device, or of files that are no server's.
    pub server: ServerId,
    pub roles: BTreeSet<Role>,
    /// By the wall clock of the time.
    pub begin: SystemTime,
    pub end: SystemTime,
    /// It goes on at the end of what was looked at.
    pub goes_on: bool,
    pub worst: Worst,
    /// By errno.
    pub errors: Errors,
    /// The usual median of the worst role's syncs, in nanoseconds.
    pub usual_ns: Option<u64>,
    /// The time in the syncs of each log, and the time that it is a part of.
    pub busy: BTreeMap<Role, Duration>,
    pub time: Duration,
    /// How long no sync of the server's logs ended although one was in flight.
    pub no_log_sync: Duration,
    /// What the threads that hung waited for, and in how many intervals they were seen to.
    pub waits: BTreeMap<String, u64>,
    /// Who else synced on the server's devices: syncs by name and device.
    pub neighbours: BTreeMap<(String, String), u64>,
}

/// The operation, file or log that an incident is told of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Worst {
    pub role: Role,
    /// None: all of the role.
    pub op: Option<Op>,
    /// None: it has no name, or is not told apart.
    pub path: Option<PathBuf>,
    /// Of a hang: the sync. Of a slow phase: the highest median of an interval.
    pub took: Option<Max>,
    /// It took so long at least: it was seen in flight and not when it began, or has not ended.
    pub is_minimum: bool,
    /// What makes it the worst, within one kind: nanoseconds, failures, or a share of the time.
    rank: u64,
}

impl Incident {
    fn length(&self) -> Duration {
        self.end.duration_since(self.begin).unwrap_or_default()
    }

    /// What most of its threads were seen to wait for.
    pub fn waited_for(&self) -> Option<&str> {
        self.waits.iter().max_by_key(|(_, seen)| **seen).map(|(what, _)| what.as_str())
    }

    /// The neighbour with most syncs: its name, its device and the syncs.
    pub fn busiest_neighbour(&self) -> Option<(&str, &str, u64)> {
        let busiest = self.neighbours.iter().max_by_key(|(_, syncs)| **syncs);
        busiest.map(|((comm, device), syncs)| (comm.as_str(), device.as_str(), *syncs))
    }

    /// The share of the time in which each log was busy.
    pub fn shares(&self) -> impl Iterator<Item = (Role, f64)> {
        let time = self.time.as_secs_f64().max(f64::MIN_POSITIVE);
        self.busy.iter().map(move |(&role, busy)| (role, (busy.as_secs_f64() / time).min(1.0)))
    }

    fn is_worth_telling(&self) -> bool {
        match self.what {
            What::Hang | What::Failure => true,
            What::Slow => self.time >= SLOW_FOR,
            What::Saturated => self.time >= SATURATED_FOR,
        }
    }

    /// What is kept when there is no room for all.
    pub fn weight(&self) -> (What, Duration) {
        (self.what, self.length())
    }
}

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
    waits_for: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Incidents {
    /// From this on a sync hangs.
    hang_after: Duration,
    open: BTreeMap<(ServerId, What), Incident>,
    over: Vec<Incident>,
    /// Those that were dropped for lack of room.
    dropped: u64,
    usual: Usual,
}

impl Incidents {
    pub fn new(hang_after: Duration) -> Incidents {
        Incidents { hang_after, open: BTreeMap::new(), over: Vec::new(), dropped: 0, usual: Usual::default() }
    }

    pub fn hang_after(&self) -> Duration {
        self.hang_after
    }

    pub fn record(&mut self, m: &Interval) {
        let mut signs = Vec::new();
        self.long_syncs(m, &mut signs);
        failures(m, &mut signs);
        self.slow_logs(m, &mut signs);
        let mut seen = BTreeSet::new();
        for sign in signs {
            let key = (sign.server, sign.what);
            if self.open.len() >= MAX_OPEN && !self.open.contains_key(&key) {
                self.dropped += 1;
                continue;
            }
            let is_first = seen.insert(key);
            self.enter(sign, m.span.end, if is_first { m.span.duration } else { Duration::ZERO });
        }
        self.circumstances(m, &seen);
        self.close(m.span.end, &seen);
    }

    /// Takes in one sign. `time`: the interval's, which counts once however many signs there are in it.
    fn enter(&mut self, sign: Sign, end: SystemTime, time: Duration) {
        let known = self.open.entry((sign.server, sign.what)).or_insert_with(|| Incident {
            what: sign.what,
            server: sign.server,
            roles: BTreeSet::new(),
            begin: sign.begin,
            end,
            goes_on: true,
            worst: sign.worst.clone(),
            errors: Errors::default(),
            usual_ns: sign.usual_ns,
            busy: BTreeMap::new(),
            time: Duration::ZERO,
            no_log_sync: Duration::ZERO,
            waits: BTreeMap::new(),
            neighbours: BTreeMap::new(),
        });
        known.roles.insert(sign.role);
        known.begin = known.begin.min(sign.begin);
        known.end = end;
        known.time += time;
        if !sign.busy.is_zero() {
            *known.busy.entry(sign.role).or_default() += sign.busy;
        }
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
        for wait in sign.waits_for {
            if known.waits.len() < MAX_WAITS || known.waits.contains_key(&wait) {
                *known.waits.entry(wait).or_default() += 1;
            }
        }
    }

    /// Syncs that hang, and those that ended after as long.
    fn long_syncs(&self, m: &Interval, signs: &mut Vec<Sign>) {
        let hang_ns = u64::try_from(self.hang_after.as_nanos()).unwrap_or(u64::MAX);
        let sign = |server, role, op, path, took: Max, is_minimum, waits_for: Option<&String>| {
            let long = Duration::from_nanos(took.ns);
            Sign {
                what: What::Hang,
                server,
                role,
                begin: m.span.end.checked_sub(long).unwrap_or(m.span.end),
                worst: Worst { role, op: Some(op), path, took: Some(took), is_minimum, rank: took.ns },
                errors: Errors::default(),
                usual_ns: self.usual.of(server, role),
                busy: Duration::ZERO,
                waits_for: waits_for.cloned().into_iter().collect(),
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

    /// Logs that are slow, or saturated; learns how long their syncs usually take.
    fn slow_logs(&mut self, m: &Interval, signs: &mut Vec<Sign>) {
        let duration = m.span.duration;
        if duration.is_zero() {
            return;
        }
        let mut logs: BTreeMap<(ServerId, Role), (Stats, Duration)> = BTreeMap::new();
        for row in m.roles.iter().filter(|row| row.role.is_serial()) {
            logs.entry((row.server, row.role)).or_default().0.merge(&row.stats);
        }
        for sync in m.in_flight.iter().filter(|sync| sync.role.is_serial()) {
            let oldest = &mut logs.entry((sync.server, sync.role)).or_default().1;
            *oldest = (*oldest).max(sync.age);
        }
        for ((server, role), (stats, oldest)) in logs {
            let usual_ns = self.usual.of(server, role);
            let median = stats.quantile_ns(0.5).unwrap_or(0);
            let hangs = stats.max.ns.max(oldest.as_nanos() as u64) >= self.hang_after.as_nanos() as u64;
            let is_slow = median >= SLOW_FROM.as_nanos() as u64
                && usual_ns.is_some_and(|usual| median >= usual.saturating_mul(SLOW_TIMES));
            if !is_slow && !hangs {
                self.usual.learn(server, role, &stats.histogram);
            }
            let share = if oldest >= duration { 1.0 } else { stats.in_flight_mean(duration).min(1.0) };
            let sign = |what, took, rank| Sign {
                what,
                server,
                role,
                begin: m.span.start,
                worst: Worst {
                    role,
                    op: None,
                    path: busiest_file(m, server, role),
                    took,
                    is_minimum: false,
                    rank,
                },
                errors: Errors::default(),
                usual_ns,
                busy: duration.mul_f64(share),
                waits_for: Vec::new(),
            };
            if is_slow {
                signs.push(sign(What::Slow, Some(Max { ns: median, exact: false }), median));
            }
            if share >= SATURATED {
                signs.push(sign(What::Saturated, None, (share * 1e6) as u64));
            }
        }
    }

    /// What else happened while incidents go on.
    fn circumstances(&mut self, m: &Interval, seen: &BTreeSet<(ServerId, What)>) {
        for key in seen {
            let Some(incident) = self.open.get_mut(key) else { continue };
            let server = incident.server;
            let logs = m.roles.iter().filter(|row| row.server == server && row.role.is_serial());
            let is_in_flight = m
                .in_flight
                .iter()
                .any(|sync| sync.server == server && sync.role.is_serial() && sync.age >= m.span.duration);
            if is_in_flight && logs.map(|row| row.stats.count).sum::<u64>() == 0 {
                incident.no_log_sync += m.span.duration;
            }
            for device in neighbours::devices(m, &[server]) {
                for neighbour in device.neighbours.iter().filter(|one| one.place != Place::AnyDevice) {
                    let key = (neighbour.comm.clone(), device.name.clone());
                    if incident.neighbours.len() < MAX_NEIGHBOURS || incident.neighbours.contains_key(&key) {
                        *incident.neighbours.entry(key).or_default() += neighbour.stats.all();
                    }
                }
            }
        }
    }

    /// Ends those of which nothing was seen for a while.
    fn close(&mut self, now: SystemTime, seen: &BTreeSet<(ServerId, What)>) {
        let mut ended = Vec::new();
        self.open.retain(|key, incident| {
            incident.goes_on = seen.contains(key);
            // A clock that was set back must not keep one open for ever.
            let since = now.duration_since(incident.end).unwrap_or(JOINED_WITHIN);
            let stays = incident.goes_on || since < JOINED_WITHIN;
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
            self.dropped += 1;
        }
    }

    /// The next interval does not begin where the last one ended.
    pub fn leave_gap(&mut self) {
        let open = std::mem::take(&mut self.open).into_values();
        let ended = open.map(|incident| Incident { goes_on: false, ..incident });
        self.over.extend(ended.filter(Incident::is_worth_telling));
    }

    /// Those that were dropped for lack of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A sync hung, or one that there was no room for may have.
    pub fn has_hung(&self) -> bool {
        let is_hang = |incident: &Incident| incident.what == What::Hang;
        self.dropped > 0 || self.over.iter().chain(self.open.values()).any(is_hang)
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
            let of_server = worse.iter().filter(|other| other.server == incident.server);
            let covered = of_server.filter(|other| other.what > incident.what && other.what != What::Failure);
            let covered: Duration = covered.map(|other| overlap(incident, other)).sum();
            incident.what >= What::Hang || covered.as_secs_f64() < COVERED * incident.length().as_secs_f64()
        });
        all.sort_by_key(|incident| (incident.begin, Reverse(incident.what)));
        all
    }
}

fn overlap(one: &Incident, other: &Incident) -> Duration {
    one.end.min(other.end).duration_since(one.begin.max(other.begin)).unwrap_or_default()
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
            worst: Worst { role, op: Some(op), path, took: None, is_minimum: false, rank: all },
            errors: errors.clone(),
            usual_ns: None,
            busy: Duration::ZERO,
            waits_for: Vec::new(),
        });
    };
    let mut of_files: BTreeMap<(ServerId, Role, Op), Errors> = BTreeMap::new();
    let failed = |row: &&FileRow| row.stats.error_count() > 0;
    for row in m.files.iter().filter(failed).chain(m.failures.iter().filter(failed)) {
        sign(row.server, row.info.role, row.op, row.info.path.clone(), &row.stats.errors);
        let sum = of_files.entry((row.server, row.info.role, row.op)).or_default();
        row.stats.errors.iter().for_each(|(&errno, &n)| *sum.entry(errno).or_default() += n);
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
    let of_log = m.files.iter().filter(|row| (row.server, row.info.role) == (server, role));
    of_log.max_by_key(|row| row.stats.sum_ns).and_then(|row| row.info.path.clone())
}

#[cfg(test)]
#[path = "incidents_tests.rs"]
mod tests;
