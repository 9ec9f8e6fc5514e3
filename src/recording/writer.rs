//! Writes a recording: each interval at once, into a file to which is only ever appended. It never syncs, as
//! its disk may be one that is traced. The last ten minutes are plain frames, so that a kill costs nothing
//! that was written; then they are compressed. Ten seconds and a minute are also kept as one interval each,
//! so that the past gets coarser before it is forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::folder::{Folder, Name, Tier};
use super::limit::limited;
use super::segment::Segment;
use crate::model::Interval;
use crate::text::{bytes, percent};

/// What a recording takes at most unless it is told otherwise.
pub const LIMIT: u64 = 256 << 20;
/// With less than this nothing worth reading would be kept.
pub const LEAST_LIMIT: u64 = 4 << 20;
/// Of each interval so many rows by file are recorded; the others are one.
const FILES: usize = 500;
/// This share of the filesystem is left free for others.
const LEAST_FREE: f64 = 0.05;
/// A segment of the finest tier lasts so long; of the others, so many times as long as their intervals are.
const SEGMENT: Duration = Duration::from_secs(600);
const MOST_OF_SEGMENT: u64 = 8 << 20;
/// The part of the limit that the segments which are being written take at most, each.
const OPEN_PART: u64 = 16;
/// After this the kernel has written what was written to a file, unless it is told otherwise
/// (`vm.dirty_expire_centisecs` and `vm.dirty_writeback_centisecs`: 30 s and 5 s).
const WRITTEN_AFTER: Duration = Duration::from_secs(60);
/// Two intervals with more between them do not follow each other.
const GAP: Duration = Duration::from_millis(500);

impl Tier {
    /// How long its intervals are, at least.
    pub fn length(self) -> Option<Duration> {
        match self {
            Tier::All => None,
            Tier::TenSeconds => Some(Duration::from_secs(10)),
            Tier::Minute => Some(Duration::from_secs(60)),
        }
    }

    fn segment(self) -> Duration {
        self.length().map_or(SEGMENT, |length| SEGMENT * length.as_secs() as u32)
    }

    /// The part of the limit that is its own: above it, its oldest segment is the first to go.
    fn share(self) -> f64 {
        match self {
            Tier::All => 0.4,
            Tier::TenSeconds | Tier::Minute => 0.3,
        }
    }
}

/// Why something is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("there is no room: {} of the filesystem are free for users, and {} are left to them", percent(*.0), percent(LEAST_FREE))]
    Filesystem(f64),
    #[error("there is no room: the limit of the recording is {}", bytes(*.0))]
    Limit(u64),
    #[error("an interval has more rows than a recording takes")]
    TooLarge,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What has been recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub intervals: u64,
    /// Intervals that could not be written.
    pub lost: u64,
    /// All that was written, whether or not it is still there.
    pub bytes: u64,
    /// What the folder's segments take.
    pub size: u64,
}

pub struct Writer {
    folder: Folder,
    limit: u64,
    streams: [Stream; 3],
    /// Segments that are complete, with their lengths.
    closed: BTreeMap<Name, u64>,
    /// Plain segments of which there is a compressed one that the kernel may not have written yet: with their
    /// lengths, and since when.
    retired: VecDeque<(Name, u64, Instant)>,
    /// The end of the last interval, by the monotonic clock.
    last: Option<Duration>,
    written: Written,
}

/// What is being written of one tier.
struct Stream {
    tier: Tier,
    next: u32,
    open: Option<Open>,
    /// The next interval of a coarser tier, as far as it has come.
    begun: Option<Interval>,
}

struct Open {
    name: Name,
    /// None: it could not be made yet.
    file: Option<File>,
    segment: Segment,
    /// Of the segment's bytes.
    written: usize,
}

impl Open {
    fn pending(&self) -> u64 {
        (self.segment.bytes().len() - self.written) as u64
    }

    /// Whatever stands in the way, what was not written is written the next time.
    fn write(&mut self, folder: &Folder) -> io::Result<u64> {
        let before = self.written;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(folder.make(self.name)?),
        };
        while self.written < self.segment.bytes().len() {
            match file.write(&self.segment.bytes()[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((self.written - before) as u64)
    }
}

impl Writer {
    /// Goes on with what is there, or begins.
    pub fn open(path: &Path, limit: u64) -> io::Result<Writer> {
        Writer::begin(Folder::create(path)?, limit)
    }

    /// The same in a folder that is open, and this process's.
    pub(crate) fn begin(folder: Folder, limit: u64) -> io::Result<Writer> {
        let mut closed: BTreeMap<Name, u64> = folder.list(usize::MAX)?.files.into_iter().collect();
        // Whoever compressed a segment may have been killed at it.
        let plain: Vec<Name> = closed.keys().filter(|name| name.is_plain).copied().collect();
        for name in plain {
            let other = Name { is_plain: false, ..name };
            if closed.contains_key(&other) {
                let intervals = |name| folder.read(name).map(|bytes| Segment::read(bytes).len());
                let superfluous = if intervals(other)? >= intervals(name)? { name } else { other };
                folder.remove(superfluous)?;
                closed.remove(&superfluous);
            }
        }
        let next = |tier| {
            let numbers = closed.keys().filter(|name| name.tier == tier).map(|name| name.number);
            numbers.max().map_or(0, |last| last.saturating_add(1))
        };
        let streams = Tier::ALL.map(|tier| Stream { tier, next: next(tier), open: None, begun: None });
        let (retired, written) = (VecDeque::new(), Written::default());
        let limit = limit.max(LEAST_LIMIT);
        let mut writer = Writer { folder, limit, streams, closed, retired, last: None, written };
        // It may have had a higher one. What stands in the way is said when something is written.
        let _ = writer.make_room(0, 0);
        let _ = writer.recover();
        Ok(writer)
    }

    /// A recorder that was killed had not written what had only begun of its coarser intervals: it is in the
    /// finest ones.
    fn recover(&mut self) -> Result<(), WriteError> {
        let left: Vec<Name> =
            self.closed.keys().filter(|name| name.tier == Tier::All && name.is_plain).copied().collect();
        if left.is_empty() {
            return Ok(());
        }
        let mut ends = [SystemTime::UNIX_EPOCH; 3];
        for (tier, end) in Tier::ALL.into_iter().zip(&mut ends) {
            let last = self.closed.keys().filter(|name| name.tier == tier).max_by_key(|name| name.number);
            let Some(last) = last else { continue };
            let segment = Segment::read(self.folder.read(*last)?);
            *end = (0..segment.len()).map(|at| segment.span(at).end).max().unwrap_or(*end);
        }
        for name in left {
            let segment = Segment::read(self.folder.read(name)?);
            for interval in (0..segment.len()).filter_map(|at| segment.interval(at, None)) {
                for (stream, end) in self.streams.iter_mut().zip(ends) {
                    if stream.tier.length().is_some() && interval.span.start >= end {
                        stream.begun = Some(joined(stream.begun.take(), &interval));
                    }
                }
            }
        }
        self.close()
    }

    /// Its filesystem's device; None: it cannot be told.
    pub(crate) fn device(&self) -> Option<u32> {
        self.folder.device().ok()
    }

    pub fn written(&self) -> Written {
        Written { size: self.size(), ..self.written }
    }

    /// Records what happened since the last one.
    pub fn push(&mut self, interval: &Interval) -> Result<(), WriteError> {
        let interval = kept(interval);
        let mut outcome = Ok(());
        if !self.follows(&interval) {
            outcome = outcome.and(self.close());
        }
        self.last = Some(interval.span.monotonic);
        self.written.intervals += 1;
        outcome = outcome.and(self.remove_retired().map_err(WriteError::from));
        let mut is_aligned = false;
        for at in 0..self.streams.len() {
            let Some(length) = self.streams[at].tier.length() else {
                outcome = outcome.and(self.append(at, &interval));
                continue;
            };
            let begun = joined(self.streams[at].begun.take(), &interval);
            // The next one would go further beyond its end than this one stays below it.
            if begun.span.duration + interval.span.duration / 2 >= length {
                outcome = outcome.and(self.append(at, &begun));
                is_aligned = self.streams[at].tier == Tier::Minute;
            } else {
                self.streams[at].begun = Some(begun);
            }
        }
        // Segments of all tiers end together with a minute: nothing is in two tiers in part.
        if is_aligned {
            outcome = outcome.and(self.append_begun());
            outcome = outcome.and(self.close_full());
        } else if self.streams.iter().any(|stream| self.is_too_large(stream)) {
            outcome = outcome.and(self.close());
        }
        outcome
    }

    fn follows(&self, interval: &Interval) -> bool {
        let begins = interval.span.monotonic.saturating_sub(interval.span.duration);
        self.last.is_none_or(|last| last.is_zero() || last.abs_diff(begins) <= GAP)
    }

    fn is_too_large(&self, stream: &Stream) -> bool {
        let most = MOST_OF_SEGMENT.min(self.limit / OPEN_PART);
        stream.open.as_ref().is_some_and(|open| open.segment.grown() as u64 >= most)
    }

    fn append(&mut self, at: usize, interval: &Interval) -> Result<(), WriteError> {
        let stream = &mut self.streams[at];
        let is_finest = stream.tier == Tier::All;
        let open = stream.open.get_or_insert_with(|| {
            let name = Name { tier: stream.tier, number: stream.next, is_plain: true };
            stream.next = stream.next.saturating_add(1);
            Open { name, file: None, segment: Segment::begin(stream.tier.length()), written: 0 }
        });
        if !open.segment.push(interval, &[]) {
            self.written.lost += u64::from(is_finest);
            return Err(WriteError::TooLarge);
        }
        let pending = open.pending();
        self.make_room(pending, 0)?;
        let open = self.streams[at].open.as_mut().expect("it was opened");
        self.written.bytes += open.write(&self.folder)?;
        Ok(())
    }

    fn size(&self) -> u64 {
        let open = self.streams.iter().filter_map(|stream| stream.open.as_ref());
        let retired = self.retired.iter().map(|(_, bytes, _)| bytes);
        let all = self.closed.values().chain(retired).copied().chain(open.map(|open| open.written as u64));
        all.fold(0, u64::saturating_add)
    }

    /// Forgets the oldest until there is room: what is finest first, unless a coarser tier has more than its
    /// share. Where others fill the filesystem, no more goes than would help.
    /// `beside`: bytes that are there and in no account.
    fn make_room(&mut self, wanted: u64, beside: u64) -> Result<(), WriteError> {
        let too_much = (self.size() + beside + wanted).saturating_sub(self.limit);
        let (free, blocks) = self.folder.free_and_all()?;
        let short = ((LEAST_FREE * blocks as f64) as u64 + wanted).saturating_sub(free);
        let mut needed = too_much.max(short);
        let there: u64 = self.closed.values().chain(self.retired.iter().map(|(_, bytes, _)| bytes)).sum();
        if needed > there {
            let share = free as f64 / blocks.max(1) as f64;
            return Err(if too_much >= short {
                WriteError::Limit(self.limit)
            } else {
                WriteError::Filesystem(share)
            });
        }
        while needed > 0 {
            // What was compressed last is the last to go: the other file may not be on the disk yet.
            let removed = match self.retired.len() > self.streams.len() {
                true => self.remove_oldest_retired()?,
                false => match self.forget_oldest()? {
                    Some(bytes) => Some(bytes),
                    None => self.remove_oldest_retired()?,
                },
            };
            let Some(removed) = removed else { break };
            needed = needed.saturating_sub(removed);
        }
        Ok(())
    }

    /// How many bytes it had; None: there is none.
    fn remove_oldest_retired(&mut self) -> io::Result<Option<u64>> {
        let Some((name, bytes, _)) = self.retired.front().copied() else { return Ok(None) };
        self.folder.remove(name)?;
        self.retired.pop_front();
        Ok(Some(bytes))
    }

    /// How many bytes it had. None: there is none that is not there twice.
    fn forget_oldest(&mut self) -> io::Result<Option<u64>> {
        let is_alone = |name: &Name| {
            let plain = Name { is_plain: true, ..*name };
            self.retired.iter().all(|(retired, ..)| *retired != plain)
        };
        let of = |tier| self.closed.iter().filter(move |(name, _)| name.tier == tier && is_alone(name));
        let has_too_much = |tier: &Tier| {
            of(*tier).map(|(_, bytes)| bytes).sum::<u64>() as f64 > tier.share() * self.limit as f64
        };
        let first = Tier::ALL.into_iter().find(has_too_much);
        let first = first.or_else(|| Tier::ALL.into_iter().find(|&tier| of(tier).next().is_some()));
        let oldest = first.and_then(|tier| of(tier).map(|(name, _)| *name).min_by_key(|name| name.number));
        let Some(oldest) = oldest else { return Ok(None) };
        self.folder.remove(oldest)?;
        Ok(self.closed.remove(&oldest))
    }

    /// Ends the segments that have lasted long enough.
    fn close_full(&mut self) -> Result<(), WriteError> {
        let mut outcome = Ok(());
        for at in 0..self.streams.len() {
            let stream = &self.streams[at];
            let is_full = |open: &Open| open.segment.duration() + GAP >= stream.tier.segment();
            if stream.open.as_ref().is_some_and(is_full) || self.is_too_large(stream) {
                outcome = outcome.and(self.close_one(at));
            }
        }
        outcome
    }

    /// Ends all segments, also intervals of the coarser tiers that have only begun.
    pub fn close(&mut self) -> Result<(), WriteError> {
        let mut outcome = Ok(());
        outcome = outcome.and(self.append_begun());
        for at in 0..self.streams.len() {
            outcome = outcome.and(self.close_one(at));
        }
        outcome
    }

    /// The end of the recording: nothing is there twice.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        let outcome = self.close();
        while self.remove_oldest_retired()?.is_some() {}
        outcome
    }

    fn append_begun(&mut self) -> Result<(), WriteError> {
        let mut outcome = Ok(());
        for at in 0..self.streams.len() {
            if let Some(begun) = self.streams[at].begun.take() {
                outcome = outcome.and(self.append(at, &begun));
            }
        }
        outcome
    }

    /// Writes a segment anew, compressed, also what of it could not be written before. Where that fails, what
    /// is there of it stays. The plain one stays as well until the kernel has written the other: nothing is
    /// synced, and a power failure must not cost what the disk has.
    fn close_one(&mut self, at: usize) -> Result<(), WriteError> {
        let Some(open) = self.streams[at].open.take() else { return Ok(()) };
        let compact = open.segment.compact();
        let name = Name { is_plain: false, ..open.name };
        let plain = open.file.is_some().then_some((open.name, open.written as u64, Instant::now()));
        // Not among those that may go, while it is the only one.
        let is_there = plain.map_or(0, |(_, bytes, _)| bytes);
        let outcome = self
            .make_room(compact.len() as u64, is_there)
            .and_then(|()| self.folder.make(name)?.write_all(&compact).map_err(WriteError::from));
        match &outcome {
            Ok(()) => {
                self.written.bytes += compact.len() as u64;
                self.closed.insert(name, compact.len() as u64);
                self.retired.extend(plain);
            }
            Err(_) => {
                self.folder.remove(name)?;
                self.closed.extend(plain.map(|(name, bytes, _)| (name, bytes)));
                if open.name.tier == Tier::All {
                    self.written.lost += open.segment.intervals_after(open.written) as u64;
                }
            }
        }
        outcome
    }

    /// Removes what is there twice, once that is on the disk.
    fn remove_retired(&mut self) -> io::Result<()> {
        while let Some((name, ..)) =
            self.retired.front().filter(|(.., since)| since.elapsed() >= WRITTEN_AFTER)
        {
            self.folder.remove(*name)?;
            self.retired.pop_front();
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.finish();
    }
}

/// What is kept of an interval.
pub(super) fn kept(interval: &Interval) -> Interval {
    limited(interval, FILES)
}

/// What has begun and this as one, with no more rows than there is room for.
pub(crate) fn joined(begun: Option<Interval>, part: &Interval) -> Interval {
    let Some(mut begun) = begun else { return part.clone() };
    begun.append(part.clone());
    // Rows that are left out here were mostly left out of one part already.
    let rows = begun.rest.rows;
    let mut joined = limited(&begun, FILES);
    joined.rest.rows = rows.max(joined.rest.rows - rows);
    joined
}
