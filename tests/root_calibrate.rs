//! Needs root, for filesystems on loop devices and a real server: `fsynctop calibrate` measures, leaves nothing behind,
//! and leaves alone what it must not touch.

mod common;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use common::disk::{Mounted, run};
use common::server::{Database, Kind};
use common::{can_run, wait_until};

fn calibrate(directory: &Path, state: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.arg("calibrate").arg(directory).args(options).env("STATE_DIRECTORY", state);
    command
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_way_is_measured_on_ext4_and_xfs_and_the_result_is_kept() {
    if !can_run("every_way_is_measured_on_ext4_and_xfs_and_the_result_is_kept", &[]) {
        return;
    }
    for filesystem in ["ext4", "xfs"] {
        // mkfs.xfs makes none smaller than 300 MB.
        let mounted = Mounted::image(filesystem, 400);
        let state = tempfile::tempdir().unwrap();
        let options = ["--each", "100ms", "--threads", "8", "--output", "json"];
        let output = calibrate(mounted.path(), state.path(), &options).output().unwrap();
        assert!(output.status.success(), "{}", message(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let outcomes = value["outcomes"].as_array().unwrap();
        assert_eq!((outcomes.len(), &value["complete"]), (10 + 6, &true.into()));
        for outcome in outcomes {
            let number = |name: &str| outcome[name].as_f64().unwrap_or_else(|| panic!("{name}: {outcome}"));
            assert!(number("syncs") > 0.0 && number("p50_seconds") <= number("max_seconds"), "{outcome}");
            // Nobody else uses this filesystem: an appended block needs a commit, which several threads can share.
            if outcome["pattern"] == "appended" {
                let share = number("syncs") / number("journal_commits").max(1.0);
                let threads = number("threads");
                assert!(share >= 0.4 && share <= threads * 1.5 + 0.5, "{share} syncs per commit: {outcome}");
            }
        }
        assert_eq!(value["place"]["filesystem"], filesystem);
        // Only what mkfs made.
        assert!(names(mounted.path()).iter().all(|name| name == "lost+found"), "{:?}", names(mounted.path()));
        let kept = names(state.path());
        assert_eq!(kept.len(), 1, "{kept:?}");
        let kept = fsynctop::calibrate::state::load(state.path(), mounted.path()).unwrap();
        assert_eq!(kept.outcomes.len(), outcomes.len());
    }
}

#[test]
fn a_signal_ends_it_and_nothing_stays() {
    if !can_run("a_signal_ends_it_and_nothing_stays", &[]) {
        return;
    }
    let mounted = Mounted::image("ext4", 200);
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let state = tempfile::tempdir().unwrap();
        let mut command = calibrate(mounted.path(), state.path(), &["--each", "1s"]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        wait_until("a file to be written", || {
            names(mounted.path()).iter().any(|name| name.starts_with(".fsynctop"))
        });
        run("kill", &["-s", signal, &child.id().to_string()]);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.status.signal()), (Some(status), None));
        assert!(String::from_utf8_lossy(&output.stdout).contains("Interrupted"));
        assert!(!names(mounted.path()).iter().any(|name| name.starts_with(".fsynctop")));
        assert!(names(state.path()).is_empty(), "half a result is not kept");
    }
    // One that is killed leaves its file, and the next run removes it.
    let state = tempfile::tempdir().unwrap();
    let mut child = calibrate(mounted.path(), state.path(), &[]).stdout(Stdio::null()).spawn().unwrap();
    wait_until("a file to be written", || {
        names(mounted.path()).iter().any(|name| name.starts_with(".fsynctop"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(names(mounted.path()).iter().any(|name| name.starts_with(".fsynctop")));
    let options = ["--each", "20ms", "--threads", "1", "--no-save"];
    assert!(calibrate(mounted.path(), state.path(), &options).output().unwrap().status.success());
    assert!(!names(mounted.path()).iter().any(|name| name.starts_with(".fsynctop")));
}

#[test]
fn a_busy_device_is_left_alone() {
    if !can_run("a_busy_device_is_left_alone", &[]) {
        return;
    }
    let mounted = Mounted::image("ext4", 200);
    let state = tempfile::tempdir().unwrap();
    let path = mounted.path().join("neighbour");
    let over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let mut file = std::fs::File::create(&path).unwrap();
            while !over.load(Ordering::Relaxed) {
                file.write_all(&[1; 512]).and_then(|()| file.sync_all()).unwrap();
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        let output = calibrate(mounted.path(), state.path(), &["--each", "20ms"]).output();
        over.store(true, Ordering::Relaxed);
        neighbour.join().unwrap();
        output.unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{}", message(&output));
    assert!(message(&output).contains("is busy for"), "{}", message(&output));
    assert!(!names(mounted.path()).iter().any(|name| name.starts_with(".fsynctop")));
}

#[test]
fn a_servers_data_directory_must_be_typed_twice() {
    if !can_run("a_servers_data_directory_must_be_typed_twice", &[]) {
        return;
    }
    let mounted = Mounted::image("ext4", 400);
    let mut database = Database::start_on(Kind::MariaDb, Some(mounted.path()), &[]);
    let state = tempfile::tempdir().unwrap();
    // Below its data directory, so that nothing gives it away but the server itself.
    let directory = database.datadir.join("mysql");
    let options = ["--each", "20ms", "--threads", "1"];
    let refused = calibrate(&directory, state.path(), &options).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text = message(&refused);
    assert!(text.contains("used by a running server") && text.contains("--production"), "{text}");
    let wrong = [&options[..], &["--production", "/"]].concat();
    assert_eq!(calibrate(&directory, state.path(), &wrong).output().unwrap().status.code(), Some(2));
    database.quiet_counters();
    let typed = [&options[..], &["--production", directory.to_str().unwrap()]].concat();
    let output = calibrate(&directory, state.path(), &typed).output().unwrap();
    assert!(output.status.success(), "{}", message(&output));
}
