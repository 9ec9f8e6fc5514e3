//! The signals that ask an action to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::exit::SIGNALLED;

/// Set by the first of them that arrives.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    pub requested: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl End {
    /// From now on the signals do not end the process by themselves.
    pub fn watch() -> anyhow::Result<End> {
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
