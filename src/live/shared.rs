//! What the sampler's thread and the views share: the newest snapshots, and what the views ask for. Each lock
//! is held for the exchange of some words, never while anything is read, made or dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{EventfdFlags, eventfd};

use crate::model::Snapshot;

/// The state of the sampling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// As it was asked for.
    Running,
    /// Less often than asked for, because it took more processor time than it may.
    Degraded { interval: Duration },
    /// Nothing is traced for a while, because even that took too much processor time. It goes on by itself
    /// when there is room again; until then, the last snapshot stays.
    Paused { why: String },
    /// It failed, and is traced no more. The last snapshot stays.
    Failed { why: String },
    /// Ended by [`Live::stop`](super::Live::stop).
    Stopped,
}

impl State {
    /// More snapshots will come, some time.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self, State::Running | State::Degraded { .. } | State::Paused { .. })
    }

    /// Syncs are counted now.
    pub fn is_tracing(&self) -> bool {
        matches!(self, State::Running | State::Degraded { .. })
    }
}

pub struct Shared {
    published: Mutex<Published>,
    changed: Condvar,
    orders: Mutex<Orders>,
    /// Nanoseconds of processor time that a view's judge has used, of its own allowance.
    judging: AtomicU64,
    /// Wakes the sampler's thread out of its wait for events.
    wake: OwnedFd,
}

struct Published {
    latest: Option<Arc<Snapshot>>,
    /// The latest of the regular ones: as long as there is no newer one of any kind, or for as long as it
    /// takes once somebody has waited for one. One of ten thousand files takes megabytes.
    tick: Option<Arc<Snapshot>>,
    ticks_are_wanted: bool,
    state: State,
    /// When calls of this process's own were last seen to be counted.
    tested: SystemTime,
}

/// Requests of the views.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    pub interval: Duration,
    /// The newest snapshot must have been taken no earlier than this.
    pub taken_since: Option<Instant>,
    pub end: bool,
}

/// An interval that can be added to any time.
fn bounded(interval: Duration) -> Duration {
    interval.clamp(Duration::from_millis(1), Duration::from_secs(86_400))
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The views' side.
impl Shared {
    pub fn new(interval: Duration) -> io::Result<Shared> {
        Ok(Shared {
            published: Mutex::new(Published {
                latest: None,
                tick: None,
                ticks_are_wanted: false,
                state: State::Running,
                tested: SystemTime::now(),
            }),
            changed: Condvar::new(),
            orders: Mutex::new(Orders { interval: bounded(interval), taken_since: None, end: false }),
            judging: AtomicU64::new(0),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// There is one from the start on: nobody has the service before its first snapshot.
    pub fn latest(&self) -> Arc<Snapshot> {
        held(&self.published).latest.clone().expect("published before the service was handed out")
    }

    pub fn state(&self) -> State {
        held(&self.published).state.clone()
    }

    pub fn tested(&self) -> SystemTime {
        held(&self.published).tested
    }

    pub(crate) fn wait_for_tick(
        &self,
        timeout: Duration,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Option<Arc<Snapshot>> {
        held(&self.published).ticks_are_wanted = true;
        self.wait(timeout, State::is_alive, wanted, |published| &published.tick)
    }

    pub(crate) fn wait_for_any(
        &self,
        timeout: Duration,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Option<Arc<Snapshot>> {
        // In a pause there are none.
        self.wait(timeout, State::is_tracing, wanted, |published| &published.latest)
    }

    fn wait(
        &self,
        timeout: Duration,
        goes_on: impl Fn(&State) -> bool,
        wanted: impl Fn(&Snapshot) -> bool,
        which: impl Fn(&Published) -> &Option<Arc<Snapshot>>,
    ) -> Option<Arc<Snapshot>> {
        let found = |published: &Published| which(published).clone().filter(|snapshot| wanted(snapshot));
        let unfinished = |published: &mut Published| goes_on(&published.state) && found(published).is_none();
        let (published, _) = self
            .changed
            .wait_timeout_while(held(&self.published), timeout, unfinished)
            .unwrap_or_else(PoisonError::into_inner);
        found(&published)
    }

    /// Requests made while a snapshot is being taken are answered by it where it is new enough.
    pub(crate) fn ask_for_one(&self, taken_since: Instant) {
        self.order(|orders| orders.taken_since = orders.taken_since.max(Some(taken_since)));
    }

    pub(crate) fn ask_to_end(&self) {
        self.order(|orders| orders.end = true);
    }

    pub(crate) fn set_judging(&self, spent: Duration) {
        self.judging.store(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn set_interval(&self, interval: Duration) {
        self.order(|orders| orders.interval = bounded(interval));
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut held(&self.orders));
        // It fails only where the counter is full: then it is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The sampler's side.
impl Shared {
    /// The pending requests; that for a snapshot is consumed.
    pub(crate) fn take_orders(&self) -> Orders {
        let mut count = [0; 8];
        // It fails only where nobody has called.
        let _ = rustix::io::read(&self.wake, &mut count);
        let mut orders = held(&self.orders);
        let taken = *orders;
        orders.taken_since = None;
        taken
    }

    pub(crate) fn judging(&self) -> Duration {
        Duration::from_nanos(self.judging.load(Ordering::Relaxed))
    }

    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The last reader of an earlier snapshot drops it, or this does, after the lock.
    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>, is_tick: bool) {
        let mut published = held(&self.published);
        let latest = published.latest.replace(snapshot.clone());
        let tick = match is_tick {
            true => published.tick.replace(snapshot),
            false if published.ticks_are_wanted => None,
            false => published.tick.take(),
        };
        drop(published);
        self.changed.notify_all();
        drop((latest, tick));
    }

    pub(crate) fn set_tested(&self, time: SystemTime) {
        held(&self.published).tested = time;
    }

    pub(crate) fn set_state(&self, state: State) {
        held(&self.published).state = state;
        self.changed.notify_all();
    }
}

/// When the next regular snapshot is due, after the one that was due at `due`. One that comes too late is not
/// made up for.
pub(crate) fn next_due(due: Instant, interval: Duration, now: Instant) -> Instant {
    let next = due + interval;
    if next > now { next } else { now + interval }
}
