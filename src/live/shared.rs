//! What the sampler's thread and the views share: the newest snapshots, and what the views ask for. Each lock
//! is held for the exchange of some words, never while anything is read, made or dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{EventfdFlags, eventfd};

use super::published::{Published, Slot};
use crate::linux::lock;
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
    current: Mutex<Current>,
    slot: Arc<Slot>,
    changed: Condvar,
    orders: Mutex<Orders>,
    /// Nanoseconds of processor time that a view's judge has used, of its own allowance.
    judging: AtomicU64,
    /// Wakes the sampler's thread out of its wait for events.
    wake: OwnedFd,
}

struct Current {
    latest: Option<Arc<Snapshot>>,
    /// How many regular ones there were.
    ticks: u64,
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

/// The views' side.
impl Shared {
    pub fn new(interval: Duration) -> io::Result<Shared> {
        Ok(Shared {
            slot: Arc::default(),
            current: Mutex::new(Current {
                latest: None,
                ticks: 0,
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
        lock(&self.current).latest.clone().expect("published before the service was handed out")
    }

    pub fn state(&self) -> State {
        lock(&self.current).state.clone()
    }

    pub fn tested(&self) -> SystemTime {
        lock(&self.current).tested
    }

    pub(super) fn slot(&self) -> Arc<Slot> {
        self.slot.clone()
    }

    /// Until there were more than `heard` regular snapshots; how many there were. None: the time is over, or
    /// there will be no more.
    pub(super) fn wait_for_tick(&self, timeout: Duration, heard: u64) -> Option<u64> {
        self.wait(timeout, State::is_alive, |current| Some(current.ticks).filter(|ticks| *ticks > heard))
    }

    pub(crate) fn wait_for_any(
        &self,
        timeout: Duration,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Option<Arc<Snapshot>> {
        // In a pause there are none.
        self.wait(timeout, State::is_tracing, |current| {
            current.latest.clone().filter(|snapshot| wanted(snapshot))
        })
    }

    fn wait<T>(
        &self,
        timeout: Duration,
        goes_on: impl Fn(&State) -> bool,
        find: impl Fn(&Current) -> Option<T>,
    ) -> Option<T> {
        let unfinished = |current: &mut Current| goes_on(&current.state) && find(current).is_none();
        let (current, _) = self
            .changed
            .wait_timeout_while(lock(&self.current), timeout, unfinished)
            .unwrap_or_else(PoisonError::into_inner);
        find(&current)
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
        change(&mut lock(&self.orders));
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
        let mut orders = lock(&self.orders);
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
    pub(super) fn publish(&self, published: &Published, is_tick: bool) {
        self.slot.put(published);
        let mut current = lock(&self.current);
        let latest = current.latest.replace(published.snapshot.clone());
        current.ticks += u64::from(is_tick);
        drop(current);
        self.changed.notify_all();
        drop(latest);
    }

    pub(crate) fn set_tested(&self, time: SystemTime) {
        lock(&self.current).tested = time;
    }

    pub(crate) fn set_state(&self, state: State) {
        lock(&self.current).state = state;
        self.changed.notify_all();
    }
}

/// When the next regular snapshot is due, after the one that was due at `due`. One that comes too late is not
/// made up for.
pub(crate) fn next_due(due: Instant, interval: Duration, now: Instant) -> Instant {
    let next = due + interval;
    if next > now { next } else { now + interval }
}
