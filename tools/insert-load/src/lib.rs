//! What those who run insert-load need of it besides the program.

mod tally;

pub use tally::Tally;
