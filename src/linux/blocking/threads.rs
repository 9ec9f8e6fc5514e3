//! Single pieces of work with a deadline. Work that misses it is abandoned: its thread goes on, and counts
//! against the limit until it ends.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::linux::cpu_time::of_this_thread;

thread_local! {
    static CHARGED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Processor time that other threads have used so far for lists of the calling thread's.
pub(super) fn charged() -> Duration {
    CHARGED.get()
}

/// Threads that one call of [`Threads::for_each`] abandons at most; then it gives up the rest of the list.
const MAX_ABANDONED_IN_A_LIST: usize = 8;

/// The threads of one kind of work. A `static`, so that the limit holds for the whole process.
pub struct Threads {
    name: &'static str,
    max: usize,
    alive: AtomicUsize,
}

impl Threads {
    /// At most `max` at the same time, those that hang included.
    pub const fn new(name: &'static str, max: usize) -> Threads {
        Threads { name, max, alive: AtomicUsize::new(0) }
    }

    /// Runs `work` on a thread of its own. False: there are too many, or the kernel has none left; it will
    /// not run.
    pub fn start(&'static self, work: impl FnOnce() + Send + 'static) -> bool {
        let Some(alive) = Alive::count(self) else { return false };
        let run = move || {
            let _alive = alive;
            work();
        };
        thread::Builder::new().name(self.name.into()).spawn(run).is_ok()
    }

    /// The result of `work`, if there is one in time.
    pub fn within<T: Send + 'static>(
        &'static self,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (outbox, inbox) = mpsc::channel();
        // Nobody may be waiting any more.
        let run = move || drop(outbox.send(work()));
        self.start(run).then(|| inbox.recv_timeout(timeout).ok()).flatten()
    }

    /// Calls `work(item, emit)` for each item, one after the other. `emit` hands a result over, and
    /// `emit(None)` says that the work goes on. An item that is silent for longer than `timeout` is skipped
    /// with what it had emitted. Returns the results and the number of items that were skipped or given up.
    /// What it takes is the caller's ([`charged`]), but for items that are skipped.
    pub fn for_each<T, R, W>(&'static self, items: Vec<T>, timeout: Duration, work: W) -> (Vec<R>, usize)
    where
        T: Send + Sync + 'static,
        R: Send + 'static,
        W: Fn(&T, &mut dyn FnMut(Option<R>)) + Send + Sync + 'static,
    {
        let shared = Arc::new((items, work));
        let (mut results, mut skipped, mut next) = (Vec::new(), 0, 0);
        while next < shared.0.len() {
            let (sender, receiver) = mpsc::channel();
            let worker = shared.clone();
            let run = move || {
                let (items, work) = &*worker;
                let mut before = of_this_thread();
                for (index, item) in items.iter().enumerate().skip(next) {
                    let mut is_heard = true;
                    work(item, &mut |result| {
                        is_heard &= sender.send((index, result, Duration::ZERO)).is_ok()
                    });
                    let now = of_this_thread();
                    let used = now.saturating_sub(std::mem::replace(&mut before, now));
                    // The item is done. Nobody listens any more once this thread was abandoned.
                    if !is_heard || sender.send((index + 1, None, used)).is_err() {
                        return;
                    }
                }
            };
            if skipped == MAX_ABANDONED_IN_A_LIST || !self.start(run) {
                return (results, skipped + shared.0.len() - next);
            }
            // Until the list ends, or an item hangs or panics.
            while let Ok((index, result, used)) = receiver.recv_timeout(timeout) {
                next = index;
                results.extend(result);
                CHARGED.set(CHARGED.get() + used);
            }
            if next < shared.0.len() {
                skipped += 1;
                next += 1;
            }
        }
        (results, skipped)
    }
}

/// Counts a thread for as long as it lives.
struct Alive(&'static AtomicUsize);

impl Alive {
    fn count(threads: &'static Threads) -> Option<Alive> {
        let one_more = |alive| (alive < threads.max).then_some(alive + 1);
        threads.alive.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Alive(&threads.alive))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(60);

    /// Work that hangs until the sender is dropped.
    fn hang() -> (mpsc::Sender<()>, impl Fn() + Clone + Send + Sync + 'static) {
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        let work = move || {
            while hang.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Empty) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        (release, work)
    }

    fn ends(threads: &'static Threads) {
        let end = Instant::now() + LONG;
        while threads.alive.load(Ordering::Acquire) > 0 {
            assert!(Instant::now() < end, "a thread does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn work_that_hangs_is_abandoned_at_its_deadline_and_abandoned_threads_are_bounded() {
        static THREADS: Threads = Threads::new("test-within", 3);
        let (release, hang) = hang();
        for _ in 0..3 {
            let hang = hang.clone();
            assert_eq!(THREADS.within(SHORT, hang), None);
        }
        // No fourth one: refused at once, and not after the timeout.
        let began = Instant::now();
        for _ in 0..100 {
            assert_eq!(THREADS.within(LONG, || ()), None);
        }
        assert!(began.elapsed() < LONG);
        assert_eq!(THREADS.alive.load(Ordering::Acquire), 3);
        drop(release);
        ends(&THREADS);
        assert_eq!(THREADS.within(LONG, || 7), Some(7));
    }

    #[test]
    fn work_that_panics_gives_its_place_back() {
        static THREADS: Threads = Threads::new("test-panic", 1);
        for _ in 0..3 {
            ends(&THREADS);
            assert_eq!(THREADS.within(LONG, || panic!("on purpose")), None::<()>);
        }
    }

    #[test]
    fn lists_on_which_everything_hangs_do_not_pile_up_threads() {
        static THREADS: Threads = Threads::new("test-lists", 10);
        let (release, hang) = hang();
        for _ in 0..4 {
            let hang = hang.clone();
            let walked = THREADS.for_each(vec![(); 1000], SHORT / 5, move |(), _| hang());
            assert_eq!(walked, (Vec::<()>::new(), 1000));
            assert!(THREADS.alive.load(Ordering::Acquire) <= 10);
        }
        assert_eq!(THREADS.alive.load(Ordering::Acquire), 10);
        drop(release);
        ends(&THREADS);
    }

    #[test]
    fn an_item_that_blocks_is_skipped_with_what_it_had_emitted() {
        static THREADS: Threads = Threads::new("test-skipped", 4);
        let (_release, hang) = hang();
        let (results, skipped) = THREADS.for_each(vec![1, 2, 3], SHORT, move |&item, emit| {
            emit(Some(item));
            if item == 2 {
                hang();
            }
            emit(Some(item * 10));
        });
        assert_eq!((results, skipped), (vec![1, 10, 2, 3, 30], 1));
    }

    #[test]
    fn an_item_that_panics_is_skipped_and_the_list_goes_on() {
        static THREADS: Threads = Threads::new("test-item-panics", 2);
        let (results, skipped) = THREADS.for_each(vec![1, 2, 3], LONG, |&item, emit| {
            assert!(item != 2, "on purpose");
            emit(Some(item));
        });
        assert_eq!((results, skipped), (vec![1, 3], 1));
    }

    #[test]
    fn slow_work_that_says_so_is_waited_for() {
        static THREADS: Threads = Threads::new("test-slow", 1);
        let (results, skipped) = THREADS.for_each(vec![()], SHORT * 5, |(), emit| {
            for _ in 0..10 {
                thread::sleep(SHORT);
                emit(None);
            }
            emit(Some(7));
        });
        assert_eq!((results, skipped), (vec![7], 0));
    }

    #[test]
    fn an_empty_list_is_done() {
        static THREADS: Threads = Threads::new("test-empty", 1);
        assert_eq!(THREADS.for_each(Vec::<u8>::new(), SHORT, |_, emit| emit(Some(1))), (vec![], 0));
    }
}
