//! Needs root, for filesystems on loop devices and a real server: `fsynctop calibrate` measures, leaves
//! nothing behind, and leaves alone what it must not touch.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsynctop::model::{Server, ServerId};
use fsynctop::server::what::settings::Settings;
use fsynctop::sync_cost::Place;
use serde_json::Value;

use crate::common::disk::{Mounted, run};
use crate::common::faults::{FaultFs, finish, signal};
use crate::common::server::{Database, Kind};
use crate::common::{needs, wait_until};

/// A shell without job control starts what it puts into the background with SIGINT ignored, and tests that
/// run there would pass that on.
fn calibrate(directory: &Path, state: &Path, options: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_fsynctop"), "calibrate"]);
    command.arg(directory).args(options).env("STATE_DIRECTORY", state);
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
#[ignore = "needs root and a kernel with BTF"]
fn every_way_is_measured_on_ext4_and_xfs_and_the_result_is_kept() {
    needs(&[]);
    for filesystem in ["ext4", "xfs"] {
        // mkfs.xfs makes none smaller than 300 MB.
        let mounted = Mounted::image(filesystem, 400);
        let state = tempfile::tempdir().unwrap();
        let options = ["--each", "300ms", "--threads", "8", "--output", "json"];
        let output = calibrate(mounted.path(), state.path(), &options).output().unwrap();
        assert!(output.status.success(), "{}", message(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let outcomes = value["outcomes"].as_array().unwrap();
        assert_eq!((outcomes.len(), &value["complete"]), (10 + 6, &true.into()));
        for outcome in outcomes {
            let number = |name: &str| outcome[name].as_f64().unwrap_or_else(|| panic!("{name}: {outcome}"));
            assert!(number("syncs") > 0.0 && number("p50_seconds") <= number("max_seconds"), "{outcome}");
            // Nobody else uses this filesystem: an appended block needs a commit, which several threads can
            // share.
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
        let kept = fsynctop::sync_cost::state::load(state.path(), mounted.path()).unwrap();
        assert_eq!(kept.outcomes.len(), outcomes.len());
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_signal_ends_it_and_nothing_stays() {
    needs(&[]);
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
#[ignore = "needs root and a kernel with BTF"]
fn a_busy_device_is_left_alone() {
    needs(&[]);
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
    assert!(message(&output).contains(" busy, and the limit is "), "{}", message(&output));
    assert!(!names(mounted.path()).iter().any(|name| name.starts_with(".fsynctop")));
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_servers_data_directory_must_be_typed_twice() {
    needs(&[]);
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

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_data_directory_is_known_by_whatever_mount_it_is_reached() {
    needs(&[]);
    let mounted = Mounted::image("ext4", 400);
    // The server itself sees its directory through a bind mount.
    let real = mounted.path().join("servers/first");
    std::fs::create_dir_all(&real).unwrap();
    let seen = Mounted::new(&["--bind", real.to_str().unwrap()]);
    let database = Database::start_on(Kind::MariaDb, Some(seen.path()), &[]);
    let inside = database.datadir.strip_prefix(seen.path()).unwrap();
    let state = tempfile::tempdir().unwrap();
    let refused = |directory: &Path| {
        let output =
            calibrate(directory, state.path(), &["--each", "20ms", "--threads", "1"]).output().unwrap();
        let text = message(&output);
        assert_eq!(output.status.code(), Some(1), "{}: {text}", directory.display());
        assert!(text.contains("used by a running server (mariadbd"), "{text}");
    };
    refused(&real.join(inside).join("mysql"));
    // A directory inside the data directory, and nothing above it that could give it away.
    let schema = Mounted::new(&["--bind", real.join(inside).join("mysql").to_str().unwrap()]);
    refused(schema.path());
    let deep = database.datadir.join("mysql/deep");
    std::fs::create_dir(&deep).unwrap();
    refused(&schema.path().join("deep"));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_upper_directory_of_a_servers_overlay_is_the_servers() {
    needs(&[]);
    let files = Mounted::tmpfs();
    for name in ["lower", "upper", "work", "merged", "elsewhere"] {
        std::fs::create_dir(files.path().join(name)).unwrap();
    }
    let at = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let options = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    let merged = Mounted::on(&["-t", "overlay", "-o", &options, "overlay"], Path::new(&at("merged")));
    let data = merged.path().join("data");
    std::fs::create_dir_all(data.join("db1")).unwrap();
    let id = ServerId { pid: std::process::id(), start_ns: 0 };
    let settings = Settings::from_pairs(&data, [("datadir", data.to_str().unwrap())]);
    let servers = [(Server::new(id, "mysqld".into()), settings)];
    let upper = Place::inspect(Path::new(&at("upper/data/db1"))).unwrap();
    let error = upper.refuse_if_servers(&servers).unwrap_err().to_string();
    assert!(error.contains("used by a running server (mysqld"), "{error}");
    Place::inspect(Path::new(&at("elsewhere"))).unwrap().refuse_if_servers(&servers).unwrap();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn what_others_have_in_a_sticky_directory_is_left_alone_and_stops_nothing() {
    needs(&[]);
    let mounted = Mounted::tmpfs();
    run("chmod", &["1777", mounted.path().to_str().unwrap()]);
    let theirs = mounted.path().join(".fsynctop-calibrate-0123456789ab");
    let ours = mounted.path().join(".fsynctop-calibrate-ba9876543210");
    for path in [&theirs, &ours] {
        std::fs::write(path, "left behind").unwrap();
    }
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
    let state = tempfile::tempdir().unwrap();
    let options = ["--each", "20ms", "--threads", "1", "--no-save"];
    let output = calibrate(mounted.path(), state.path(), &options).output().unwrap();
    assert!(output.status.success(), "{}", message(&output));
    assert_eq!(names(mounted.path()), [theirs.file_name().unwrap().to_str().unwrap()]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn ctrl_c_ends_it_also_before_it_measures() {
    needs(&["/dev/fuse"]);
    let mount = FaultFs::mount("ok");
    let directory = mount.path().join("below");
    std::fs::create_dir(&directory).unwrap();
    let frozen = mount.freeze();
    let state = tempfile::tempdir().unwrap();
    let child = calibrate(&directory, state.path(), &[]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    // It looks at the directory, and the filesystem does not answer.
    wait_until("a look at the directory", || {
        std::fs::read_to_string(format!("/proc/{pid}/wchan"))
            .is_ok_and(|channel| channel.contains("request_wait"))
    });
    signal(pid, "INT");
    let output = finish(child, Duration::from_secs(30));
    assert_eq!((output.status.code(), output.status.signal()), (None, Some(2)));
    drop(frozen);
}
