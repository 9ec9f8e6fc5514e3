//! What the prober has for the process that records, and what that one says of itself. Nobody waits for it:
//! what it does not take stays in a queue of bounded memory.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::confine::User;
use super::link::{Assignment, Next, Recorded};
use crate::linux::lock;
use crate::model::{Interval, VerdictRow};
use crate::recording::queue::Queue;
use crate::recording::writer::Written;
use crate::recording::{beside_a_log, pack_intervals};
use crate::text::{escape_sentence, rfc3339};

/// A question for intervals is answered after this, also if there are none.
const BEAT: Duration = Duration::from_secs(1);
/// The recorder has said nothing for this long: it hangs in a write.
const SILENCE: Duration = Duration::from_secs(5);
/// Intervals that are handed over at once.
const MAX_AT_ONCE: usize = 60;

/// Where is recorded, and how much.
#[derive(Clone, Debug)]
pub struct Options {
    pub folder: PathBuf,
    /// Of the recording, in bytes.
    pub limit: u64,
    /// The exporter does not start without it.
    pub is_mandatory: bool,
}

#[derive(Debug)]
pub(crate) struct Recording {
    options: Options,
    user: User,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct Handed {
    segment: Vec<u8>,
    intervals: u64,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    /// What was handed over last, until the recorder says that it has dealt with it.
    handed: Option<Handed>,
    number: u64,
    /// Intervals that were too large to be handed over, or came when nobody took them any more.
    lost: u64,
    ends: bool,
    said: Recorded,
    /// When it asked last, by both clocks.
    heard: Instant,
    heard_wall: SystemTime,
    /// How the process has ended.
    ended: Option<ExitStatus>,
    /// A log of a server lies on its filesystem.
    beside_a_log: Option<String>,
    /// What is told of servers now.
    verdicts: Vec<Told>,
}

/// A server's process, and what is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub pid: u32,
    pub state: &'static str,
    pub since: SystemTime,
    pub sentence: String,
}

impl State {
    fn hear(&mut self) {
        (self.heard, self.heard_wall) = (Instant::now(), SystemTime::now());
    }
}

/// How the recording stands, in figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub written: Written,
    pub last_ns: Option<u64>,
    pub waiting: usize,
    pub is_failing: bool,
}

impl Recording {
    pub fn new(options: Options, user: User) -> Recording {
        let state = State {
            queue: Queue::default(),
            handed: None,
            number: 0,
            lost: 0,
            ends: false,
            said: Recorded::default(),
            heard: Instant::now(),
            heard_wall: SystemTime::now(),
            ended: None,
            beside_a_log: None,
            verdicts: Vec::new(),
        };
        Recording { options, user, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    pub fn is_mandatory(&self) -> bool {
        self.options.is_mandatory
    }

    /// Never waits. `is_tick`: it ends an interval; otherwise it is a part of one.
    pub fn push(&self, interval: &Interval, is_tick: bool) {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            state.lost += u64::from(is_tick);
            return;
        }
        if state.beside_a_log.is_none() {
            state.beside_a_log = state.said.device.and_then(|device| beside_a_log(interval, device));
        }
        match is_tick {
            true => {
                let verdicts = state.verdicts.iter().filter_map(|told| {
                    let server = interval.servers.iter().find(|server| server.id.pid == told.pid)?;
                    Some(VerdictRow {
                        server: server.id,
                        state: told.state.into(),
                        since: told.since,
                        sentence: told.sentence.clone(),
                    })
                });
                let verdicts = verdicts.collect();
                state.queue.push(&Interval { verdicts, ..interval.clone() });
            }
            false => state.queue.push_part(interval),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// From now on, this is told of servers.
    pub fn set_verdicts(&self, verdicts: Vec<Told>) {
        lock(&self.state).verdicts = verdicts;
    }

    /// Nothing follows.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.queue.end();
        state.ends = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Intervals that are not known to be written.
    pub fn waiting(&self) -> u64 {
        let state = lock(&self.state);
        state.queue.len() as u64 + state.handed.as_ref().map_or(0, |handed| handed.intervals)
    }

    /// How long the recorder has said nothing.
    pub fn silent(&self) -> Duration {
        lock(&self.state).heard.elapsed()
    }

    pub fn assignment(&self) -> Assignment {
        lock(&self.state).hear();
        let folder = self.options.folder.as_os_str().as_bytes().to_vec();
        Assignment { folder, limit: self.options.limit, user: (self.user.uid, self.user.gid) }
    }

    /// The next intervals, for the process that says this of itself.
    pub fn next(&self, recorded: Recorded) -> Next {
        let mut state = lock(&self.state);
        let is_ready = !recorded.confined.is_empty();
        if recorded.taken == state.number {
            state.handed = None;
        }
        state.said = recorded;
        state.hear();
        let nothing_to_do = |state: &mut State| {
            let has_some = state.handed.is_some() || !state.queue.is_empty();
            !(state.ends || is_ready && has_some)
        };
        let waited = self.changed.wait_timeout_while(state, BEAT, nothing_to_do);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if is_ready && state.handed.is_none() && !state.queue.is_empty() {
            let intervals: Vec<Interval> =
                std::iter::from_fn(|| state.queue.pop()).take(MAX_AT_ONCE).collect();
            let (segment, lost) = pack_intervals(&intervals);
            state.lost += lost;
            state.number += 1;
            state.handed = Some(Handed { segment, intervals: intervals.len() as u64 - lost });
        }
        // The time in which it writes begins now.
        state.hear();
        let handed = state.handed.as_ref().filter(|_| is_ready);
        let intervals = handed.map(|handed| handed.segment.clone()).unwrap_or_default();
        let ends = state.ends && (!is_ready || state.queue.is_empty());
        Next { number: state.number, intervals, ends }
    }

    pub fn set_ended(&self, status: ExitStatus) {
        let mut state = lock(&self.state);
        state.ended = Some(status);
        state.lost += state.queue.len() as u64 + state.handed.take().map_or(0, |handed| handed.intervals);
        state.queue = Queue::default();
    }

    pub fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Why the recorder could not begin.
    pub fn gave_up(&self) -> Option<String> {
        let is_so = lock(&self.state).said.gave_up;
        self.health().err().filter(|_| is_so)
    }

    /// The recorder has opened its folder, or has said why it cannot.
    pub fn has_begun(&self) -> bool {
        let state = lock(&self.state);
        !state.said.confined.is_empty() || state.said.gave_up || state.ended.is_some()
    }

    /// A warning, if a log of a server lies on its filesystem.
    pub fn beside_a_log(&self) -> Option<String> {
        lock(&self.state).beside_a_log.clone()
    }

    /// How it stands, in words; an error: nothing is recorded now.
    pub fn health(&self) -> Result<String, String> {
        let state = lock(&self.state);
        let folder = escape_sentence(&self.options.folder.to_string_lossy());
        if let Some(error) = &state.said.error {
            return Err(format!("cannot record into {folder}: {}", escape_sentence(error)));
        }
        if let Some(status) = state.ended {
            return Err(format!("the process that records into {folder} has ended ({status})"));
        }
        if state.heard.elapsed() > SILENCE {
            let since = rfc3339(state.heard_wall);
            let what = match state.said.confined.is_empty() {
                true => format!("{folder} has not been opened"),
                false => format!("nothing has been recorded into {folder}"),
            };
            return Err(format!(
                "{what} since {since}: the process that records does not answer; does its disk hang?"
            ));
        }
        match state.said.confined.is_empty() {
            true => Ok(format!("{folder} is being opened")),
            false => Ok(format!("into {folder}: {}", escape_sentence(&state.said.confined))),
        }
    }

    pub fn facts(&self) -> Facts {
        let is_failing = self.health().is_err();
        let state = lock(&self.state);
        let mut written = state.said.written;
        written.intervals = written.intervals.saturating_sub(written.lost);
        written.lost = written.lost.saturating_add(state.lost);
        Facts { written, last_ns: state.said.last_ns, waiting: state.queue.len(), is_failing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::busy;
    use crate::recording::unpack_intervals;

    fn recording() -> Recording {
        let options = Options { folder: "/r".into(), limit: 1, is_mandatory: true };
        Recording::new(options, User::default())
    }

    #[test]
    fn what_was_pushed_is_handed_over_until_it_is_taken_and_the_end_with_the_last_of_it() {
        let recording = recording();
        let one = busy();
        (0..MAX_AT_ONCE + 2).for_each(|_| recording.push(&one, true));
        recording.push(&one, false);
        recording.end();
        let asked = |taken| {
            let next = recording.next(Recorded { confined: "well".into(), taken, ..Recorded::default() });
            let of = unpack_intervals(next.intervals).map(|interval| interval.total().count).sum::<u64>();
            (next.number, of / one.total().count, next.ends)
        };
        // Who is not ready takes nothing.
        assert!(recording.next(Recorded::default()).intervals.is_empty());
        assert_eq!(asked(0), (1, MAX_AT_ONCE as u64, false));
        assert_eq!(asked(0), (1, MAX_AT_ONCE as u64, false), "the answer was not heard");
        assert_eq!(asked(1), (2, 3, true));
        assert_eq!(recording.waiting(), 3);
        assert_eq!((asked(2), recording.waiting()), ((2, 0, true), 0));
    }

    #[test]
    fn it_stands_as_the_recorder_says() {
        let recording = recording();
        assert!(!recording.has_begun());
        assert!(recording.health().unwrap().contains("is being opened"));
        recording.end();
        let said = |error: Option<&str>| {
            recording.next(Recorded {
                confined: "user 7".into(),
                error: error.map(str::to_owned),
                ..Recorded::default()
            });
            recording.health()
        };
        assert_eq!(said(None), Ok("into /r: user 7".into()));
        assert_eq!(said(Some("disk\x1b full")), Err("cannot record into /r: disk\\x1b full".into()));
        assert!(recording.facts().is_failing && recording.has_begun());
    }
}
