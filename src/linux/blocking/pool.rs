//! A few threads for jobs that keep coming. What waits for them is bounded, and whoever has a job never
//! waits; a thread that hangs is abandoned at the job's deadline, and another takes its place.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::limits::Limits;
use super::queue::Queue;
use super::threads::charged;
use crate::linux::cpu_time::of_this_thread;
use crate::linux::lock;

/// While jobs wait that may not begin yet, the queue is looked at as often as this.
const RETRY: Duration = Duration::from_millis(200);

/// Jobs `J` of owners `K`, and what comes of them.
pub(crate) struct Pool<K, J, R> {
    shared: Arc<Shared<K, J, R>>,
    results: Receiver<R>,
    outbox: Sender<R>,
}

type Work<J, R> = dyn Fn(&J) -> Option<R> + Send + Sync;

struct Shared<K, J, R> {
    name: &'static str,
    limits: Limits,
    work: Box<Work<J, R>>,
    state: Mutex<State<K, J>>,
    changed: Condvar,
}

struct State<K, J> {
    queue: Queue<K, J>,
    /// By the number of the thread: what it works on.
    running: HashMap<u64, Run<K>>,
    /// Threads that were not abandoned.
    threads: usize,
    started: u64,
    is_closed: bool,
}

struct Run<K> {
    owner: K,
    since: Instant,
    is_abandoned: bool,
}

impl<K, J, R> Pool<K, J, R>
where
    K: Copy + Eq + Hash + Send + 'static,
    J: Send + 'static,
    R: Send + 'static,
{
    /// `work` may block. Threads are started when there are jobs for them; they end with the pool, but for
    /// those that hang. A job is dropped after its thread is free again: whoever sees that finds room for the
    /// next.
    pub fn new(
        name: &'static str,
        limits: Limits,
        work: impl Fn(&J) -> Option<R> + Send + Sync + 'static,
    ) -> Pool<K, J, R> {
        let (outbox, results) = channel();
        let queue = Queue::new(&limits);
        let state =
            Mutex::new(State { queue, running: HashMap::new(), threads: 0, started: 0, is_closed: false });
        let work = Box::new(work);
        Pool {
            shared: Arc::new(Shared { name, limits, work, state, changed: Condvar::new() }),
            results,
            outbox,
        }
    }

    /// False: too many wait, of all or of this owner; the job will not run.
    pub fn submit(&self, owner: K, job: J) -> bool {
        let mut state = self.shared.lock();
        let is_accepted = state.queue.push(owner, job);
        self.tend(&mut state);
        drop(state);
        if is_accepted {
            self.shared.changed.notify_one();
        }
        is_accepted
    }

    /// Removes the jobs that wait and are not `wanted` any more; how many.
    pub fn retain(&self, wanted: impl Fn(&J) -> bool) -> usize {
        self.shared.lock().queue.retain(wanted)
    }

    /// The result of a job, if there is one. To be called now and then: this also replaces threads that hang.
    pub(crate) fn poll(&self) -> Option<R> {
        self.tend(&mut self.shared.lock());
        self.results.try_recv().ok()
    }

    /// The same, waiting for one until `timeout` is over.
    pub fn wait(&self, timeout: Duration) -> Option<R> {
        let end = Instant::now() + timeout;
        loop {
            self.tend(&mut self.shared.lock());
            let left = end.saturating_duration_since(Instant::now());
            match self.results.recv_timeout(left.min(self.shared.limits.job_timeout / 8)) {
                Ok(result) => return Some(result),
                Err(_) if left.is_zero() => return None,
                Err(_) => {}
            }
        }
    }

    /// Jobs that wait or are at work. Those that were abandoned are not among them; the results of the others
    /// have been sent.
    pub fn pending(&self) -> usize {
        let state = self.shared.lock();
        state.queue.len() + state.at_work()
    }

    /// The same of one owner.
    pub(crate) fn pending_of(&self, owner: &K) -> usize {
        self.shared.lock().queue.pending_of(owner)
    }

    /// Processor time that jobs have used.
    pub fn spent(&self) -> Duration {
        self.shared.lock().queue.spent()
    }

    /// Gives up threads that hang, and starts as many as there are jobs for.
    fn tend(&self, state: &mut State<K, J>) {
        let limits = &self.shared.limits;
        let mut room = limits.all.with_abandoned.saturating_sub(limits.all.threads + state.abandoned());
        for run in state.running.values_mut().filter(|run| !run.is_abandoned) {
            if room > 0 && run.since.elapsed() >= limits.job_timeout {
                room -= 1;
                run.is_abandoned = true;
                state.threads -= 1;
                state.queue.abandon(run.owner);
            }
        }
        let wanted = (state.at_work() + state.queue.len()).min(limits.all.threads);
        while state.threads < wanted {
            let (shared, outbox, number) = (self.shared.clone(), self.outbox.clone(), state.started);
            let thread = std::thread::Builder::new().name(shared.name.into());
            if thread.spawn(move || shared.run(number, &outbox)).is_err() {
                return;
            }
            state.started += 1;
            state.threads += 1;
        }
    }
}

impl<K, J, R> Drop for Pool<K, J, R> {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl<K, J> State<K, J> {
    fn at_work(&self) -> usize {
        self.running.len() - self.abandoned()
    }

    fn abandoned(&self) -> usize {
        self.running.values().filter(|run| run.is_abandoned).count()
    }
}

impl<K, J, R> Shared<K, J, R> {
    fn lock(&self) -> MutexGuard<'_, State<K, J>> {
        lock(&self.state)
    }
}

impl<K: Copy + Eq + Hash, J, R> Shared<K, J, R> {
    fn run(&self, number: u64, outbox: &Sender<R>) {
        while let Some(job) = self.next(number) {
            let before = of_this_thread() + charged();
            // A job that panics costs its result, and nobody a thread.
            let result = catch_unwind(AssertUnwindSafe(|| (self.work)(&job)));
            let used = (of_this_thread() + charged()).saturating_sub(before);
            if let Ok(Some(result)) = result {
                // Sent before it is no longer pending. Nobody may be there to take it.
                let _ = outbox.send(result);
            }
            let was_abandoned = self.finish(number, used);
            drop(job);
            if was_abandoned {
                return;
            }
        }
    }

    /// The next job of this thread; waits for one. None: there are to be no more.
    fn next(&self, number: u64) -> Option<J> {
        let mut state = self.lock();
        while !state.is_closed {
            let now = Instant::now();
            if let Some((owner, job)) = state.queue.pop(now) {
                state.running.insert(number, Run { owner, since: now, is_abandoned: false });
                return Some(job);
            }
            state = match state.queue.len() {
                0 => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                _ => self.changed.wait_timeout(state, RETRY).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        None
    }

    /// Whether the thread was abandoned meanwhile, and is to end: another has taken its place.
    fn finish(&self, number: u64, used: Duration) -> bool {
        let mut state = self.lock();
        let run = state.running.remove(&number);
        let was_abandoned = run.as_ref().is_some_and(|run| run.is_abandoned);
        if let Some(run) = run {
            state.queue.finish(run.owner, used, was_abandoned);
        }
        drop(state);
        // A job of the same owner may be next.
        self.changed.notify_all();
        was_abandoned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::blocking::Share;
    use std::sync::mpsc::TryRecvError;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    /// Jobs below 100 hang until the sender is dropped; 666 panics.
    fn pool(all: Share, of_one_owner: Share, job_timeout: Duration) -> (Pool<u32, u32, u32>, Sender<()>) {
        let (release, hang) = channel::<()>();
        let hang = Mutex::new(hang);
        let work = move |&job: &u32| {
            assert!(job != 666, "on purpose");
            while job < 100 && hang.lock().unwrap().try_recv() == Err(TryRecvError::Empty) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Some(job)
        };
        (Pool::new("test-pool", Limits { all, of_one_owner, job_timeout, allowance: None }, work), release)
    }

    fn results(pool: &Pool<u32, u32, u32>, number: usize) -> Vec<u32> {
        let mut results: Vec<u32> = (0..number).map(|_| pool.wait(LONG).expect("in time")).collect();
        results.sort_unstable();
        results
    }

    fn abandoned(pool: &Pool<u32, u32, u32>) -> usize {
        assert_eq!(pool.poll(), None);
        pool.shared.lock().abandoned()
    }

    #[test]
    fn a_job_that_hangs_is_abandoned_at_its_deadline_and_the_pool_goes_on() {
        let share = Share { threads: 1, with_abandoned: 2, queue: 10 };
        let (pool, release) = pool(share, share, SHORT);
        assert!([1, 100, 101].into_iter().all(|job| pool.submit(0, job)));
        assert_eq!(results(&pool, 2), [100, 101]);
        let end = Instant::now() + LONG;
        while pool.pending() > 0 {
            assert!(Instant::now() < end, "a job that was abandoned is not waited for");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(abandoned(&pool), 1);
        // It hands in what it has, and its thread ends: one is there already.
        drop(release);
        assert_eq!(results(&pool, 1), [1]);
        let end = Instant::now() + LONG;
        while pool.shared.lock().abandoned() > 0 {
            assert!(Instant::now() < end, "it still counts as abandoned");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(pool.shared.lock().threads, 1);
    }

    #[test]
    fn abandoned_threads_are_bounded_and_what_is_too_much_is_refused() {
        let share = Share { threads: 2, with_abandoned: 5, queue: 10 };
        let (pool, release) = pool(share, share, SHORT);
        let accepted = |jobs: u32| (0..jobs).filter(|&job| pool.submit(0, job)).count();
        assert!(accepted(10) == 10);
        let end = Instant::now() + LONG;
        // All threads that there may be hang; what is left waits.
        while pool.shared.lock().running.len() < 5 {
            assert!(Instant::now() < end, "no thread was replaced");
            assert_eq!(pool.wait(SHORT), None);
        }
        (0..5).for_each(|_| assert_eq!(pool.wait(SHORT), None));
        let state = pool.shared.lock();
        assert!(state.running.len() == 5 && state.started == 5 && state.queue.len() == 5);
        drop(state);
        assert_eq!(accepted(10), 5, "the queue is full");
        drop(release);
        assert_eq!(results(&pool, 15).len(), 15);
    }

    #[test]
    fn jobs_of_one_owner_that_hang_keep_nobody_elses_from_being_done() {
        let all = Share { threads: 4, with_abandoned: 16, queue: 1_000 };
        let (pool, release) = pool(all, Share { threads: 2, with_abandoned: 4, queue: 500 }, SHORT);
        assert!((0..50).all(|job| pool.submit(1000, job)));
        let end = Instant::now() + LONG;
        while abandoned(&pool) < 4 {
            assert!(Instant::now() < end, "no thread was given up");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!((100..200).all(|job| pool.submit(27, job)));
        assert_eq!(results(&pool, 100), (100..200).collect::<Vec<_>>());
        let theirs = |run: &&Run<u32>| run.owner == 1000;
        assert_eq!(pool.shared.lock().running.values().filter(theirs).count(), 4);
        drop(release);
        assert_eq!(results(&pool, 50), (0..50).collect::<Vec<_>>());
        assert!(pool.shared.lock().threads <= 4);
    }

    #[test]
    fn what_other_threads_do_for_a_job_is_charged_to_it() {
        static READERS: crate::linux::blocking::Threads =
            crate::linux::blocking::Threads::new("test-charged", 1);
        const WORK: Duration = Duration::from_millis(50);
        let share = Share { threads: 1, with_abandoned: 1, queue: 1 };
        let limits = Limits::for_one_owner(share, LONG);
        let pool: Pool<(), (), usize> = Pool::new("test-charged", limits, |&()| {
            let work = |_: &u32, emit: &mut dyn FnMut(Option<u32>)| {
                let begin = of_this_thread();
                while of_this_thread() < begin + WORK {
                    std::hint::spin_loop();
                }
                emit(None);
            };
            Some(READERS.for_each(vec![1, 2], LONG, work).1)
        });
        assert!(pool.submit((), ()));
        assert_eq!(pool.wait(LONG), Some(0));
        let end = Instant::now() + LONG;
        while pool.pending() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(pool.spent() >= 2 * WORK, "{:?}", pool.spent());
    }

    #[test]
    fn a_job_that_panics_costs_its_result_and_no_thread() {
        let share = Share { threads: 1, with_abandoned: 1, queue: 10 };
        let (pool, _release) = pool(share, share, LONG);
        assert!([666, 666, 100].into_iter().all(|job| pool.submit(0, job)));
        assert_eq!(results(&pool, 1), [100]);
    }

    #[test]
    fn jobs_that_are_not_wanted_any_more_are_not_done() {
        let share = Share { threads: 1, with_abandoned: 1, queue: 10 };
        let (pool, release) = pool(share, share, LONG);
        assert!(pool.submit(0, 1));
        while pool.shared.lock().running.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(pool.submit(0, 100) && pool.submit(0, 101));
        assert_eq!(pool.retain(|&job| job != 100), 1);
        drop(release);
        assert_eq!(results(&pool, 2), [1, 101]);
        assert_eq!(pool.poll(), None);
    }
}
