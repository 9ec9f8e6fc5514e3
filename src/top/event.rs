//! What happens to the view, and what the view wants done. Between the two stands the state, which does
//! nothing itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use super::keys::Press;
use crate::live::{self, Published};
use crate::model::{Interval, Op, ServerId, Setup};
use crate::recording::History;
use crate::threads::Wait;
use crate::verdict::OfServer;

#[derive(Clone, Debug)]
pub enum Event {
    Key(Press),
    Mouse(Mouse),
    /// Columns and rows.
    Resize(u16, u16),
    /// A new interval of one tracing session.
    Published(Published),
    /// Another session begins: what is counted begins anew.
    Restarted,
    /// How the sampling goes.
    Sampling(live::State),
    /// What an exporter on this host remembers.
    Earlier(Box<Earlier>),
    /// What is shown is a recording, and this moment of it first; None: its end.
    Recording(Box<History>, Option<SystemTime>),
    /// How it says that the servers stand.
    Standing(Standing),
    /// Where threads are in the kernel that were asked about.
    Waits(Vec<Waiting>),
    /// An answer to what was wanted, for the status line.
    Said(String),
    /// Time goes by.
    Tick(Instant, SystemTime),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mouse {
    pub column: u16,
    pub row: u16,
    pub kind: MouseKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MouseKind {
    Press,
    WheelUp,
    WheelDown,
}

/// How the exporter on this host says that things stand; nothing where there is none.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    pub servers: Vec<OfServer>,
    /// Why it does not record.
    pub not_recording: Option<String>,
}

/// What another program remembers of the last minutes.
#[derive(Clone, Debug)]
pub struct Earlier {
    pub history: History,
    /// Of which servers it is shown here: it may have traced others.
    pub servers: BTreeSet<ServerId>,
}

/// Where a thread is in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub pid: u32,
    pub tid: u32,
    /// Innermost first; empty where it may not be read.
    pub stack: Vec<String>,
    pub wait: Option<Wait>,
    /// As the scheduler has it: D cannot be interrupted.
    pub state: char,
}

/// What is traced only on request, because it costs the server a little more for each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Rows by thread.
    pub by_thread: bool,
    /// Writes that are not durable.
    pub all_writes: bool,
}

impl Extras {
    pub(crate) fn of(setup: &Setup) -> Extras {
        Extras { by_thread: setup.by_thread, all_writes: setup.ops.contains(&Op::Write) }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Quit,
    Suspend,
    /// Everything is to be drawn again, whatever the terminal shows.
    Redraw,
    Interval(Duration),
    Restart(Extras),
    /// Where these threads are in the kernel: (pid, tid).
    Look(Vec<(u32, u32)>),
    Write(Box<Interval>),
    /// Take the mouse, or leave it to the terminal.
    Mouse(bool),
}
