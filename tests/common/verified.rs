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
