//! JSON held against docs/json.schema.json, by the library that Python's users have.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

pub const LIBRARY: &str = "/usr/lib/python3/dist-packages/jsonschema/__init__.py";

/// Whether each line is as the schema says, and has no field that it does not name.
pub fn is_known(lines: &str) -> Result<(), String> {
    ask(lines, &["--known"])
}

/// Whether each line is as the schema says.
pub fn is_valid(lines: &str) -> Result<(), String> {
    ask(lines, &[])
}

fn ask(lines: &str, options: &[&str]) -> Result<(), String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("/usr/bin/python3");
    command.arg(top.join("tests/common/schema.py")).arg(top.join("docs/json.schema.json")).args(options);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(String::from_utf8(output.stdout).unwrap()),
        other => panic!("{other:?}: python3-jsonschema is needed ({LIBRARY}); `make deps` installs it"),
    }
}
