//! Needs root: recordings of known loads are those loads, also where the recorder is killed, its disk is
//! full or its disk hangs.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::disk::{Frozen, Mounted};
use crate::common::faults::{FaultFs, signal};
use crate::common::measured::{count, number};
use crate::common::{Running, built, needs, wait_until};

const TRACEFS: &str = "/sys/kernel/tracing/events";

fn fsynctop() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.env("FSYNCTOP_NO_CONFIG", "true");
    command
}

/// Everything of a recording as one measurement.
fn replayed(recording: &Path, more: &[&str]) -> Value {
    let mut once = fsynctop();
    once.args(["once", "--output", "json", "--replay"]).arg(recording).args(more);
    let output = once.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn syncs(measured: &Value) -> u64 {
    measured["roles"].as_array().unwrap().iter().map(count).sum()
}

/// The status, and what it says.
fn segments(recording: &Path) -> (Option<i32>, String) {
    let output = fsynctop().arg("segments").arg(recording).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn syncgen(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(arguments);
    command
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_recording_has_each_call_and_byte_of_a_known_load() {
    needs(&[TRACEFS]);
    let (ext4, recordings) = (Mounted::image("ext4", 64), tempfile::tempdir().unwrap());
    let recording = recordings.path().join("of a load");
    let load =
        syncgen(ext4.path(), &["--threads", "4", "--files", "3", "--syncs", "3000", "--write", "4096"]);
    let mut record = fsynctop();
    record.args(["record", "--writes", "all", "-i", "100ms", "--output-directory"]).arg(&recording).arg("--");
    record.arg(load.get_program()).args(load.get_args());
    let output = record.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(" with 12,000 syncs"), "{output:?}");
    let all = replayed(&recording, &[]);
    assert_eq!(syncs(&all), 12_000);
    let files: u64 = all["files"].as_array().unwrap().iter().map(count).sum();
    assert_eq!((files, all["files"].as_array().unwrap().len()), (12_000, 3));
    let written: u64 = all["writes"].as_array().unwrap().iter().map(|row| number(row, "bytes")).sum();
    // Each file was written once when it was made.
    assert_eq!(written, (12_000 + 3) * 4_096);
    // A series of it adds up to the same.
    let mut series = fsynctop();
    series.args(["once", "--output", "json", "-i", "200ms", "--replay"]).arg(&recording);
    let output = series.output().unwrap();
    let parts = String::from_utf8(output.stdout).unwrap();
    let parts: Vec<Value> = parts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(parts.len() > 1, "{}", parts.len());
    assert_eq!(parts.iter().map(syncs).sum::<u64>(), 12_000);
    let (status, said) = segments(&recording);
    assert!(status == Some(0) && said.contains("Nothing of it is missing."), "{said}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_syncs_waited_for_is_recorded_and_explained_with_its_stacks() {
    needs(&[TRACEFS, "/dev/fuse"]);
    let (slow, recordings) = (FaultFs::mount("delay 20ms"), tempfile::tempdir().unwrap());
    let recording = recordings.path().join("of waits");
    let load = syncgen(slow.path(), &["--threads", "2", "--files", "2", "--syncs", "60"]);
    let mut record = fsynctop();
    record.args(["record", "--waits", "-i", "100ms", "--output-directory"]).arg(&recording).arg("--");
    let output = record.arg(load.get_program()).args(load.get_args()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let all = replayed(&recording, &[]);
    let seconds = |row: &Value| row["total_seconds"].as_f64().unwrap();
    let measured: f64 = all["roles"].as_array().unwrap().iter().map(seconds).sum();
    assert!(measured >= 120.0 * 0.02, "{measured}");

    let [folded, graph] = ["folded", "graph"].map(|name| recordings.path().join(name));
    let mut explain = fsynctop();
    explain.args(["explain", "--replay"]).arg(&recording);
    explain.arg("--folded").arg(&folded).arg("--flamegraph").arg(&graph);
    let output = explain.output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let cause = "was spent waiting for the server of a FUSE or network filesystem";
    assert!(page.contains(cause) && !page.contains("record --waits"), "{page}");
    let folded = std::fs::read_to_string(folded).unwrap();
    let microseconds = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let waited: f64 = folded.lines().map(microseconds).sum::<f64>() / 1e6;
    assert!((0.9..1.1).contains(&(waited / measured)), "{waited} of {measured} s\n{page}");
    let is_remote = |line: &&str| line.contains("fuse_") && line.contains(";[FUSE or network filesystem] ");
    let remote: f64 = folded.lines().filter(is_remote).map(microseconds).sum::<f64>() / 1e6;
    assert!(remote > 0.8 * waited, "{folded}");
    assert!(std::fs::read_to_string(graph).unwrap().contains("fuse_"));
}

/// A recorder of a load that goes on.
struct Recorder {
    child: Running,
    _load: Running,
}

impl Recorder {
    fn start(comm: &str, load: &Path, recording: &Path) -> Recorder {
        let load =
            syncgen(load, &["--seconds", "600", "--comm", comm]).stdout(Stdio::null()).spawn().unwrap();
        let mut record = fsynctop();
        record.args(["record", "--comm", comm, "-i", "100ms", "--output-directory"]).arg(recording);
        let child: Child = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let plain = recording.join("all-00000000-plain.fst");
        wait_until("the first interval", || plain.metadata().is_ok_and(|file| file.len() > 2_000));
        Recorder { child: Running(child), _load: Running(load) }
    }

    /// By Ctrl-C: standard error, and whether all was well.
    fn end(mut self) -> (String, bool) {
        signal(self.child.0.id(), "INT");
        let mut said = String::new();
        let mut stderr = self.child.0.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
        let status = self.child.0.wait().unwrap();
        (said, status.success())
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_recorder_that_is_killed_leaves_all_that_it_had_written() {
    needs(&[TRACEFS]);
    let (tmpfs, recordings) = (Mounted::tmpfs(), tempfile::tempdir().unwrap());
    let recording = recordings.path().join("killed");
    let recorder = Recorder::start("killed-recorder", tmpfs.path(), &recording);
    std::thread::sleep(Duration::from_millis(1_234));
    signal(recorder.child.0.id(), "KILL");
    drop(recorder);
    let all = replayed(&recording, &[]);
    assert!(all["duration_seconds"].as_f64().unwrap() > 1.0 && syncs(&all) > 0, "{all}");
    let (status, said) = segments(&recording);
    assert!(status == Some(0) && said.contains("Nothing of it is missing."), "{said}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_a_full_disk_refuses_is_recorded_once_there_is_room() {
    needs(&[TRACEFS]);
    let (tmpfs, disk) = (Mounted::tmpfs(), Mounted::image("ext4", 16));
    let recording = disk.path().join("recording");
    let recorder = Recorder::start("full-recorder", tmpfs.path(), &recording);
    let filler = disk.path().join("filler");
    let _ = std::io::copy(&mut std::io::repeat(0), &mut std::fs::File::create(&filler).unwrap());
    let plain = recording.join("all-00000000-plain.fst");
    let length = || plain.metadata().unwrap().len();
    std::thread::sleep(Duration::from_millis(500));
    let before = length();
    std::thread::sleep(Duration::from_millis(1_000));
    assert_eq!(length(), before, "it goes on though less than a twentieth is free");
    std::fs::remove_file(&filler).unwrap();
    wait_until("what waited", || length() > before);
    std::thread::sleep(Duration::from_millis(500));
    let (said, is_well) = recorder.end();
    assert!(is_well && said.contains("not recorded: there is no room: "), "{said}");
    let (status, said) = segments(&recording);
    assert!(status == Some(0) && said.contains("Nothing of it is missing."), "{said}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_disk_that_hangs_under_the_recording_costs_no_interval_and_no_second_ctrl_c() {
    needs(&[TRACEFS]);
    let (tmpfs, disk) = (Mounted::tmpfs(), Mounted::image("ext4", 16));
    let recording = disk.path().join("recording");
    let recorder = Recorder::start("frozen-recorder", tmpfs.path(), &recording);
    let frozen = Frozen::freeze(disk.path());
    std::thread::sleep(Duration::from_secs(3));
    drop(frozen);
    let (said, is_well) = recorder.end();
    assert!(is_well, "{said}");
    let all = replayed(&recording, &[]);
    assert!(all["duration_seconds"].as_f64().unwrap() > 3.0, "{all}");
    let (status, said) = segments(&recording);
    assert!(status == Some(0) && said.contains("Nothing of it is missing."), "{said}");

    let recording = disk.path().join("given up");
    let mut recorder = Recorder::start("frozen-recorder", tmpfs.path(), &recording);
    let frozen = Frozen::freeze(disk.path());
    std::thread::sleep(Duration::from_millis(500));
    signal(recorder.child.0.id(), "INT");
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(recorder.child.0.try_wait().unwrap().is_none(), "it waits for its disk");
    let began = Instant::now();
    signal(recorder.child.0.id(), "INT");
    // Its main thread ends; one that waits for the disk ends with that.
    wait_until("its end", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", recorder.child.0.id()));
        status.map_or(true, |status| status.contains("State:\tZ"))
    });
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    drop(frozen);
    recorder.child.0.wait().unwrap();
}
