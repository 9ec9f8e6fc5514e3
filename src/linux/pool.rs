//! A few threads for work that may block for ever: reading the memory of a process that hangs, or its file systems.
//! What waits for them is bounded, and who has work for them never waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

type Task = Box<dyn FnOnce() + Send>;

pub struct Pool {
    name: &'static str,
    queue: SyncSender<Task>,
    /// The threads' end of the queue: for those that are started later.
    inbox: Arc<Mutex<Receiver<Task>>>,
    /// Tasks that were accepted and have not ended.
    pending: Arc<AtomicUsize>,
    threads: usize,
    most_threads: usize,
}

impl Pool {
    /// Threads are started when there is work for them. They are not joined: one may hang for ever. The others end
    /// with the pool.
    pub fn new(name: &'static str, most_threads: usize, most_waiting: usize) -> Pool {
        let (queue, inbox) = sync_channel(most_waiting);
        let inbox = Arc::new(Mutex::new(inbox));
        Pool { name, queue, inbox, pending: Arc::default(), threads: 0, most_threads }
    }

    /// False: too much is waiting already, or there is no thread to be had; the task will not run.
    pub fn run(&mut self, task: impl FnOnce() + Send + 'static) -> bool {
        if self.pending.load(Ordering::Acquire) >= self.threads && self.threads < self.most_threads {
            let (inbox, pending) = (self.inbox.clone(), self.pending.clone());
            let thread = std::thread::Builder::new().name(self.name.into());
            self.threads += usize::from(thread.spawn(move || work(&inbox, &pending)).is_ok());
        }
        if self.threads == 0 {
            return false;
        }
        self.pending.fetch_add(1, Ordering::AcqRel);
        let accepted = self.queue.try_send(Box::new(task)).is_ok();
        if !accepted {
            self.pending.fetch_sub(1, Ordering::AcqRel);
        }
        accepted
    }
}

fn work(inbox: &Mutex<Receiver<Task>>, pending: &AtomicUsize) {
    // The lock is held while waiting for a task, never while running one.
    let next = || inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(task) = next() {
        task();
        pending.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_task_that_hangs_takes_one_thread_and_what_is_too_much_is_refused() {
        let mut pool = Pool::new("test", 2, 3);
        let (release, hang) = channel::<()>();
        let (outbox, done) = channel();
        assert!(pool.run(move || assert!(hang.recv().is_err())));
        for number in 0..100 {
            let outbox = outbox.clone();
            assert!(pool.run(move || outbox.send(number).unwrap()));
            assert_eq!(done.recv_timeout(LONG), Ok(number));
        }
        assert_eq!(pool.threads, 2);
        // Now both hang, and three more may wait.
        let (release_second, hang) = channel::<()>();
        let (hangs, begun) = channel();
        assert!(pool.run(move || {
            hangs.send(()).unwrap();
            assert!(hang.recv().is_err());
        }));
        begun.recv_timeout(LONG).unwrap();
        let accepted: Vec<bool> = (0..5)
            .map(|number| {
                let outbox = outbox.clone();
                pool.run(move || outbox.send(number).unwrap())
            })
            .collect();
        assert_eq!(accepted, [true, true, true, false, false]);
        drop((release, release_second));
        let ran: Vec<i32> = (0..3).map(|_| done.recv_timeout(LONG).unwrap()).collect();
        assert_eq!(ran.len(), 3);
        assert_eq!(pool.threads, 2);
    }
}
