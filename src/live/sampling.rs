//! The sampler's thread: takes in events as they come, snapshots when they are due or asked for.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::State;
use super::shared::{Shared, next_due};
use crate::sampler::Sampler;
use crate::target::finder::Finder;
use crate::target::selection::Selection;

/// How long a wait for events lasts at most.
const SLICE: Duration = Duration::from_millis(100);
/// How long the first snapshot waits for the processes that are selected to be found. Where that takes longer, they
/// are in a later one.
const FIRST_LOOK: Duration = Duration::from_millis(200);

pub struct Sampling {
    sampler: Sampler,
    finder: Finder,
    shared: Arc<Shared>,
    due: Instant,
    interval: Duration,
}

impl Sampling {
    /// Takes the first snapshot.
    pub fn begin(sampler: Sampler, selection: &Selection, shared: Arc<Shared>) -> io::Result<Sampling> {
        let finder = Finder::start(selection);
        let interval = shared.take_orders().interval;
        let mut sampling = Sampling { sampler, finder, shared, due: Instant::now(), interval };
        sampling.meet_servers(FIRST_LOOK);
        sampling.due = Instant::now() + interval;
        sampling.snapshot(true)?;
        Ok(sampling)
    }

    /// Until it is told to end, or fails.
    pub fn run(mut self) {
        let _tell = IfPanicked(self.shared.clone());
        let state = match self.go_on() {
            Ok(state) => state,
            Err(error) => State::Failed { why: format!("reading what was counted: {error}") },
        };
        let shared = self.shared.clone();
        // Detached first: who sees the state may rely on it.
        drop(self);
        shared.set_state(state);
    }

    fn go_on(&mut self) -> io::Result<State> {
        loop {
            let orders = self.shared.take_orders();
            if orders.end {
                let last = self.sampler.finish()?;
                self.shared.publish(last, true);
                return Ok(State::Stopped);
            }
            let now = Instant::now();
            if orders.interval != self.interval {
                self.due = next_due(self.due - self.interval, orders.interval, now);
                self.interval = orders.interval;
            }
            let is_due = now >= self.due;
            if is_due || orders.one_now {
                self.snapshot(is_due)?;
            }
            if is_due {
                self.due = next_due(self.due, self.interval, Instant::now());
            }
            let left = self.due.saturating_duration_since(Instant::now());
            self.sampler.wait_or_wake(left.min(SLICE), Some(self.shared.wake()))?;
            self.meet_servers(Duration::ZERO);
        }
    }

    fn meet_servers(&mut self, patience: Duration) {
        for server in self.finder.take(patience) {
            self.sampler.expect_server(server);
        }
    }

    fn snapshot(&mut self, is_tick: bool) -> io::Result<()> {
        let snapshot = self.sampler.snapshot()?;
        self.shared.publish(snapshot, is_tick);
        Ok(())
    }
}

/// Tells the views if the thread panics: they would wait in vain.
struct IfPanicked(Arc<Shared>);

impl Drop for IfPanicked {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_state(State::Failed { why: "the sampler panicked".into() });
        }
    }
}
