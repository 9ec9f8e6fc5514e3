//! Runs the program itself: what needs a process of its own (descriptor numbers, the process's name, standard
//! input).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

fn directory(test: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("syncgen-{test}-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a temporary directory");
    directory
}

#[test]
fn two_files_alternate_on_one_descriptor_number() {
    let directory = directory("reopen");
    let output = Command::new(env!("CARGO_BIN_EXE_syncgen"))
        .args(["--reopen", "--syncs", "1001", "--op", "fdatasync"])
        .arg(&directory)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["calls"], 1001);
    assert_eq!(report["files"][0]["ops"]["fdatasync"]["succeeded"], 501);
    assert_eq!(report["files"][1]["ops"]["fdatasync"]["succeeded"], 500);
    fs::remove_dir_all(directory).expect("it is ours");
}

#[test]
fn each_write_to_a_durable_descriptor_is_counted_and_so_is_the_one_that_makes_the_file() {
    let directory = directory("dsync");
    let output = Command::new(env!("CARGO_BIN_EXE_syncgen"))
        .args(["--dsync", "--write", "64", "--threads", "2", "--syncs", "5", "--files", "3"])
        .arg(&directory)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["calls"], &report["durable_writes"]), (&10.into(), &13.into()));
    fs::remove_dir_all(directory).expect("it is ours");
}

#[test]
fn it_waits_under_its_name_until_a_line_comes() {
    let directory = directory("wait");
    let mut child = Command::new(env!("CARGO_BIN_EXE_syncgen"))
        .args(["--wait", "--comm", "mysqld", "--threads", "3", "--syncs", "7", "--files", "2"])
        .arg(&directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut ready = String::new();
    output.read_line(&mut ready).expect("a line");
    assert_eq!(ready, format!("ready {}\n", child.id()));
    let comm = fs::read_to_string(format!("/proc/{}/comm", child.id())).expect("it is running");
    assert_eq!(comm, "mysqld\n");
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).expect("it is running").count();
    assert_eq!(threads, 4, "those that sync exist before the start");

    child.stdin.take().expect("it is piped").write_all(b"go\n").expect("it is waiting");
    let mut text = String::new();
    output.read_to_string(&mut text).expect("its counts");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&report["calls"], report["threads"].as_array().map(Vec::len)), (&Value::from(21), Some(3)));
    assert!(child.wait().expect("it ends").success());
    fs::remove_dir_all(directory).expect("it is ours");
}

#[test]
fn it_pauses_when_every_thread_has_come_so_far_and_then_makes_the_rest() {
    let directory = directory("pause");
    let mut child = Command::new(env!("CARGO_BIN_EXE_syncgen"))
        .args(["--pause-after", "5", "--threads", "2", "--syncs", "12"])
        .arg(&directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "paused\n");
    child.stdin.take().expect("it is piped").write_all(b"go on\n").expect("it is waiting");
    let mut text = String::new();
    output.read_to_string(&mut text).expect("its counts");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["calls"], 24);
    assert!(child.wait().expect("it ends").success());
    fs::remove_dir_all(directory).expect("it is ours");
}
