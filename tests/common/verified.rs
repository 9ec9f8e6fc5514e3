//! What `fsynctop verify --output json` said.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs `fsynctop verify …` for as long as the load takes, which begins when both sides count.
pub fn verify_while(command: &mut Command, load: impl FnOnce()) -> Output {
    command.args(["--", "sh", "-c", "echo counting; read _ || true"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    if line == "counting\n" {
        line.clear();
        load();
    }
    drop(child.stdin.take());
    output.read_to_string(&mut line).unwrap();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    Output { status, stderr, stdout: line.into_bytes() }
}

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
