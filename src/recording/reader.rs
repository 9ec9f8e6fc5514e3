//! Reads a recording: whatever of it is whole, and what is missing. Recordings come from strangers, too: no
//! path of theirs is opened, and no figure of theirs makes room.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::folder::{Folder, Name, Tier};
use super::frame::{self, Damage, Kind};
use super::segment::Segment;
use super::{History, Options};

/// What the intervals of a window take in memory at most: of more, the latest are read.
const MAX_MEMORY: usize = 512 << 20;
/// Intervals of a recording that have more between them do not follow each other.
const GAP: Duration = Duration::from_millis(1_500);

/// A span of time by the wall clock, without an end on either side where there is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub from: Option<SystemTime>,
    pub to: Option<SystemTime>,
}

impl Window {
    /// Of an interval that lies in it as a whole.
    fn has(&self, start: SystemTime, end: SystemTime) -> bool {
        self.from.is_none_or(|from| start >= from) && self.to.is_none_or(|to| end <= to)
    }

    fn touches(&self, start: SystemTime, end: SystemTime) -> bool {
        self.from.is_none_or(|from| end > from) && self.to.is_none_or(|to| start < to)
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
    /// Where intervals do not follow each other.
    gaps: Vec<(SystemTime, SystemTime)>,
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
        let listing = folder.list()?;
        let mut unreadable = Vec::new();
        if listing.left_out > 0 {
            unreadable.push(Missing::TooMany(listing.left_out));
        }
        let mut entries: BTreeMap<(Tier, u32), Entry> = BTreeMap::new();
        for (name, bytes) in listing.files {
            let entry = match folder.read(name) {
                Ok(read) => Entry::of(name, bytes, &read),
                // It was removed meanwhile: recordings are read while they are written.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
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
    pub(crate) fn since(&self, tier: Tier) -> Option<SystemTime> {
        self.of(tier).filter_map(|entry| entry.span).map(|(start, _)| start).min()
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
        let mut end: Option<SystemTime> = None;
        for entry in self.of(Tier::All) {
            let Some((start, last)) = entry.span else { continue };
            missing.extend(gap(end, start).map(|(from, to)| Missing::Gap { from, to }));
            missing.extend(entry.gaps.iter().map(|&(from, to)| Missing::Gap { from, to }));
            end = Some(last);
        }
        missing
    }

    /// The intervals of a window, each time in the finest detail that there is of it; whether that is all of
    /// them.
    pub fn history(&self, window: Window) -> io::Result<(History, bool)> {
        let mut wanted: Vec<(&Entry, Window)> = Vec::new();
        let mut until = window.to;
        for tier in Tier::ALL {
            let of_tier = Window { to: until, ..window };
            let touched = |entry: &&Entry| entry.span.is_some_and(|(start, end)| of_tier.touches(start, end));
            wanted.extend(self.of(tier).filter(touched).map(|entry| (entry, of_tier)));
            until = [until, self.since(tier)].into_iter().flatten().min();
        }
        wanted.sort_by_key(|(entry, _)| entry.span);
        let (mut segments, mut memory, mut is_all) = (Vec::new(), 0, true);
        for (entry, window) in wanted.into_iter().rev() {
            let mut segment = match self.folder.read(entry.name) {
                Ok(bytes) => Segment::read(bytes),
                // It has been compressed since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let other = Name { is_plain: !entry.name.is_plain, ..entry.name };
                    self.folder.read(other).map(Segment::read)?
                }
                Err(error) => return Err(error),
            };
            segment.retain(|span| window.has(span.start, span.end));
            memory += segment.memory();
            if memory > MAX_MEMORY {
                is_all = false;
                break;
            }
            segments.push(segment);
        }
        let options = Options { length: Duration::MAX, bytes: usize::MAX, files: usize::MAX };
        Ok((History::of(options, segments.into_iter().rev()), is_all))
    }
}

fn gap(end: Option<SystemTime>, start: SystemTime) -> Option<(SystemTime, SystemTime)> {
    end.filter(|end| start.duration_since(*end).is_ok_and(|between| between > GAP)).map(|end| (end, start))
}

impl Entry {
    fn of(name: Name, bytes: u64, read: &[u8]) -> Entry {
        let (frames, damages) = frame::scan(read);
        let mut entry = Entry { name, bytes, span: None, intervals: 0, damages, gaps: Vec::new() };
        for frame in frames {
            let has_intervals =
                matches!(frame.kind, Some(Kind::Interval | Kind::Batch)) && frame.span.parts > 0;
            if !has_intervals {
                continue;
            }
            let (start, end) = (frame.span.start, frame.span.end);
            entry.gaps.extend(gap(entry.span.map(|(_, end)| end), start));
            entry.span = Some((entry.span.map_or(start, |(first, _)| first), end));
            entry.intervals = entry.intervals.saturating_add(frame.span.parts);
        }
        entry
    }
}
