//! What syncgen's ways do, held against what was measured of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::built;
use super::measured::{Measured, count, number, path_of, text};
use super::traced::measure;

/// (file, operation, via, target) → (calls, bytes, errors); failures and syncs have no bytes.
pub type Rows = BTreeMap<(String, String, String, String), (u64, u64, Value)>;

pub fn name_of(row: &Value) -> String {
    let path = path_of(row);
    path.map_or_else(String::new, |path| path.file_name().unwrap().to_str().unwrap().to_owned())
}

pub fn seen(measured: &Measured) -> Rows {
    let key = |row: &Value| (name_of(row), text(row, "op"), text(row, "via"), text(row, "target"));
    let mut rows = Rows::new();
    for row in measured.files() {
        assert_eq!(row["bytes"].is_u64(), row["op"] == "dsync_write", "{row}");
        rows.insert(key(row), (count(row), row["bytes"].as_u64().unwrap_or(0), row["errors"].clone()));
    }
    for row in measured.0["failures"].as_array().unwrap() {
        let earlier = rows.insert(key(row), (count(row), 0, row["errors"].clone()));
        assert!(earlier.is_none(), "two rows: {row}");
    }
    rows
}

/// What is to be seen of what syncgen says.
pub fn made(said: &Value) -> Rows {
    let mut rows = Rows::new();
    for (way, done) in said["ways"].as_object().unwrap() {
        let op = text(done, "op");
        let failed: u64 = done["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let (calls, bytes) = match op.as_str() {
            "write" => (failed, 0),
            _ => (number(done, "calls"), number(done, "bytes")),
        };
        // A pipe that is full and a descriptor of a directory have nothing to do with durability.
        if calls == 0 || way == "pipe" || way == "directory" {
            continue;
        }
        let file = path_of(done).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let target = if file.is_some() { "file" } else { "bad_descriptor" };
        let name = file.unwrap_or_default();
        if way == "ring-cancelled" {
            // By the write before, which failed.
            let key = (name.clone(), "write".into(), "io_uring".into(), "file".into());
            rows.insert(key, (calls, 0, json!({ "EFAULT": calls })));
        }
        rows.insert((name, op, text(done, "via"), target.into()), (calls, bytes, done["errors"].clone()));
    }
    rows
}

/// What is to be seen in `writes`, where all writes are watched.
pub fn writes_made(said: &Value) -> Rows {
    let mut rows = Rows::new();
    for (way, done) in said["ways"].as_object().unwrap() {
        if way == "pipe" || way == "directory" {
            continue; // they hold no data
        }
        let name = path_of(done).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let target = if name.is_some() { "file" } else { "bad_descriptor" };
        let key = (name.unwrap_or_default(), text(done, "op"), text(done, "via"), target.into());
        rows.insert(key, (number(done, "calls"), number(done, "bytes"), done["errors"].clone()));
    }
    rows
}

pub fn writes_seen(measured: &Measured) -> Rows {
    let mut rows = Rows::new();
    for row in measured.0["writes"].as_array().unwrap() {
        let key = (name_of(row), text(row, "op"), text(row, "via"), text(row, "target"));
        assert_eq!(row["bytes"].is_u64(), row["op"] != "fallocate", "{row}");
        // What is copied, and the pipe's other end.
        if key.0.ends_with(".source") {
            continue;
        }
        let figures = (count(row), row["bytes"].as_u64().unwrap_or(0), row["errors"].clone());
        assert!(rows.insert(key, figures).is_none(), "two rows: {row}");
    }
    rows
}

pub fn syncgen(options: &[&str], directory: &Path, ways: &str, calls: u64) -> (Measured, Value) {
    let program = built("syncgen");
    let calls = calls.to_string();
    let command = [program.to_str().unwrap(), directory.to_str().unwrap(), "--ways", ways, "--syncs", &calls];
    let run = measure(options, &command);
    assert!(run.output.status.success(), "{:?}", run.output);
    let [measured] = run.measured.try_into().unwrap_or_else(|_| panic!("one measurement"));
    (measured, serde_json::from_slice(&run.output.stdout).unwrap())
}
