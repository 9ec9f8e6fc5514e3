//! Threads for work that may block for ever: reading the memory of a process that hangs, or a file system
//! whose disk does. Whoever has such work waits until a deadline at most, and how many threads hang is
//! bounded.
//!
//! - [`Threads`]: a single piece of work, or a list of them, each with a deadline.
//! - [`Pool`]: jobs that keep coming, from several owners, with a bounded queue; threads that hang are
//!   replaced.
//! - [`Mailbox`]: one thread with a state of its own, which answers the newest question only.
//!
//! None of these threads is joined: it may hang for ever. Threads that exist for another reason do not belong
//! here: the sampler, a loop that accepts clients, a thread with capabilities or mounts of its own.

mod limits;
mod mailbox;
mod pool;
mod queue;
mod threads;

pub(crate) use limits::{Limits, Share};
pub(crate) use mailbox::Mailbox;
pub(crate) use pool::Pool;
pub use threads::Threads;
