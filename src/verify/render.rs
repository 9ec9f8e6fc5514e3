//! The comparison as a table for people and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::row::{Kind, Range, Row, Verdict, Verification};
use crate::text::{absence, count, escape_sentence};

/// `server`: which one, in words.
pub fn table(verification: &Verification, server: &str) -> String {
    let mut text = format!("{server}, {:.1} s\n\n", verification.duration_seconds);
    let widest = verification.rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    // String's formatter cannot fail.
    let _ = writeln!(
        text,
        "{:widest$}  {:>10}  {:>21}  {:<11} counter",
        "syncs", "traced", "counted by the server", ""
    );
    for row in &verification.rows {
        let counted = row.counted.map_or("–".to_owned(), range);
        let source = row.source.or(row.note.as_deref()).unwrap_or_default();
        let line = format!(
            "{:widest$}  {:>10}  {:>21}  {:<11} {source}",
            row.what,
            count(row.traced),
            counted,
            word(row)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
    for note in notes(verification) {
        let _ = writeln!(text, "{note}");
    }
    text
}

fn range(range: Range) -> String {
    match range.at_least == range.at_most {
        true => count(range.at_least),
        false => format!("{} to {}", count(range.at_least), count(range.at_most)),
    }
}

fn word(row: &Row) -> &'static str {
    match (row.kind, row.verdict) {
        (Kind::Exact, Verdict::Agrees) => "agrees",
        (Kind::Exact, Verdict::Differs) => "DIFFERS",
        (Kind::Exact, Verdict::Undecided) => "undecided",
        (Kind::Approximate, _) => "approximate",
        _ => "",
    }
}

fn notes(verification: &Verification) -> Vec<String> {
    let mut notes = Vec::new();
    let exact: Vec<&Row> = verification.rows.iter().filter(|row| row.kind == Kind::Exact).collect();
    let of = |verdict| exact.iter().filter(|row| row.verdict == verdict).count();
    notes.push(match &verification.interrupted {
        Some(why) => format!("Nothing can be said: {why}."),
        None => verdict(of(Verdict::Agrees), of(Verdict::Differs), of(Verdict::Undecided)),
    });
    if exact.iter().any(|row| row.counted.is_some_and(|range| range.at_least < range.at_most)) {
        notes.push(
            "The server was busy when the window began or ended, so its count is a range. A longer window, or a quieter \
             server, makes it narrower."
                .to_owned(),
        );
    }
    for row in verification.rows.iter().filter(|row| row.kind == Kind::Approximate) {
        notes.extend(row.note.as_ref().map(|note| format!("{}: {note}.", row.what)));
    }
    notes.extend(verification.possible_causes.iter().chain(&verification.not_compared).cloned());
    if !verification.lost.is_zero() {
        notes.push(format!("What was lost, as far as fsynctop knows: {:?}.", verification.lost));
    }
    if verification.lost.unwatched > 0 {
        notes.push(format!(
            "{} syncs were made by calls that are not watched; counters of the server may hold them.",
            count(verification.lost.unwatched)
        ));
    }
    notes.extend(verification.refused.iter().map(|what| format!("Not allowed: {}.", escape_sentence(what))));
    notes
}

/// Of the rows that both sides count exactly.
fn verdict(agree: usize, differ: usize, undecided: usize) -> String {
    let all = agree + differ + undecided;
    match (agree, differ, undecided) {
        (0, 0, 0) => "There was no count to compare with.".to_owned(),
        (0, 0, _) => "Undecided: the server's counts are too wide a range.".to_owned(),
        (1, 0, 0) => "The count agrees.".to_owned(),
        (2, 0, 0) => "Both counts agree.".to_owned(),
        (_, 0, _) => absence::difference(agree, all),
        (0, 1, 0) => "The count differs.".to_owned(),
        (_, 1, _) => format!("1 of {all} counts differs."),
        _ => format!("{differ} of {all} counts differ."),
    }
}

/// The same for programs. `server`: its facts.
pub fn json(verification: &Verification, server: Value) -> Value {
    let mut value = json!({ "schema": 1, "server": server, "agrees": verification.agrees() == Some(true) });
    if let (Value::Object(all), Ok(Value::Object(rest))) = (&mut value, serde_json::to_value(verification)) {
        all.extend(rest);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn what_agrees_what_differs_and_what_cannot_be_told_are_three_things() {
        for (counts, says) in [
            ((1, 0, 0), "The count agrees."),
            ((2, 0, 0), "Both counts agree."),
            ((0, 1, 0), "The count differs."),
            ((3, 0, 0), "All 3 counts agree."),
            ((2, 1, 0), "1 of 3 counts differs."),
            ((1, 2, 1), "2 of 4 counts differ."),
            ((2, 0, 1), "2 of 3 counts agree, the others are undecided."),
            ((0, 0, 2), "Undecided: the server's counts are too wide a range."),
            ((0, 0, 0), "There was no count to compare with."),
        ] {
            assert_eq!(verdict(counts.0, counts.1, counts.2), says);
        }
    }
}
