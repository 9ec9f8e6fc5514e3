//! The last minutes as they are handed over: a line of JSON that says how many segments there are and how
//! long each is, and these as they are in memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::frame;
use super::segment::Segment;
use super::{History, Options};

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
    fn take(&mut self, segment: Segment) {
        for server in segment.names().servers() {
            self.servers.insert(server.id, server.clone());
        }
        self.segments.push_back(Arc::new(segment));
    }
}
