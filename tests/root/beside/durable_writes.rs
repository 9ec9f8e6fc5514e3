//! Needs root: writes that are durable when they return are counted like syncs, by each call and each way, to
//! the call, the byte and the error; of other writes, those that fail.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::disk::{Mounted, run};
use crate::common::durable::DURABLE;
use crate::common::exporter::Exporter;
use crate::common::faults::{fsynctop, output};
use crate::common::measured::{Measured, count, number, path_of, text};
use crate::common::nested::Nested;
use crate::common::scrape::{Scrape, label};
use crate::common::tracing::Tracing;
use crate::common::ways::{Rows, made, name_of, seen, syncgen};
use crate::common::{Running, built, needs, wait_until, wait_until_it_hangs};
use serde_json::{Value, json};

const TRACEFS: &str = "/sys/kernel/tracing/events";

/// Everything that syncgen's ways do but for filling the filesystem.
const WAYS: &str = "odsync-write,odsync-pwrite,odsync-writev,odsync-pwritev,odsync-pwritev2,osync-pwrite,rwf-dsync,\
    rwf-sync,rwf-bad-descriptor,odsync-append,odsync-empty,odsync-short,odsync-fault,odsync-read-only,plain,plain-fault,\
    plain-read-only,plain-bad-descriptor,pipe,directory";

/// Everything that syncgen's ways do in rings and that the kernel reports.
const RINGS: &str = "ring-fsync,ring-fdatasync,ring-sync-file-range,ring-odsync,ring-rwf-dsync,ring-short,ring-full,\
    ring-bad-descriptor,ring-plain,ring-plain-fault,ring-polled,ring-registered,ring-linked,ring-cancelled,ring-deferred,\
    ring-threads";

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_each_durable_write_and_each_failed_one_is_counted_by_every_call() {
    needs(&[TRACEFS]);
    let small = Mounted::new(&["-t", "tmpfs", "-o", "size=8m", "fsynctop-test"]);
    let (ext4, xfs) = (Mounted::image("ext4", 64), Mounted::image("xfs", 320));
    for (mounted, has_flags) in [(&small, false), (&ext4, true), (&xfs, true)] {
        let inode = if has_flags { ",inode" } else { "" };
        let (measured, said) =
            syncgen(&[], mounted.path(), &format!("{WAYS},odsync-full,plain-full{inode}"), 100);
        assert_eq!(seen(&measured), made(&said), "{}", said);
        let full = seen(&measured)
            [&("way-odsync-full".into(), "dsync_write".into(), "call".into(), "file".into())]
            .clone();
        assert_eq!(full.2, json!({ "ENOSPC": 100 }));
        measured.assert_nothing_lost();
        let role = measured.roles().iter().find(|row| row["op"] == "dsync_write").unwrap();
        let bytes: u64 = measured.files().iter().map(|row| number(row, "bytes")).sum();
        assert_eq!(number(role, "bytes"), bytes);
        assert!(measured.roles().iter().all(|row| row["op"] != "write"), "{:?}", measured.roles());
        assert!(!measured.0["not_watched"].as_array().unwrap().contains(&"o_dsync".into()));
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_write_is_durable_by_its_mount_also_below_an_overlay() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    let below = Mounted::image("ext4", 64);
    let overlay = Mounted::overlay(below.path());
    for (mounted, disk) in [(&ext4, &ext4), (&overlay, &below)] {
        let point = disk.path().to_str().unwrap();
        let written = |_| {
            let (measured, said) = syncgen(&[], mounted.path(), "plain", 50);
            measured.assert_nothing_lost();
            assert_eq!(said["ways"]["plain"]["bytes"], 50 * 700);
            measured.files().iter().map(|row| (text(row, "op"), count(row), number(row, "bytes"))).collect()
        };
        let asynchronous: Vec<_> = written(());
        assert_eq!(asynchronous, []);
        run("mount", &["-o", "remount,sync", point]);
        let synchronous: Vec<_> = written(());
        assert_eq!(synchronous, [("dsync_write".to_owned(), 50, 50 * 700)]);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_syncs_and_durable_writes_in_rings_are_counted_as_their_completions_say() {
    needs(&[TRACEFS]);
    let small = Mounted::new(&["-t", "tmpfs", "-o", "size=8m", "fsynctop-test"]);
    let (ext4, xfs) = (Mounted::image("ext4", 64), Mounted::image("xfs", 320));
    for mounted in [&small, &ext4, &xfs] {
        let ops = ["--ops", "fsync,fdatasync,sync_file_range"];
        let (measured, said) = syncgen(&ops, mounted.path(), RINGS, 100);
        assert_eq!(seen(&measured), made(&said), "{said}");
        let full = &said["ways"]["ring-full"];
        assert_eq!(full["errors"], json!({ "ENOSPC": 100 }), "{full}");
        measured.assert_nothing_lost();
        assert!(measured.in_flight().is_empty(), "{:?}", measured.in_flight());
        assert!(!measured.0["not_watched"].as_array().unwrap().contains(&"io_uring".into()));
    }
    // Of what the kernel does not report it is said how much there was.
    let (measured, said) = syncgen(&[], ext4.path(), "ring-silent", 100);
    assert_eq!((number(&said["ways"]["ring-silent"], "silent"), measured.lost("unreported")), (100, 100));
    assert_eq!((measured.total(), measured.lost("unwatched")), (0, 0));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_rows_of_requests_say_how_their_completions_come_about() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    let ways = "ring-fsync,ring-polled,ring-deferred,ring-iopoll,aio-fsync,odsync-pwrite";
    let (measured, said) = syncgen(&[], ext4.path(), ways, 20);
    assert_eq!(seen(&measured), made(&said), "{said}");
    let completions: BTreeMap<_, _> =
        measured.files().iter().map(|row| (name_of(row), row["completion"].as_str())).collect();
    let expected = [
        ("way-aio-fsync", Some("reaped")),
        ("way-odsync-pwrite", None),
        ("way-ring-deferred", Some("reaped")),
        ("way-ring-fsync", Some("posted")),
        ("way-ring-iopoll", Some("reaped")),
        ("way-ring-polled", Some("posted")),
    ];
    assert_eq!(completions, expected.map(|(name, completion)| (name.to_owned(), completion)).into());
    let of = |via: &str, op: &str| {
        let role = measured.roles().iter().find(|row| row["via"] == via && row["op"] == op);
        role.unwrap_or_else(|| panic!("no {op} by {via}"))["completion"].as_str()
    };
    assert_eq!(
        [
            of("io_uring", "fsync"),
            of("io_uring", "dsync_write"),
            of("aio", "fsync"),
            of("call", "dsync_write")
        ],
        [Some("mixed"), Some("reaped"), Some("reaped"), None]
    );
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_requests_in_a_ring_that_processes_share_are_those_of_whoever_submits_them() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    // Each is submitted by a child of its own, in the ring of its parent, who takes the completion.
    let (measured, said) = syncgen(&[], ext4.path(), "ring-forked", 30);
    assert_eq!(number(&said["ways"]["ring-forked"], "calls"), 30);
    let rows: Vec<_> = measured.files().iter().map(|row| (number(row, "pid"), count(row))).collect();
    let pids: std::collections::BTreeSet<_> = rows.iter().map(|(pid, _)| pid).collect();
    assert_eq!((pids.len(), measured.total()), (30, 30), "{rows:?}");
    assert!(rows.iter().all(|(_, count)| *count == 1), "{rows:?}");
    measured.assert_nothing_lost();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_in_a_ring_with_iopoll_writes_are_counted_and_syncs_are_refused() {
    needs(&[TRACEFS]);
    for mounted in [Mounted::image("ext4", 64), Mounted::image("xfs", 320)] {
        let (measured, said) = syncgen(&[], mounted.path(), "ring-iopoll,ring-iopoll-fsync", 50);
        // The kernel refuses it before it is a request, and shows it at no hook.
        assert_eq!(said["ways"]["ring-iopoll-fsync"]["errors"], json!({ "EINVAL": 50 }), "{said}");
        let mut expected = made(&said);
        expected.retain(|(name, ..), _| name != "way-ring-iopoll-fsync");
        assert_eq!(seen(&measured), expected, "{said}");
        assert_eq!(expected.len(), 1, "{said}");
        measured.assert_nothing_lost();
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_writes_that_are_not_asked_for_are_not_counted() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    let (measured, _) = syncgen(&["--writes", "off"], ext4.path(), WAYS, 10);
    assert_eq!(seen(&measured), Rows::new());
    let not_watched = measured.0["not_watched"].as_array().unwrap();
    assert!(not_watched.contains(&"o_dsync".into()) && not_watched.contains(&"rwf_dsync".into()));
    assert!(measured.lost("unwatched") > 0, "the net below has them: {}", measured.0["lost"]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_durable_writes_are_counted_by_thread_and_beside_syncs() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    let program = built("syncgen");
    let directory = ext4.path().to_str().unwrap();
    let command = [
        program.to_str().unwrap(),
        directory,
        "--threads",
        "4",
        "--syncs",
        "500",
        "--write",
        "64",
        "--dsync",
        "--wait",
    ];
    let mut child = Command::new(command[0]);
    child.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut load = Running(child.spawn().unwrap());
    let mut lines = BufReader::new(load.0.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("ready"));
    let pid = load.0.id().to_string();
    let tracing =
        crate::common::tracing::Tracing::begin(&["--pid", &pid, "--by", "thread", "--output", "json"]);
    std::io::Write::write_all(load.0.stdin.as_mut().unwrap(), b"\n").unwrap();
    let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(said["durable_writes"], 2_001);
    let [measured] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
    measured.assert_nothing_lost();
    let of = |op: &str| -> Vec<(u64, u64)> {
        let rows = measured.threads().iter().filter(|row| row["op"] == op);
        rows.map(|row| (count(row), row["bytes"].as_u64().unwrap_or_default())).collect()
    };
    // The first page of the file was written before.
    assert_eq!((of("dsync_write"), of("fdatasync")), (vec![(500, 500 * 64); 4], vec![(500, 0); 4]));
    assert_eq!(measured.total(), 4_000);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_durable_write_that_hangs_is_in_flight() {
    needs(&[TRACEFS]);
    let nested = Nested::new().unwrap();
    let file = nested.inner().join("hangs");
    let mut command = Command::new("python3");
    command.args(["-c", "import os, sys\nfd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DSYNC)\nos.pwrite(fd, b'a', 0)\nprint('ready', flush=True)\nsys.stdin.readline()\nos.pwrite(fd, b'b' * 65536, 0)"]);
    let mut writer =
        Running(command.arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(writer.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = writer.0.id();
    let tracing = Tracing::begin(&["--output", "json", "--pid", &pid.to_string()]);
    nested.freeze();
    std::io::Write::write_all(writer.0.stdin.as_mut().unwrap(), b"\n").unwrap();
    wait_until_it_hangs(pid);
    std::thread::sleep(Duration::from_secs(1));
    let measured = tracing.one();
    nested.thaw();
    let [hung] = measured.in_flight() else { panic!("one: {}", measured.0["in_flight"]) };
    assert_eq!((hung["op"].as_str(), path_of(hung)), (Some("dsync_write"), Some(file)));
    assert!(hung["age_seconds"].as_f64().unwrap() > 1.0, "{hung}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_any_other_write_that_hangs_is_in_flight_too() {
    needs(&[TRACEFS]);
    let nested = Nested::new().unwrap();
    let file = nested.inner().join("shop.ibd");
    let mut command = Command::new("python3");
    // Past the page cache, as InnoDB writes its pages.
    command.args(["-c", "import mmap, os, sys\nfd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)\nprint('ready', flush=True)\nsys.stdin.readline()\nos.fsync(fd)\nprint('synced', flush=True)\nsys.stdin.readline()\nos.pwrite(fd, mmap.mmap(-1, 65536), 0)"]);
    let mut writer =
        Running(command.arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(writer.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    let pid = writer.0.id();
    let one_process = ["--output", "json", "--pid", &pid.to_string()];
    let unwatched = Tracing::begin(&[&one_process[..], &["--writes", "off"]].concat());
    let mut watched = fsynctop();
    watched.args(["once", "-i", "500ms"]).args(one_process).stdout(Stdio::piped());
    let mut watched = Running(watched.spawn().unwrap());
    let mut intervals = BufReader::new(watched.0.stdout.take().unwrap()).lines();
    let mut interval = || Measured::parse(&intervals.next().expect("it goes on").unwrap());
    interval();
    // Whoever syncs is known to both.
    let mut go_on = || std::io::Write::write_all(writer.0.stdin.as_mut().unwrap(), b"\n").unwrap();
    go_on();
    assert_eq!(said.next().as_deref(), Some("synced"));
    nested.freeze();
    let told = Instant::now();
    go_on();
    let mut measured = interval();
    wait_until("the write to be in flight", || {
        measured = interval();
        !measured.in_flight().is_empty()
    });
    let [hung] = measured.in_flight() else { panic!("one: {}", measured.0["in_flight"]) };
    assert_eq!((hung["op"].as_str(), path_of(hung)), (Some("write"), Some(file)));
    let age = hung["age_seconds"].as_f64().unwrap();
    assert!(age < told.elapsed().as_secs_f64() && hung["age_is_minimum"] == true, "{hung}");
    let unwatched = unwatched.one();
    nested.thaw();
    assert!(unwatched.in_flight().is_empty(), "{}", unwatched.0["in_flight"]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_exporter_tells_them_apart_and_counts_their_bytes() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    // Under a name of its own: other tests make other syncs meanwhile.
    let exporter = Exporter::start(&["--comm", "exported", "--max-cpu", "off"]);
    let mut load = Command::new(built("syncgen"));
    load.arg(ext4.path()).args([
        "--syncs",
        "300",
        "--ways",
        "odsync-pwrite,rwf-dsync,ring-fsync,ring-odsync",
        "--comm",
        "exported",
    ]);
    let said: Value = serde_json::from_slice(&output(&mut load).stdout).unwrap();
    let mut expected: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for ((_, op, via, _), (calls, bytes, _)) in made(&said) {
        let sums = expected.entry((op, via)).or_default();
        *sums = (sums.0 + calls, sums.1 + bytes);
    }
    let scrape = Scrape::of(&exporter);
    scrape.assert_whole();
    let mut seen: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for (series, count) in scrape.of_family("fsynctop_sync_duration_seconds_count") {
        seen.entry((label(series, "op"), label(series, "via"))).or_default().0 += count as u64;
    }
    for (series, bytes) in scrape.of_family("fsynctop_durable_written_bytes_total") {
        seen.entry(("dsync_write".into(), label(series, "via"))).or_default().1 += bytes as u64;
    }
    assert_eq!(seen, expected, "{said}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_table_names_durable_writes_and_failed_ones() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    let mut once = fsynctop();
    once.args(["once", "--"]).arg(built("syncgen")).arg(ext4.path());
    once.args(["--ways", "odsync-pwrite,plain-fault", "--syncs", "200"]);
    let text = crate::common::faults::stdout(&output(&mut once));
    let row = text.lines().find(|line| line.starts_with("other  dsync_write"));
    let row = row.unwrap_or_else(|| panic!("{text}"));
    assert!(row.ends_with("140,000"), "{text}");
    assert!(text.contains("200 writes failed: 200 EFAULT on ") && text.contains("way-plain-fault"), "{text}");
    assert!(!text.contains("Nothing failed"), "{text}");
    assert!(!text.contains("O_DSYNC writes"), "{text}");
    let mut once = fsynctop();
    once.args(["once", "--output", "csv", "--", "python3", "-c", DURABLE, "rwf_dsync"]);
    let text = crate::common::faults::stdout(&output(once.arg(ext4.path().join("file"))));
    let row =
        text.lines().find(|line| line.contains(",dsync_write,200,")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains(",819200,call,,"), "{text}");
}
