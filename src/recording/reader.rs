//! Reads a recording: whatever of it is whole, and what is missing. Recordings come from strangers, too: no
//! path of theirs is opened, and no figure of theirs makes room.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::folder::{Folder, MAX_FILES, Name, Tier};
use super::frame::{self, Damage, Kind};
use super::segment::Segment;
use super::{History, Options};
use crate::model::Span;

/// What the intervals of a window take in memory at most: of more, the latest are read.
const MAX_MEMORY: usize = 512 << 20;
/// What the files of a recording have at most: of more, the first are read.
const MAX_BYTES: u64 = 8 << 30;
/// Intervals of a recording that have more between them do not follow each other.
const GAP: Duration = Duration::from_millis(50);
/// Servers that are told apart.
const MAX_SERVERS: usize = 10_000;
/// Times of one segment between which there are gaps.
const MAX_RUNS: usize = 1_000;

/// Which intervals are read, by the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Without an end on either side where there is None.
    Span { from: Option<SystemTime>, to: Option<SystemTime> },
    /// Those in which it lies.
    Moment(SystemTime),
}

impl Window {
    #[cfg(test)]
    pub const ALL: Window = Window::Span { from: None, to: None };

    /// Of a span, an interval more than half of which lies in it. Of spans that follow each other, one has
    /// it.
    fn has(&self, start: SystemTime, end: SystemTime) -> bool {
        let middle = start + end.duration_since(start).unwrap_or_default() / 2;
        match self {
            Window::Span { from, to } => {
                from.is_none_or(|from| middle >= from) && to.is_none_or(|to| middle < to)
            }
            Window::Moment(at) => (start..end).contains(at),
        }
    }

    fn touches(&self, start: SystemTime, end: SystemTime) -> bool {
        match self {
            Window::Span { from, to } => from.is_none_or(|from| end > from) && to.is_none_or(|to| start < to),
            Window::Moment(at) => (start..=end).contains(at),
        }
    }
}

/// A segment, as far as the heads of its frames tell.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: Name,
    pub bytes: u64,
    /// None: it has no interval that is whole.
    pub span: Option<(SystemTime, SystemTime)>,
    /// Intervals as they were taken.
    pub intervals: u64,
    pub damages: Vec<Damage>,
    /// Times without a gap in between, by the wall clock.
    runs: Vec<(SystemTime, SystemTime)>,
    /// The end of the last interval by the monotonic clock.
    last: Duration,
    first: Duration,
}

/// What of a recording is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Bytes of a segment that are no whole frame, and when what was hit happened, where that is known.
    Damaged {
        name: Name,
        bytes: usize,
        span: Option<(SystemTime, SystemTime)>,
    },
    /// Segments between others of their tier.
    Segments {
        tier: Tier,
        first: u32,
        last: u32,
    },
    Unreadable {
        name: Name,
        why: String,
    },
    /// Nothing was recorded in between.
    Gap {
        from: SystemTime,
        to: SystemTime,
    },
    /// More segments than are read.
    TooMany(usize),
}

#[derive(Debug)]
pub struct Recording {
    folder: Folder,
    entries: Vec<Entry>,
    unreadable: Vec<Missing>,
}

impl Recording {
    /// Reads all files once, and keeps of them where what is.
    pub fn open(path: &Path) -> io::Result<Recording> {
        let folder = Folder::open(path)?;
        let listing = folder.list(MAX_FILES)?;
        let (mut unreadable, mut left_out) = (Vec::new(), listing.left_out);
        let mut entries: BTreeMap<(Tier, u32), Entry> = BTreeMap::new();
        let mut total = 0_u64;
        for (name, bytes) in listing.files {
            total = total.saturating_add(bytes);
            if total > MAX_BYTES {
                left_out += 1;
                continue;
            }
            let entry = match read_either(&folder, name) {
                Ok(Some(read)) => Entry::of(name, bytes, &read),
                // It was removed meanwhile: recordings are read while they are written.
                Ok(None) => continue,
                Err(error) => {
                    unreadable.push(Missing::Unreadable { name, why: error.to_string() });
                    continue;
                }
            };
            // While a segment is being compressed, it is there twice.
            let is_better = |known: &Entry| entry.intervals > known.intervals;
            if entries.get(&(name.tier, name.number)).is_none_or(is_better) {
                entries.insert((name.tier, name.number), entry);
            }
        }
        if left_out > 0 {
            unreadable.push(Missing::TooMany(left_out));
        }
        Ok(Recording { folder, entries: entries.into_values().collect(), unreadable })
    }

    /// In the order of their tiers and of their time.
    pub(crate) fn segments(&self) -> &[Entry] {
        &self.entries
    }

    fn of(&self, tier: Tier) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.name.tier == tier)
    }

    /// How far back a tier reaches.
    #[cfg(test)]
    pub(crate) fn since(&self, tier: Tier) -> Option<SystemTime> {
        self.of(tier).filter_map(|entry| entry.span).map(|(start, _)| start).min()
    }

    /// From when to when each server is in it, in whatever detail, by name.
    pub(crate) fn servers(&self) -> BTreeMap<String, (SystemTime, SystemTime)> {
        let mut all: BTreeMap<String, (SystemTime, SystemTime)> = BTreeMap::new();
        for entry in &self.entries {
            let (Some((start, end)), Ok(Some(bytes))) = (entry.span, read_either(&self.folder, entry.name))
            else {
                continue;
            };
            for server in Segment::read_names(&bytes).names().servers() {
                if all.len() >= MAX_SERVERS && !all.contains_key(&*server.name) {
                    continue;
                }
                let span = all.entry(server.name.to_string()).or_insert((start, end));
                *span = (span.0.min(start), span.1.max(end));
            }
        }
        all
    }

    /// When it begins and ends. None: it holds nothing.
    pub(crate) fn span(&self) -> Option<(SystemTime, SystemTime)> {
        let spans = || self.entries.iter().filter_map(|entry| entry.span);
        Some((spans().map(|(start, _)| start).min()?, spans().map(|(_, end)| end).max()?))
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing = self.unreadable.clone();
        for entry in &self.entries {
            let name = entry.name;
            missing.extend(entry.damages.iter().map(|damage| Missing::Damaged {
                name,
                bytes: damage.bytes.len(),
                span: damage.span.filter(|span| span.parts > 0).map(|span| (span.start, span.end)),
            }));
        }
        for tier in Tier::ALL {
            let numbers: Vec<u32> = self.of(tier).map(|entry| entry.name.number).collect();
            let between = numbers.windows(2).filter(|pair| pair[1] - pair[0] > 1);
            missing.extend(between.map(|pair| Missing::Segments {
                tier,
                first: pair[0] + 1,
                last: pair[1] - 1,
            }));
        }
        // What is damaged or missing has been told: a gap is a time without a recorder.
        let mut before: Option<&Entry> = None;
        for entry in self.of(Tier::All).filter(|entry| !entry.runs.is_empty()) {
            let is_next = |before: &Entry| {
                let is_behind = before.name.number.checked_add(1) == Some(entry.name.number);
                is_behind && before.damages.is_empty() && entry.damages.is_empty()
            };
            let between = before.filter(|before| is_next(before) && !follows(before.last, entry.first));
            let ends = between.and_then(|before| before.runs.last()).zip(entry.runs.first());
            missing.extend(ends.map(|(&(_, from), &(to, _))| Missing::Gap { from, to }));
            if entry.damages.is_empty() {
                let gaps = entry.runs.windows(2);
                missing.extend(gaps.map(|pair| Missing::Gap { from: pair[0].1, to: pair[1].0 }));
            }
            before = Some(entry);
        }
        missing
    }

    /// The intervals of a window, each time in the finest detail that there is of it; whether that is all of
    /// them.
    pub fn history(&self, window: Window) -> io::Result<(History, bool)> {
        let touched = |entry: &&Entry| entry.span.is_some_and(|(start, end)| window.touches(start, end));
        let mut wanted: Vec<&Entry> = self.entries.iter().filter(touched).collect();
        wanted.sort_by_key(|entry| entry.span);
        let finer = Tier::ALL.map(|tier| self.runs_finer_than(tier));
        let (mut segments, mut memory, mut is_all) = (Vec::new(), 0, true);
        for entry in wanted.into_iter().rev() {
            // It may have been compressed since, or have been forgotten.
            let Some(bytes) = read_either(&self.folder, entry.name)? else { continue };
            let mut segment = Segment::read(bytes);
            let finer = &finer[entry.name.tier as usize];
            // What was written since is in no run of what was looked at.
            let until = entry.span.map_or(SystemTime::UNIX_EPOCH, |(_, end)| end);
            segment.retain(|span| {
                let is_here = window.has(span.start, span.end) && span.end <= until;
                is_here && !is_covered(finer, span.start, span.end)
            });
            memory += segment.memory();
            if memory > MAX_MEMORY {
                is_all = false;
                break;
            }
            segments.push(segment);
        }
        let options = Options { length: Duration::MAX, bytes: usize::MAX, files: usize::MAX };
        Ok((History::of(options, in_order(segments).into_iter()), is_all))
    }

    /// Times of which there is more detail than this tier has, in their order.
    fn runs_finer_than(&self, tier: Tier) -> Vec<(SystemTime, SystemTime)> {
        let finer = self.entries.iter().filter(|entry| entry.name.tier < tier);
        let mut runs: Vec<(SystemTime, SystemTime)> =
            finer.flat_map(|entry| entry.runs.iter().copied()).collect();
        runs.sort_unstable();
        runs.dedup_by(|next, before| {
            let is_one = next.0 <= before.1;
            before.1 = if is_one { before.1.max(next.1) } else { before.1 };
            is_one
        });
        runs
    }
}

/// What is made of segments that lie between each other's intervals has so many bytes at most each.
const MADE_ANEW: usize = 8 << 20;

/// By time: where a detail is missing, intervals of a coarser segment lie between those of others, and all
/// are put into new segments.
fn in_order(mut segments: Vec<Segment>) -> Vec<Segment> {
    segments.retain(|segment| segment.len() > 0);
    segments.sort_by_key(|segment| segment.span(0).start);
    let mut places: Vec<(SystemTime, usize, usize)> = Vec::new();
    for (which, segment) in segments.iter().enumerate() {
        places.extend((0..segment.len()).map(|at| (segment.span(at).start, which, at)));
    }
    if places.is_sorted_by_key(|(start, ..)| *start) {
        return segments;
    }
    places.sort_unstable();
    let mut ordered = vec![Segment::begin(None)];
    for (_, which, at) in places {
        let Some(interval) = segments[which].interval(at, None) else { continue };
        if ordered.last().is_none_or(|last| last.bytes().len() >= MADE_ANEW) {
            ordered.push(Segment::begin(None));
        }
        if let Some(last) = ordered.last_mut() {
            last.push(&interval, &[]);
        }
    }
    ordered
}

/// Whether any of an interval lies in one of these times, which do not overlap.
fn is_covered(runs: &[(SystemTime, SystemTime)], start: SystemTime, end: SystemTime) -> bool {
    let behind = runs.partition_point(|(_, until)| *until <= start);
    runs.get(behind).is_some_and(|(from, _)| *from < end)
}

/// By the monotonic clock; where that is not known, nothing says otherwise.
fn follows(end: Duration, begin: Duration) -> bool {
    end.is_zero() || begin.is_zero() || end.abs_diff(begin) <= GAP
}

/// A segment, whether or not it was compressed meanwhile. None: it is there no more.
fn read_either(folder: &Folder, name: Name) -> io::Result<Option<Vec<u8>>> {
    let other = Name { is_plain: !name.is_plain, ..name };
    for name in [name, other] {
        match folder.read(name) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

impl Entry {
    fn of(name: Name, bytes: u64, read: &[u8]) -> Entry {
        let (frames, damages) = frame::scan(read);
        let (span, runs, zero) = (None, Vec::new(), Duration::ZERO);
        let mut entry = Entry { name, bytes, span, intervals: 0, damages, runs, last: zero, first: zero };
        for frame in frames {
            let has_intervals =
                matches!(frame.kind, Some(Kind::Interval | Kind::Batch)) && frame.span.parts > 0;
            if has_intervals {
                entry.take(&frame.span);
            }
        }
        entry
    }

    fn take(&mut self, span: &Span) {
        let (start, end) = (span.start.min(span.end), span.end.max(span.start));
        self.intervals = self.intervals.saturating_add(span.parts);
        self.span = Some(match self.span {
            Some((first, last)) => (first.min(start), last.max(end)),
            None => (start, end),
        });
        let begin = match span.monotonic.is_zero() {
            true => Duration::ZERO,
            false => span.monotonic.saturating_sub(span.duration),
        };
        let goes_on = follows(self.last, begin) && self.runs.last().is_some_and(|run| start >= run.0);
        let is_full = self.runs.len() >= MAX_RUNS;
        match self.runs.last_mut() {
            None => {
                self.first = begin;
                self.runs.push((start, end));
            }
            Some(run) if goes_on || is_full => run.1 = run.1.max(end),
            Some(_) => self.runs.push((start, end)),
        }
        self.last = span.monotonic;
    }
}
