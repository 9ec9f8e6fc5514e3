//! The answering side, in the prober: a thread for each lane.

use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::words::{
    Asker, Assignment, Kind, Life, Next, PIECE, Question, Recorded, Report, pack, read_question, write_frame,
};
use crate::exporter::history_socket::HistoryError;
use crate::exporter::source::{Form, NotReady};
use crate::exporter::web::Figures;
use crate::exporter::web::files::Bundle;
use crate::linux::cpu_time::of_this_thread;
use crate::live::clients::for_clients;
use crate::recording::deadline::WithDeadline;

/// How long the web process may take to take an answer; clients of the history have ten seconds. Longer than
/// a busy host keeps a process from running, because a lane that is given up here ends both processes.
const TAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// After an answer, the next question of a lane waits for as long as this one took in processor time, times
/// this: whoever has taken the web process over gets a fifth of a processor by each lane and no more. The web
/// process itself keeps its answers for longer.
const PAUSE: u32 = 4;
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// What the prober knows. Each may be called on several threads at a time, and may block.
pub trait Answers: Send + Sync {
    fn metrics(&self, form: Form, web: Figures) -> Result<Vec<u8>, NotReady>;
    fn status(&self) -> Value;
    /// Writes the last minutes as a line of JSON.
    fn history(&self, out: &mut dyn Write) -> Result<(), HistoryError>;
    fn configuration(&self, known: Option<u64>) -> Option<Bundle>;
    /// Takes the failures of a server back, for this user: how many files they were of. None: there is no
    /// such server.
    fn acknowledge(&self, server: &str, user: u32) -> Option<u64>;
    /// Returns when there is news, or after a second.
    fn life(&self, report: Report) -> Life;
    fn assignment(&self) -> Result<Assignment, NotReady>;
    /// Returns when there are intervals to write, or after a second.
    fn intervals(&self, recorded: Recorded) -> Result<Next, NotReady>;
}

/// Answers until nobody asks any more. An error: what was asked is not understood or not this process's to
/// ask, or nobody takes the answer, and the lane is given up.
pub fn serve(lane: &UnixStream, asker: Asker, answers: &Arc<dyn Answers>) -> io::Result<()> {
    let mut questions = lane;
    while let Some((number, question)) = read_question(&mut questions)? {
        if question.asker() != asker {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a question of the other process"));
        }
        let before = of_this_thread();
        for_clients(|| answer(lane, number, question, &**answers))?;
        std::thread::sleep((of_this_thread().saturating_sub(before) * PAUSE).min(MAX_PAUSE));
    }
    Ok(())
}

fn answer(lane: &UnixStream, number: u32, question: Question, answers: &dyn Answers) -> io::Result<()> {
    // What takes long is made before the web process's time to take it begins.
    let made = match question {
        Question::Metrics(form, web) => answers.metrics(form, web).map_err(|why| why.0),
        Question::Status => Ok(format!("{:#}\n", answers.status()).into_bytes()),
        Question::Configuration(known) => Ok(pack(&answers.configuration(known))?),
        Question::Acknowledge(server, user) => Ok(pack(&answers.acknowledge(&server, user))?),
        Question::Life(report) => Ok(pack(&answers.life(report))?),
        Question::Assignment => answers.assignment().map_err(|why| why.0).and_then(packed),
        Question::Intervals(recorded) => answers.intervals(recorded).map_err(|why| why.0).and_then(packed),
        Question::History => {
            let pieces = Pieces { stream: WithDeadline::new(lane, TAKE_TIMEOUT), number };
            let mut out = BufWriter::with_capacity(PIECE, pieces);
            let outcome = match answers.history(&mut out) {
                Ok(()) => out.flush().map(|()| Ok(Vec::new()))?,
                Err(HistoryError::NotReady(why)) => Err(why.0),
                Err(HistoryError::Io(error)) => return Err(error),
            };
            drop(out.into_parts());
            outcome
        }
    };
    let mut pieces = Pieces { stream: WithDeadline::new(lane, TAKE_TIMEOUT), number };
    match made {
        Ok(bytes) => {
            pieces.write_all(&bytes)?;
            write_frame(&mut pieces.stream, number, Kind::End, &[])
        }
        Err(why) => {
            let bytes = why.as_bytes();
            write_frame(&mut pieces.stream, number, Kind::Failed, &bytes[..bytes.len().min(PIECE)])
        }
    }
}

fn packed(value: impl serde::Serialize) -> Result<Vec<u8>, String> {
    pack(&value).map_err(|error| error.to_string())
}

/// Cuts an answer into frames.
struct Pieces<'a> {
    stream: WithDeadline<'a>,
    number: u32,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        write_frame(&mut self.stream, self.number, Kind::Piece, piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
