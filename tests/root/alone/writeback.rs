//! Needs root: what the kernel could not write back is told when it happens, by file and errno, though nobody
//! syncs; and as often as a sync would have reported it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::exporter::Exporter;
use crate::common::faults::{self, fsynctop, stdout};
use crate::common::measured::{Measured, number, path_of};
use crate::common::scrape::Scrape;
use crate::common::traced::Live;
use crate::common::unwritable::{SoonWritten, Unwritable};
use crate::common::{Running, id_of, needs, wait_until};
use serde_json::{Value, json};

const BYTES: usize = 3 << 20;

/// Writes to its file, which it keeps open, whenever it is told to, in pieces that the kernel cannot put
/// together; it never syncs.
const WRITER: &str = r#"
import os, sys
file = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    for at in range(0, int(sys.argv[2]), 8192):
        os.pwrite(file, b'x' * 4096, at)
"#;

fn writer(file: &Path, bytes: usize) -> Vec<PathBuf> {
    vec!["python3".into(), "-c".into(), WRITER.into(), file.to_owned(), bytes.to_string().into()]
}

/// The kernel's own record of each time that it noted a writeback error.
struct KernelTrace(PathBuf);

impl KernelTrace {
    fn begin() -> KernelTrace {
        let instance = format!("/sys/kernel/tracing/instances/fsynctop-writeback-{}", std::process::id());
        std::fs::create_dir(&instance).unwrap();
        let trace = KernelTrace(instance.into());
        std::fs::write(trace.0.join("events/filemap/filemap_set_wb_err/enable"), "1").unwrap();
        trace
    }

    /// How often it did so for an inode.
    fn times(&self, inode: u64) -> usize {
        let text = std::fs::read_to_string(self.0.join("trace")).unwrap();
        let of_inode = format!("ino=0x{inode:x} ");
        text.lines().filter(|line| line.contains("filemap_set_wb_err") && line.contains(&of_inode)).count()
    }
}

impl Drop for KernelTrace {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("events/enable"), "0");
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn errors(measured: &Measured) -> &Vec<Value> {
    measured.0["writeback_errors"].as_array().unwrap()
}

/// (file, errno) → changes, of all intervals.
fn sum(all: &[Measured]) -> BTreeMap<(PathBuf, String), u64> {
    let mut sum = BTreeMap::new();
    for row in all.iter().flat_map(errors) {
        let key = (path_of(row).unwrap_or_default(), row["error"].as_str().unwrap().to_owned());
        *sum.entry(key).or_default() += number(row, "count");
    }
    sum
}

/// What a sync says by a descriptor that was open before: Some, an error that nobody was told of.
fn reported(file: &File) -> Option<i32> {
    file.sync_data().err().map(|error| error.raw_os_error().unwrap())
}

fn on(filesystem: &str, megabytes: u64) {
    needs(&["/sys/kernel/tracing/events/filemap/filemap_set_wb_err"]);
    let disk = Unwritable::filesystem(filesystem, megabytes);
    let file = disk.file("ibdata1", BYTES);
    let inode = id_of(&file).inode;
    let observer = OpenOptions::new().write(true).open(&file).unwrap();
    assert_eq!(reported(&observer), None);
    let trace = KernelTrace::begin();
    let _soon = SoonWritten::begin();
    let mut live = Live::start("500ms", &[], &writer(&file, BYTES));
    let mut intervals = vec![live.next().unwrap()];
    let key = (file.clone(), "ENOSPC".to_owned());

    // Nobody syncs: it is told within the interval in which it happens, or the next one.
    live.tell("write");
    wait_until("the kernel to give up", || trace.times(inode) > 0);
    let happened = Instant::now();
    while !sum(&intervals).contains_key(&key) {
        assert!(happened.elapsed() < Duration::from_secs(5), "not told: {:?}", intervals.last().unwrap().0);
        intervals.push(live.next().unwrap());
    }
    let row = errors(intervals.last().unwrap())[0].clone();
    assert_eq!(
        (&row["role"], &row["target"], &row["filesystem"]),
        (&json!("system_tablespace"), &json!("file"), &json!(filesystem))
    );
    assert_eq!(row["inode"], inode);
    assert_eq!(row["device"], disk.node().to_str().unwrap());
    assert!(row["pid"].as_u64().is_some_and(|pid| pid > 1), "{row}");

    let still = |intervals: &mut Vec<Measured>, live: &mut Live| {
        let mut before = trace.times(inode);
        // The pieces of one write come one after the other.
        wait_until("the kernel to be through", || {
            intervals.push(live.next().unwrap());
            let now = trace.times(inode);
            std::mem::replace(&mut before, now) == now
        });
        before
    };
    let first = still(&mut intervals, &mut live);
    // Nobody was told of the first error, so the second is none of its own.
    live.tell("write");
    wait_until("the kernel to give up again", || trace.times(inode) > first);
    let second = still(&mut intervals, &mut live);
    let mut truth = 0;
    assert_eq!((sum(&intervals)[&key], truth), (1, 0));
    // Once somebody was, it is.
    let mut before = second;
    for _ in 0..3 {
        assert_eq!(reported(&observer), Some(libc::ENOSPC));
        assert_eq!(reported(&observer), None, "it is told once");
        truth += 1;
        assert_eq!(sum(&intervals)[&key], truth, "as often as a sync reports it");
        live.tell("write");
        wait_until("the kernel to give up", || trace.times(inode) > before);
        before = still(&mut intervals, &mut live);
    }
    truth += u64::from(reported(&observer) == Some(libc::ENOSPC));
    let (left, ended_well) = live.end();
    assert!(ended_well);
    intervals.extend(left);
    assert_eq!(sum(&intervals), [(key, truth)].into(), "{truth} errors in {before} events");
    assert_eq!(truth, 4);
    assert!(before > 100, "{before} events: many stand for one error");
    for measured in &intervals {
        assert_eq!(measured.lost("writeback_errors"), 0);
        assert_eq!(measured.0["failures"], json!([]));
        assert_eq!(measured.files().len(), 0, "no traced process has synced");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_writeback_errors_on_ext4_are_told_without_a_sync_and_as_often_as_one_reports_them() {
    on("ext4", 64);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_writeback_errors_on_xfs_are_told_without_a_sync_and_as_often_as_one_reports_them() {
    on("xfs", 320);
}

/// A server under a name of its own: a log on a filesystem that is full, and data that cannot be written
/// back.
const SERVER: &str = r#"
import os, sys
open('/proc/self/comm', 'w').write('writeback-test')
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
data = os.open(sys.argv[2], os.O_RDWR)
print(flush=True)
sys.stdin.readline()
for _ in range(7):
    try: os.write(log, b'x' * 4096)
    except OSError: pass
os.pwrite(data, b'x' * 4096, 0)
sys.stdin.readline()
"#;

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_an_exporter_counts_and_remembers_what_failed_without_a_sync() {
    needs(&["/sys/kernel/tracing/events/filemap/filemap_set_wb_err"]);
    let disk = Unwritable::filesystem("ext4", 64);
    let data = disk.file("ibdata1", BYTES);
    let log = disk.full().join("ib_logfile0");
    let _soon = SoonWritten::begin();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let exporter = Exporter::start(&["--comm", "writeback-test", "--socket", socket.to_str().unwrap()]);
    let mut server = Command::new("python3")
        .args(["-c", SERVER])
        .args([&log, &data])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut commands, output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let _server = Running(server);
    BufReader::new(output).read_line(&mut String::new()).unwrap();
    writeln!(commands, "fail").unwrap();

    let (writes, writeback) = ("fsynctop_failed_writes_total", "fsynctop_writeback_errors_total");
    let mut scrape = Scrape::default();
    wait_until("both to be counted", || {
        scrape = Scrape::of(&exporter);
        scrape.sum(writes, &[]) > 0 && scrape.sum(writeback, &[]) > 0
    });
    let labels = |role| ["server=\"writeback-test\"", role, "errno=\"ENOSPC\""];
    assert_eq!(scrape.sum(writes, &labels("role=\"redo\"")), 7, "{scrape:#?}");
    assert_eq!(scrape.sum(writeback, &labels("role=\"system_tablespace\"")), 1, "{scrape:#?}");
    assert_eq!((scrape.sum(writes, &[]), scrape.sum(writeback, &[])), (7, 1), "{scrape:#?}");
    assert_eq!((scrape.syncs(&[]), scrape.sum("fsynctop_lost_total", &[])), (0, 0));

    let mut text = String::new();
    // A second after it has begun at the latest, it has something to remember.
    wait_until("the history to have it", || {
        let mut history = fsynctop();
        let history = faults::output(history.args(["history", "--last", "1m", "--socket"]).arg(&socket));
        text = stdout(&history).split_whitespace().collect::<Vec<_>>().join(" ");
        text.contains(" failed: ") && text.contains("write back")
    });
    for said in [
        format!(
            "The kernel could not write back what had been written: 1 ENOSPC on {} (system_tablespace",
            data.display()
        ),
        format!("7 writes failed: 7 ENOSPC on {} (redo write), the last by ", log.display()),
    ] {
        assert!(text.contains(&said), "{said}: {text}");
    }
    assert!(!text.contains("nothing failed"), "{text}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_errors_of_a_device_and_of_others_files_are_told_without_a_name() {
    needs(&["/sys/kernel/tracing/events/filemap/filemap_set_wb_err"]);
    let (disk, device) = (Unwritable::filesystem("ext4", 64), Unwritable::device(8));
    let file = disk.file("of somebody else", BYTES);
    let inode = id_of(&file).inode;
    device.take_out(0, 1 << 20);
    let _soon = SoonWritten::begin();
    let mut live = Live::start("500ms", &[], &["sh", "-c", "read _ || true"]);
    let mut intervals = vec![live.next().unwrap()];
    // By this process, which is not traced. The device is open for as long as it is written.
    let node = OpenOptions::new().write(true).open(device.node()).unwrap();
    let theirs = OpenOptions::new().write(true).open(&file).unwrap();
    for open in [&node, &theirs] {
        std::os::unix::fs::FileExt::write_all_at(open, &vec![2; 1 << 20], 0).unwrap();
    }
    let end = Instant::now() + Duration::from_secs(20);
    while sum(&intervals).values().sum::<u64>() < 2 {
        assert!(Instant::now() < end, "{:?}", intervals.last().unwrap().0);
        intervals.push(live.next().unwrap());
    }
    let (left, _) = live.end();
    intervals.extend(left);
    // Of a device's pages the kernel notes no other errno.
    assert_eq!((reported(&node), reported(&theirs)), (Some(libc::EIO), Some(libc::ENOSPC)));
    let mut rows: Vec<&Value> = intervals.iter().flat_map(errors).collect();
    rows.sort_by(|a, b| a["target"].as_str().cmp(&b["target"].as_str()));
    let [of_file, of_device] = rows[..] else { panic!("{rows:?}") };
    let expected = [(of_file, "file", &disk, "ENOSPC"), (of_device, "filesystem", &device, "EIO")];
    for (row, target, on, error) in expected {
        assert_eq!((&row["pid"], &row["role"], &row["path"]), (&json!(null), &json!(null), &json!(null)));
        assert_eq!((&row["target"], &row["device"]), (&json!(target), &json!(on.node().to_str().unwrap())));
        assert_eq!((&row["error"], &row["count"]), (&json!(error), &json!(1)));
    }
    assert_eq!((&of_file["inode"], &of_device["inode"]), (&json!(inode), &json!(null)));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_files_that_fail_by_the_thousand_leave_room_for_those_that_fail_later() {
    needs(&["/sys/kernel/tracing/events/filemap/filemap_set_wb_err"]);
    // More than the kernel side has room for, in two halves.
    const HALF: usize = 700;
    let disk = Unwritable::filesystem("ext4", 64);
    let files: Vec<PathBuf> = (0..2 * HALF).map(|number| disk.file(&number.to_string(), 4_096)).collect();
    let _soon = SoonWritten::begin();
    let mut live = Live::start("500ms", &[], &["sh", "-c", "read _ || true"]);
    let mut intervals = vec![live.next().unwrap()];
    let changes = |intervals: &[Measured]| sum(intervals).values().sum::<u64>() as usize;
    for (half, files) in files.chunks(HALF).enumerate() {
        for file in files {
            std::fs::OpenOptions::new().write(true).open(file).unwrap().write_all(&[2; 4_096]).unwrap();
        }
        wait_until("all to be told", || {
            intervals.push(live.next().unwrap());
            changes(&intervals) >= (half + 1) * HALF
        });
    }
    let (left, _) = live.end();
    intervals.extend(left);
    assert_eq!(changes(&intervals), 2 * HALF);
    assert_eq!(intervals.iter().map(|measured| measured.lost("writeback_errors")).sum::<u64>(), 0);
}
