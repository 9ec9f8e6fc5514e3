//! The shape of the JSON: which fields there are, and of which type. docs/json.md is the contract.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

const CONTRACT: &str = include_str!("../../../docs/json.md");
/// Fields that only some servers have: a load is of no engine, has no version or data directory, and most
/// servers need no note.
const ONLY_OF_SERVERS: [&str; 8] =
    ["engine", "version", "datadir", "container", "device", "filesystem", "ports[]", "notes[]"];

/// What the example has not: a sync that hangs is looked at.
const ONLY_OF_HANGS: [&str; 1] = ["in_flight[].waits_for"];

/// Types by field, "files[].latency_seconds.p50"; the types of null are any.
type Shape = BTreeMap<String, BTreeSet<&'static str>>;

/// How a measurement differs from the documented example.
pub fn differences_from_contract(measurement: &Value) -> Result<Vec<String>> {
    let example = CONTRACT.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    let example =
        serde_json::from_str(example.context("docs/json.md has no example")?).context("docs/json.md")?;
    Ok(differences(&shape(&example), &shape(measurement)))
}

fn differences(documented: &Shape, found: &Shape) -> Vec<String> {
    let mut lines = Vec::new();
    for (field, types) in found {
        match documented.get(field) {
            None if ONLY_OF_HANGS.contains(&field.as_str()) => {}
            None => lines.push(format!("{field} is not documented")),
            Some(known) if !known.is_empty() && !types.is_subset(known) => {
                lines.push(format!("{field} should be {known:?} and is {types:?}"));
            }
            Some(_) => {}
        }
    }
    // Rows by thread are there where they were asked for.
    let optional = |field: &str| {
        let of_servers = field.strip_prefix("servers[].");
        // Only writes have bytes, and only requests, which not every kernel lets be watched, a completion.
        field == "threads"
            || field.ends_with("].bytes")
            || field.ends_with("].completion")
            || of_servers.is_some_and(|name| {
                let parts = ["storage", "io."];
                ONLY_OF_SERVERS.contains(&name) || parts.iter().any(|part| name.starts_with(part))
            })
    };
    // A row cannot lack what there is no row of.
    let has_rows =
        |field: &str| field.split_once("[]").is_none_or(|(list, _)| found.contains_key(&format!("{list}[]")));
    for field in documented.keys() {
        if !found.contains_key(field)
            && !optional(field)
            && has_rows(field)
            && !field.starts_with("neighbours[]")
        {
            lines.push(format!("{field} is missing"));
        }
    }
    lines
}

fn shape(value: &Value) -> Shape {
    let mut shape = Shape::new();
    add(&mut shape, "", value);
    shape
}

fn add(shape: &mut Shape, at: &str, value: &Value) {
    let types = shape.entry(at.to_owned()).or_default();
    match value {
        Value::Null => {}
        Value::Bool(_) => drop(types.insert("boolean")),
        Value::Number(_) => drop(types.insert("number")),
        Value::String(_) => drop(types.insert("string")),
        Value::Array(rows) => {
            types.insert("array");
            rows.iter().for_each(|row| add(shape, &format!("{at}[]"), row));
        }
        Value::Object(fields) => {
            types.insert("object");
            // The names in `errors` are data.
            if !at.ends_with("].errors") {
                let prefix = if at.is_empty() { String::new() } else { format!("{at}.") };
                fields.iter().for_each(|(name, field)| add(shape, &format!("{prefix}{name}"), field));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_and_types_are_compared_and_null_is_any() {
        let documented = shape(&json!({ "a": 1, "rows": [{ "x": null, "y": "" }], "idle": [{ "z": 1 }] }));
        let same =
            shape(&json!({ "a": 2, "rows": [{ "x": 7, "y": "" }, { "x": null, "y": "" }], "idle": [] }));
        assert_eq!(differences(&documented, &same), Vec::<String>::new());
        let other = shape(&json!({ "a": "2", "b": 1, "rows": [{ "x": 7 }], "idle": [] }));
        assert_eq!(
            differences(&documented, &other),
            ["a should be {\"number\"} and is {\"string\"}", "b is not documented", "rows[].y is missing"]
        );
    }
}
