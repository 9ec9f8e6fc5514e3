//! Where snapshots come from: a sampler on a thread of its own, followed by another that hands on what is
//! new. Nobody waits for the view.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::event::{Event, Extras};
use crate::live::{Live, State};

/// The first interval: figures are wanted soon.
pub(crate) const FIRST: Duration = Duration::from_millis(300);
/// How often it is looked whether sampling goes on, while no snapshot comes.
const LOOK: Duration = Duration::from_millis(500);

/// Why it cannot be attached: what is in the way, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);

/// Attaches, at intervals of this length.
pub type Start = Arc<dyn Fn(Extras, Duration) -> Result<Live, StartError> + Send + Sync>;

/// What threads tell the view. Wakes it.
#[derive(Clone)]
pub(crate) struct Mail {
    to: Sender<Letter>,
    wake: Arc<OwnedFd>,
}

pub(crate) struct Letter {
    /// Of the tracing session that it is about; 0: of none.
    session: u64,
    pub event: Event,
}

impl Mail {
    pub fn new() -> io::Result<(Mail, Receiver<Letter>)> {
        let (to, from) = channel();
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok((Mail { to, wake }, from))
    }

    pub fn send(&self, event: Event) {
        self.send_of(0, event);
    }

    fn send_of(&self, session: u64, event: Event) {
        // A view that has gone wants no mail.
        let _ = self.to.send(Letter { session, event });
        self.wake_up();
    }

    fn wake_up(&self) {
        // A counter that is full wakes it already.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }

    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub fn drain(&self) {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
    }
}

/// The tracing session that is shown, and those that take its place.
pub struct Source {
    start: Start,
    mail: Mail,
    /// None: the first is being attached.
    live: Option<Arc<Live>>,
    /// Its number: what the last ones still say is passed over.
    session: Arc<AtomicU64>,
    interval: Arc<AtomicU64>,
    attaching: bool,
}

impl Source {
    /// Begins with no session; see [`Source::attach`].
    pub fn new(start: Start, interval: Duration, mail: Mail) -> Source {
        Source {
            start,
            mail,
            live: None,
            session: Arc::new(AtomicU64::new(0)),
            interval: Arc::new(AtomicU64::new(nanoseconds(interval))),
            attaching: false,
        }
    }

    fn follow(&self, live: Arc<Live>) {
        let (mail, session) = (self.mail.clone(), self.session.clone());
        let interval = self.interval.clone();
        let number = session.load(Ordering::Acquire);
        let task = move || {
            let mut stream = live.stream();
            let mut state = State::Running;
            let mut received = 0;
            while session.load(Ordering::Acquire) == number {
                let published = stream.next(LOOK);
                let now = live.state();
                if now != state {
                    state = now.clone();
                    mail.send_of(number, Event::Sampling(now));
                }
                if let Some(published) = published {
                    received += 1;
                    if received == 2 {
                        live.set_interval(Duration::from_nanos(interval.load(Ordering::Relaxed)));
                    }
                    mail.send_of(number, Event::Published(published));
                } else if !state.is_alive() {
                    return;
                }
            }
        };
        if std::thread::Builder::new().name("follow".into()).spawn(task).is_err() {
            self.mail.send(Event::Said("cannot start a thread: no figures will come".into()));
        }
    }

    pub fn set_interval(&self, interval: Duration) {
        self.interval.store(nanoseconds(interval), Ordering::Relaxed);
        if let Some(live) = &self.live {
            live.set_interval(interval);
        }
    }

    /// Attaches on a thread of its own. What comes of it is sent to `outcome`, and for [`Source::take`].
    pub fn attach(&mut self, extras: Extras, outcome: Sender<Result<Live, StartError>>) -> io::Result<()> {
        if self.attaching {
            return Ok(());
        }
        let (start, mail) = (self.start.clone(), self.mail.clone());
        let interval = Duration::from_nanos(self.interval.load(Ordering::Relaxed));
        let task = move || {
            if outcome.send(start(extras, FIRST.min(interval))).is_ok() {
                mail.wake_up();
            }
        };
        std::thread::Builder::new().name("attach".into()).spawn(task)?;
        self.attaching = true;
        Ok(())
    }

    /// What came of attaching. A session takes the place of the one before, which ends by and by. An error is
    /// returned where there is none to go on with.
    pub fn take(&mut self, outcome: Result<Live, StartError>) -> Result<Event, StartError> {
        self.attaching = false;
        let live = match outcome {
            Ok(live) => Arc::new(live),
            Err(error) if self.live.is_none() => return Err(error),
            Err(error) => {
                let text = format!("cannot attach again: {error}").replace('\n', "; ");
                return Ok(Event::Said(crate::text::escape_sentence(&text)));
            }
        };
        self.session.fetch_add(1, Ordering::AcqRel);
        let before = self.live.replace(live.clone());
        self.follow(live);
        // Detaching takes its time.
        let _ = std::thread::Builder::new().name("detach".into()).spawn(move || drop(before));
        Ok(Event::Restarted)
    }

    /// What a letter says, unless it is about a session that is no longer shown.
    pub fn read(&self, letter: Letter) -> Option<Event> {
        let is_current = letter.session == 0 || letter.session == self.session.load(Ordering::Acquire);
        is_current.then_some(letter.event)
    }

    /// Leaves the session to the end of the process, which detaches it: nobody has to wait for that.
    pub(crate) fn abandon(self) {
        std::mem::forget(self.live);
    }
}

fn nanoseconds(interval: Duration) -> u64 {
    u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)
}
