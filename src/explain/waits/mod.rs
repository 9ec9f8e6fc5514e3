//! Where the time of the syncs went, on two levels: out of the stacks that the kernel side kept.

mod account;
pub mod disks;
mod facts;
pub mod flame;
mod journal;
mod phase;
pub mod rules;
pub mod symbols;

pub use account::{Account, Part, Who};
pub use facts::facts;
pub use journal::{Journal, JournalWriter, journals};
pub use phase::{Committer, Phase};
