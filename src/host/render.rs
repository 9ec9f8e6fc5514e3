//! The lines of `fsynctop check`, and the same as JSON.

use std::fmt::Write;

use super::verdict::{Status, Verdict};

/// One line for each verdict, its cure below; `colour` paints the status words.
pub fn table(verdicts: &[Verdict], colour: bool) -> String {
    let width = verdicts.iter().map(|verdict| verdict.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for verdict in verdicts {
        let word = format!("{:<4}", verdict.status.word());
        let word = if colour { paint(verdict.status, &word) } else { word };
        // String's formatter cannot fail
        let _ = writeln!(text, "{word}  {:<width$}  {}", verdict.name, verdict.detail);
        if let Some(cure) = &verdict.cure {
            let _ = writeln!(text, "      {:<width$}  → {cure}", "");
        }
    }
    text
}

fn paint(status: Status, word: &str) -> String {
    let colour = match status {
        Status::Ok => 32,
        Status::Warn => 33,
        Status::Fail => 31,
    };
    format!("\x1b[{colour}m{word}\x1b[0m")
}

/// An array of the verdicts in their order, and the worst of them.
pub fn json(verdicts: &[Verdict]) -> serde_json::Value {
    let worst = verdicts.iter().map(|verdict| verdict.status).max().unwrap_or(Status::Ok);
    serde_json::json!({ "schema": 1, "status": worst, "checks": verdicts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts() -> Vec<Verdict> {
        vec![
            Verdict::ok("kernel", "6.12.0"),
            Verdict::warn("ftrace", "disabled").cured_by("enable it"),
            Verdict::fail("PID namespace", "a container's"),
        ]
    }

    #[test]
    fn the_columns_are_aligned_and_a_cure_stands_below_its_detail() {
        let expected = "\
ok    kernel         6.12.0
warn  ftrace         disabled
                     → enable it
FAIL  PID namespace  a container's
";
        assert_eq!(table(&verdicts(), false), expected);
    }

    #[test]
    fn colour_changes_nothing_but_the_word() {
        let coloured = table(&verdicts(), true);
        assert!(coloured.contains("\x1b[31mFAIL\x1b[0m  PID namespace"));
        let plain =
            ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"].iter().fold(coloured, |t, c| t.replace(c, ""));
        assert_eq!(plain, table(&verdicts(), false));
    }

    #[test]
    fn json_names_the_worst_status() {
        let value = json(&verdicts());
        assert_eq!(value["status"], "fail");
        assert_eq!(value["checks"][1]["cure"], "enable it");
        assert!(value["checks"][0].get("cure").is_none());
        assert_eq!(json(&[])["status"], "ok");
    }
}
