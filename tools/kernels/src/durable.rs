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

/// Every call by every way was counted, with its bytes and errors. `names_failures`: the file of a write that
/// is not durable and failed is known.
pub fn expect(outcome: &Outcome, step: &str, names_failures: bool, findings: &mut Findings) -> Result<()> {
    let (measured, load) = (outcome.json(&format!("{step}.out"))?, outcome.load(step)?);
    let made = made(&load, names_failures);
    findings.check(!made.is_empty(), || "the load made nothing".into());
    differences(&made, &seen(&measured)).into_iter().for_each(|line| findings.fail(line));
    nothing_is_lost(&measured, findings);
    Ok(())
}

/// The same of requests by `way`, "io_uring" or "libaio", where the kernel has what it takes; where not, that
/// is said, and the net below counts them.
pub fn expect_requests(outcome: &Outcome, way: &str, step: &str, findings: &mut Findings) -> Result<()> {
    let verdict = outcome.verdict("check-json", way)?;
    if verdict.status == "ok" {
        return expect(outcome, step, true, findings);
    }
    let measured = outcome.json(&format!("{step}.out"))?;
    let is_said = rows(&measured["not_watched"]).any(|other| other == way);
    findings.check(is_said, || format!("not watched: {}", measured["not_watched"]));
    findings.check(seen(&measured).is_empty(), || format!("rows: {}", measured["files"]));
    let unwatched = number(&measured["lost"]["unwatched"]);
    findings.check(unwatched > 0, || format!("lost: {}", measured["lost"]));
    findings.notes.push(format!("{way}: {}", verdict.detail));
    Ok(())
}

/// Of every write that no sync has covered, each byte; and of all writes, too.
pub fn expect_unsynced(outcome: &Outcome, step: &str, findings: &mut Findings) -> Result<()> {
    let (measured, load) = (outcome.json(&format!("{step}.out"))?, outcome.load(step)?);
    let by_name = |table: &str, op: Option<&str>| -> BTreeMap<String, u64> {
        let rows = rows(&measured[table]).filter(|row| op.is_none_or(|op| row["op"] == op));
        let bytes = rows.map(|row| (name(&row["path"]), number(&row["bytes"])));
        // What the loads copy, and what they say.
        bytes
            .filter(|(name, bytes)| name.starts_with("way-") && !name.ends_with(".source") && *bytes > 0)
            .collect()
    };
    let done = load["ways"].as_object().into_iter().flat_map(|ways| ways.values());
    let written: BTreeMap<String, u64> = done
        .filter(|done| done["op"] == "write" && number(&done["bytes"]) > 0)
        .map(|done| (name(&done["path"]), number(&done["bytes"])))
        .collect();
    findings.check(written.len() > 3, || format!("the load wrote too little: {load}"));
    let unsynced = by_name("unsynced_files", None);
    findings.check(unsynced == written, || format!("unsynced {unsynced:?}, written {written:?}"));
    let mut all = by_name("writes", Some("write"));
    all.remove("way-written");
    findings.check(all == written, || format!("seen {all:?}, written {written:?}"));
    nothing_is_lost(&measured, findings);
    Ok(())
}

fn errors(value: &Value) -> BTreeMap<String, u64> {
    let all = value.as_object().into_iter().flatten();
    all.map(|(name, n)| (name.clone(), number(n))).collect()
}

/// Adds up the rows of one key.
fn add(rows: &mut BTreeMap<Key, Row>, key: Key, more: Row) {
    let row = rows.entry(key).or_default();
    row.count += more.count;
    row.bytes += more.bytes;
    more.errors.into_iter().for_each(|(name, n)| *row.errors.entry(name).or_default() += n);
}

fn made(load: &Value, names_failures: bool) -> BTreeMap<Key, Row> {
    let mut made = BTreeMap::new();
    for done in load["ways"].as_object().into_iter().flat_map(|ways| ways.values()) {
        let errors = errors(&done["errors"]);
        let op = text(&done["op"]);
        // Of those that are not durable, failures.
        let row = match op.as_str() {
            "write" => Row { count: errors.values().sum(), bytes: 0, errors },
            _ => Row { count: number(&done["calls"]), bytes: number(&done["bytes"]), errors },
        };
        let is_named = names_failures || op != "write";
        let file = if is_named { name(&done["path"]) } else { String::new() };
        if row.count > 0 {
            add(&mut made, (file, op, text(&done["via"])), row);
        }
    }
    made
}

fn seen(measured: &Value) -> BTreeMap<Key, Row> {
    let mut seen = BTreeMap::new();
    for row in rows(&measured["files"]).chain(rows(&measured["failures"])) {
        let bytes = row["bytes"].as_u64().unwrap_or(0);
        let figures = Row { count: number(&row["count"]), bytes, errors: errors(&row["errors"]) };
        add(&mut seen, (name(&row["path"]), text(&row["op"]), text(&row["via"])), figures);
    }
    seen
}

/// The path's last component; of a bad descriptor, none.
fn name(path: &Value) -> String {
    path.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned()
}
