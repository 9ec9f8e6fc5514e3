//! How the durability of each server stands, in one word, with what it follows from: a pure function of
//! snapshots and [`Thresholds`]. Nothing here waits, reads a clock or looks at the host; what is to be known
//! of open files, of time and of the tracing itself is given as data.

mod because;
mod errors;
mod failures;
mod json;
mod judge;
pub mod remembered;
mod sentence;
mod slow;
mod stalled;
mod state;
#[cfg(test)]
mod tests;
mod thresholds;
mod verdicts;
mod window;

pub use because::Because;
pub use errors::is_failure_of_durability;
pub use json::OfServer;
pub use judge::Judge;
pub(crate) use sentence::error;
pub use state::State;
pub use thresholds::Thresholds;
pub use verdicts::{Tracing, Verdict, Verdicts};
pub(crate) use window::{of_in_flight, of_window};
