//! The last minutes as they are handed over: a line of JSON that says how many segments there are and how
//! long each is, and these as they are in memory.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::frame;
use super::segment::Segment;
use super::{History, Options};
use crate::model::Interval;

/// Of what is asked and answered over the local socket.
pub(crate) const SCHEMA: u32 = 2;

/// Why what was handed over cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("not what was asked for ({0}): is the exporter of the same version?")]
    Json(#[from] serde_json::Error),
    #[error("not what was asked for: it does not say what follows. Is the exporter of the same version?")]
    NoContents,
}

/// The first line: how the ring is kept, and how long each of its segments is.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Contents {
    schema: u32,
    length_ns: u64,
    bytes: usize,
    files: usize,
    short_of_memory: bool,
    /// None also where its path is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded_in: Option<String>,
    segments: Vec<usize>,
}

impl History {
    /// A line of JSON, and the segments.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        let contents = Contents {
            schema: SCHEMA,
            length_ns: frame::ns(self.options.length),
            bytes: self.options.bytes,
            files: self.options.files,
            short_of_memory: self.short_of_memory,
            recorded_in: self.recorded_in.as_ref().and_then(|path| path.to_str()).map(str::to_owned),
            segments: self.segments.iter().map(|segment| segment.bytes().len()).collect(),
        };
        serde_json::to_writer(&mut out, &contents)?;
        out.write_all(b"\n")?;
        self.segments.iter().try_for_each(|segment| out.write_all(segment.bytes()))
    }

    /// Reads back what [`History::write`] wrote, whatever of it is whole.
    pub(crate) fn read(bytes: &[u8]) -> Result<History, ReadError> {
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(ReadError::NoContents)?;
        let contents: Contents = serde_json::from_slice(&bytes[..end])?;
        let mut rest = &bytes[end + 1..];
        let mut history = History::new(Options {
            length: Duration::from_nanos(contents.length_ns),
            bytes: contents.bytes,
            files: contents.files,
        });
        history.short_of_memory = contents.short_of_memory;
        history.recorded_in = contents.recorded_in.map(PathBuf::from);
        for length in contents.segments {
            let (segment, others) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = others;
            history.take(Segment::read_plain(segment.to_vec()));
        }
        Ok(history)
    }

    /// Of a recording.
    pub(super) fn of(options: Options, segments: impl Iterator<Item = Segment>) -> History {
        let mut history = History::new(options);
        segments.for_each(|segment| history.take(segment));
        history
    }

    /// A segment that follows those that there are.
    pub(super) fn take(&mut self, segment: Segment) {
        for server in segment.names().servers() {
            self.servers.insert(server.id, server.clone());
        }
        self.segments.push_back(Arc::new(segment));
    }
}

/// Intervals as a segment, for another process; and how many of them were too large.
pub(crate) fn pack(intervals: &[Interval]) -> (Vec<u8>, u64) {
    let mut segment = Segment::begin(None);
    let too_large = intervals.iter().filter(|interval| !segment.push(interval, &[])).count();
    (segment.bytes().to_vec(), too_large as u64)
}

/// Those of a segment that was handed over, whatever of it is whole.
pub(crate) fn unpack(bytes: Vec<u8>) -> impl Iterator<Item = Interval> {
    let segment = Segment::read_plain(bytes);
    (0..segment.len()).filter_map(move |at| segment.interval(at, None))
}
