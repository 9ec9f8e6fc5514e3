//! The asking side of a lane, in the web process.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use super::words::{Assignment, Kind, Life, Next, Question, Recorded, read_header, unpack, write_question};
use crate::exporter::web::files::Bundle;
use crate::linux::lock;
use crate::recording::deadline::WithDeadline;

/// An answer that is longer is none: metrics of thousands of servers are less.
const LONGEST_ANSWER: u64 = 64 << 20;
/// How long the prober may take to say that it lives.
const LIFE_TIMEOUT: Duration = Duration::from_secs(5);
/// An operator waits for it.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Files of the web configuration; on a disk that hangs, what was read before has to do.
const FILES_TIMEOUT: Duration = Duration::from_secs(5);

/// Nobody waits for the recorder.
const RECORDER_TIMEOUT: Duration = Duration::from_secs(20);

/// A frame is sent in one piece: the rest of it is there unless the prober was stopped in the middle. Longer
/// than a busy host keeps a process from running, because a lane that is given up here ends both processes.
const REST_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 60_000 });

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The prober says why.
    #[error("{0}")]
    Refused(String),
    #[error("the process that traces has ended")]
    Ended,
    #[error("the process that traces does not answer: {0}")]
    Io(io::Error),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => LinkError::Ended,
            _ => LinkError::Io(error),
        }
    }
}

#[derive(Debug)]
pub struct Lane(Mutex<State>);

#[derive(Debug)]
struct State {
    stream: UnixStream,
    /// The number of the last question. What is left of answers to earlier ones, which came too late, is
    /// skipped.
    last: u32,
    /// The prober has hung up, or the deadline fell within a frame and where the next one begins is not
    /// known.
    is_broken: bool,
}

impl Lane {
    pub fn new(stream: UnixStream) -> Lane {
        Lane(Mutex::new(State { stream, last: 0, is_broken: false }))
    }

    /// The whole answer. The calling thread waits for it, and for questions that others have asked before on
    /// this lane.
    pub fn ask(&self, question: &Question, patience: Duration) -> Result<Vec<u8>, LinkError> {
        let mut answer = Vec::new();
        self.ask_into(question, patience, &mut answer)?;
        Ok(answer)
    }

    /// Hands the pieces on as they come. An error of `out` ends it, and what is left is skipped by the next
    /// question.
    pub fn ask_into(
        &self,
        question: &Question,
        patience: Duration,
        out: &mut dyn Write,
    ) -> Result<(), LinkError> {
        let mut state = lock(&self.0);
        let state = &mut *state;
        if state.is_broken {
            return Err(LinkError::Io(ErrorKind::TimedOut.into()));
        }
        state.last = state.last.wrapping_add(1);
        // Where it fails within a frame, nothing is left that could be understood.
        let mut within_frame = true;
        let outcome = exchange(&state.stream, patience, state.last, question, out, &mut within_frame);
        state.is_broken = matches!(outcome, Err(LinkError::Ended)) || (outcome.is_err() && within_frame);
        outcome
    }

    /// Nothing can be asked on it any more. False while somebody is asking.
    pub fn is_broken(&self) -> bool {
        self.0.try_lock().is_ok_and(|state| state.is_broken)
    }

    pub fn life(&self, question: &Question) -> Result<Life, LinkError> {
        Ok(unpack(&self.ask(question, LIFE_TIMEOUT)?)?)
    }

    pub fn assignment(&self) -> Result<Assignment, LinkError> {
        Ok(unpack(&self.ask(&Question::Assignment, RECORDER_TIMEOUT)?)?)
    }

    pub fn intervals(&self, recorded: Recorded) -> Result<Next, LinkError> {
        Ok(unpack(&self.ask(&Question::Intervals(recorded), RECORDER_TIMEOUT)?)?)
    }

    /// None: there is no such server.
    pub fn acknowledge(&self, question: &Question) -> Result<Option<u64>, LinkError> {
        Ok(unpack(&self.ask(question, ACKNOWLEDGE_TIMEOUT)?)?)
    }

    /// None: the files are as they were.
    pub fn configuration(&self, question: &Question) -> Result<Option<Bundle>, LinkError> {
        Ok(unpack(&self.ask(question, FILES_TIMEOUT)?)?)
    }
}

fn exchange(
    stream: &UnixStream,
    patience: Duration,
    number: u32,
    question: &Question,
    out: &mut dyn Write,
    within_frame: &mut bool,
) -> Result<(), LinkError> {
    let mut waiting = WithDeadline::new(stream, patience);
    write_question(&mut waiting, number, question)?;
    let (mut length, mut failure) = (0, None);
    loop {
        // A byte that is not there yet is no part of a frame.
        *within_frame = false;
        let mut first = [0];
        waiting.read_exact(&mut first)?;
        *within_frame = true;
        let mut rest = WithDeadline::new(stream, REST_TIMEOUT);
        let header = read_header(&mut (&first[..]).chain(&mut rest))?;
        let mut bytes = vec![0; header.length];
        rest.read_exact(&mut bytes)?;
        *within_frame = false;
        if header.number != number {
            continue;
        }
        match header.kind {
            Kind::Piece => {
                length += bytes.len() as u64;
                if length > LONGEST_ANSWER {
                    return Err(LinkError::Io(io::Error::other("the answer is too long")));
                }
                if failure.is_none() {
                    failure = out.write_all(&bytes).err();
                }
            }
            Kind::End => return failure.map_or(Ok(()), |error| Err(LinkError::Io(error))),
            Kind::Failed => return Err(LinkError::Refused(String::from_utf8_lossy(&bytes).into_owned())),
        }
    }
}
