//! What the exporter's two processes say to each other. The web process asks, the prober answers; each pair
//! of sockets (a lane) carries one question at a time.
//!
//! A question is a frame: its length in four bytes, then a [`Question`] as postcard writes it. An answer is
//! frames with the question's number, a kind, a length and that many bytes: pieces, and then the end or why
//! there is none. A web process that somebody has taken over can ask these questions, and nothing else.

mod answers;
mod lane;
mod spawn;
#[cfg(test)]
mod tests;
mod words;

pub use answers::{Answers, serve};
pub use lane::{Lane, LinkError};
pub use spawn::{Given, Sockets, WebProcess, take_over};
pub use words::{Life, Question, Report};
