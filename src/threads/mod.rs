//! Who is inside a sync right now, found through /proc alone: no BPF, no tracefs, on a host where nothing
//! else works. Serves `fsynctop stuck`, and the sampler when it attaches, for the syncs that hung before
//! tracing began.

mod clock;
mod scan;
pub(crate) mod syscalls;
mod thread_files;
mod waits;

pub use scan::{AgeFrom, Looks, Processes, Scan, Standing, StuckSync, scan};
pub use waits::{Wait, waits_for};
