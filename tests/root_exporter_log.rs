//! Needs root: what the exporter's log says of servers that come and go, however many and however briefly.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::exporter::Exporter;
use common::{built, can_run};

#[test]
fn a_thousand_short_lived_servers_are_a_few_lines_and_a_sum() {
    if !can_run("a_thousand_short_lived_servers_are_a_few_lines_and_a_sum", &["/sys/kernel/tracing/events"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(&["--comm", "short-lived", "--max-cpu", "off"]);
    let begun = Instant::now();
    let mut started = 0;
    while started < 1000 || begun.elapsed() < Duration::from_secs(20) {
        // They last for as long as the log takes to notice a server, or for less.
        let some = |_| {
            let mut command = Command::new(built("syncgen"));
            command.arg(directory.path()).args(["--comm", "short-lived", "--syncs", "1", "--hold"]);
            let held = if started % 50 == 0 { Stdio::piped() } else { Stdio::null() };
            command.stdin(held).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut children: Vec<_> = (0..25).map(some).collect();
        started += children.len();
        std::thread::sleep(Duration::from_millis(if started % 50 == 25 { 1200 } else { 0 }));
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
    exporter.wait_for_line("in the last minute");
    let log = exporter.log();
    let lines = log.lines().count();
    println!("{started} servers, {lines} lines:\n{log}");
    assert!(lines < 60, "{lines} lines");
    let nameless = |line: &&str| line.contains("tracing  ") || line.contains("ended:  ");
    assert_eq!(log.lines().find(nameless), None);
}
