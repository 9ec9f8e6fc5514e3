//! Needs root, FUSE and loop devices: syncs that hang, seen while they do, also by a fsynctop that starts
//! second; and that the tool itself waits for nothing that hangs.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::faults::{
    FaultFs, Series, assert_nothing_lost, finish, fsynctop, output, row, signal, stderr, stdout, tool,
};
use crate::common::nested::Nested;
use crate::common::{Running, needs, wait_until};
use serde_json::Value;

const FUSE: &str = "/dev/fuse";
/// What the tool may take to end beside the time that it measures, and what a busy machine adds.
const SOON: Duration = Duration::from_secs(3);
const BUSY: Duration = Duration::from_secs(7);

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no time"))
}

fn time_of(interval: &Value) -> f64 {
    let end = humantime::parse_rfc3339(interval["end"].as_str().unwrap()).unwrap();
    end.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

fn json_series(options: &[&str]) -> Command {
    let mut command = fsynctop();
    command.args(["once", "--output", "json", "-i", "0.5"]).args(options);
    command
}

/// The only sync in flight of an interval, or None.
fn in_flight(interval: &Value) -> Option<&Value> {
    let list = interval["in_flight"].as_array().unwrap();
    assert!(list.len() <= 1, "{list:?}");
    list.first()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_sync_that_hangs_is_in_flight_with_its_age_until_it_is_released() {
    needs(&[FUSE]);
    let mount = FaultFs::mount("hang on ib_logfile0");
    let file = mount.path().join("ib_logfile0");
    std::fs::write(&file, "redo").unwrap();
    // The command ends on its own when its sync does, so the series sees both.
    let mut command = json_series(&[]);
    let script = r#"sync --data "$1"; exec sleep 600"#;
    command.arg("--").args(["sh", "-c", script, "sh"]).arg(&file);
    let series = Series::start(&mut command);
    mount.wait_for_hanging(1);
    let hangs_since = Instant::now();

    let mut seen: Vec<(f64, f64)> = Vec::new();
    while seen.len() < 4 {
        let interval = series.interval().expect("the command runs on");
        let Some(sync) = in_flight(&interval) else {
            assert!(seen.is_empty(), "it is in flight until it ends: {interval:#}");
            continue;
        };
        assert_eq!(
            (sync["op"].as_str(), sync["role"].as_str(), sync["thread"].as_str(), sync["path"].as_str()),
            (Some("fdatasync"), Some("redo"), Some("sync"), file.to_str()),
        );
        assert_eq!(sync["age_is_minimum"], false);
        assert!(sync["tid"] == sync["pid"], "it has one thread: {sync}");
        let finished: u64 =
            interval["files"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
        assert_eq!(finished, 0, "{interval:#}");
        // What hangs is time in the log, from the first whole interval on.
        let (age, length) = (seconds(&sync["age_seconds"]), seconds(&interval["duration_seconds"]));
        if age > length {
            let log = row(&interval["roles"], &[("role", "redo")]);
            assert!((seconds(&log["in_flight_mean"]) - 1.0).abs() < 0.25, "{interval:#}");
        }
        seen.push((time_of(&interval), seconds(&sync["age_seconds"])));
    }
    // It began once: the end of each interval less the age is always the same moment.
    for pair in seen.windows(2) {
        let ((earlier, young), (later, old)) = (pair[0], pair[1]);
        assert!(old > young, "{seen:?}");
        assert!(((later - earlier) - (old - young)).abs() < 0.25, "{seen:?}");
    }
    mount.control("release");
    let released_after = hangs_since.elapsed().as_secs_f64();
    let ended = series.interval_in_which("the sync ends", |interval| in_flight(interval).is_none());
    let counted = row(&ended["files"], &[("path", file.to_str().unwrap())]);
    assert_eq!((&counted["count"], counted["role"].as_str()), (&1.into(), Some("redo")));
    let latency = seconds(&counted["latency_seconds"]["max"]);
    assert!(latency >= seen.last().unwrap().1 && latency >= released_after - 0.25, "{counted:#}");
    assert_nothing_lost(&ended);
    let (rest, took, _) = series.interrupt();
    assert!(took < SOON + BUSY, "{took:?}");
    assert!(rest.iter().all(|line| line.contains(r#""in_flight":[]"#)), "{rest:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_sync_that_hung_before_tracing_began_is_found_and_never_called_lost() {
    needs(&[FUSE]);
    let mount = FaultFs::mount("hang on ib_logfile0");
    let file = mount.path().join("ib_logfile0");
    std::fs::write(&file, "redo").unwrap();
    // The same thread goes on to make many short syncs, which must not be taken for the one that hung.
    let script = r#"import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.fdatasync(fd)
while True: os.fdatasync(fd)"#;
    let hung = mount.hang(Command::new("python3").args(["-c", script]).arg(&file));
    let known_to_hang = Instant::now();
    std::thread::sleep(Duration::from_millis(1500));

    let pid = hung.pid().to_string();
    let before_start = known_to_hang.elapsed().as_secs_f64();
    let series = Series::start(&mut json_series(&["--pid", &pid]));
    let mut ages = Vec::new();
    while ages.len() < 3 {
        let interval = series.interval().unwrap();
        // The scan of /proc is on its way while the first interval is measured.
        let Some(sync) = in_flight(&interval) else {
            assert!(ages.is_empty(), "{interval:#}");
            continue;
        };
        assert_eq!(sync["age_is_minimum"], true);
        assert_eq!((sync["op"].as_str(), sync["role"].as_str()), (Some("fdatasync"), Some("redo")));
        assert_eq!((sync["path"].as_str(), sync["thread"].as_str()), (file.to_str(), Some("python3")));
        assert_eq!(sync["tid"].to_string(), pid);
        assert!(interval["files"].as_array().unwrap().is_empty(), "{interval:#}");
        ages.push(seconds(&sync["age_seconds"]));
    }
    assert!(ages.windows(2).all(|pair| pair[0] + 0.1 < pair[1]), "{ages:?}");
    assert!(*ages.last().unwrap() <= known_to_hang.elapsed().as_secs_f64() + 0.5, "{ages:?}");
    if std::fs::read_to_string("/proc/self/sched").is_ok_and(|text| text.contains("se.exec_start")) {
        // It was blocked all the time; a hypervisor may have stolen some of it.
        assert!(ages[0] > before_start / 2.0, "{ages:?}, and it hung {before_start} s before");
    }
    mount.control("release");
    // Whatever is in flight from now on began under the probes' eyes.
    let began_later =
        |interval: &Value| in_flight(interval).is_none_or(|sync| sync["age_is_minimum"] == false);
    let after = series.interval_in_which("the sync ends", began_later);
    assert_nothing_lost(&after);
    for _ in 0..4 {
        let interval = series.interval().unwrap();
        assert!(began_later(&interval), "{interval:#}");
        assert!(row(&interval["files"], &[("path", file.to_str().unwrap())])["count"].as_u64() > Some(0));
        assert_nothing_lost(&interval);
    }
    drop(hung);
    series.interrupt();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_sync_that_hangs_at_the_end_stands_above_the_table() {
    needs(&[FUSE]);
    let mount = FaultFs::mount("hang on binlog.");
    let file = mount.path().join("binlog.000001");
    std::fs::write(&file, "binlog").unwrap();
    let hung = mount.hang_fdatasync(&file);
    let mut command = fsynctop();
    command.args(["once", "-d", "600", "--pid", &hung.pid().to_string()]);
    let series = Series::start(&mut command);
    std::thread::sleep(Duration::from_secs(4));
    let (lines, took, status) = series.interrupt();
    let text = lines.join("\n");
    assert!(status.success(), "{status}");
    assert!(took < SOON + BUSY, "{took:?}");
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in\n{text}"));
    assert!(at("STUCK for at least ") < at("ROLE"), "{text}");
    assert!(at("binlog fdatasync, thread sync ") < at("ROLE"), "{text}");
    assert!(at(file.to_str().unwrap()) < at("ROLE"), "{text}");
    assert!(text.contains("Every commit waits for this log."), "{text}");
    assert!(!text.contains("nothing is stuck"), "{text}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_ctrl_c_prints_what_was_measured_although_the_command_hangs() {
    needs(&[FUSE]);
    let mount = FaultFs::mount("hang on ibdata1");
    let file = mount.path().join("ibdata1");
    std::fs::write(&file, "data").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("measured");
    let mut command = fsynctop();
    command.args(["once", "--output", "json", "--output-file"]).arg(&results).arg("--");
    // What hangs must not hold the pipe that the test reads.
    command.args(["sh", "-c", r#"exec sync --data "$1" >/dev/null 2>&1"#, "sh"]).arg(&file);
    let series = Series::start(command.stderr(Stdio::null()));
    mount.wait_for_hanging(1);
    std::thread::sleep(Duration::from_millis(300));
    let (_, took, status) = series.interrupt();
    assert!(took < 2 * SOON + BUSY, "{took:?}");
    assert_eq!(status.code(), Some(130), "the command has no status yet: SIGINT's");
    let measured: Value = serde_json::from_str(&std::fs::read_to_string(results).unwrap()).unwrap();
    let sync = in_flight(&measured).expect("it hangs still");
    assert_eq!((sync["role"].as_str(), sync["path"].as_str()), (Some("system_tablespace"), file.to_str()));
    mount.control("release");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_stuck_finds_it_without_tracing() {
    needs(&[FUSE]);
    let mount = FaultFs::mount("hang on ib_logfile0");
    let file = mount.path().join("ib_logfile0");
    std::fs::write(&file, "redo").unwrap();
    let hung = mount.hang_fdatasync(&file);
    let pid = hung.pid().to_string();

    let began = Instant::now();
    let json = output(fsynctop().args(["stuck", "--output", "json", "--pid", &pid]));
    assert!(began.elapsed() < SOON + BUSY);
    assert!(json.status.success(), "{json:?}");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let sync = in_flight(&json).expect("it hangs");
    assert_eq!((sync["op"].as_str(), sync["role"].as_str()), (Some("fdatasync"), Some("redo")));
    assert_eq!((sync["path"].as_str(), sync["tid"].to_string()), (file.to_str(), pid.clone()));
    assert_eq!((sync["filesystem"].as_str(), sync["moved"].as_bool()), (Some("fuse"), Some(false)));
    let stack: Vec<&str> = sync["stack"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(stack.iter().any(|frame| frame.contains("fuse")), "{stack:?}");

    let table = stdout(&output(fsynctop().args(["stuck", "--color", "always"])));
    assert!(table.contains(file.to_str().unwrap()) && table.contains('\x1b'), "{table}");
    let table = stdout(&output(fsynctop().args(["stuck", "--no-unicode", "--pid", &pid])));
    assert!(table.is_ascii() && table.contains("fuse"), "{table}");
    mount.control("release EIO");
    let other = output(fsynctop().args(["stuck", "--pid", &std::process::id().to_string()]));
    assert!(stdout(&other).contains("No thread is inside a sync call"), "{other:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_hang_on_a_real_filesystem_is_in_flight_too() {
    needs(&[]);
    let nested = Nested::new().unwrap();
    let file = nested.inner().join("ib_logfile0");
    std::fs::write(&file, [7; 8192]).unwrap();
    nested.freeze();
    let mut command = json_series(&["--output-file", "/dev/stdout"]);
    command.arg("--").args(["sync", "--data"]).arg(&file);
    let series = Series::start(&mut command);
    let hangs =
        |interval: &Value| in_flight(interval).is_some_and(|sync| seconds(&sync["age_seconds"]) > 1.0);
    let interval = series.interval_in_which("the sync hangs for a second", hangs);
    let sync = in_flight(&interval).unwrap();
    assert_eq!((sync["role"].as_str(), sync["path"].as_str()), (Some("redo"), file.to_str()));
    nested.thaw();
    let mut last = interval;
    while let Some(interval) = series.interval() {
        last = interval;
    }
    assert!(in_flight(&last).is_none());
    let counted = row(&last["files"], &[("path", file.to_str().unwrap())]);
    assert!(seconds(&counted["latency_seconds"]["max"]) > 1.0, "{counted:#}");
    assert_eq!((counted["count"].as_u64(), counted["filesystem"].as_str()), (Some(1), Some("ext4")));
    assert_nothing_lost(&last);
}

/// A FUSE server that answers nothing any more: every look-up, read and stat in its mount waits for ever.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_tool_never_waits_for_a_filesystem_that_hangs() {
    needs(&[FUSE]);
    let mount = FaultFs::mount("hang on some-file");
    std::fs::create_dir(mount.path().join("data")).unwrap();
    // A name that leaves the role open, so that content would be looked at; and a name that the kernel shows
    // as deleted, which can be told only by looking.
    for name in ["some-file", "some-file (deleted)"] {
        std::fs::write(mount.path().join(name), "?").unwrap();
    }
    let server = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        let script = r#"for file in "$1/some-file" "$1/some-file (deleted)"; do sync --data "$file" & done; wait; sleep 600"#;
        command.args(["-c", script, "sh"]).arg(mount.path()).args(arguments);
        Running(command.spawn().unwrap())
    };
    let datadir = format!("--datadir={}/data", mount.path().display());
    let server = server(&[&datadir]);
    mount.wait_for_hanging(2);
    let hung: Vec<String> = wait_for_children(server.0.id(), 2);
    let frozen = mount.freeze();

    let pids = format!("{},{}", server.0.id(), hung.join(","));
    for (arguments, measures) in [
        (&["once", "-d", "1", "--pid", &pids][..], Duration::from_secs(1)),
        (&["check", "--pid", &pids], Duration::from_secs(2)),
        (&["stuck", "--pid", &pids], Duration::ZERO),
    ] {
        let began = Instant::now();
        let mut command = fsynctop();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command.spawn().unwrap(), measures + SOON + BUSY);
        println!("{arguments:?} took {:?}\n{}{}", began.elapsed(), stdout(&output), stderr(&output));
        assert!(output.status.success(), "{output:?}");
        match arguments[0] {
            "check" => assert!(stdout(&output).contains("did not answer within"), "{output:?}"),
            _ => assert!(stdout(&output).matches("some-file").count() >= 2, "{output:?}"),
        }
    }
    // The same when the syncs begin under the probes' eyes, and the mount freezes a moment later.
    drop(frozen);
    signal(server.0.id(), "TERM");
    mount.control("release");
    mount.control("hang on some-file");
    let mut command = json_series(&["--"]);
    command.args(["sh", "-c", r#"exec sync --data "$1/some-file" >/dev/null"#, "sh"]).arg(mount.path());
    let series = Series::start(command.stderr(Stdio::null()));
    mount.wait_for_hanging(1);
    let frozen = mount.freeze();
    let shown = series.interval_in_which("it is in flight", |interval| in_flight(interval).is_some());
    assert!(in_flight(&shown).unwrap()["path"].as_str().unwrap().ends_with("some-file"));
    let (_, took, _) = series.interrupt();
    assert!(took < 2 * SOON + BUSY, "{took:?}");
    drop(frozen);
    mount.control("release");
}

fn wait_for_children(parent: u32, n: usize) -> Vec<String> {
    let mut children = Vec::new();
    wait_until("the children", || {
        let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        children = list.split_whitespace().map(str::to_owned).collect();
        children.len() == n
    });
    children
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_tools_own_syncs_are_counted_nowhere() {
    needs(&[]);
    let directory = tempfile::tempdir().unwrap();
    let mut command = fsynctop();
    command.args(["once", "--all", "--output", "json", "--", tool("syncgen").to_str().unwrap()]);
    let series = Series::start(command.arg(directory.path()).args(["--syncs", "20"]));
    let own = series.pid();
    let lines: Vec<String> = std::iter::from_fn(|| series.line()).collect();
    let measured: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    let path = directory.path().join("sync-0");
    assert_eq!(row(&measured["files"], &[("path", path.to_str().unwrap())])["count"], 20);
    for list in ["servers", "roles", "files", "in_flight"] {
        let rows = measured[list].as_array().unwrap();
        assert!(rows.iter().all(|row| row["pid"] != own), "{own} in {list}: {rows:#?}");
    }
}
