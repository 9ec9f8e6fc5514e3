//! How help and pages write figures, words for them, and lists.

use std::time::Duration;

use crate::exporter::web::limits::Rate;

/// `4,096`, `0.5`.
pub(super) fn n(number: f64) -> String {
    match number.fract() == 0.0 {
        true => crate::text::count(number as u64),
        false => number.to_string(),
    }
}

pub(super) fn kb(bytes: f64) -> String {
    n(bytes / 1024.0)
}

pub(super) fn mb(bytes: f64) -> String {
    n(bytes / 1024.0 / 1024.0)
}

pub(super) fn ms(seconds: f64) -> String {
    n((seconds * 1e3).round())
}

pub(super) fn s(duration: Duration) -> String {
    n(duration.as_secs_f64())
}

pub(super) fn percent(share: f64) -> String {
    n((share * 1e4).round() / 1e2)
}

pub(super) fn per_second(rate: Rate) -> String {
    n((1.0 / rate.each.as_secs_f64()).round())
}

pub(super) const WORDS: [&str; 17] = [
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen",
];

pub(super) fn word(number: f64) -> &'static str {
    match number as usize {
        20 => "twenty",
        30 => "thirty",
        number => WORDS.get(number).unwrap_or(&"very many"),
    }
}

/// `a second`, `two second`: which is then seen not to be so.
pub(super) fn a(number: f64) -> &'static str {
    if number == 1.0 { "a" } else { word(number) }
}

/// `Four`, at the head of a sentence.
pub(super) fn head(number: f64) -> String {
    let word = word(number);
    word[..1].to_uppercase() + &word[1..]
}

pub(super) fn minutes(seconds: f64) -> &'static str {
    word(seconds / 60.0)
}

pub(super) fn list<T: AsRef<str>>(names: &[T], between: &str, last: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((end, others)) if !others.is_empty() => format!("{}{last}{end}", others.join(between)),
        _ => names.concat(),
    }
}

pub(super) fn quoted(names: &[&str], last: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    list(&names, ", ", last)
}
