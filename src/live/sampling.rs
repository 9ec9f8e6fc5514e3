//! The sampler's thread: takes in events as they come, snapshots when they are due or asked for, and keeps an
//! eye on what all that costs.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::budget::Limit;
use super::published::Published;
use super::shared::{Shared, State, next_due};
use super::watch::{Change, CpuWatch};
use crate::model::Snapshot;
use crate::sampler::Sampler;
use crate::server::who::finder::Finder;
use crate::server::who::selection::Selection;

/// Sees all that is published, in its order, before anybody else does, and whether it is regular. Runs on the
/// sampler's thread: it must be quick, and wait for nothing.
pub(crate) type Follower = Box<dyn FnMut(&mut Published, bool) + Send>;

/// How long a wait for events lasts at most.
const SLICE: Duration = Duration::from_millis(100);
/// How long the first snapshot waits for the processes that are selected to be found. Where that takes
/// longer, they are in a later one.
const FIRST_LOOK: Duration = Duration::from_millis(200);
/// Somebody may switch the kernel's tracing off (kernel.ftrace_enabled=0) while the probes stay attached.
const TEST_EVERY: Duration = Duration::from_secs(60);
/// A kernel that preempts may skip a program now and then: only a test that fails again and again has failed.
const TESTS: usize = 3;

pub(crate) struct Sampling {
    sampler: Sampler,
    finder: Finder,
    shared: Arc<Shared>,
    watch: CpuWatch,
    follower: Follower,
    /// What was published last.
    last: Option<Arc<Snapshot>>,
    tested: Instant,
    /// When the next regular snapshot is to be taken, and when the last was.
    due: Instant,
    last_due: Instant,
    is_paused: bool,
}

impl Sampling {
    /// Takes the first snapshot.
    pub fn begin(
        mut sampler: Sampler,
        selection: &Selection,
        shared: Arc<Shared>,
        max_cpu: Option<Limit>,
        follower: Follower,
    ) -> io::Result<Sampling> {
        let finder = Finder::start(selection);
        sampler.set_selection(selection);
        if let Some(limit) = max_cpu {
            sampler.limit_new_files(limit.share)?;
        }
        let watch = CpuWatch::new(max_cpu, shared.take_orders().interval);
        let now = Instant::now();
        let mut sampling = Sampling {
            sampler,
            finder,
            shared,
            watch,
            follower,
            last: None,
            tested: now,
            due: now,
            last_due: now,
            is_paused: false,
        };
        sampling.meet_servers(FIRST_LOOK);
        sampling.last_due = Instant::now();
        sampling.due = sampling.last_due + sampling.watch.interval();
        sampling.snapshot(true)?;
        Ok(sampling)
    }

    /// Until it is told to end, gives up, or fails.
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
                self.finish()?;
                return Ok(State::Stopped);
            }
            if orders.interval != self.watch.asked() {
                self.watch.ask(orders.interval);
                if !self.is_paused {
                    self.follow_interval(None);
                }
            }
            let apart = self.sampler.spent_apart() + self.finder.spent() + self.shared.judging();
            match self.watch.sample(apart) {
                None => {}
                Some(Change::Every { why, .. }) => self.follow_interval(Some(why)),
                Some(Change::Pause { why }) => self.pause(why)?,
                Some(Change::GoOn { why, .. }) => self.go_on_tracing(why)?,
            }
            let is_due = Instant::now() >= self.due;
            if self.is_paused {
                // Servers that are found meanwhile are met when it goes on.
                self.sampler.wait_or_wake(SLICE, Some(self.shared.wake()))?;
                continue;
            }
            let too_old = |since| self.shared.latest().taken < since;
            if is_due || orders.taken_since.is_some_and(too_old) {
                self.snapshot(is_due)?;
            }
            if is_due {
                self.last_due = self.due;
                self.due = next_due(self.due, self.watch.interval(), Instant::now());
            }
            self.test_if_due();
            let left = self.due.saturating_duration_since(Instant::now());
            self.sampler.wait_or_wake(left.min(SLICE), Some(self.shared.wake()))?;
            self.meet_servers(Duration::ZERO);
        }
    }

    /// What was counted until now is in the last snapshot before the pause.
    fn pause(&mut self, why: String) -> io::Result<()> {
        self.sampler.pause();
        self.finder.pause(true);
        self.sampler.set_note(Some(why.clone()));
        self.snapshot(true)?;
        self.is_paused = true;
        self.shared.set_state(State::Paused { why });
        Ok(())
    }

    fn go_on_tracing(&mut self, why: String) -> io::Result<()> {
        self.is_paused = false;
        self.sampler.go_on();
        self.finder.pause(false);
        self.follow_interval(Some(why));
        self.snapshot(true)?;
        self.last_due = Instant::now();
        self.due = self.last_due + self.watch.interval();
        Ok(())
    }

    /// The next snapshot is due one interval of the new length after the last; everybody is told.
    fn follow_interval(&mut self, why: Option<String>) {
        let (interval, now) = (self.watch.interval(), Instant::now());
        self.due = (self.last_due + interval).max(now);
        if interval > self.watch.asked() {
            if let Some(why) = why {
                self.sampler.set_note(Some(why));
            }
            self.shared.set_state(State::Degraded { interval });
        } else {
            self.sampler.set_note(None);
            self.shared.set_state(State::Running);
        }
    }

    fn test_if_due(&mut self) {
        if self.tested.elapsed() >= TEST_EVERY {
            self.tested = Instant::now();
            if (0..TESTS).any(|_| self.sampler.self_test().is_ok()) {
                self.shared.set_tested(SystemTime::now());
            }
        }
    }

    fn meet_servers(&mut self, patience: Duration) {
        for server in self.finder.take(patience) {
            self.sampler.expect_server(server);
        }
    }

    fn snapshot(&mut self, is_tick: bool) -> io::Result<()> {
        let snapshot = self.sampler.snapshot()?;
        self.publish(snapshot, is_tick);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let last = self.sampler.finish()?;
        self.publish(last, true);
        Ok(())
    }

    fn publish(&mut self, snapshot: Snapshot, is_tick: bool) {
        let snapshot = Arc::new(snapshot);
        let mut published = match self.last.replace(snapshot.clone()) {
            Some(before) => Published::after(before, snapshot),
            None => Published::first(snapshot),
        };
        (self.follower)(&mut published, is_tick);
        self.shared.publish(&published, is_tick);
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
