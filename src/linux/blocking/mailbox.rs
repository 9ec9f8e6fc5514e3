//! A thread with a state of its own that answers questions one after the other: only the newest of those that
//! came while it was busy, so nothing piles up while it hangs. It ends when its mailbox is dropped.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::linux::lock;

pub(crate) struct Mailbox<Q>(Arc<Shared<Q>>);

struct Shared<Q> {
    slot: Mutex<Slot<Q>>,
    changed: Condvar,
}

struct Slot<Q> {
    question: Option<Q>,
    is_closed: bool,
}

impl<Q: Send + 'static> Mailbox<Q> {
    /// `answer` may block.
    pub fn start(name: &str, mut answer: impl FnMut(Q) + Send + 'static) -> io::Result<Mailbox<Q>> {
        let slot = Mutex::new(Slot { question: None, is_closed: false });
        let shared = Arc::new(Shared { slot, changed: Condvar::new() });
        let theirs = shared.clone();
        let run = move || {
            while let Some(question) = theirs.next() {
                answer(question);
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Mailbox(shared))
    }

    /// Takes the place of a question that was not begun yet.
    pub fn ask(&self, question: Q) {
        self.0.lock().question = Some(question);
        self.0.changed.notify_one();
    }
}

impl<Q> Drop for Mailbox<Q> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl<Q> Shared<Q> {
    fn lock(&self) -> MutexGuard<'_, Slot<Q>> {
        lock(&self.slot)
    }

    fn next(&self) -> Option<Q> {
        let is_idle = |slot: &mut Slot<Q>| slot.question.is_none() && !slot.is_closed;
        let slot = self.changed.wait_while(self.lock(), is_idle);
        let mut slot = slot.unwrap_or_else(PoisonError::into_inner);
        if slot.is_closed { None } else { slot.question.take() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn of_the_questions_that_came_meanwhile_only_the_newest_is_answered() {
        let (release, hang) = channel::<()>();
        let (outbox, answers) = channel();
        let mailbox = Mailbox::start("test-mailbox", move |question: u32| {
            outbox.send(question).unwrap();
            if question == 0 {
                assert!(hang.recv().is_err());
            }
        });
        let mailbox = mailbox.unwrap();
        mailbox.ask(0);
        assert_eq!(answers.recv_timeout(LONG), Ok(0));
        (1..1000).for_each(|question| mailbox.ask(question));
        drop(release);
        assert_eq!(answers.recv_timeout(LONG), Ok(999));
        drop(mailbox);
        // The thread has ended, and with it the sender.
        assert_eq!(answers.recv_timeout(LONG), Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
}
