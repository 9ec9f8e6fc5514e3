//! Text for people: untrusted names made harmless ([`escape()`]), latencies and counts with their units,
//! and shortening to the width of a table's column.

pub(crate) mod absence;
mod causes;
mod escape;
mod shorten;
#[cfg(test)]
mod tests;
mod time;
mod units;

pub(crate) use causes::causes;
pub(crate) use escape::{escape, escape_sentence, escape_to_ascii, is_deceptive, sentence_to_ascii};
pub use shorten::width;
pub(crate) use shorten::{end_of_path, shorten_end, shorten_middle, shorten_path};
pub(crate) use time::{length, rfc3339, rfc3339_millis, seconds};
pub(crate) use units::{
    bytes, capitalize, count, counted, duration, duration_in_words, errno, interval, percent, rate,
};
