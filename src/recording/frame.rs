//! The frames that a recording is made of: a head of fixed length with a checksum of its own, and a payload
//! with another. Whatever has happened to a file, each frame that is whole is found again, and what lies
//! between two of them is known to be missing (docs/recording-format.md). No name can forge one inside of a
//! payload: a head has bytes that are zero, and a name has none.

use std::ops::Range;
use std::time::Duration;

use crate::model::Span;

pub(crate) const MAGIC: [u8; 4] = *b"FSTP";
/// Of the head. What a payload has is told by its kind, and fields are only ever added to it.
pub(crate) const VERSION: u8 = 1;
pub(crate) const HEAD_BYTES: usize = 64;
/// A payload that claims more is none.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

/// Bytes of payloads that are not what their heads say, in one file; behind more of them nothing is looked
/// for.
const MAX_FAILED: usize = 64 << 20;
/// Damages that are told apart, as long as they follow each other.
const MAX_DAMAGES: usize = 1_000;

/// What a payload is. Numbers are never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Who recorded, and the words for the numbers that follow. JSON; each segment begins with it.
    Preamble = 1,
    /// How tracing was set up, until the next. JSON.
    Setup = 2,
    /// Servers, files and neighbours, each with its number in this segment. JSON.
    Names = 3,
    /// The figures of an interval. Protocol buffers.
    Interval = 4,
    /// Other frames, compressed by zlib.
    Batch = 5,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Preamble, Kind::Setup, Kind::Names, Kind::Interval, Kind::Batch];

    fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A frame that was found whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// None: of a later version of this program.
    pub kind: Option<Kind>,
    /// Of an interval. Of what belongs to one, that one's.
    pub span: Span,
    /// Where its payload lies.
    pub payload: Range<usize>,
}

/// Bytes that are no frame, or one whose payload is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub bytes: Range<usize>,
    /// Of the frame that this was, if its head is whole.
    pub span: Option<Span>,
}

/// Appends a frame.
pub(crate) fn write(out: &mut Vec<u8>, kind: Kind, span: &Span, payload: &[u8]) {
    let head = out.len();
    let length = u32::try_from(payload.len()).expect("a payload is shorter than MAX_PAYLOAD");
    out.extend(MAGIC);
    out.extend([VERSION, kind as u8]);
    out.extend((HEAD_BYTES as u16).to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(crc32fast::hash(payload).to_le_bytes());
    let times = [since_epoch(span.start), since_epoch(span.end), ns(span.duration), ns(span.monotonic)];
    out.extend([span.sequence].iter().chain(&times).flat_map(|number| number.to_le_bytes()));
    out.extend(u32::try_from(span.parts).unwrap_or(u32::MAX).to_le_bytes());
    let checksum = crc32fast::hash(&out[head..]);
    out.extend(checksum.to_le_bytes());
    debug_assert_eq!(out.len() - head, HEAD_BYTES);
    out.extend(payload);
}

/// All frames that are whole, in their order, and what is damaged. The last frame is damaged, too, while it
/// is being written.
pub(crate) fn scan(bytes: &[u8]) -> (Vec<Frame>, Vec<Damage>) {
    let (mut frames, mut damages) = (Vec::new(), Vec::<Damage>::new());
    let mut at = 0;
    // Heads that claim more than is there, one after the other, would have the rest read once for each.
    let mut failed = 0;
    while at < bytes.len() {
        // Neither the length of a frame whose payload is damaged nor what looks like a head is relied upon.
        let (span, least) = match frame_at(bytes, at) {
            Found::Whole(frame) => {
                at = frame.payload.end;
                frames.push(frame);
                continue;
            }
            Found::Head(span, length) => {
                failed += length;
                (Some(span), HEAD_BYTES)
            }
            Found::Nothing => (None, 1),
        };
        let rest = &bytes[at + least..];
        let is_hopeless = failed > MAX_FAILED.max(2 * bytes.len());
        let next = next_magic(rest).filter(|_| !is_hopeless);
        let end = at + least + next.unwrap_or(rest.len());
        let is_one_more = damages.len() >= MAX_DAMAGES || is_hopeless;
        match damages.last_mut() {
            Some(before) if before.bytes.end == at && (span.is_none() || is_one_more) => {
                before.bytes.end = end
            }
            _ => damages.push(Damage { bytes: at..end, span }),
        }
        at = end;
    }
    (frames, damages)
}

enum Found {
    Whole(Frame),
    /// Whose payload is not what was written, or not there.
    Head(Span, usize),
    Nothing,
}

fn frame_at(bytes: &[u8], at: usize) -> Found {
    let Some(head) = bytes[at..].first_chunk::<HEAD_BYTES>() else { return Found::Nothing };
    let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let (covered, length) = (&head[..HEAD_BYTES - 4], half(8) as usize);
    let is_head = head[..4] == MAGIC && crc32fast::hash(covered) == half(HEAD_BYTES - 4);
    if !is_head || length > MAX_PAYLOAD {
        return Found::Nothing;
    }
    let span = Span {
        sequence: word(16),
        start: wall_clock(word(24)),
        end: wall_clock(word(32)),
        duration: Duration::from_nanos(word(40)),
        monotonic: Duration::from_nanos(word(48)),
        parts: half(56).into(),
    };
    let payload = at + HEAD_BYTES..at + HEAD_BYTES + length;
    if bytes.get(payload.clone()).is_none_or(|payload| crc32fast::hash(payload) != half(12)) {
        return Found::Head(span, length);
    }
    let kind = Kind::from_number(head[5]).filter(|_| head[4] == VERSION);
    Found::Whole(Frame { kind, span, payload })
}

fn next_magic(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MAGIC.len()).position(|window| window == MAGIC)
}

/// A clock that was never set stands at 1970.
pub(super) fn since_epoch(time: std::time::SystemTime) -> u64 {
    ns(time.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn wall_clock(ns: u64) -> std::time::SystemTime {
    std::time::SystemTime::UNIX_EPOCH + Duration::from_nanos(ns)
}

pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A payload's kind that this version reads.
#[cfg(test)]
pub(super) fn is_known(kind: u8) -> bool {
    Kind::from_number(kind).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(sequence: u64) -> Span {
        let start = wall_clock(1_700_000_000_000_000_000 + sequence * 1_000_000_000);
        let duration = Duration::from_secs(1);
        let end = start + duration;
        Span { start, end, duration, monotonic: Duration::from_secs(77 + sequence), sequence, parts: 1 }
    }

    /// Payloads that hold what looks like a frame, and nothing at all.
    fn payload(number: u64) -> Vec<u8> {
        match number % 3 {
            0 => Vec::new(),
            1 => [&MAGIC[..], b"no frame", &MAGIC].concat(),
            _ => (0..200).map(|byte| (number + byte) as u8).collect(),
        }
    }

    const FRAMES: u64 = 9;

    fn some() -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..FRAMES).for_each(|n| write(&mut bytes, Kind::ALL[n as usize % 5], &span(n), &payload(n)));
        bytes
    }

    fn sequences(frames: &[Frame]) -> Vec<u64> {
        frames.iter().map(|frame| frame.span.sequence).collect()
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let bytes = some();
        let (frames, damages) = scan(&bytes);
        assert_eq!((sequences(&frames), damages), ((0..FRAMES).collect(), Vec::new()));
        for (n, frame) in (0..).zip(frames) {
            assert_eq!((frame.kind, frame.span), (Some(Kind::ALL[n as usize % 5]), span(n)));
            assert_eq!(bytes[frame.payload], payload(n));
        }
        assert_eq!(scan(&[]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_a_later_version_wrote_is_passed_over_by_its_length() {
        for (field, value) in [(4, VERSION + 1), (5, 200)] {
            let mut bytes = some();
            bytes[field] = value;
            let checksum = crc32fast::hash(&bytes[..HEAD_BYTES - 4]);
            bytes[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
            let (frames, damages) = scan(&bytes);
            assert_eq!((sequences(&frames), damages), ((0..FRAMES).collect(), Vec::new()));
            assert_eq!(frames[0].kind, None);
        }
    }

    /// What was cut off is missing, and nothing else; nor is anything else said to be.
    #[test]
    fn of_a_file_cut_off_at_any_byte_every_whole_frame_is_read() {
        let bytes = some();
        let ends: Vec<usize> = scan(&bytes).0.iter().map(|frame| frame.payload.end).collect();
        for length in 0..bytes.len() {
            let (frames, damages) = scan(&bytes[..length]);
            let whole = ends.iter().filter(|&&end| end <= length).count();
            assert_eq!(frames.len(), whole, "{length} bytes");
            let end = whole.checked_sub(1).map_or(0, |last| ends[last]);
            let damaged: usize = damages.iter().map(|damage| damage.bytes.len()).sum();
            assert_eq!(damaged, length - end, "{length} bytes");
        }
    }

    #[test]
    fn a_bit_that_is_flipped_costs_its_own_frame_and_is_told() {
        let bytes = some();
        let (frames, _) = scan(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let hit = frames.iter().position(|frame| bit / 8 < frame.payload.end).unwrap();
            let (left, damages) = scan(&flipped);
            let expected: Vec<u64> = (0..FRAMES).filter(|&n| n != hit as u64).collect();
            assert_eq!(sequences(&left), expected, "bit {bit}");
            let begin = hit.checked_sub(1).map_or(0, |before| frames[before].payload.end);
            let lost = damages.iter().map(|damage| damage.bytes.len()).sum::<usize>();
            assert_eq!(lost, frames[hit].payload.end - begin, "bit {bit}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_stands_between_frames_is_told_and_costs_none(
            garbage in prop::collection::vec(any::<u8>(), 0..300),
            before in 0..FRAMES as usize,
        ) {
            let bytes = some();
            let at = scan(&bytes).0[before].payload.end;
            let with = [&bytes[..at], &garbage, &bytes[at..]].concat();
            let (frames, damages) = scan(&with);
            prop_assert_eq!(sequences(&frames), (0..FRAMES).collect::<Vec<_>>());
            prop_assert_eq!(damages.iter().map(|damage| damage.bytes.len()).sum::<usize>(), garbage.len());
        }

        #[test]
        fn any_bytes_are_scanned_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let (frames, damages) = scan(&bytes);
            let whole: usize = frames.iter().map(|frame| HEAD_BYTES + frame.payload.len()).sum();
            let damaged: usize = damages.iter().map(|damage| damage.bytes.len()).sum();
            prop_assert_eq!(whole + damaged, bytes.len());
        }
    }
}
