//! Needs root: servers that run as `java` are known by the class they were started with, and by nothing else
//! once they have ended.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::faults::{fsynctop, signal, stdout};
use crate::common::{Running, needs, wait_until};

/// Under a name, syncs a file all the time. What else is on its command line says nothing to it.
const SYNCS: &str = r#"
import os, sys, time
open('/proc/self/comm', 'w').write(sys.argv[1])
file = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
while True:
    os.fdatasync(file)
    time.sleep(0.01)
"#;

fn syncing(name: &str, file: &Path, class: &str) -> Running {
    let child = Command::new("python3").args(["-c", SYNCS, name]).arg(file).arg(class).spawn();
    Running(child.unwrap())
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Another process with the number of one that has ended: the kernel counts up, and is told from where.
fn with_number(pid: u32, start: impl Fn() -> Running) -> Running {
    for _ in 0..200 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let process = start();
        if process.0.id() == pid {
            return process;
        }
    }
    panic!("no process got the number {pid}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_java_server_is_known_by_its_class_and_its_number_is_anothers_when_it_has_ended() {
    needs(&["/usr/bin/python3", "/proc/sys/kernel/ns_last_pid"]);
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("__cluster_metadata-0");
    fs::create_dir(&log).unwrap();
    let log = log.join("00000000000000000000.log");
    let other = directory.path().join("other");
    let server = syncing("java", &log, "kafka.Kafka");
    let pid = server.0.id();
    // Another Java program is none of the engine's.
    let program = syncing("java", &other, "org.example.Kafka");
    wait_until("both to be called java", || [pid, program.0.id()].iter().all(|&pid| name_of(pid) == "java"));

    let mut command = fsynctop();
    let command = command.args(["once", "--engine", "kafka", "-d", "6", "--output", "json"]);
    let once = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    signal(pid, "KILL");
    drop(server);
    let another = with_number(pid, || syncing("another", &other, "kafka.Kafka"));
    wait_until("it to be called so", || name_of(another.0.id()) == "another");
    let text = stdout(&once.wait_with_output().unwrap());
    let measured: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));

    let servers = measured["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{text}");
    let told = ["pid", "engine", "comm"].map(|field| &servers[0][field]);
    assert_eq!(told, [&Value::from(pid), &Value::from("kafka"), &Value::from("java")]);
    let files = measured["files"].as_array().unwrap();
    assert!(!files.is_empty(), "{text}");
    for file in files {
        assert_eq!((&file["role"], &file["path"]), (&"wal".into(), &log.to_str().unwrap().into()), "{text}");
    }
}
