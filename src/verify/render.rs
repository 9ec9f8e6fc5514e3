//! The comparison as a table for people and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::row::{Kind, Range, Row, Verdict, Verification};
use crate::text::{count, escape_sentence};

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
        (Kind::Approximate, _) => "approximate",
        _ => "",
    }
}

fn notes(verification: &Verification) -> Vec<String> {
    let mut notes = Vec::new();
    let exact: Vec<&Row> = verification.rows.iter().filter(|row| row.kind == Kind::Exact).collect();
    let differ = exact.iter().filter(|row| row.verdict == Verdict::Differs).count();
    notes.push(match &verification.interrupted {
        Some(why) => format!("Nothing can be said: {why}."),
        None => verdict(exact.len(), differ),
    });
    if exact.iter().any(|row| row.counted.is_some_and(|range| range.at_least < range.at_most)) {
        notes.push(
            "The server was busy when the window began or ended, so its count is known only as a range: the traced count \
             must lie within it."
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

/// `exact`: the rows that both sides count exactly.
fn verdict(exact: usize, differ: usize) -> String {
    match (exact, differ) {
        (0, _) => "Nothing could be compared exactly.".to_owned(),
        (1, 0) => "The one row that both sides count exactly agrees.".to_owned(),
        (1, _) => "The one row that both sides count exactly differs.".to_owned(),
        (_, 0) => format!("All {exact} rows that both sides count exactly agree."),
        (_, 1) => format!("1 of {exact} rows that both sides count exactly differs."),
        _ => format!("{differ} of {exact} rows that both sides count exactly differ."),
    }
}

/// The same for programs. `server`: its facts.
pub fn json(verification: &Verification, server: Value) -> Value {
    let mut value = json!({ "schema": 1, "server": server, "agrees": verification.succeeds() });
    if let (Value::Object(all), Ok(Value::Object(rest))) = (&mut value, serde_json::to_value(verification)) {
        all.extend(rest);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn one_row_is_spoken_of_in_the_singular() {
        assert_eq!(verdict(1, 0), "The one row that both sides count exactly agrees.");
        assert_eq!(verdict(1, 1), "The one row that both sides count exactly differs.");
        assert_eq!(verdict(3, 0), "All 3 rows that both sides count exactly agree.");
        assert_eq!(verdict(3, 1), "1 of 3 rows that both sides count exactly differs.");
        assert_eq!(verdict(3, 2), "2 of 3 rows that both sides count exactly differ.");
        assert_eq!(verdict(0, 0), "Nothing could be compared exactly.");
    }
}
