//! Verdicts on their way to whoever asks: the prober makes them ([`making`]), the web process keeps the last
//! ([`told`]) and answers out of its memory, whatever hangs.

mod making;
mod told;

pub(crate) use making::Verdicts;
pub use told::{Asked, OfServer, Told};
