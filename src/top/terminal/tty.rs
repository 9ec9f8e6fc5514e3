//! The terminal itself: taken over, written to without ever waiting for it, and given back whichever way this
//! ends.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr};

use crate::linux::lock;

/// The alternate screen, no cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// First what ends a sequence that was cut off (CAN). Then the mouse, the colours, the cursor, the screen as
/// it was.
const LEAVE: &[u8] = b"\x18\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[?25h\x1b[?1049l";
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";
/// How long giving it back may take, if it does not take what is written.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);
/// How long a terminal may take to read something of what was drawn last.
const ROOM_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What has to be restored. Known to everybody who may have to end the program: a panic, a signal.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

struct Taken {
    input: OwnedFd,
    output: OwnedFd,
    before: Termios,
}

fn taken() -> MutexGuard<'static, Option<Taken>> {
    lock(&TAKEN)
}

/// A terminal for input and output.
#[derive(Debug)]
pub(crate) struct Tty {
    input: OwnedFd,
    /// A description of its own where that can be had: it does not block, and nobody else's is changed by
    /// that.
    output: OwnedFd,
    /// What the terminal did not take yet.
    pending: Vec<u8>,
    written: usize,
    mouse: bool,
}

impl Tty {
    /// None: there is no terminal to show anything on, or none to type on.
    pub fn open() -> Option<Tty> {
        let stdout = io::stdout();
        if !stdout.is_terminal()
            || std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
        {
            return None;
        }
        let stdin = io::stdin();
        let input = if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned().ok()?
        } else {
            File::open("/dev/tty").ok()?.into()
        };
        let own = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let output = rustix::fs::open("/proc/self/fd/1", own, Mode::empty())
            .map_or_else(|_| stdout.as_fd().try_clone_to_owned(), Ok)
            .ok()?;
        Some(Tty { input, output, pending: Vec::new(), written: 0, mouse: false })
    }

    pub fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    pub fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        match tcgetwinsize(&self.output) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
            _ => (80, 24),
        }
    }

    /// Takes the terminal over.
    pub fn enter(&mut self, mouse: bool) -> io::Result<()> {
        let before = tcgetattr(&self.input)?;
        let mut raw = before.clone();
        raw.make_raw();
        *taken() = Some(Taken { input: self.input.try_clone()?, output: self.output.try_clone()?, before });
        tcsetattr(&self.input, OptionalActions::Now, &raw)?;
        self.pending.clear();
        self.written = 0;
        self.queue(ENTER);
        self.mouse = false;
        self.set_mouse(mouse);
        Ok(())
    }

    pub(crate) fn set_mouse(&mut self, on: bool) {
        if on != self.mouse {
            self.queue(if on { MOUSE_ON } else { MOUSE_OFF });
            self.mouse = on;
        }
    }

    pub fn queue(&mut self, bytes: &[u8]) {
        if self.written == self.pending.len() {
            self.pending.clear();
            self.written = 0;
        }
        self.pending.extend_from_slice(bytes);
    }

    /// True when there is nothing left that was not written.
    pub(crate) fn is_idle(&self) -> bool {
        self.written == self.pending.len()
    }

    /// Writes as much as the terminal takes now.
    pub fn write(&mut self) -> io::Result<()> {
        while !self.is_idle() {
            match rustix::io::write(&self.output, &self.pending[self.written..]) {
                Ok(n) => self.written += n,
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back as it was. Does nothing if that was done already. Never waits for long.
pub fn leave() {
    let Some(Taken { input, output, before }) = taken().take() else { return };
    let mut rest = LEAVE;
    let mut full = false;
    let end = Instant::now() + LEAVE_WITHIN;
    while !rest.is_empty() && Instant::now() < end {
        match has_room(&output) {
            Ok(true) => {}
            // Whoever reads the terminal does not: what it did not read of the last frame makes room.
            Ok(false) if !std::mem::replace(&mut full, true) => {
                let _ = tcflush(&output, QueueSelector::OFlush);
                continue;
            }
            Ok(false) => continue,
            Err(()) => break,
        }
        match rustix::io::write(&output, rest) {
            Ok(n) => rest = &rest[n..],
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    // What was typed, or sent by the mouse, and not read would be typed into the shell.
    let _ = tcflush(&input, QueueSelector::IFlush);
    let _ = tcsetattr(&input, OptionalActions::Now, &before);
}

/// Waits a little. Err: the terminal has gone.
fn has_room(output: &OwnedFd) -> Result<bool, ()> {
    let mut fds = [PollFd::new(output, PollFlags::OUT)];
    match poll(&mut fds, Some(&ROOM_WITHIN)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => Err(()),
        Ok(_) => Ok(true),
        Err(_) => Err(()),
    }
}
