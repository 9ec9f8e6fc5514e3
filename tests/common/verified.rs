//! What `fsynctop verify --output json` said.

use std::process::Output;

use serde_json::Value;

pub fn parse(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// A line; null where there is none of that name.
pub fn row<'a>(value: &'a Value, what: &str) -> &'a Value {
    value["rows"].as_array().unwrap().iter().find(|row| row["what"] == what).unwrap_or(&Value::Null)
}

/// What was traced on a line that is exact, agrees, and whose count is one number.
pub fn exact(value: &Value, what: &str) -> u64 {
    let line = row(value, what);
    assert_eq!((&line["kind"], &line["verdict"]), (&"exact".into(), &"agrees".into()), "{value:#}");
    let traced = line["traced"].as_u64().unwrap();
    let counted = [&line["counted"]["at_least"], &line["counted"]["at_most"]];
    assert_eq!(counted.map(Value::as_u64), [Some(traced); 2], "{value:#}");
    traced
}
