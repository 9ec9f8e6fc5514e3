//! Needs root: what the exporter records is what happened, also where it is killed; and where the recorder or
//! its disk fails, everything else goes on and says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::disk::{Frozen, Mounted};
use crate::common::exporter::{Exporter, children, status_lines};
use crate::common::faults::{FaultFs, fsynctop, output, signal, stderr, stdout};
use crate::common::measured::count;
use crate::common::{Running, built, needs, wait_until};

const TRACEFS: &str = "/sys/kernel/tracing/events";
/// Who records where nothing else is said.
const NOBODY: u32 = 65_534;

struct Setting {
    _directory: Mounted,
    socket: PathBuf,
    recording: PathBuf,
    comm: String,
}

impl Setting {
    /// The socket is in a tmpfs, as below /run, and so is the recording unless it has a disk.
    fn new(comm: &str, disk: Option<&Path>) -> Setting {
        let directory = Mounted::tmpfs();
        // Everybody may write to the root of a tmpfs.
        let run = directory.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let (socket, recording) = (run.join("exporter.sock"), disk.unwrap_or(&run).join("recording"));
        Setting { _directory: directory, socket, recording, comm: comm.to_owned() }
    }

    fn start(&self) -> Exporter {
        let [socket, recording] = [&self.socket, &self.recording].map(|path| path.to_str().unwrap());
        let exporter = Exporter::start(&[
            "--comm", &self.comm, "--socket", socket, "--record", recording, "-i", "200ms",
        ]);
        exporter.wait_for_line("recording by process");
        exporter
    }

    fn load(&self, more: &[&str]) -> Command {
        let mut load = Command::new(built("syncgen"));
        load.arg(self.socket.parent().unwrap()).args(["--comm", &self.comm]).args(more).stdout(Stdio::null());
        load
    }

    fn replayed(&self) -> Value {
        let mut once = fsynctop();
        once.args(["once", "--output", "json", "--replay"]).arg(&self.recording);
        serde_json::from_slice(&output(&mut once).stdout).unwrap()
    }

    fn history(&self, more: &[&str]) -> std::process::Output {
        let mut history = fsynctop();
        history.args(["history", "--output", "json", "--socket"]).arg(&self.socket).args(more);
        output(&mut history)
    }

    /// All that is remembered.
    fn remembered(&self, more: &[&str]) -> u64 {
        let output = self.history(more);
        let lines = stdout(&output);
        lines.lines().map(|line| syncs(&serde_json::from_str(line).unwrap())).sum()
    }
}

fn syncs(measured: &Value) -> u64 {
    measured["roles"].as_array().map_or(0, |roles| roles.iter().map(count).sum())
}

fn metric(exporter: &Exporter, name: &str) -> f64 {
    let page = exporter.get("/metrics");
    let line = page.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with(' '));
    line.unwrap_or_else(|| panic!("no {name}")).rsplit(' ').next().unwrap().parse().unwrap()
}

/// The number of the process that records.
fn recorder(exporter: &Exporter) -> u32 {
    let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let found = children(exporter.pid()).into_iter().find(|pid| name(pid).trim() == "fsynctop-record");
    found.expect("it was introduced")
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_the_exporter_traced_is_in_its_recording_to_the_call() {
    needs(&[TRACEFS]);
    let setting = Setting::new("recorded-load", None);
    let exporter = setting.start();
    assert!(setting.load(&["--threads", "4", "--syncs", "3000"]).status().unwrap().success());
    exporter.signal("TERM");
    let (ended, said) = exporter.ended();
    assert!(ended.success(), "{said}");
    assert_eq!(syncs(&setting.replayed()), 12_000, "{said}");
    let segments = output(fsynctop().arg("segments").arg(&setting.recording));
    assert!(stdout(&segments).contains("Nothing of it is missing."), "{segments:?}");
    // It was made as its user's alone.
    use std::os::unix::fs::MetadataExt;
    let folder = setting.recording.metadata().unwrap();
    assert_eq!((folder.uid(), folder.mode() & 0o777), (NOBODY, 0o750));
}

/// SIGKILL of all of it, three times: the next exporter remembers what the one before did, and its recording
/// goes on.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_an_exporter_that_is_killed_leaves_the_last_minutes_to_the_next_one() {
    needs(&[TRACEFS]);
    let setting = Setting::new("killed-exporter", None);
    for killed in 1..=3_u64 {
        let exporter = setting.start();
        assert!(setting.load(&["--syncs", "500"]).status().unwrap().success());
        wait_until("the last interval to be recorded", || syncs(&setting.replayed()) == 500 * killed);
        wait_until("it to be remembered", || setting.remembered(&[]) == 500 * killed);
        for pid in children(exporter.pid()).into_iter().chain([exporter.pid()]) {
            signal(pid, "KILL");
        }
        drop(exporter);
    }
    let exporter = setting.start();
    assert_eq!(setting.remembered(&[]), 1_500);
    // Without what is in memory, the recording has it.
    exporter.signal("TERM");
    exporter.ended();
    for file in ["recent-0", "recent-1", "recent-2"] {
        std::fs::remove_file(setting.socket.with_extension(file)).unwrap();
    }
    let _exporter = setting.start();
    wait_until("something to be remembered", || setting.history(&["--last", "1s"]).status.success());
    assert_eq!(setting.remembered(&["--last", "1h"]), 1_500);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_while_the_recordings_disk_hangs_everything_else_goes_on() {
    needs(&[TRACEFS]);
    let disk = Mounted::image("ext4", 16);
    let setting = Setting::new("frozen-exporter", Some(disk.path()));
    let exporter = setting.start();
    let load = Running(setting.load(&["--seconds", "600"]).spawn().unwrap());
    let failing = "fsynctop_exporter_recording_is_failing";
    wait_until("the first intervals", || {
        metric(&exporter, "fsynctop_exporter_recording_intervals_total") > 2.0
    });
    assert_eq!(metric(&exporter, failing), 0.0);
    let frozen = Frozen::freeze(disk.path());
    let began = Instant::now();
    wait_until("the failure", || metric(&exporter, failing) == 1.0);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(metric(&exporter, "fsynctop_exporter_recording_waiting_intervals") > 10.0);
    let syncs_before = setting.remembered(&["--last", "10m"]);
    std::thread::sleep(Duration::from_secs(1));
    assert!(setting.remembered(&["--last", "9s"]) > 0 && syncs_before > 0);
    let mut status = fsynctop();
    let status = stdout(&output(status.args(["status", "--socket"]).arg(&setting.socket)));
    let status: String = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        status.contains("The exporter does not record: ") && status.contains("does not answer"),
        "{status}"
    );
    assert!(exporter.get("/status").contains("does its disk hang?"));
    let frozen_for = began.elapsed();
    drop(frozen);
    wait_until("the recording to go on", || metric(&exporter, failing) == 0.0);
    exporter.wait_for_line("recording again");
    drop(load);
    exporter.signal("TERM");
    let (ended, said) = exporter.ended();
    assert!(ended.success(), "{said}");
    // Nothing of the time in which the disk hung is missing.
    let all = setting.replayed();
    assert!(all["duration_seconds"].as_f64().unwrap() > frozen_for.as_secs_f64(), "{all}");
    let segments = stdout(&output(fsynctop().arg("segments").arg(&setting.recording)));
    assert!(segments.contains("Nothing of it is missing."), "{segments}");

    // Its end waits for no disk, and the kernel ends what hangs there.
    let exporter = setting.start();
    let recorder = recorder(&exporter);
    let frozen = Frozen::freeze(disk.path());
    std::thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    exporter.signal("TERM");
    let (ended, said) = exporter.ended();
    assert!(ended.success() && began.elapsed() < Duration::from_secs(8), "{:?}: {said}", began.elapsed());
    assert!(said.contains("the process that records takes long to end"), "{said}");
    drop(frozen);
    wait_until("the recorder's end", || !Path::new(&format!("/proc/{recorder}")).exists());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_recorder_that_is_killed_ends_the_recording_and_nothing_else() {
    needs(&[TRACEFS]);
    let setting = Setting::new("no-such-comm", None);
    let mut exporter = setting.start();
    signal(recorder(&exporter), "KILL");
    exporter.wait_for_line("the process that records into");
    assert_eq!(metric(&exporter, "fsynctop_exporter_recording_is_failing"), 1.0);
    assert!(exporter.is_running() && exporter.get("/-/ready").contains("ready"));
    exporter.signal("TERM");
    assert!(exporter.ended().0.success());
}

/// The process itself, from outside: whose it is, and what was taken from it.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_recorder_has_no_rights_and_a_filter_and_nothing_open_but_its_folder() {
    needs(&[TRACEFS]);
    let setting = Setting::new("no-such-comm", None);
    let exporter = setting.start();
    let recorder = recorder(&exporter);
    let fields =
        [("Uid:", "65534"), ("Gid:", "65534"), ("Groups:", ""), ("Seccomp:", "2"), ("NoNewPrivs:", "1")];
    for (field, expected) in fields {
        for (thread, value) in status_lines(recorder, field) {
            let is_so = value.split_whitespace().all(|part| part == expected);
            assert!(is_so, "{thread}: {field} {value}");
        }
    }
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        for (thread, value) in status_lines(recorder, set) {
            assert_eq!(u64::from_str_radix(&value, 16), Ok(0), "{thread}: {set}");
        }
    }
    let open = std::fs::read_dir(format!("/proc/{recorder}/fd")).unwrap().flatten();
    let open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_its_own = |path: &PathBuf| {
        let text = path.to_string_lossy();
        path.starts_with(&setting.recording)
            || ["socket:", "pipe:", "anon_inode:"].iter().any(|kind| text.starts_with(kind))
            || text == "/dev/null"
    };
    let others: Vec<PathBuf> = open.filter(|path| !is_its_own(path)).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// While another process has the folder, as a recorder that hangs with its disk, the exporter traces, says
/// so, and records once the folder is free. Who may only read the folder cannot lock it.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_folder_that_another_recorder_has_is_waited_for() {
    needs(&[TRACEFS]);
    let setting = Setting::new("no-such-comm", None);
    let first = setting.start();
    first.signal("TERM");
    first.ended();
    // A reader's lock is in nobody's way.
    let folder = std::fs::File::open(&setting.recording).unwrap();
    rustix::fs::flock(&folder, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let second = setting.start();
    second.signal("TERM");
    second.ended();
    let path = setting.recording.join("lock");
    let lock = std::fs::File::create_new(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let [socket, recording] = [&setting.socket, &setting.recording].map(|path| path.to_str().unwrap());
    let exporter = Exporter::start(&["--comm", "no-such-comm", "--socket", socket, "--record", recording]);
    exporter.wait_for_line("another process records there");
    assert_eq!(metric(&exporter, "fsynctop_exporter_recording_is_failing"), 1.0);
    drop(lock);
    exporter.wait_for_line("recording again");
    wait_until("intervals", || metric(&exporter, "fsynctop_exporter_recording_intervals_total") > 0.0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_folder_that_may_not_be_written_is_said_with_what_to_do() {
    needs(&[TRACEFS]);
    let setting = Setting::new("no-such-comm", None);
    std::fs::create_dir(&setting.recording).unwrap();
    let start = |more: &[&str]| {
        let socket = setting.socket.to_str().unwrap();
        let all = ["--comm", "no-such-comm", "--listen", "127.0.0.1:0", "--socket", socket];
        Exporter::spawn(&[&all, more].concat())
    };
    let (ended, said) = start(&["--record", setting.recording.to_str().unwrap()]).ended();
    assert!(!ended.success() && said.contains("user 65534 records, and may not write to it"), "{said}");
    // Where it was not asked for, the exporter goes on without.
    let mut command = fsynctop();
    command.args(["exporter", "--comm", "no-such-comm", "--listen", "127.0.0.1:0"]);
    command.arg("--socket").arg(&setting.socket).env("STATE_DIRECTORY", &setting.recording);
    let mut exporter = Exporter::spawn_as(&mut command);
    exporter.wait_for_line("cannot record into");
    assert!(exporter.is_running());
    let said = stderr(&setting.history(&["--last", "1h"]));
    assert!(!said.contains("panicked"), "{said}");
    exporter.signal("TERM");
    assert!(exporter.ended().0.success());
}

/// The disk of who is traced hangs, alone and together with that of the recording: either way the hang is
/// told while it lasts and recorded with its length.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_hang_is_recorded_whether_or_not_the_recordings_disk_hangs_as_well() {
    needs(&[TRACEFS, "/dev/fuse"]);
    let traced = FaultFs::mount("ok");
    let log = traced.path().join("ib_logfile0");
    std::fs::write(&log, "x").unwrap();
    for both in [false, true] {
        let disk = Mounted::image("ext4", 16);
        let setting = Setting::new("sync", Some(disk.path()));
        let exporter = setting.start();
        traced.control("hang on ib_logfile0");
        let hung = traced.hang_fdatasync(&log);
        let frozen = both.then(|| Frozen::freeze(disk.path()));
        let in_flight = || {
            let said = stdout(&setting.history(&["--last", "2s"]));
            said.contains("\"in_flight\":[{")
        };
        wait_until("the hang to be told", in_flight);
        std::thread::sleep(Duration::from_secs(7));
        assert!(in_flight(), "still");
        assert!(exporter.get("/metrics").contains("fsynctop_syncs_in_flight{"));
        let failing = metric(&exporter, "fsynctop_exporter_recording_is_failing");
        assert_eq!(failing, f64::from(u8::from(both)));
        traced.control("ok");
        traced.control("release");
        drop(hung);
        drop(frozen);
        wait_until("the recording to be well", || {
            metric(&exporter, "fsynctop_exporter_recording_is_failing") == 0.0
                && metric(&exporter, "fsynctop_exporter_recording_waiting_intervals") == 0.0
        });
        exporter.signal("TERM");
        assert!(exporter.ended().0.success());
        let mut history = fsynctop();
        history.args(["history", "--replay"]).arg(&setting.recording);
        let told = stdout(&output(&mut history)).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.starts_with("1 hang (UTC): "), "both: {both}: {told}");
        let seconds = told.split("redo hung for ").nth(1).and_then(|rest| rest.split(' ').next());
        let seconds: f64 = seconds.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{told}"));
        assert!(seconds > 7.0, "{told}");
        // And what the exporter said of it while it lasted.
        let mut status = fsynctop();
        status.args(["status", "--output", "json", "--at", "worst", "--replay"]).arg(&setting.recording);
        let status: Value = serde_json::from_str(&stdout(&output(&mut status))).unwrap();
        assert_eq!((&status["by"], &status["looked_for_seconds"]), (&"a recording".into(), &Value::Null));
        let server = &status["servers"][0];
        assert_eq!(server["state"], "stalled", "{status:#}");
        assert!(server["sentence"].as_str().unwrap().contains("redo log"), "{status:#}");
    }
}
