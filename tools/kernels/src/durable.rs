//! Durable writes, failed ones, and what is asked for in rings: as the load says that it made them.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;

use crate::diff::differences;
use crate::measured::{nothing_is_lost, number, rows, text};
use crate::outcome::{Findings, Outcome};

/// (file, operation, via).
type Key = (String, String, String);

#[derive(Debug, Default, PartialEq)]
struct Row {
    count: u64,
    bytes: u64,
    errors: BTreeMap<String, u64>,
}

/// Every call by every way was counted, with its bytes and errors.
pub fn expect(outcome: &Outcome, step: &str, findings: &mut Findings) -> Result<()> {
    let (measured, load) = (outcome.json(&format!("{step}.out"))?, outcome.load(step)?);
    let made = made(&load);
    findings.check(!made.is_empty(), || "the load made nothing".into());
    differences(&made, &seen(&measured)).into_iter().for_each(|line| findings.fail(line));
    nothing_is_lost(&measured, findings);
    Ok(())
}

/// The same of rings, where the kernel has the hooks for it; where not, that is said, and the net below counts
/// them.
pub fn expect_rings(outcome: &Outcome, step: &str, findings: &mut Findings) -> Result<()> {
    let verdict = outcome.verdict("check-json", "io_uring")?;
    if verdict.status == "ok" {
        return expect(outcome, step, findings);
    }
    let measured = outcome.json(&format!("{step}.out"))?;
    let is_said = rows(&measured["not_watched"]).any(|way| way == "io_uring");
    findings.check(is_said, || format!("not watched: {}", measured["not_watched"]));
    findings.check(seen(&measured).is_empty(), || format!("rows: {}", measured["files"]));
    let unwatched = number(&measured["lost"]["unwatched"]);
    findings.check(unwatched > 0, || format!("lost: {}", measured["lost"]));
    findings.notes.push(format!("io_uring: {}", verdict.detail));
    Ok(())
}

fn errors(value: &Value) -> BTreeMap<String, u64> {
    let all = value.as_object().into_iter().flatten();
    all.map(|(name, n)| (name.clone(), number(n))).collect()
}

fn made(load: &Value) -> BTreeMap<Key, Row> {
    let mut made = BTreeMap::new();
    for done in load["ways"].as_object().into_iter().flat_map(|ways| ways.values()) {
        let errors = errors(&done["errors"]);
        let row = match text(&done["op"]).as_str() {
            // Of those that are not durable, failures.
            "write" => Row { count: errors.values().sum(), bytes: 0, errors },
            _ => Row { count: number(&done["calls"]), bytes: number(&done["bytes"]), errors },
        };
        if row.count > 0 {
            made.insert((name(&done["path"]), text(&done["op"]), text(&done["via"])), row);
        }
    }
    made
}

fn seen(measured: &Value) -> BTreeMap<Key, Row> {
    let all = rows(&measured["files"]).chain(rows(&measured["failures"]));
    let row = |row: &Value| {
        let bytes = row["bytes"].as_u64().unwrap_or(0);
        let figures = Row { count: number(&row["count"]), bytes, errors: errors(&row["errors"]) };
        ((name(&row["path"]), text(&row["op"]), text(&row["via"])), figures)
    };
    all.map(row).collect()
}

/// The path's last component; of a bad descriptor, none.
fn name(path: &Value) -> String {
    path.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned()
}
