//! How the time of the syncs was spent, on two levels, from the stacks recorded in the kernel.

mod account;
pub mod disks;
mod facts;
pub(crate) mod flame;
mod journal;
mod processors;
pub mod rules;
pub mod symbols;

pub use account::{Account, Part, Who};
pub use facts::{facts, neighbours};
pub use journal::{Journal, JournalWriter, journals};
pub use processors::Processors;

pub use crate::model::{Committer, Phase};
