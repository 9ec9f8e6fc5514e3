//! Text for people: names that a traced process chose made harmless ([`escape()`]), latencies and counts with their units, and
//! the width and shortening of what stands in a table.

mod escape;
mod shorten;
#[cfg(test)]
mod tests;
mod units;

pub use escape::{escape, escape_sentence, escape_to_ascii, is_deceptive};
pub use shorten::{begin_of, end_of_path, shorten_middle, shorten_path, width};
pub use units::{capital, count, duration, duration_in_words, errno, interval, percent, rate};
