//! A segment: frames that can be read alone, the names of all that their figures refer to among them. The
//! last minutes are kept in memory as such, and recordings are files of them.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::frame::{self, Frame, HEAD_BYTES, Kind, MAX_PAYLOAD};
use super::names::{Names, Numbers};
use super::pack::{self, Preamble, Words};
use crate::model::{Interval, Server, Setup, Span};
use crate::text::escape_sentence;

#[derive(Clone, Debug)]
pub(super) struct Segment {
    bytes: Vec<u8>,
    /// None: there is no preamble that this version understands.
    words: Option<Words>,
    /// Each with the number of the interval from which on it holds.
    setups: Vec<(u64, Arc<Setup>)>,
    /// All setups are told before the intervals.
    is_compact: bool,
    numbers: Numbers,
    intervals: Vec<Place>,
    /// Of all of them together.
    duration: Duration,
    /// Of frames with names.
    named: usize,
}

/// What is made of a name takes more room than its JSON, and so much at least.
const MEMORY_OF_NAMES: usize = 2;
const MEMORY_OF_ENTRY: usize = 600;

/// Intervals that are compressed together. A damaged byte costs them all.
const BATCH: usize = 10;
/// What a segment says when it is no longer compressed, and one batch of it: those that claim more are none.
const MAX_EXPANDED: usize = 64 << 20;
const MAX_BATCH: u64 = 16 << 20;

/// Setups of one segment: it has one, or a few.
const MAX_SETUPS: usize = 1_000;

/// Where an interval lies.
#[derive(Clone, Debug)]
struct Place {
    span: Span,
    payload: Range<usize>,
    /// The last one that was told before it.
    setup: Option<usize>,
}

impl Segment {
    /// One that is written. `merged`: how long its intervals are, if they were made of shorter ones.
    pub fn begin(merged: Option<Duration>) -> Segment {
        let preamble = Preamble { merged_ns: merged.map(frame::ns), ..Preamble::of_this_version() };
        let mut segment = Segment { words: Words::of(&preamble), ..Segment::empty() };
        let json = serde_json::to_vec(&preamble).expect("words are text");
        frame::write(&mut segment.bytes, Kind::Preamble, &Span::NONE, &json);
        segment
    }

    fn empty() -> Segment {
        Segment {
            bytes: Vec::new(),
            words: None,
            setups: Vec::new(),
            is_compact: false,
            numbers: Numbers::default(),
            intervals: Vec::new(),
            duration: Duration::ZERO,
            named: 0,
        }
    }

    /// Appends an interval, and before it what its figures refer to. `also`: servers of which something else
    /// is known now. False: it is too large for a frame, and left out.
    pub fn push(&mut self, interval: &Interval, also: &[Arc<Server>]) -> bool {
        if self.setup().is_none_or(|setup| *setup != interval.setup) {
            let json = serde_json::to_vec(&*interval.setup).expect("a setup has no part that JSON lacks");
            frame::write(&mut self.bytes, Kind::Setup, &interval.span, &json);
            self.setups.push((interval.span.sequence, interval.setup.clone()));
        }
        let payload = pack::pack(interval, &mut self.numbers);
        for server in also {
            self.numbers.known_server(server);
        }
        for json in self.numbers.tell() {
            self.named += json.len();
            frame::write(&mut self.bytes, Kind::Names, &interval.span, &json);
        }
        if payload.len() > MAX_PAYLOAD {
            return false;
        }
        frame::write(&mut self.bytes, Kind::Interval, &interval.span, &payload);
        let end = self.bytes.len();
        self.duration = self.duration.saturating_add(interval.span.duration);
        self.intervals.push(Place {
            span: interval.span,
            payload: end - payload.len()..end,
            setup: self.setups.len().checked_sub(1),
        });
        true
    }

    /// The same in fewer bytes. Words, names and setups come first and once more at the end, so that no
    /// damaged byte costs one; between them some intervals at a time.
    pub fn compact(&self) -> Vec<u8> {
        let (mut out, mut told, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
        for frame in frame::scan(&self.bytes).0 {
            let bytes = &self.bytes[frame.payload.start - HEAD_BYTES..frame.payload.end];
            match frame.kind {
                Some(Kind::Interval) => intervals.push((frame.span, bytes)),
                kind => {
                    if kind == Some(Kind::Preamble) {
                        out.extend_from_slice(bytes);
                    }
                    told.extend_from_slice(bytes);
                }
            }
        }
        put_batch(&mut out, &Span::NONE, &told);
        for batch in intervals.chunks(BATCH) {
            let spans = batch.iter().map(|(span, _)| *span);
            let span = spans.reduce(|all, next| Span {
                start: all.start,
                duration: all.duration.saturating_add(next.duration),
                parts: all.parts.saturating_add(next.parts),
                ..next
            });
            let bytes = batch.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect::<Vec<_>>();
            put_batch(&mut out, &span.unwrap_or(Span::NONE), &bytes);
        }
        put_batch(&mut out, &Span::NONE, &told);
        out
    }

    /// Whatever of it can be read.
    pub fn read(bytes: Vec<u8>) -> Segment {
        let (frames, _) = frame::scan(&bytes);
        match frames.iter().any(|frame| frame.kind == Some(Kind::Batch)) {
            true => Segment { is_compact: true, ..Segment::read_plain(expanded(&bytes, frames)) },
            false => Segment::read_plain(bytes),
        }
    }

    /// The names alone: of one that is compressed, they are in its first batch.
    pub fn read_names(bytes: &[u8]) -> Segment {
        let (mut frames, _) = frame::scan(bytes);
        if let Some(first) = frames.iter().position(|frame| frame.kind == Some(Kind::Batch)) {
            frames.truncate(first + 1);
            return Segment::read_plain(expanded(bytes, frames));
        }
        Segment::read_plain(bytes.to_vec())
    }

    /// The same of one that is not compressed: it takes no more room than it has bytes.
    pub fn read_plain(bytes: Vec<u8>) -> Segment {
        let (frames, _) = frame::scan(&bytes);
        let mut segment = Segment::empty();
        for frame in frames {
            let payload = &bytes[frame.payload.clone()];
            match frame.kind {
                // What makes no sense to this version is passed over.
                Some(Kind::Preamble) => {
                    let preamble = serde_json::from_slice::<Preamble>(payload).ok();
                    segment.words = preamble.and_then(|preamble| Words::of(&preamble)).or(segment.words);
                }
                Some(Kind::Setup) if segment.setups.len() < MAX_SETUPS => {
                    let setup = serde_json::from_slice::<Setup>(payload).map(harmless);
                    segment.named += payload.len();
                    segment.setups.extend(setup.map(|setup| (frame.span.sequence, Arc::new(setup))));
                }
                Some(Kind::Names) => {
                    segment.named += payload.len();
                    segment.numbers.read(payload);
                }
                Some(Kind::Interval) => segment.intervals.push(Place {
                    span: frame.span,
                    payload: frame.payload,
                    setup: segment.setups.len().checked_sub(1),
                }),
                Some(Kind::Setup | Kind::Batch) | None => {}
            }
        }
        segment.bytes = bytes;
        segment.sum_up();
        segment
    }

    fn sum_up(&mut self) {
        let durations = self.intervals.iter().map(|place| place.span.duration);
        self.duration = durations.fold(Duration::ZERO, Duration::saturating_add);
    }

    /// Forgets the other intervals, and no names.
    pub fn retain(&mut self, wanted: impl Fn(&Span) -> bool) {
        self.intervals.retain(|place| wanted(&place.span));
        self.sum_up();
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Estimated.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
            + MEMORY_OF_NAMES * self.named
            + MEMORY_OF_ENTRY * self.numbers.told().len()
            + self.intervals.capacity() * size_of::<Place>()
    }

    /// What came after its first interval: names are told with that one, however full a segment is.
    pub fn grown(&self) -> usize {
        self.bytes.len() - self.first()
    }

    pub fn names(&self) -> &Names {
        self.numbers.told()
    }

    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// How many of its intervals are not within its first bytes.
    pub fn intervals_after(&self, bytes: usize) -> usize {
        self.intervals.iter().filter(|place| place.payload.end > bytes).count()
    }

    pub fn span(&self, at: usize) -> &Span {
        &self.intervals[at].span
    }

    /// How much time its intervals cover.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// The bytes up to the end of its first interval: names are told with that one.
    pub fn first(&self) -> usize {
        self.intervals.first().map_or(0, |first| first.payload.end)
    }

    pub fn setup(&self) -> Option<&Arc<Setup>> {
        self.setups.last().map(|(_, setup)| setup)
    }

    /// The one that held at an interval. Numbers may begin anew, but in none that is compressed.
    fn setup_at(&self, place: &Place) -> Option<&Arc<Setup>> {
        let told_before = place.setup.and_then(|at| self.setups.get(at)).map(|(_, setup)| setup);
        if !self.is_compact && told_before.is_some() {
            return told_before;
        }
        let before = self.setups.iter().filter(|(from, _)| *from <= place.span.sequence);
        let first = || self.setups.iter().min_by_key(|(from, _)| *from);
        before.max_by_key(|(from, _)| *from).or_else(first).map(|(_, setup)| setup)
    }

    /// `other`: a segment of the same recording, for what of this one is damaged. None: it does not hold
    /// together, or neither has it.
    pub fn interval(&self, at: usize, other: Option<&Segment>) -> Option<Interval> {
        let place = &self.intervals[at];
        let Place { span, payload, .. } = place;
        let setup = self.setup_at(place).or_else(|| other?.setup())?.clone();
        let words = self.words.as_ref().or_else(|| other?.words.as_ref())?;
        pack::unpack(&self.bytes[payload.clone()], *span, setup, words, self.names()).ok()
    }

    /// It can be read without any other.
    pub fn is_whole(&self) -> bool {
        self.words.is_some() && !self.setups.is_empty()
    }
}

/// Plain segments that follow each other in one file.
pub(super) fn split(bytes: &[u8]) -> impl Iterator<Item = Segment> {
    let frames = frame::scan(bytes).0;
    let begins = frames.iter().filter(|frame| frame.kind == Some(Kind::Preamble));
    let begins: Vec<usize> = begins.map(|frame| frame.payload.start - HEAD_BYTES).collect();
    let ends: Vec<usize> = begins.iter().skip(1).copied().chain([bytes.len()]).collect();
    begins.into_iter().zip(ends).map(|(begin, end)| Segment::read_plain(bytes[begin..end].to_vec()))
}

fn put_batch(out: &mut Vec<u8>, span: &Span, frames: &[u8]) {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(frames).and_then(|()| encoder.finish());
    let compressed = compressed.expect("memory takes what is written to it");
    // What does not fit into a frame stays as it is.
    match compressed.len() > MAX_PAYLOAD {
        true => out.extend_from_slice(frames),
        false => frame::write(out, Kind::Batch, span, &compressed),
    }
}

/// A segment's bytes without compression; what claims to be too much is left out.
fn expanded(bytes: &[u8], frames: Vec<Frame>) -> Vec<u8> {
    let mut expanded = Vec::new();
    for frame in frames {
        let before = expanded.len();
        if frame.kind != Some(Kind::Batch) {
            expanded.extend_from_slice(&bytes[frame.payload.start - HEAD_BYTES..frame.payload.end]);
            continue;
        }
        let room = MAX_BATCH.min(MAX_EXPANDED.saturating_sub(before) as u64);
        let mut decoder = ZlibDecoder::new(&bytes[frame.payload.clone()]).take(room + 1);
        let read = decoder.read_to_end(&mut expanded);
        if read.map_or(true, |length| length as u64 > room) {
            expanded.truncate(before);
        }
    }
    expanded
}

/// What is printed of it as it is here: anybody may have written it.
fn harmless(mut setup: Setup) -> Setup {
    let net = &mut setup.net;
    let reasons = setup.not_chosen.iter_mut().map(|(_, why)| why);
    let others = [&mut setup.note, &mut net.refused, &mut net.writeback_refused].into_iter().flatten();
    let texts = [&mut setup.kernel, &mut setup.host].into_iter().chain(reasons).chain(others);
    texts.chain(&mut net.filesystems).for_each(|text| *text = escape_sentence(text));
    setup
}
