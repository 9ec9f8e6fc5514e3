//! The signals that ask an action to end.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

use super::exit::SIGNALLED;

/// Set by the first of them that arrives.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    pub requested: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

/// How long an action has after such a signal. It may be writing to a pipe that nobody reads, or reading from
/// a filesystem that hangs.
const GRACE: Duration = Duration::from_secs(10);

/// From now on the process ends for certain within `grace` of one of these signals.
pub(super) fn end_within(grace: Duration) -> anyhow::Result<()> {
    let (mut heard, signalled) = UnixStream::pair().context("cannot handle signals")?;
    for number in [SIGINT, SIGTERM, SIGHUP] {
        let number_of = signalled.try_clone().context("cannot handle signals")?;
        pipe::register(number, number_of).context("cannot handle signals")?;
    }
    let wait = move || {
        if heard.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(grace);
            // Without flushing anything: that may be what hangs.
            signal_hook::low_level::exit((SIGNALLED as i32) + SIGTERM);
        }
    };
    std::thread::Builder::new().name("end".into()).spawn(wait).context("cannot handle signals")?;
    Ok(())
}

/// From now on a second one of these signals ends the process, whatever it waits for. For a process in which
/// no thread may have more rights than the one that starts it has by then.
pub(super) fn end_at_the_second() -> anyhow::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for number in [SIGINT, SIGTERM] {
        // In this order: the first one finds that none has come.
        flag::register_conditional_default(number, asked.clone())
            .and_then(|_| flag::register(number, asked.clone()))
            .context("cannot handle signals")?;
    }
    Ok(())
}

impl End {
    /// From now on the signals do not end the process by themselves, but ask it to end.
    pub fn watch() -> anyhow::Result<End> {
        end_within(GRACE)?;
        End::watch_without_limit()
    }

    /// The same, however long that takes.
    pub fn watch_without_limit() -> anyhow::Result<End> {
        let end = End::default();
        for number in [SIGINT, SIGTERM, SIGHUP] {
            // In this order, so that the signal is known once the end is requested.
            flag::register_usize(number, end.signal.clone(), number as usize)
                .and_then(|_| flag::register(number, end.requested.clone()))
                .context("cannot handle signals")?;
        }
        Ok(end)
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// As a shell shows it.
    pub fn status(&self) -> u8 {
        SIGNALLED + self.signal.load(Ordering::Relaxed) as u8
    }
}
