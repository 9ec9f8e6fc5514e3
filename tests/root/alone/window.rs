//! Needs root, FUSE and the tracing filesystem: the last word on a window of the past is about all of it.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::exporter::Exporter;
use crate::common::faults::{FaultFs, Hung, fsynctop, output, stderr, stdout};
use crate::common::{Running, needs, wait_until};

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
#[ignore = "needs root and a kernel with BTF"]
fn root_a_window_that_held_a_stall_or_failures_never_ends_with_all_is_well() {
    needs(&["/dev/fuse", "/sys/kernel/tracing/events"]);
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
    let _server = Hung::new(&mount, Running(server));
    let last = |length: &str| output(fsynctop().args(["history", "--last", length, "--socket", socket]));
    // With the whole text on one line: where lines break is another matter.
    let said = |length: &str| {
        let output = last(length);
        let text = stdout(&output) + &stderr(&output);
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace("Nothing", "nothing")
    };
    let is_fine = |text: String| {
        ["is", "was"].iter().any(|time| text.contains(&format!("nothing failed, nothing {time} stuck, ")))
    };
    wait_until("a window in which all was well", || is_fine(said("1m")));

    mount.control("hang on ib_logfile0");
    mount.wait_for_hanging(1);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let during = said("1m");
    mount.control("ok");
    mount.control("release");
    let hung = began.elapsed();
    // The end of the window is as good as any.
    wait_until("a last second in which all was well", || is_fine(said("1s")));
    let text = said("10m");
    for claim in ["nothing is stuck", "nothing was stuck"] {
        assert!(!during.contains(claim), "{claim}: {during}");
        assert!(!text.contains(claim), "{claim}: {text}");
    }
    assert!(during.contains("A sync hung for at least "), "{during}");
    let log = format!("redo fdatasync, {}. Every commit waited for this log.", log.display());
    let sentence = text.split("A sync hung for ").nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(sentence.contains(&log) && sentence.contains(", until "), "{text}");
    let seconds: f64 = sentence.split(' ').next().unwrap().parse().unwrap();
    assert!(seconds >= hung.as_secs_f64() - 0.5, "{seconds} s of {hung:?}: {text}");

    mount.control("fail EIO on ibdata1");
    let failed = || said("10m").contains(&format!(" EIO on {} (system_tablespace fsync)", data.display()));
    wait_until("a failed sync in the window", failed);
    mount.control("ok");
    wait_until("a last second in which all was well", || is_fine(said("1s")));
    assert!(failed() && !said("10m").contains("nothing failed"), "{}", said("10m"));
}
