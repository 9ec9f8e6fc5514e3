//! The last minutes, in bounded memory: a ring of moments, one for each interval, packed. Any range of it can
//! be summed up again as one measurement, its worst seconds found, and all of it handed over as JSON.

#[cfg(test)]
mod any;
mod bytes;
pub(crate) mod deadline;
mod json;
mod moment;
mod packed;
pub mod remote;
pub mod series;
mod table;
#[cfg(test)]
mod tests;
mod troubles;
mod worst;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::model::{
    Backlog, DeviceRow, FileRow, Lost, Measurement, NeighbourRow, Op, Role, RoleRow, Server, ServerId, Setup,
    Stats, Target, Unsynced, UnsyncedRow,
};

pub use json::ReadError;
pub(crate) use json::SCHEMA;
pub use moment::{Moment, Pending, Rest};
use packed::{Packed, Tables, wall_clock};
pub use troubles::{Busy, Longest, Troubles};
pub(crate) use worst::{What, WorstMoment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How far back it reaches.
    pub length: Duration,
    /// What it may take, whatever happens: the oldest moments go first.
    pub bytes: usize,
    /// Rows by file in each moment.
    pub files: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { length: Duration::from_secs(600), bytes: 4 << 20, files: 50 }
    }
}

/// The ring. A clone shares the moments.
#[derive(Clone, Debug)]
pub struct History {
    options: Options,
    setup: Option<Arc<Setup>>,
    moments: VecDeque<Kept>,
    /// The beginning of the next moment, if it came in parts.
    begun: Option<Moment>,
    tables: Tables,
    /// Of all moments.
    length: Duration,
    packed_bytes: usize,
    short_of_memory: bool,
}

#[derive(Clone, Debug)]
struct Kept {
    end: SystemTime,
    duration: Duration,
    packed: Arc<[u8]>,
}

impl Kept {
    /// The shared bytes stand behind two counters.
    fn bytes(&self) -> usize {
        self.packed.len() + 16
    }

    fn read(&self) -> Option<Packed> {
        postcard::from_bytes(&self.packed).ok()
    }
}

/// A range summed up as one measurement.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Rows by file only as far as each moment had them; the others are in `rest`. In flight are the oldest
    /// syncs of each role at the end. No threads.
    pub measurement: Measurement,
    /// Its `rows` are those of the moment that had most.
    pub rest: Rest,
    /// How many moments it is made of.
    pub moments: usize,
}

impl History {
    pub fn new(options: Options) -> History {
        History {
            options,
            setup: None,
            moments: VecDeque::new(),
            begun: None,
            tables: Tables::default(),
            length: Duration::ZERO,
            packed_bytes: 0,
            short_of_memory: false,
        }
    }

    /// Adds a moment: what happened since the last one, or since the last of its parts, and forgets what
    /// there is no room for.
    pub fn push(&mut self, measurement: &Measurement) {
        let moment = self.completed_by(measurement);
        self.setup = Some(measurement.setup.clone());
        self.insert(&moment);
        for server in &measurement.servers {
            self.tables.servers.update(&server.id, server.clone());
        }
        self.forget();
    }

    /// A part of the next moment: snapshots that are taken in between do not make moments shorter.
    pub(crate) fn push_part(&mut self, measurement: &Measurement) {
        self.begun = Some(self.completed_by(measurement));
    }

    /// What has begun and this as one, with no more rows than there is room for, however many parts there
    /// are.
    fn completed_by(&mut self, measurement: &Measurement) -> Moment {
        let last = Moment::of(measurement, self.options.files);
        let Some(begun) = self.begun.take() else { return last };
        let mut sum = Sum::begin(&begun);
        sum.add(begun);
        sum.add(last);
        sum.moment(measurement.setup.clone(), self.options.files)
    }

    fn insert(&mut self, moment: &Moment) {
        let packed = self.tables.pack(moment);
        for row in moment.files.iter().chain(&moment.failures).chain(&moment.writes) {
            self.tables.files.update(&(row.server, row.target), row.info.clone());
        }
        for row in &moment.unsynced.rows {
            self.tables.files.update(&(row.server, row.target), row.info.clone());
        }
        let Ok(bytes) = postcard::to_stdvec(&packed) else {
            // Nothing in a moment can fail to be packed; if it did, it must not hold what it refers to.
            self.tables.release(&packed);
            return;
        };
        let kept = Kept { end: moment.end, duration: moment.duration, packed: bytes.into() };
        self.length += kept.duration;
        self.packed_bytes += kept.bytes();
        self.moments.push_back(kept);
    }

    fn forget(&mut self) {
        while let Some(oldest) = self.moments.front() {
            let too_long = self.length.saturating_sub(oldest.duration) >= self.options.length;
            let too_large = self.bytes() > self.options.bytes;
            if !too_long && !too_large {
                break;
            }
            self.short_of_memory = too_large;
            self.length = self.length.saturating_sub(oldest.duration);
            self.packed_bytes -= oldest.bytes();
            if let Some(packed) = oldest.read() {
                self.tables.release(&packed);
            }
            self.moments.pop_front();
        }
    }

    /// Oldest first.
    pub fn moments(&self) -> impl DoubleEndedIterator<Item = Moment> {
        self.moments.iter().filter_map(|kept| self.tables.unpack(kept.read()?).ok())
    }

    pub fn len(&self) -> usize {
        self.moments.len()
    }

    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How far back it reaches. None: it is empty.
    pub fn since(&self) -> Option<SystemTime> {
        Some(wall_clock(self.moments.front()?.read()?.start_ns))
    }

    /// How much time the moments cover.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// It reaches back less far than it should, because there was more to remember than there is memory.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.short_of_memory
    }

    /// What it takes: estimated, and rather too much than too little.
    pub fn bytes(&self) -> usize {
        self.packed_bytes + self.moments.capacity() * size_of::<Kept>() + self.tables.bytes()
    }

    /// The moments that ended after `from` and not after `to`, by the wall clock of their time. None: there
    /// are none.
    pub fn between(&self, from: SystemTime, to: SystemTime) -> Option<Merged> {
        self.merge(self.moments.iter().filter(|kept| kept.end > from && kept.end <= to))
    }

    /// The latest moments, so many that they cover `length`, or all. Whatever happened to the wall clock.
    pub fn last(&self, length: Duration) -> Option<Merged> {
        let mut covered = Duration::ZERO;
        let wanted = self.moments.iter().rev().take_while(|kept| {
            let more = covered < length;
            covered += kept.duration;
            more
        });
        let wanted = wanted.count();
        self.merge(self.moments.iter().skip(self.moments.len() - wanted))
    }

    fn merge<'a>(&'a self, kept: impl Iterator<Item = &'a Kept>) -> Option<Merged> {
        let mut sum: Option<Sum> = None;
        for moment in kept.filter_map(|kept| self.tables.unpack(kept.read()?).ok()) {
            sum.get_or_insert_with(|| Sum::begin(&moment)).add(moment);
        }
        Some(sum?.merged(self.setup.clone()?))
    }
}

/// Moments, added up one after the other.
struct Sum {
    start: SystemTime,
    end: SystemTime,
    duration: Duration,
    lost: Lost,
    servers: BTreeMap<ServerId, Arc<Server>>,
    roles: BTreeMap<(ServerId, Role, Op), Stats>,
    files: BTreeMap<(ServerId, Target, Op), FileRow>,
    neighbours: BTreeMap<(u32, String), NeighbourRow>,
    rest: Rest,
    failures: BTreeMap<(ServerId, Target, Op), FileRow>,
    writes: BTreeMap<(ServerId, Target, Op), FileRow>,
    write_roles: BTreeMap<(ServerId, Role, Op), Stats>,
    unsynced: BTreeMap<(ServerId, Target), UnsyncedRow>,
    together: BTreeMap<(ServerId, Role), u64>,
    unsynced_dropped: u64,
    devices: BTreeMap<u32, DeviceRow>,
    pending: Vec<Pending>,
    unwatched: BTreeMap<ServerId, u64>,
    moments: usize,
}

impl Sum {
    fn begin(first: &Moment) -> Sum {
        Sum {
            start: first.start,
            end: first.end,
            duration: Duration::ZERO,
            lost: Lost::default(),
            servers: BTreeMap::new(),
            roles: BTreeMap::new(),
            files: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            rest: Rest::default(),
            failures: BTreeMap::new(),
            writes: BTreeMap::new(),
            write_roles: BTreeMap::new(),
            unsynced: BTreeMap::new(),
            together: BTreeMap::new(),
            unsynced_dropped: 0,
            devices: BTreeMap::new(),
            pending: Vec::new(),
            unwatched: BTreeMap::new(),
            moments: 0,
        }
    }

    fn add(&mut self, moment: Moment) {
        self.moments += 1;
        self.end = moment.end;
        self.duration += moment.duration;
        self.lost = plus(&self.lost, &moment.lost);
        self.servers.extend(moment.servers.into_iter().map(|server| (server.id, server)));
        for (sum, rows) in [(&mut self.roles, moment.roles), (&mut self.write_roles, moment.write_roles)] {
            for row in rows {
                sum.entry((row.server, row.role, row.op)).or_default().merge(&row.stats);
            }
        }
        for (sum, rows) in [
            (&mut self.files, moment.files),
            (&mut self.failures, moment.failures),
            (&mut self.writes, moment.writes),
        ] {
            for row in rows {
                match sum.get_mut(&(row.server, row.target, row.op)) {
                    Some(known) => known.stats.merge(&row.stats),
                    None => drop(sum.insert((row.server, row.target, row.op), row)),
                }
            }
        }
        for row in moment.neighbours {
            match self.neighbours.get_mut(&(row.device_number, row.comm.clone())) {
                Some(known) => known.stats.merge(&row.stats),
                None => drop(self.neighbours.insert((row.device_number, row.comm.clone()), row)),
            }
        }
        self.add_unsynced(moment.unsynced);
        for row in moment.devices {
            let DeviceRow { written_bytes, submitted_bytes, .. } = row;
            let sum = self.devices.entry(row.number).or_insert(DeviceRow {
                written_bytes: 0,
                submitted_bytes: 0,
                ..row
            });
            sum.written_bytes = sum.written_bytes.saturating_add(written_bytes);
            sum.submitted_bytes = sum.submitted_bytes.saturating_add(submitted_bytes);
        }
        self.rest.rows = self.rest.rows.max(moment.rest.rows);
        self.rest.stats.merge(&moment.rest.stats);
        self.pending = moment.pending;
        for (server, n) in moment.unwatched {
            let sum = self.unwatched.entry(server).or_default();
            *sum = sum.saturating_add(n);
        }
    }

    /// What is unsynced is that of the last part, and the most that of all. A file without a row was synced
    /// all the time.
    fn add_unsynced(&mut self, unsynced: Unsynced<UnsyncedRow>) {
        for known in self.unsynced.values_mut() {
            (known.now, known.possibly_lost) = (Backlog::default(), 0);
        }
        for role in unsynced.roles() {
            let most = self.together.entry((role.server, role.role)).or_default();
            *most = role.most.bytes.max(*most);
        }
        for mut row in unsynced.rows {
            if let Some(known) = self.unsynced.get(&(row.server, row.target)) {
                row.most = row.most.or_greater(known.most);
            }
            self.unsynced.insert((row.server, row.target), row);
        }
        self.unsynced_dropped = self.unsynced_dropped.saturating_add(unsynced.dropped);
    }

    /// Parts of one moment as one, again with no more rows than there is room for.
    fn moment(mut self, setup: Arc<Setup>, files: usize) -> Moment {
        let pending = std::mem::take(&mut self.pending);
        let Merged { measurement, rest, .. } = self.merged(setup);
        let mut moment = Moment::of(&measurement, files);
        // Rows that are left out here were mostly left out of one part already.
        moment.rest.rows = moment.rest.rows.max(rest.rows);
        moment.rest.stats.merge(&rest.stats);
        moment.pending = pending;
        moment
    }

    fn merged(self, setup: Arc<Setup>) -> Merged {
        let role = |((server, role, op), stats)| RoleRow { server, role, op, stats };
        let measurement = Measurement {
            start: self.start,
            end: self.end,
            duration: self.duration,
            setup,
            lost: self.lost,
            servers: self.servers.into_values().collect(),
            roles: self.roles.into_iter().map(role).collect(),
            files: self.files.into_values().collect(),
            failures: self.failures.into_values().collect(),
            writes: self.writes.into_values().collect(),
            write_roles: self.write_roles.into_iter().map(role).collect(),
            threads: Vec::new(),
            in_flight: self.pending.into_iter().map(|pending| pending.oldest).collect(),
            neighbours: self.neighbours.into_values().collect(),
            // Of another time than now.
            whole_disks: Default::default(),
            unwatched: self.unwatched.into_iter().collect(),
            devices: self.devices.into_values().collect(),
            unsynced: Unsynced {
                rows: self.unsynced.into_values().collect(),
                together: self.together,
                dropped: self.unsynced_dropped,
            },
        };
        Merged { measurement, rest: self.rest, moments: self.moments }
    }
}

fn plus(a: &Lost, b: &Lost) -> Lost {
    Lost {
        preempted: a.preempted.saturating_add(b.preempted),
        files: a.files.saturating_add(b.files),
        events: a.events.saturating_add(b.events),
        names: a.names.saturating_add(b.names),
        errors: a.errors.saturating_add(b.errors),
        threads: a.threads.saturating_add(b.threads),
        processes: a.processes.saturating_add(b.processes),
        unreported: a.unreported.saturating_add(b.unreported),
        writeback_errors: a.writeback_errors.saturating_add(b.writeback_errors),
        paused: a.paused.saturating_add(b.paused),
        unwatched: a.unwatched.saturating_add(b.unwatched),
        neighbours_unwatched: a.neighbours_unwatched.saturating_add(b.neighbours_unwatched),
        answered: a.answered.saturating_add(b.answered),
    }
}
