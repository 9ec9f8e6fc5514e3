//! Needs root, to mount, and a real server: where a sync makes nothing durable, or nobody can know, no view
//! says that anything is kept, synced or good enough.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::disk::Mounted;
use crate::common::exporter::Exporter;
use crate::common::faults::{fsynctop, stderr, stdout};
use crate::common::measured::Measured;
use crate::common::server::{Database, Home, Kind};
use crate::common::traced::Traced;
use crate::common::{Running, needs};
use fsynctop::linux::storage::Storage;

/// Where the upper layer of an overlay lies, and the option that it is mounted with.
fn overlay(upper: &Path, more: &str) -> Mounted {
    let layers = ["lower", "upper", "work"].map(|name| upper.join(name));
    layers.iter().for_each(|layer| std::fs::create_dir_all(layer).unwrap());
    let [lower, upper, work] = layers.map(|layer| layer.display().to_string());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{more}");
    Mounted::new(&["-t", "overlay", "-o", &options, "fsynctop-test"])
}

fn said(output: &Output) -> String {
    stdout(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a table says once the server's files are known: on a busy machine that takes longer than some are
/// made.
fn said_of(database: &Database) -> String {
    let mut text = String::new();
    crate::common::wait_until("the server to be described", || {
        text = said(&asked(database, &["once", "--by", "writes"]));
        text.contains(" · MariaDB ")
    });
    text
}

fn storage(path: &Path) -> (String, &'static str, String) {
    let storage = Storage::of(path).unwrap();
    let because = storage.durability.because().unwrap_or_default().to_owned();
    (storage.layers.join(" "), storage.durability.name(), because)
}

#[test]
#[ignore = "needs root"]
fn root_what_a_file_lies_on_is_followed_all_the_way_down() {
    needs(&[]);
    let (ext4, tmpfs) = (Mounted::image("ext4", 64), Mounted::tmpfs());
    let (layers, durable, because) = storage(ext4.path());
    let below = storage(&std::env::temp_dir().canonicalize().unwrap());
    assert!(layers.starts_with("ext4 loop"), "{layers}");
    assert!(layers.ends_with(&below.0), "{layers}: the image is a file on {}", below.0);
    assert_eq!((durable, because.as_str()), (below.1, below.2.as_str()));

    let of_tmpfs = storage(tmpfs.path());
    assert_eq!(of_tmpfs, ("tmpfs".into(), "no", "tmpfs keeps files in memory only".into()));
    let on_tmpfs = overlay(tmpfs.path(), "");
    assert_eq!(storage(on_tmpfs.path()).0, "overlay tmpfs");
    assert_eq!(storage(on_tmpfs.path()).1, "no");
    let on_ext4 = overlay(ext4.path(), "");
    assert_eq!(storage(on_ext4.path()), (format!("overlay {layers}"), durable, because));
    drop(on_ext4);
    let volatile = overlay(ext4.path(), ",volatile");
    let (_, durable, because) = storage(volatile.path());
    assert_eq!((durable, because.contains("volatile")), ("no", true), "{because}");

    // An image in memory is no disk, and neither are those of which the flushes are taken out.
    let image = Mounted::image_in(tmpfs.path(), "ext4", 64, &[]);
    let (layers, durable, because) = storage(image.path());
    assert!(layers.ends_with(" tmpfs") && durable == "no", "{layers}: {because}");
    let remount = Command::new("mount").args(["-o", "remount,nobarrier"]).arg(ext4.path()).output().unwrap();
    assert!(remount.status.success(), "{remount:?}");
    let (_, durable, because) = storage(ext4.path());
    assert_eq!((durable, because.contains("nobarrier")), ("no", true), "{because}");
    let bound = Mounted::new(&["--bind", ext4.path().to_str().unwrap()]);
    assert_eq!(storage(bound.path()).1, "no");
}

/// While a neighbour makes a disk flush all the time, and the server commits.
fn asked(database: &Database, arguments: &[&str]) -> Output {
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let syncs =
        format!("while :; do echo >>{0}/x && sync -d {0}/x || exit; done", elsewhere.path().display());
    let _neighbour = Running(Command::new("bash").args(["-c", &syncs]).spawn().unwrap());
    let mut load = database.load(2, 1_000_000);
    let _load = Running(load.stdout(Stdio::null()).spawn().unwrap());
    let pid = database.pid.to_string();
    let output = fsynctop().args(arguments).args(["-d", "2", "--pid", &pid]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// Waits for an exporter's series of the storage with this label.
fn exports_storage(database: &Database, label: &str) {
    let exporter = Exporter::start(&["--pid", &database.pid.to_string()]);
    let has_it = |line: &str| line.starts_with("fsynctop_storage_info{") && line.contains(label);
    crate::common::wait_until("the storage to be exported", || exporter.get("/metrics").lines().any(has_it));
}

fn check_server(place: &Path, because: &str) {
    let database = Database::start_on(Kind::MariaDb, Some(place), &[]);
    database.prepare();
    let explained = stdout(&asked(&database, &["explain"]));
    let lines = |word: &str| explained.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((lines("kept"), lines("consistent")), (0, 0), "{explained}");
    let flat = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(&format!("no sync makes anything durable: {because}")), "{explained}");

    let text = said_of(&database);
    assert!(
        text.contains("A power cut could have cost all that was written of the redo log and the binary log, synced or not"),
        "{text}"
    );
    assert!(!text.contains("would have cost at most"), "{text}");

    let once = || -> Value {
        let output =
            asked(&database, &["once", "--writes", "all", "--output", "json", "--fail-on", "failing"]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Where processors are busy, what the server lies on is not always known within two seconds.
    let json = (0..5).map(|_| once()).find(|json| json["servers"][0]["storage"].is_array());
    let json = json.expect("what the server lies on");
    let stacks = json["servers"][0]["storage"].as_array().unwrap();
    assert!(stacks.iter().all(|stack| stack["durable"] == "no"), "{stacks:?}");
    assert!(stacks[0]["because"].as_str().unwrap().contains(because), "{stacks:?}");
    let unsynced = json["unsynced"].as_array().unwrap();
    assert!(!unsynced.is_empty() && unsynced.iter().all(|row| row["durable"] == "no"), "{unsynced:?}");
    let verdict = &json["verdicts"][0];
    assert_eq!(verdict["storage"]["durable"], "no", "{verdict}");
    assert!(
        verdict["sentence"].as_str().unwrap().contains("None of its syncs makes anything durable"),
        "{verdict}"
    );
    assert_eq!(verdict["state"], "ok", "that is no failure: {verdict}");

    exports_storage(&database, r#"durable="no""#);
}

#[test]
#[ignore = "needs root, a kernel with BTF, and MariaDB"]
fn root_nothing_is_kept_of_a_server_on_tmpfs() {
    needs(&[]);
    let tmpfs = Mounted::new(&["-t", "tmpfs", "-o", "size=900m", "fsynctop-test"]);
    check_server(tmpfs.path(), "tmpfs keeps files in memory only");
}

#[test]
#[ignore = "needs root, a kernel with BTF, and MariaDB"]
fn root_nothing_is_kept_of_a_server_on_a_volatile_overlay() {
    needs(&[]);
    let ext4 = Mounted::image("ext4", 900);
    check_server(overlay(ext4.path(), ",volatile").path(), "the overlay is mounted with");
}

#[test]
#[ignore = "needs root"]
fn root_nothing_passes_where_a_sync_is_worth_nothing() {
    needs(&[]);
    let tmpfs = Mounted::tmpfs();
    let state = tempfile::tempdir().unwrap();
    let calibrate = || {
        let mut command = fsynctop();
        command.args(["calibrate", "--for", "etcd", "--each", "20ms", "--threads", "1"]).arg(tmpfs.path());
        command.env("STATE_DIRECTORY", state.path()).output().unwrap()
    };
    // Where other tests keep the processors busy, a sync takes longer than etcd may wait, and that is told
    // first.
    let output = (0..5).map(|_| calibrate()).find(|output| output.status.code() != Some(4));
    let output = output.expect("a window in which syncs are quick");
    assert_eq!(output.status.code(), Some(6), "{}", stdout(&output));
    let text = said(&output);
    assert!(text.contains("No verdict for etcd") && !text.contains("PASS"), "{text}");
    assert_eq!(
        text.matches("No sync makes anything durable there: tmpfs keeps files in memory only.").count(),
        2
    );
}

#[test]
#[ignore = "needs root, a kernel with BTF, MariaDB and eatmydata"]
fn root_a_preloaded_library_is_named_where_the_log_grows_without_syncs() {
    needs(&[]);
    let library =
        std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path().join("libeatmydata.so"));
    let library = library.chain(["/usr/lib/libeatmydata.so".into()]).find(|path| path.exists());
    let library = library.expect("libeatmydata.so: tools/dependencies installs it");
    let home = Home::new(Kind::MariaDb);
    let preload = format!("LD_PRELOAD={}", library.display());
    let database = home.start(&["env", &preload], &[]);
    database.prepare();
    let explained = stdout(&asked(&database, &["explain"]));
    assert!(explained.contains("BROKEN     libeatmydata"), "{explained}");
    assert!(
        !explained.lines().any(|line| line.starts_with("kept") || line.starts_with("consistent")),
        "{explained}"
    );
    let text = said_of(&database);
    let cost = "A power cut could have cost all that was written of the redo log and the binary log, synced or not: libeatmydata";
    assert!(text.contains(cost), "{text}");
}

/// From now on the kernel runs no fsync of this process, and says that it has.
fn answer_syncs() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let syncs = [libc::SYS_fsync, libc::SYS_fdatasync].map(|number| (number, Vec::new()));
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter =
        SeccompFilter::new(syncs.into(), SeccompAction::Allow, SeccompAction::Errno(0), architecture)
            .unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_syncs_that_a_seccomp_filter_answers_are_no_syncs_and_none_is_lost() {
    const ANSWERED: u64 = 100;
    let traced = Traced::begin(|directory| {
        let mut file = std::fs::File::create(directory.join("log")).unwrap();
        // The thread is known before the filter is.
        file.sync_data().unwrap();
        answer_syncs();
        for _ in 0..ANSWERED {
            file.write_all(b"a commit").unwrap();
            file.sync_data().unwrap();
        }
    });
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let seen = |measured: &Measured| {
        measured.assert_nothing_lost();
        assert_eq!(measured.total(), 1, "{}", measured.0["files"]);
        measured.lost("answered")
    };
    // By tracepoints the exit of such a call is seen, and its entry is not; otherwise neither is.
    let by_tracepoints = traced.measure(directory.path(), &["--attach", "tracepoint"]);
    assert_eq!(seen(&by_tracepoints), ANSWERED, "{}", by_tracepoints.0["lost"]);
    let by_default = traced.measure(directory.path(), &[]);
    let expected = if by_default.0["attach"] == "tracepoint" { ANSWERED } else { 0 };
    assert_eq!(seen(&by_default), expected, "{}", by_default.0["lost"]);
}

/// The other side: nothing is called lost that is not.
#[test]
#[ignore = "needs root, a kernel with BTF, and MariaDB"]
fn root_a_server_on_a_disk_keeps_its_promises_by_its_own_flushes() {
    needs(&[]);
    let ext4 = Mounted::image("ext4", 900);
    if storage(ext4.path()).1 != "yes" {
        eprintln!("skipped: what /var/tmp lies on makes nothing durable, or that is not known");
        return;
    }
    let database = Database::start_on(Kind::MariaDb, Some(ext4.path()), &[]);
    database.prepare();
    let explained = stdout(&asked(&database, &["explain"]));
    assert!(explained.contains("kept       ext4 on /dev/loop"), "{explained}");
    assert!(explained.contains("the server's own syncs waited"), "{explained}");
    let text = said_of(&database);
    assert!(text.contains("A power cut would have cost at most"), "{text}");
    exports_storage(&database, r#"durable="yes""#);
}
