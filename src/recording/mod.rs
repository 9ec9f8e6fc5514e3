//! The last minutes, in bounded memory: a ring of moments, one for each interval, packed. Any range of it can
//! be summed up again as one measurement, its worst seconds found, and all of it handed over as JSON.

#[cfg(test)]
mod any;
mod bytes;
pub(crate) mod deadline;
mod dictionary;
mod incident;
mod incidents;
mod json;
mod limit;
mod packed;
pub mod remote;
pub mod series;
#[cfg(test)]
mod tests;
mod troubles;
mod usual;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::model::{Interval, Setup};

pub(crate) use incident::{Incident, What, slow_and_saturated};
pub(crate) use incidents::Incidents;
pub use json::ReadError;
pub(crate) use json::SCHEMA;
use limit::limited;
use packed::{Packed, Tables, wall_clock};
pub use troubles::Troubles;

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
    begun: Option<Interval>,
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
    pub fn push(&mut self, measurement: &Interval) {
        let moment = self.completed_by(measurement);
        self.setup = Some(measurement.setup.clone());
        self.insert(&moment);
        for server in &measurement.servers {
            self.tables.servers.update(&server.id, server.clone());
        }
        self.forget();
    }

    /// A part of the next moment: snapshots that are taken in between do not make moments shorter.
    pub(crate) fn push_part(&mut self, measurement: &Interval) {
        self.begun = Some(self.completed_by(measurement));
    }

    /// What has begun and this as one, with no more rows than there is room for, however many parts there
    /// are.
    fn completed_by(&mut self, measurement: &Interval) -> Interval {
        let last = limited(measurement, self.options.files);
        let Some(mut moment) = self.begun.take() else { return last };
        moment.append(last);
        // Rows that are left out here were mostly left out of one part already.
        let rows = moment.rest.rows;
        let mut moment = limited(&moment, self.options.files);
        moment.rest.rows = rows.max(moment.rest.rows - rows);
        moment.span.parts = 1;
        moment
    }

    fn insert(&mut self, moment: &Interval) {
        let packed = self.tables.pack(moment);
        for row in moment.files.iter().chain(&moment.failures).chain(&moment.writes) {
            self.tables.files.update(&(row.server, row.target), row.info.clone());
        }
        for row in &moment.unsynced.rows {
            self.tables.files.update(&(row.server, row.target), row.info.clone());
        }
        let Ok(bytes) = postcard::to_stdvec(&packed) else {
            // Nothing in a moment can fail to be packed; if it did, it must not hold what it refers to.
            self.tables.release(packed);
            return;
        };
        let kept = Kept { end: moment.span.end, duration: moment.span.duration, packed: bytes.into() };
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
                self.tables.release(packed);
            }
            self.moments.pop_front();
        }
    }

    /// Oldest first.
    pub fn moments(&self) -> impl DoubleEndedIterator<Item = Interval> {
        self.moments.iter().filter_map(|kept| self.unpack(kept))
    }

    fn unpack(&self, kept: &Kept) -> Option<Interval> {
        self.tables.unpack(kept.read()?, self.setup.clone()?).ok()
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
    pub fn between(&self, from: SystemTime, to: SystemTime) -> Option<Interval> {
        self.merge(self.moments.iter().filter(|kept| kept.end > from && kept.end <= to))
    }

    /// The latest moments, so many that they cover `length`, or all. Whatever happened to the wall clock.
    pub fn last(&self, length: Duration) -> Option<Interval> {
        let mut covered = Duration::ZERO;
        let wanted = self.moments.iter().rev().take_while(|kept| {
            let more = covered < length;
            covered += kept.duration;
            more
        });
        let wanted = wanted.count();
        self.merge(self.moments.iter().skip(self.moments.len() - wanted))
    }

    fn merge<'a>(&'a self, kept: impl Iterator<Item = &'a Kept>) -> Option<Interval> {
        kept.filter_map(|kept| self.unpack(kept)).reduce(|mut sum, moment| {
            sum.append(moment);
            sum
        })
    }
}
