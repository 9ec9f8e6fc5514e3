//! Where the time of the syncs went, on two levels: out of the stacks that the kernel side kept.

mod account;
pub mod disks;
mod phase;
pub mod rules;
pub mod symbols;

pub use account::{Account, Part, Who};
pub use phase::{Committer, Phase};
