//! Needs root, FUSE and the tracing filesystem: what went wrong in the past is told first, with its cause,
//! and the last word is about all of the past.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::disk::Mounted;
use crate::common::exporter::Exporter;
use crate::common::faults::{FaultFs, Hung, fsynctop, output, stderr, stdout};
use crate::common::server::{Database, Kind};
use crate::common::{Running, needs, wait_until};

/// Syncs a log all the time, under a name of its own.
const SERVER: &str = r#"
import os, sys, time
open('/proc/self/comm', 'w').write('incidents-test')
log = os.open(sys.argv[1], os.O_RDWR)
data = os.open(sys.argv[2], os.O_RDWR)
while True:
    os.fdatasync(log)
    try: os.fsync(data)
    except OSError: pass
    time.sleep(0.02)
"#;

/// Appends to a log and syncs it, without a pause.
const BUSY_SERVER: &str = r#"
import os, sys
open('/proc/self/comm', 'w').write('incidents-test')
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(log, b'0' * 512)
    os.fdatasync(log)
"#;

/// What `fsynctop history` prints.
struct History<'a>(&'a str);

impl History<'_> {
    fn of(&self, length: &str) -> String {
        let output = output(fsynctop().args(["history", "--last", length, "--socket", self.0]));
        stdout(&output) + &stderr(&output)
    }

    /// With the whole text on one line: where lines break is another matter.
    fn on_one_line(&self, length: &str) -> String {
        let text = self.of(length);
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace("Nothing", "nothing")
    }

    fn is_fine(&self, length: &str) -> bool {
        let text = self.on_one_line(length);
        ["is", "was"].iter().any(|time| text.contains(&format!("nothing failed, nothing {time} stuck, ")))
    }

    /// The beginning, of which an engineer reads all.
    fn first_lines(&self, length: &str) -> String {
        let text = self.of(length);
        let lines = text.lines().take(5).collect::<Vec<_>>();
        lines.join("\n").split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_incidents_are_told_first_with_their_cause_and_never_end_with_all_is_well() {
    needs(&["/dev/fuse", "/sys/kernel/tracing/events"]);
    let mount = FaultFs::mount("ok");
    let [log, data] = ["ib_logfile0", "ibdata1"].map(|name| mount.path().join(name));
    for file in [&log, &data] {
        std::fs::write(file, "x").unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let socket = socket.to_str().unwrap();
    let _exporter = Exporter::start(&["--comm", "incidents-test", "--socket", socket]);
    let server = Command::new("python3").args(["-c", SERVER]).args([&log, &data]).spawn().unwrap();
    let _server = Hung::new(&mount, Running(server));
    let history = History(socket);
    wait_until("a window in which all was well", || history.is_fine("1m"));
    // What is usual is known after ten seconds.
    std::thread::sleep(Duration::from_secs(12));

    mount.control("hang on ib_logfile0");
    mount.wait_for_hanging(1);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(4));
    let during = history.on_one_line("1m");
    assert!(during.starts_with("1 hang (UTC): since "), "{during}");
    mount.control("ok");
    mount.control("release");
    let hung = began.elapsed();
    // The end of the window is as good as any.
    wait_until("a last second in which all was well", || history.is_fine("1s"));
    let text = history.on_one_line("10m");
    for claim in ["nothing is stuck", "nothing was stuck"] {
        assert!(!during.contains(claim), "{claim}: {during}");
        assert!(!text.contains(claim), "{claim}: {text}");
    }
    let first = history.first_lines("10m");
    let (told, rest) = first.split_once(": redo hung for ").unwrap_or_else(|| panic!("{first}"));
    assert!(told.starts_with("1 hang (UTC): ") && told.contains(" to "), "{first}");
    let seconds: f64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((seconds - hung.as_secs_f64()).abs() < 0.5, "{seconds} s of {hung:?}: {text}");
    let which = format!(" (fdatasync, {}). It waited for the FUSE server's answer.", log.display());
    assert!(rest.contains(", usually ") && rest.contains(&which), "{first}");
    assert!(rest.contains(" Every commit waited for this log."), "{first}");

    // Slow for some seconds, and seen when it is long over.
    mount.control("delay 200ms on ib_logfile0");
    std::thread::sleep(Duration::from_secs(7));
    mount.control("ok");
    wait_until("a last second in which all was well", || history.is_fine("1s"));
    std::thread::sleep(Duration::from_secs(6));
    let first = history.first_lines("10m");
    assert!(first.starts_with("1 hang, 1 slow phase (UTC): "), "{first}");
    let words = ": redo slow, at worst half of the syncs took ";
    let slow = first.split(words).nth(1).unwrap_or_else(|| panic!("{first}"));
    let took: f64 = slow.split(' ').next().unwrap().parse().unwrap();
    assert!((190.0..260.0).contains(&took) && slow.contains(" times the usual "), "{first}");

    mount.control("fail EIO on ibdata1");
    let failed = || history.first_lines("10m").contains("system_tablespace failed, ");
    wait_until("a failed sync in the window", failed);
    mount.control("ok");
    wait_until("a last second in which all was well", || history.is_fine("1s"));
    let text = history.on_one_line("10m");
    assert!(text.starts_with("1 hang, 1 failure, 1 slow phase (UTC): "), "{text}");
    assert!(text.contains(&format!(" EIO (fsync, {}).", data.display())), "{text}");
    assert!(!text.contains("nothing failed"), "{text}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_incidents_who_writes_durably_on_the_same_disk_is_named_in_the_first_lines() {
    needs(&["/usr/bin/python3", "/sbin/mkfs.ext4"]);
    let disk = Mounted::image("ext4", 512);
    let (log, other) = (disk.path().join("ib_logfile0"), disk.path().join("copy"));
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let socket = socket.to_str().unwrap();
    let _exporter = Exporter::start(&["--comm", "incidents-test", "--socket", socket]);
    let server = Command::new("python3").args(["-c", BUSY_SERVER]).arg(&log).spawn().unwrap();
    let server = Running(server);
    let history = History(socket);
    wait_until("a window in which all was well", || history.is_fine("1m"));
    let copy = format!("of={}", other.display());
    let copy =
        Command::new("dd").args(["if=/dev/zero", &copy, "bs=512", "oflag=dsync", "status=none"]).spawn();
    let _copy = Running(copy.unwrap());
    // A log is saturated from ten seconds on.
    let meanwhile = || history.first_lines("1m").contains("dd made ");
    wait_until("the neighbour in the history", meanwhile);
    let first = history.first_lines("1m");
    assert!(first.contains("1 saturated log") && first.contains(" busy. "), "{first}");
    let explained = output(fsynctop().args(["explain", "-d", "3", "--pid", &server.0.id().to_string()]));
    let first = stdout(&explained).lines().take(5).collect::<Vec<_>>().join(" ");
    assert!(first.starts_with("Syncs are the limit: the redo log is "), "{first}");
    assert!(first.contains(" come from dd, which is not traced: "), "{first}");
}

#[test]
#[ignore = "needs root, a kernel with BTF and MySQL"]
fn root_incidents_bytes_that_are_written_twice_are_named_in_the_first_lines() {
    needs(&[]);
    for doublewrite in [true, false] {
        let on = format!("--innodb-doublewrite={}", if doublewrite { "ON" } else { "OFF" });
        let database = Database::start(Kind::MySql, &[&on]);
        database.prepare();
        let pid = database.pid.to_string();
        let table = std::thread::scope(|scope| {
            let table = scope.spawn(|| {
                let mut command = fsynctop();
                stdout(&output(command.args(["once", "-d", "8", "--by", "writes", "--pid", &pid])))
            });
            database.execute(&["SET GLOBAL innodb_max_dirty_pages_pct = 0"]);
            while !table.is_finished() {
                database.insert(4, 100);
            }
            table.join().unwrap()
        });
        let first = table.lines().take(5).collect::<Vec<_>>().join(" ");
        assert!(first.contains(" were written in all, "), "{table}");
        assert_eq!(first.contains("; the doublewrite buffer is "), doublewrite, "{table}");
    }
}
