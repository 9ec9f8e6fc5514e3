//! Signals, as something that can be waited for together with keys; and a way out where the main thread
//! cannot.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::pipe;
use signal_hook::{SigId, flag, low_level};

use super::tty;

/// How long the main thread may take to end by itself: it may hang with a filesystem or a terminal.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct Signals {
    wake: UnixStream,
    end: Arc<AtomicUsize>,
    resized: Arc<AtomicBool>,
    suspend: Arc<AtomicBool>,
    resumed: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals = Signals {
            wake,
            end: Arc::default(),
            resized: Arc::default(),
            suspend: Arc::default(),
            resumed: Arc::default(),
            registered: Vec::new(),
        };
        // The flag first: who is woken finds it.
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            let id = flag::register_usize(signal, signals.end.clone(), signal as usize)?;
            signals.registered.push(id);
        }
        for (signal, flag) in
            [(SIGWINCH, &signals.resized), (SIGTSTP, &signals.suspend), (SIGCONT, &signals.resumed)]
        {
            signals.registered.push(flag::register(signal, flag.clone())?);
        }
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT] {
            signals.registered.push(pipe::register(signal, waker.try_clone()?)?);
        }
        signals.watch()?;
        Ok(signals)
    }

    /// Ends the process if the main thread does not.
    fn watch(&self) -> io::Result<()> {
        let (alarm, waker) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            pipe::register(signal, waker.try_clone()?)?;
        }
        let end = self.end.clone();
        let task = move || {
            // The other end is never closed: it belongs to the handlers.
            let _ = rustix::io::read(&alarm, &mut [0; 1]);
            std::thread::sleep(PATIENCE);
            tty::leave();
            low_level::exit(128 + end.load(Ordering::Relaxed) as i32);
        };
        std::thread::Builder::new().name("way-out".into()).spawn(task)?;
        Ok(())
    }

    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// To be called when [`Signals::wake`] can be read.
    pub fn drain(&self) {
        // What there is to know is in the flags.
        while matches!(rustix::io::read(&self.wake, &mut [0; 64]), Ok(1..)) {}
    }

    /// The signal that ends the program.
    pub fn end(&self) -> Option<i32> {
        let signal = self.end.load(Ordering::Relaxed);
        (signal != 0).then_some(signal as i32)
    }

    pub(crate) fn take_resized(&self) -> bool {
        self.resized.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn take_suspend(&self) -> bool {
        self.suspend.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn take_resumed(&self) -> bool {
        self.resumed.swap(false, Ordering::Relaxed)
    }

    /// Stops this process until it is told to go on.
    pub(crate) fn suspend() {
        let _ = low_level::emulate_default_handler(SIGTSTP);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}
