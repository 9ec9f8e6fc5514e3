//! What was measured, in segments: the last minutes as a ring in bounded memory, of which any range can be
//! summed up again as one measurement and its worst seconds found, the same over a socket, and recordings on
//! disk.

#[cfg(test)]
mod any;
mod counters;
pub(crate) mod deadline;
pub(crate) mod folder;
#[cfg(test)]
mod format_tests;
mod frame;
mod handed_over;
mod incident;
mod incidents;
mod limit;
mod names;
mod pack;
pub(crate) mod queue;
pub mod reader;
pub mod recorder;
#[cfg(test)]
mod recording_tests;
pub(crate) mod redact;
pub mod remote;
mod segment;
pub mod series;
#[cfg(test)]
mod tests;
mod troubles;
mod usual;
mod wire;
pub mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::model::{FileRow, Interval, Server, ServerId, Span, Target};
use crate::text::escape_sentence;

pub use handed_over::ReadError;
pub(crate) use handed_over::{SCHEMA, pack as pack_intervals, unpack as unpack_intervals};
pub(crate) use incident::{Incident, What, slow_and_saturated};
pub(crate) use incidents::Incidents;
use limit::limited;
use segment::Segment;
pub use troubles::Troubles;
pub(crate) use writer::joined;

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

/// So many segments are kept in all: the oldest is forgotten as a whole.
const SEGMENTS: u32 = 10;

/// The ring: segments of intervals. A clone shares them.
#[derive(Clone, Debug)]
pub struct History {
    options: Options,
    segments: VecDeque<Arc<Segment>>,
    /// Of the servers that they name, what is known by now.
    servers: BTreeMap<ServerId, Arc<Server>>,
    /// The beginning of the next interval, if it came in parts.
    begun: Option<Interval>,
    short_of_memory: bool,
    /// The recording that goes on beyond it.
    pub(crate) recorded_in: Option<PathBuf>,
    /// How many segments were begun.
    number: u64,
    /// The last segment is one that was read, to which nothing is appended.
    begins_anew: bool,
}

/// How far somebody has taken a history's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    segment: u64,
    bytes: usize,
}

/// Bytes that a history has taken in.
pub(crate) struct Appended<'a> {
    pub bytes: &'a [u8],
    /// They are the beginning of a segment.
    pub is_segments_begin: bool,
}

/// An interval of the ring.
#[derive(Clone, Copy, Debug)]
struct Kept<'a> {
    history: &'a History,
    segment: &'a Segment,
    at: usize,
}

impl Kept<'_> {
    fn span(&self) -> &Span {
        self.segment.span(self.at)
    }

    fn read(&self) -> Option<Interval> {
        let other = self.history.segments.iter().find(|segment| segment.is_whole());
        let mut interval = self.segment.interval(self.at, other.map(|other| &**other))?;
        for server in &mut interval.servers {
            if let Some(known) = self.history.servers.get(&server.id) {
                server.clone_from(known);
            }
        }
        Some(interval)
    }
}

impl History {
    pub fn new(options: Options) -> History {
        History {
            options,
            segments: VecDeque::new(),
            servers: BTreeMap::new(),
            begun: None,
            short_of_memory: false,
            recorded_in: None,
            number: 0,
            begins_anew: false,
        }
    }

    /// To be told from now on what it takes in.
    pub(crate) fn mark(&self) -> Mark {
        Mark { segment: self.number, bytes: self.segments.back().map_or(0, |last| last.bytes().len()) }
    }

    /// What it has taken in since; to be asked after each moment, since a segment that has ended is not
    /// looked for.
    pub(crate) fn appended(&self, mark: &mut Mark) -> Appended<'_> {
        let is_segments_begin = mark.segment != self.number;
        let before = if is_segments_begin { 0 } else { mark.bytes };
        let bytes = self.segments.back().map_or(&[][..], |last| &last.bytes()[before..]);
        *mark = Mark { segment: self.number, bytes: before + bytes.len() };
        Appended { bytes, is_segments_begin }
    }

    /// The bytes of its segments, oldest first.
    pub(crate) fn plain_segments(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(|segment| segment.bytes())
    }

    /// Goes on with segments that another process had, as far as they are of the time that this one is to
    /// reach back.
    ///
    /// `now`: by the monotonic clock of the same boot.
    pub(crate) fn restore(&mut self, bytes: &[u8], now: Duration) {
        for segment in segment::split(bytes) {
            let Some(last) = segment.len().checked_sub(1) else { continue };
            let end = segment.span(last).monotonic;
            let is_recent = end <= now && now - end <= self.options.length;
            // Whoever copied it may have been killed at it: then this is a part of one that is there.
            let is_known = self.kept().any(|kept| kept.span() == segment.span(0));
            if is_recent && !is_known {
                self.take(segment);
                self.begins_anew = true;
            }
        }
        self.forget();
    }

    /// Adds a moment: what happened since the last one, or since the last of its parts, and forgets what
    /// there is no room for.
    pub fn push(&mut self, measurement: &Interval) {
        self.keep(measurement);
    }

    /// The same; false: it has too many rows.
    pub(crate) fn keep(&mut self, measurement: &Interval) -> bool {
        let moment = self.completed_by(measurement);
        let changed = |server: &&Arc<Server>| {
            self.servers.get(&server.id).is_some_and(|known| known != *server)
                && !moment.servers.iter().any(|listed| listed.id == server.id)
        };
        let also: Vec<Arc<Server>> = measurement.servers.iter().filter(changed).cloned().collect();
        let is_kept = self.insert(&moment, &also);
        self.forget();
        is_kept
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

    /// False: it has too many rows.
    fn insert(&mut self, moment: &Interval, also: &[Arc<Server>]) -> bool {
        // Names are told anew in each: where they are many, a segment has as much of intervals.
        let is_full = |segment: &Arc<Segment>| {
            let most = self.options.bytes / (2 * SEGMENTS as usize);
            let is_long = segment.duration() >= self.options.length / SEGMENTS;
            let is_mostly_names = segment.first() > most && segment.grown() < segment.first();
            !is_mostly_names && (is_long || segment.grown() >= most)
        };
        if self.begins_anew || self.segments.back().is_none_or(is_full) {
            self.segments.push_back(Arc::new(Segment::begin(None)));
            self.number += 1;
            self.begins_anew = false;
        }
        let segment = self.segments.back_mut().expect("there is one");
        let is_kept = Arc::make_mut(segment).push(moment, also);
        for server in moment.servers.iter().chain(also) {
            self.servers.insert(server.id, server.clone());
        }
        is_kept
    }

    /// The oldest segment goes when the others reach back far enough without it, or there is no room for it.
    fn forget(&mut self) {
        while let Some(oldest) = self.segments.front() {
            let too_long = self.length().saturating_sub(oldest.duration()) >= self.options.length;
            let too_large = self.bytes() > self.options.bytes;
            if !too_long && !too_large {
                break;
            }
            self.short_of_memory = too_large;
            self.segments.pop_front();
            let names = self.segments.iter().flat_map(|segment| segment.names().servers());
            let named: BTreeSet<ServerId> = names.map(|server| server.id).collect();
            self.servers.retain(|id, _| named.contains(id));
        }
    }

    fn kept(&self) -> impl DoubleEndedIterator<Item = Kept<'_>> {
        let of = |segment: &'_ Arc<Segment>| 0..segment.len();
        self.segments
            .iter()
            .flat_map(move |segment| of(segment).map(move |at| Kept { history: self, segment, at }))
    }

    /// Oldest first.
    pub fn moments(&self) -> impl DoubleEndedIterator<Item = Interval> {
        self.kept().filter_map(|kept| kept.read())
    }

    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How far back it reaches. None: it is empty.
    pub fn since(&self) -> Option<SystemTime> {
        Some(self.kept().next()?.span().start)
    }

    /// How much time the moments cover.
    pub fn length(&self) -> Duration {
        self.segments.iter().map(|segment| segment.duration()).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// It reaches back less far than it should, because there was more to remember than there is memory.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.short_of_memory
    }

    /// What it takes: estimated, and rather too much than too little.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.memory()).sum()
    }

    /// The moments that ended after `from` and not after `to`, by the wall clock of their time. None: there
    /// are none.
    pub fn between(&self, from: SystemTime, to: SystemTime) -> Option<Interval> {
        merge(self.kept().filter(|kept| kept.span().end > from && kept.span().end <= to))
    }

    /// Forgets all but the interval in which this moment lies.
    pub(crate) fn keep_at(&mut self, moment: SystemTime) {
        self.retain(|span| span.start <= moment && moment < span.end);
    }

    /// A moment of the interval with the longest wait for a sync of these servers.
    pub(crate) fn worst(&self, wanted: impl Fn(ServerId) -> bool) -> Option<SystemTime> {
        let wait = |kept: Kept| {
            let mut interval = kept.read()?;
            interval.retain_servers(&wanted);
            Some((longest_wait(&interval), kept.span().start))
        };
        let waits = self.kept().filter_map(wait);
        waits.max_by_key(|(wait, start)| (*wait, *start)).map(|(_, start)| start)
    }

    /// One after the other, so many together that they cover `step`.
    pub(crate) fn steps(&self, step: Duration) -> impl Iterator<Item = Interval> {
        let mut moments = self.moments().peekable();
        std::iter::from_fn(move || {
            let mut sum = moments.next()?;
            while let Some(next) = moments.next_if(|next| sum.span.duration + next.span.duration / 2 <= step)
            {
                sum.append(next);
            }
            Some(sum)
        })
    }

    /// All that are named in it.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        self.servers.values().cloned().collect()
    }

    /// This, and what another one has, which is of later times.
    pub(crate) fn followed_by(mut self, later: &History) -> History {
        self.begins_anew = true;
        for moment in later.moments() {
            self.insert(&moment, &[]);
        }
        self
    }

    /// With the figures of these servers alone.
    pub(crate) fn of_servers(&self, wanted: impl Fn(ServerId) -> bool) -> History {
        let mut of = History::new(self.options);
        for mut moment in self.moments() {
            moment.retain_servers(&wanted);
            of.insert(&moment, &[]);
        }
        of
    }

    fn retain(&mut self, wanted: impl Fn(&Span) -> bool) {
        self.segments.iter_mut().for_each(|segment| Arc::make_mut(segment).retain(&wanted));
        self.segments.retain(|segment| segment.len() > 0);
    }

    /// The latest moments, so many that they cover `length`, or all. Whatever happened to the wall clock.
    pub fn last(&self, length: Duration) -> Option<Interval> {
        merge(self.latest(length))
    }

    fn latest(&self, length: Duration) -> impl Iterator<Item = Kept<'_>> {
        let mut covered = Duration::ZERO;
        let wanted = self.kept().rev().take_while(|kept| {
            let more = covered < length;
            covered += kept.span().duration;
            more
        });
        let wanted = wanted.count();
        self.kept().skip(self.len() - wanted)
    }
}

fn merge<'a>(kept: impl Iterator<Item = Kept<'a>>) -> Option<Interval> {
    kept.filter_map(|kept| kept.read()).reduce(|mut sum, moment| {
        sum.append(moment);
        sum
    })
}

/// Warns of a recording on this device, if a log that was synced lies there.
pub(crate) fn beside_a_log(interval: &Interval, device: u32) -> Option<String> {
    let is_there = |row: &&FileRow| matches!(row.target, Target::File(id) if id.device == device);
    let log = interval.files.iter().filter(is_there).find(|row| row.info.role.is_serial())?;
    let server = interval.servers.iter().find(|server| server.id == log.server)?;
    let (name, role) = (escape_sentence(&server.name), log.info.role.name());
    Some(format!("the {role} of {name} lies on the filesystem of the recording: another disk is better"))
}

/// Of a sync that ended, or was in flight at the end.
fn longest_wait(interval: &Interval) -> Duration {
    let ended = interval.roles.iter().map(|row| Duration::from_nanos(row.stats.max.ns)).max();
    let in_flight = interval.in_flight.iter().map(|sync| sync.age).max();
    ended.max(in_flight).unwrap_or_default()
}
