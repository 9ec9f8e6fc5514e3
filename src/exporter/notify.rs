//! Reports readiness, status and liveness to systemd (sd_notify(3)). Without systemd nothing happens.

use std::time::Duration;

use sd_notify::NotifyState;

use super::log;

fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        static SELDOM: log::Seldom = log::Seldom::new();
        SELDOM.warn(format_args!("cannot tell systemd ($NOTIFY_SOCKET): {error}"));
    }
}

pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// To be followed by [`ready`].
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// One line for `systemctl status`.
pub fn status(text: &str) {
    tell(&[NotifyState::Status(text)]);
}

pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often systemd wants to hear [`alive`]: in half the time after which it would restart the service.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2).filter(|half| !half.is_zero())
}
