//! What the exporter's processes say to each other. The web process and the recorder ask, the prober answers;
//! each pair of sockets (a lane) carries one question at a time.
//!
//! A question is a frame: its length in four bytes, then a [`Question`] as postcard writes it. An answer is
//! frames with the question's number, a kind, a length and that many bytes: pieces, and then the end or why
//! there is none. A process that somebody has taken over can ask its own questions, and nothing else.

mod answers;
mod lane;
mod spawn;
#[cfg(test)]
mod tests;
mod words;

pub use answers::{Answers, serve};
pub use lane::{Lane, LinkError};
pub use spawn::{Given, Sockets, Subprocess, take_over, take_over_recorder};
pub use words::{Asker, Assignment, Life, Next, Question, Recorded, Report};
