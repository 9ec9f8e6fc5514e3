//! A sampler on a thread of its own, for views that run for long: it publishes immutable snapshots, and no
//! view ever waits for it, or makes it wait, for longer than it takes to exchange a pointer.

pub(crate) mod budget;
pub(crate) mod clients;
mod judging;
mod published;
mod sampling;
mod shared;
mod stream;
mod watch;

use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::linux::lock;
use crate::model::Snapshot;
use crate::sampler::{Retention, Sampler};
use crate::server::who::selection::Selection;

use budget::Limit;
pub(crate) use judging::Judging;
pub use published::Published;
pub(crate) use sampling::Follower;
use shared::Shared;
pub use shared::State;
pub use stream::Stream;
pub(crate) use watch::{Change, CpuWatch};

/// A snapshot that is at most this old is never taken again, however many ask.
const SHARED_FOR: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// From one regular snapshot to the next, a millisecond to a day.
    pub interval: Duration,
    /// Limit of this process's use of a processor. None: unlimited.
    pub max_cpu: Option<Limit>,
    /// How long servers that have ended are told apart; what they did stays in the totals, under
    /// [`ServerId::ENDED`](crate::model::ServerId::ENDED).
    pub retention: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            interval: Duration::from_secs(1),
            max_cpu: Some(Limit::default()),
            retention: Retention { most: 128, length: Some(Duration::from_secs(600)) },
        }
    }
}

/// The service. Shared between threads by reference; dropping it detaches.
pub struct Live {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Live {
    /// Starts the thread, lets it make its sampler there, and waits for the first snapshot. `selection`: who
    /// is looked for; a server that syncs nothing is shown too.
    pub fn start<E>(
        make: impl FnOnce() -> Result<Sampler, E> + Send + 'static,
        selection: Selection,
        options: Options,
    ) -> Result<Live, E>
    where
        E: From<io::Error> + Send + 'static,
    {
        Live::start_with(make, selection, options, Box::new(|_, _| {}))
    }

    /// The same, and `follower` sees all that is published.
    pub fn start_with<E>(
        make: impl FnOnce() -> Result<Sampler, E> + Send + 'static,
        selection: Selection,
        options: Options,
        follower: Follower,
    ) -> Result<Live, E>
    where
        E: From<io::Error> + Send + 'static,
    {
        let shared = Arc::new(Shared::new(options.interval)?);
        let (started, outcome) = channel();
        let theirs = shared.clone();
        let task = move || {
            let begun = make().and_then(|mut sampler| {
                sampler.set_retention(options.retention);
                sampling::Sampling::begin(sampler, &selection, theirs, options.max_cpu, follower)
                    .map_err(E::from)
            });
            match begun {
                Err(error) => {
                    let _ = started.send(Err(error));
                }
                Ok(sampling) => {
                    // Nobody waits any more: then nobody wants to know either.
                    if started.send(Ok(())).is_ok() {
                        sampling.run();
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(task)?;
        match outcome.recv() {
            Ok(Ok(())) => Ok(Live { shared, thread: Mutex::new(Some(thread)) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("the sampler's thread ended before it began").into()),
        }
    }

    /// The newest snapshot, regular or not; the last one, once it has ended.
    pub fn latest(&self) -> Arc<Snapshot> {
        self.shared.latest()
    }

    /// All that is published, from the first snapshot on. There is one, for one follower.
    pub fn stream(&self) -> Stream {
        Stream { shared: self.shared.clone(), slot: self.shared.slot(), heard: 0 }
    }

    /// A snapshot that is at most `max_age` old, taken now if there is none; all who ask at the same time get
    /// the same. While degraded, one as old as the interval will do. None: the time is over, or nothing is
    /// traced.
    pub fn fresh(&self, max_age: Duration, timeout: Duration) -> Option<Arc<Snapshot>> {
        let now = Instant::now();
        let max_age = match self.state() {
            State::Degraded { interval } => max_age.max(interval),
            _ => max_age.max(SHARED_FOR),
        };
        let since = now.checked_sub(max_age).unwrap_or(now);
        let young = |snapshot: &Snapshot| snapshot.taken >= since;
        let latest = self.latest();
        if young(&latest) {
            return self.state().is_tracing().then_some(latest);
        }
        self.shared.ask_for_one(since);
        self.shared.wait_for_any(timeout, young)
    }

    /// From now on, one regular snapshot each `interval`; while degraded, they stay at least as far apart as
    /// they are.
    pub fn set_interval(&self, interval: Duration) {
        self.shared.set_interval(interval);
    }

    /// Processor time that was used so far to judge what is sampled here: it has an allowance of its own, and
    /// does not count for `max_cpu`.
    pub(crate) fn set_judging(&self, spent: Duration) {
        self.shared.set_judging(spent);
    }

    /// When calls of this process's own were last seen to be counted; tried every minute.
    pub fn tested(&self) -> SystemTime {
        self.shared.tested()
    }

    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Ends counting, detaches, and returns the last snapshot; takes up to about a second, in which the last
    /// names are learnt. Called again, it returns the same.
    pub fn stop(&self) -> io::Result<Arc<Snapshot>> {
        self.shared.ask_to_end();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // A thread that panicked has left its state behind.
            let _ = thread.join();
        }
        match self.state() {
            State::Failed { why } => Err(io::Error::other(why)),
            _ => Ok(self.latest()),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("state", &self.state()).finish_non_exhaustive()
    }
}
