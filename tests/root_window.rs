//! Needs root, FUSE and the tracing filesystem: the last word on a window of the past is about all of it.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::exporter::Exporter;
use common::faults::{FaultFs, fsynctop, output, stderr, stdout};
use common::{Running, can_run, wait_until};

/// Syncs a log all the time, under a name of its own.
const SERVER: &str = r#"
import os, sys, time
open('/proc/self/comm', 'w').write('window-test')
log = os.open(sys.argv[1], os.O_RDWR)
data = os.open(sys.argv[2], os.O_RDWR)
while True:
    os.fdatasync(log)
    try: os.fsync(data)
    except OSError: pass
    time.sleep(0.02)
"#;

#[test]
fn root_a_window_that_held_a_stall_or_failures_never_ends_with_all_is_well() {
    let test = "root_a_window_that_held_a_stall_or_failures_never_ends_with_all_is_well";
    if !can_run(test, &["/dev/fuse", "/sys/kernel/tracing/events"]) {
        return;
    }
    let mount = FaultFs::mount("ok");
    let [log, data] = ["ib_logfile0", "ibdata1"].map(|name| mount.path().join(name));
    for file in [&log, &data] {
        std::fs::write(file, "x").unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let socket = socket.to_str().unwrap();
    let _exporter = Exporter::start(&["--comm", "window-test", "--socket", socket]);
    let server = Command::new("python3").args(["-c", SERVER]).args([&log, &data]).spawn().unwrap();
    let _server = Running(server);
    let last = |length: &str| output(fsynctop().args(["--once", "--last", length, "--socket", socket]));
    // With the whole text on one line: where lines break is another matter.
    let said = |length: &str| {
        let output = last(length);
        let text = stdout(&output) + &stderr(&output);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let fine = "nothing failed, nothing was stuck, none of the watched calls was lost. Not watched: io_uring";
    wait_until("a window in which all was well", || said("1m").contains(fine));

    mount.control("hang on ib_logfile0");
    mount.wait_for_hanging(1);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let during = said("1m");
    assert!(
        during.contains("A sync hung for at least ") && !during.contains("nothing was stuck"),
        "{during}"
    );
    mount.control("ok\nrelease");
    let hung = began.elapsed();
    mount.control("fail EIO on ibdata1");
    wait_until("a failed sync in the window", || said("1m").contains("syncs failed: "));
    mount.control("ok");
    // The end of the window is as good as any.
    let until_well = Instant::now();
    wait_until("a last second in which all was well", || said("1s").contains(fine));
    assert!(until_well.elapsed() < Duration::from_secs(60));
    let text = said("10m");
    assert!(!text.contains("nothing failed") && !text.contains("nothing was stuck"), "{text}");
    let log = format!("redo fdatasync, {}. Every commit waited for this log.", log.display());
    let sentence = text.split("A sync hung for ").nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(sentence.contains(&log) && sentence.contains(", until "), "{text}");
    let seconds: f64 = sentence.split(' ').next().unwrap().parse().unwrap();
    assert!(seconds >= hung.as_secs_f64() - 0.5, "{seconds} s of {hung:?}: {text}");
    assert!(text.contains(&format!(" EIO on {} (system_tablespace fsync)", data.display())), "{text}");
}
