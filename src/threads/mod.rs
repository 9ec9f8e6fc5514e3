//! Who is inside a sync or a durable write right now, or hangs in any other write, found through /proc alone:
//! no BPF, no tracefs, on a host where nothing else works. Serves `fsynctop stuck`, and the sampler: when it
//! attaches, for the syncs that hung before tracing began; and now and then, for writes of which the programs
//! keep nothing while they go on.

mod clock;
mod scan;
pub(crate) mod syscalls;
mod thread_files;
mod waits;

pub(crate) use scan::wait_of;
pub use scan::{AgeFrom, Looks, MIN_HANG, Processes, Scan, Standing, StuckSync, Unexamined, scan};
pub use waits::{Wait, waits_for};
