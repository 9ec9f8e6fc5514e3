//! Reports readiness, status and liveness to systemd (sd_notify(3)). Without systemd nothing happens.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use sd_notify::NotifyState;

use super::log;

/// Connected from the start: later the process opens no socket.
static SOCKET: OnceLock<UnixDatagram> = OnceLock::new();

/// Connects to systemd's socket, if there is one. To be called before rights are given up.
pub(crate) fn connect() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    match connected(&path) {
        Ok(socket) => drop(SOCKET.set(socket)),
        Err(error) => log::warning(format_args!("cannot tell systemd ($NOTIFY_SOCKET): {error}")),
    }
}

fn connected(path: &OsString) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match path.as_bytes().split_first() {
        // A name that is no file's.
        Some((b'@', name)) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(path)?,
    }
    Ok(socket)
}

fn tell(states: &[NotifyState]) {
    let Some(socket) = SOCKET.get() else { return };
    let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
    if let Err(error) = socket.send(lines.as_bytes()) {
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
