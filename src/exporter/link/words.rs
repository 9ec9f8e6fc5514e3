//! The questions, what comes with them, and how both sides put bytes into frames.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exporter::source::Form;
use crate::exporter::verdict::Told;
use crate::exporter::web::Figures;
use crate::recording::writer::Written;

/// A question that is longer is none: the longest has the web process's counters.
const LONGEST_QUESTION: u32 = 4 << 10;
/// Answers are cut into pieces of this size at most.
pub(super) const PIECE: usize = 64 << 10;

/// All that can be asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// `/metrics` in one of its forms, with what the web process has counted itself.
    Metrics(Form, Figures),
    /// `/status`, as JSON.
    Status,
    /// The last minutes, as a line of JSON.
    History,
    /// The files of the web configuration if they are no longer of this generation, or whatever they are.
    Configuration(Option<u64>),
    /// Asked each second: that both live.
    Life(Report),
    /// An operator, by number, knows of the failures of the server of this name.
    Acknowledge(String, u32),
    /// What the recorder is to do.
    Assignment,
    /// The next intervals, with what has become of those before.
    Intervals(Recorded),
}

/// Which process asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    Web,
    Recorder,
}

impl Question {
    /// The process whose question it is: another one that asks it has been taken over.
    pub(super) fn asker(&self) -> Asker {
        match self {
            Question::Assignment | Question::Intervals(_) => Asker::Recorder,
            Question::Metrics(..)
            | Question::Status
            | Question::History
            | Question::Configuration(_)
            | Question::Life(_)
            | Question::Acknowledge(..) => Asker::Web,
        }
    }
}

/// What the process that records is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The bytes of its path.
    pub folder: Vec<u8>,
    /// Of the recording, in bytes.
    pub limit: u64,
    /// Who it is to be, if it was started as root.
    pub user: (u32, u32),
}

/// What the process that records says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// How it is confined. Empty: it has not opened its folder yet, and takes no intervals.
    pub confined: String,
    /// It cannot open its folder, and ends.
    pub gave_up: bool,
    /// The number of the last [`Next`] that it has dealt with.
    pub taken: u64,
    pub written: Written,
    /// The end of the last interval that was written, in nanoseconds since 1970.
    pub last_ns: Option<u64>,
    /// Why the last one could not be.
    pub error: Option<String>,
    /// Of its folder's filesystem.
    pub device: Option<u32>,
}

/// What it is given to write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// They are handed over again until it says that it has taken them.
    pub number: u64,
    /// A segment of them.
    pub intervals: Vec<u8>,
    /// Nothing follows.
    pub ends: bool,
}

/// What the web process says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How it is confined, for the log and `/status`.
    pub confined: String,
    /// The last [`Life::reload`] that it has acted on.
    pub reloaded: u64,
}

/// What the prober says of itself. An error is a sentence that may be shown to anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    pub ready: Result<(), String>,
    pub healthy: Result<(), String>,
    /// Grows with each request to read the web configuration anew.
    pub reload: u64,
    /// The exporter ends in order.
    pub ending: bool,
    /// The newest; None: nothing has been traced yet.
    pub verdicts: Option<Arc<Told>>,
}

/// What a frame of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Piece = 0,
    /// The answer is complete.
    End = 1,
    /// There is no answer, or no more of it; the bytes say why.
    Failed = 2,
}

pub(super) struct Header {
    pub number: u32,
    pub kind: Kind,
    pub length: usize,
}

pub(super) fn write_question(out: &mut impl Write, number: u32, question: &Question) -> io::Result<()> {
    let bytes = postcard::to_stdvec(question).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(8 + bytes.len());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(&bytes);
    out.write_all(&frame)
}

/// None: nobody asks any more.
pub(super) fn read_question(from: &mut impl Read) -> io::Result<Option<(u32, Question)>> {
    let mut header = [0; 8];
    match from.read_exact(&mut header) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let (number, length) = (word(&header), word(&header[4..]));
    if length > LONGEST_QUESTION {
        return Err(io::Error::new(ErrorKind::InvalidData, "a question of this length is none"));
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    let question =
        postcard::from_bytes(&bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    Ok(Some((number, question)))
}

pub(super) fn write_frame(out: &mut impl Write, number: u32, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    // In one piece: a process that is stopped between two leaves the other one within a frame.
    let mut frame = Vec::with_capacity(9 + bytes.len());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.push(kind as u8);
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(bytes);
    out.write_all(&frame)
}

pub(super) fn read_header(from: &mut impl Read) -> io::Result<Header> {
    let mut header = [0; 9];
    from.read_exact(&mut header)?;
    let kind = match header[4] {
        0 => Kind::Piece,
        1 => Kind::End,
        2 => Kind::Failed,
        _ => return Err(io::Error::new(ErrorKind::InvalidData, "a frame of no known kind")),
    };
    let length = word(&header[5..]) as usize;
    if length > PIECE {
        return Err(io::Error::new(ErrorKind::InvalidData, "a frame of this length is none"));
    }
    Ok(Header { number: word(&header), kind, length })
}

/// A value as the bytes of an answer, and back.
pub(super) fn pack(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

pub(super) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

fn word(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[..4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_question_arrives_as_it_was_asked() {
        let report = Report { confined: "seccomp".into(), reloaded: 3 };
        let mut bytes = Vec::new();
        write_question(&mut bytes, 7, &Question::Life(report.clone())).unwrap();
        let (number, question) = read_question(&mut &bytes[..]).unwrap().unwrap();
        assert!(matches!(question, Question::Life(found) if found == report && number == 7));
        assert!(read_question(&mut &bytes[..0]).unwrap().is_none());
    }

    #[test]
    fn what_announces_too_much_is_refused_before_there_is_memory_for_it() {
        let mut question = [0xff; 8];
        assert_eq!(read_question(&mut &question[..]).err().unwrap().kind(), ErrorKind::InvalidData);
        question[4..].copy_from_slice(&LONGEST_QUESTION.to_le_bytes());
        assert_eq!(read_question(&mut &question[..]).err().unwrap().kind(), ErrorKind::UnexpectedEof);
        let mut frame = [0; 9];
        frame[5..].copy_from_slice(&(PIECE as u32 + 1).to_le_bytes());
        assert!(read_header(&mut &frame[..]).is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_question(&mut &bytes[..]);
            let _ = read_header(&mut &bytes[..]);
            let _ = unpack::<Life>(&bytes);
        }
    }
}
