//! A thread that writes a recording, for whoever must not wait for its disk.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::queue::Queue;
use super::writer::{Writer, Written};
use crate::linux::lock;
use crate::model::Interval;

/// How a recording stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    pub written: Written,
    /// Intervals that were not written yet.
    pub waiting: usize,
    /// Why the last interval could not be written.
    pub error: Option<String>,
    /// The last reason why one could not.
    pub last_error: Option<String>,
    /// All has been written that was asked for.
    pub is_over: bool,
}

#[derive(Default)]
struct State {
    waiting: Queue,
    ends: bool,
    status: Status,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub struct Recorder {
    shared: Arc<Shared>,
}

impl Recorder {
    pub fn start(writer: Writer) -> io::Result<Recorder> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        std::thread::Builder::new().name("recorder".into()).spawn(move || theirs.write(writer))?;
        Ok(Recorder { shared })
    }

    /// Never waits.
    pub fn push(&self, interval: &Interval) {
        lock(&self.shared.state).waiting.push(interval);
        self.shared.changed.notify_all();
    }

    pub fn status(&self) -> Status {
        let state = lock(&self.shared.state);
        Status { waiting: state.waiting.len(), ..state.status.clone() }
    }

    /// Nothing follows: what waits is written, and the recording is complete after that.
    pub fn end(&self) {
        lock(&self.shared.state).ends = true;
        self.shared.changed.notify_all();
    }

    /// False: the time was over before that.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let state = lock(&self.shared.state);
        let goes_on = |state: &mut State| !state.status.is_over;
        let waited = self.shared.changed.wait_timeout_while(state, timeout, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.status.is_over
    }
}

impl Shared {
    fn write(&self, mut writer: Writer) {
        loop {
            let state = lock(&self.state);
            let nothing_to_do = |state: &mut State| state.waiting.is_empty() && !state.ends;
            let mut state =
                self.changed.wait_while(state, nothing_to_do).unwrap_or_else(PoisonError::into_inner);
            let next = state.waiting.pop();
            drop(state);
            let outcome = match &next {
                Some(interval) => writer.push(interval),
                None => writer.finish(),
            };
            let mut state = lock(&self.state);
            state.status.written = writer.written();
            let error = outcome.err().map(|error| error.to_string());
            if error.is_some() {
                state.status.last_error.clone_from(&error);
            }
            state.status.error = error;
            state.status.is_over = next.is_none();
            self.changed.notify_all();
            if next.is_none() {
                return;
            }
        }
    }
}
