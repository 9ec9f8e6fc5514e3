//! Needs root: what the exporter's log says of servers that come and go, however many and however briefly.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::exporter::Exporter;
use crate::common::turn::takes_long;
use crate::common::{Running, built, needs};

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_thousand_short_lived_servers_are_a_few_lines_and_a_sum() {
    needs(&["/sys/kernel/tracing/events"]);
    takes_long("the sum comes once a minute");
    let directory = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(&["--comm", "short-lived", "--max-cpu", "off"]);
    let start = |_| {
        let mut command = Command::new(built("syncgen"));
        command.arg(directory.path()).args(["--comm", "short-lived", "--syncs", "1", "--hold"]);
        Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    };
    // Long enough for each to have a line of its own, if it gets one; the others come and go between two
    // looks.
    let long: Vec<_> = (0..300).map(start).collect();
    std::thread::sleep(Duration::from_secs(10));
    drop(long);
    (0..700).for_each(|number| drop(start(number)));
    exporter.wait_for_line("in the last minute");
    let log = exporter.log();
    let lines = log.lines().count();
    println!("{lines} lines:\n{log}");
    assert!(lines < 60, "{lines} lines");
    assert!(log.contains("tracing short-lived "));
    let nameless = |line: &&str| line.contains("tracing  ") || line.contains("ended:  ");
    assert_eq!(log.lines().find(nameless), None);
}
