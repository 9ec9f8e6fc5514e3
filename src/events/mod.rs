//! `fsynctop events`: from one snapshot to the next, what is worth a line: a verdict that changes, an
//! operation that does not return, one that took long, one that failed.

mod journal;
mod limit;
mod line;
mod recorded;
mod sessions;
mod stacks;
mod text;
mod watch;

pub(crate) use journal::Journal;
pub(crate) use limit::{LeftOut, Limit};
pub(crate) use line::Line;
pub(crate) use recorded::{Moment, Recorded};
pub(crate) use sessions::{Asker, Whose};
pub(crate) use stacks::Stacks;
pub(crate) use watch::{Event, Waits, Watch};
