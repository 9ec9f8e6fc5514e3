//! Needs root: where the time of syncs goes, on real filesystems, with causes that are put there on purpose
//! and have to be found. Speeds are the machine's own; what is asserted is where the time is.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::common::disk::Mounted;
use crate::common::exact::on_each;
use crate::common::explained::{Explained, cell, load};
use crate::common::faults::FaultFs;
use crate::common::server::Database;
use crate::common::turn::takes_long;
use crate::common::{Running, needs};

const SECONDS: u32 = 4;

/// Of syncgen, whose first thread gives the process its number.
fn explain(load: &Running) -> Explained {
    Explained::of(load.0.id(), SECONDS, &[])
}

const APPEND: &[&str] = &["--threads", "4", "--files", "4", "--write", "4096", "--append"];

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn on_ext4_appended_files_wait_for_the_journal_and_overwritten_ones_for_the_device() {
    needs(&["/sbin/mkfs.ext4"]);
    let disk = Mounted::image("ext4", 512);
    let appended = {
        let load = load(disk.path(), "appends", APPEND);
        explain(&load)
    };
    appended.assert_adds_up();
    assert!(appended.share_of_waits("journal_commit") > 0.5, "{}", appended.shown());
    // The syncs themselves flush nothing: the committer does, and it is seen to.
    assert!(appended.share_of_waits("device_flush") < 0.05, "{}", appended.shown());
    assert!(appended.seconds("device_flush", Some("journal_commit")) > 0.0);
    let flush = appended.0["device_flush_seconds"].as_f64().unwrap();
    let parts =
        ["journal_commit", "metadata_buffer"].map(|wait| appended.seconds("device_flush", Some(wait)));
    assert!((flush - parts.iter().sum::<f64>() - appended.seconds("device_flush", None)).abs() < 1e-6);
    let journal = appended.journal();
    let number = |name: &str| journal[name].as_f64().unwrap();
    assert!(number("commits") > 0.0 && number("commits") <= number("syncs") + 1.0, "{journal:#}");
    // On a device without FUA, a commit flushes before its last block and after it.
    assert!(number("device_flushes") >= number("commits"), "{journal:#}");
    assert!(number("syncs_per_commit") >= 1.0, "{journal:#}");
    assert!(journal["traced_share"].as_f64().unwrap() > 0.3, "{journal:#}");

    let overwritten = {
        let load = load(disk.path(), "overwrites", &["--threads", "2", "--files", "2", "--write", "4096"]);
        explain(&load)
    };
    overwritten.assert_adds_up();
    assert!(overwritten.share_of_waits("device_flush") > 0.4, "{}", overwritten.shown());
    assert!(overwritten.share_of_waits("journal_commit") < 0.2, "{}", overwritten.shown());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn on_xfs_appended_files_wait_for_the_log_and_the_flush_in_it_is_seen() {
    needs(&["/sbin/mkfs.xfs"]);
    let disk = Mounted::image("xfs", 512);
    let load = load(disk.path(), "appends", APPEND);
    let explained = explain(&load);
    explained.assert_adds_up();
    assert!(explained.share_of_waits("log_force") > 0.5, "{}", explained.shown());
    assert!(explained.seconds("device_flush", Some("log_force")) > 0.0, "{}", explained.shown());
    assert!(explained.journal()["commits"].is_null(), "XFS has no thread that commits");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_device_that_flushes_slowly_is_found_below_the_journal_commit() {
    needs(&["/dev/fuse"]);
    let slow = FaultFs::mount("ok");
    let disk = Mounted::image_in(slow.path(), "ext4", 512, &[]);
    let load =
        load(disk.path(), "appends", &["--threads", "2", "--files", "2", "--write", "4096", "--append"]);
    let before = explain(&load);
    slow.control("delay 30ms");
    let after = explain(&load);
    slow.control("ok");
    after.assert_adds_up();
    // Data pages wait longer, too: the loop device does one thing after the other, so that they queue behind
    // a flush.
    let (earlier, later) = (before.shown(), after.shown());
    assert_eq!(
        after.most_moved_since(&before),
        cell("device_flush", Some("journal_commit")),
        "{earlier}\n{later}"
    );
    assert!(after.0["device_flush_seconds"].as_f64().unwrap() > 0.5 * after.total(), "{later}");
}

/// Changes the inodes of many files over and over, which takes room in the journal, and asks for no commit.
struct Churn {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Churn {
    fn start(directory: &Path, threads: usize) -> Churn {
        let stop = Arc::new(AtomicBool::new(false));
        let files: Vec<PathBuf> = (0..2_000).map(|i| directory.join(format!("churn-{i}"))).collect();
        files.iter().for_each(|file| std::fs::write(file, "").unwrap());
        let threads = (0..threads).map(|thread| {
            let (stop, files) = (stop.clone(), files.clone());
            std::thread::spawn(move || {
                for (i, file) in files.iter().cycle().skip(thread * 500).enumerate() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let mode = if (i / files.len()) % 2 == 0 { 0o600 } else { 0o640 };
                    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
                }
            })
        });
        Churn { threads: threads.collect(), stop }
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_tiny_journal_makes_syncs_wait_for_room() {
    needs(&["/sbin/mkfs.ext4"]);
    let look = |journal: &str| {
        // An inode fills a block, so that each change takes one in the journal.
        // The filesystem goes on initialising itself, which takes room in the journal as well.
        let lazily = ["-E", "lazy_itable_init=1,lazy_journal_init=1"];
        let options = [&["-b", "1024", "-I", "1024", "-N", "8000", "-J", journal][..], &lazily].concat();
        // In memory: what is written back for room occupies the device, and on one that is slow at the
        // moment, the syncs' own pages would wait longer for that than for the room.
        let memory = Mounted::tmpfs();
        let disk = Mounted::image_in(memory.path(), "ext4", 512, &options);
        let _churn = Churn::start(disk.path(), 4);
        let load =
            load(disk.path(), "appends", &["--threads", "2", "--files", "2", "--write", "4096", "--append"]);
        explain(&load)
    };
    let (large, tiny) = (look("size=64"), look("size=1"));
    eprintln!("{}\n{}", large.shown(), tiny.shown());
    tiny.assert_adds_up();
    let room = |explained: &Explained| {
        explained.share("journal_space", None)
            + explained.seconds("checkpoint", Some("journal_commit")) / explained.total()
    };
    // With a large journal it is next to nothing. How much it is with a tiny one depends on how much of the
    // time the threads wait for a processor instead.
    assert!(room(&tiny) > 10.0 * room(&large) && room(&tiny) > 0.03, "{}\n{}", large.shown(), tiny.shown());
    // The queues for a processor may move as far: all who waited for room are woken at once.
    assert_eq!(tiny.most_moved_of_waits_since(&large), cell("journal_space", None));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_neighbour_that_forces_commits_is_named() {
    needs(&["/sbin/mkfs.ext4"]);
    let disk = Mounted::image("ext4", 512);
    let (own, others) = (disk.path().join("own"), disk.path().join("others"));
    [&own, &others].into_iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
    let _neighbour =
        load(&others, "noisy", &["--threads", "4", "--files", "4", "--write", "4096", "--append"]);
    let load = load(&own, "quiet", &["--threads", "1", "--write", "4096", "--append"]);
    let explained = explain(&load);
    explained.assert_adds_up();
    let journal = explained.journal();
    let neighbour = &journal["neighbours"][0];
    assert_eq!(neighbour["comm"], "noisy", "{journal:#}");
    assert!(neighbour["count"].as_u64() > journal["syncs"].as_u64(), "{journal:#}");
    // And most of what the commits wrote was its.
    let writers = journal["writers"].as_array().unwrap();
    let handles = |comm: &str| {
        writers
            .iter()
            .find(|writer| writer["comm"] == comm)
            .map_or(0, |writer| writer["handles"].as_u64().unwrap())
    };
    assert!(handles("noisy") > handles("quiet") && handles("quiet") > 0, "{journal:#}");
    assert!(writers.iter().all(|writer| (writer["comm"] == "quiet") == (writer["traced"] == true)));
    let output = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["explain", "-d", "2", "--pid", &load.0.id().to_string()])
        .output()
        .unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("come from noisy, which is not traced"), "{page}");
}

/// So many busy loops on processor 0.
fn hogs(n: usize) -> Vec<Running> {
    let hog = || {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "nice", "-n", "-8", "sh", "-c", "while :; do :; done"]);
        Running(command.stdout(Stdio::null()).spawn().unwrap())
    };
    (0..n).map(|_| hog()).collect()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_processor_that_others_use_is_found_as_the_run_queue() {
    needs(&["/usr/bin/taskset", "/usr/bin/chrt", "/dev/fuse"]);
    takes_long("six busy loops have the processor that it measures on");
    assert!(std::thread::available_parallelism().unwrap().get() >= 2, "this test needs two processors");
    // Who answers the syncs has the other processor, which a device's worker has not: the kernel chooses
    // where that runs, so that it is late as well, and with it the cells of level two.
    let answers = FaultFs::mount("ok");
    answers.pin(1);
    let load = load(answers.path(), "pinned", &["--threads", "1"]);
    crate::common::disk::run("taskset", &["-a", "-c", "-p", "0", &load.0.id().to_string()]);
    let before = explain(&load);
    let hogs = hogs(6);
    let after = explain(&load);
    drop(hogs);
    after.assert_adds_up();
    // An answer comes later, too, where the kernel itself is busy on the other processor.
    let (earlier, later) = (before.shown(), after.shown());
    assert_eq!(after.most_moved_since(&before), cell("run_queue", None), "{earlier}\n{later}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn syncs_that_queue_at_one_inode_are_found_at_its_lock() {
    needs(&["/dev/fuse"]);
    // FUSE syncs a file under its inode's lock, one thread at a time.
    let slow = FaultFs::mount("delay 10ms");
    let explain_threads = |threads: &str| {
        let load = load(slow.path(), "locks", &["--threads", threads]);
        explain(&load)
    };
    let alone = explain_threads("1");
    let together = explain_threads("8");
    for explained in [&alone, &together] {
        explained.assert_adds_up();
        // Each thread is in its sync nearly all of the time, which is known from outside.
        assert!(explained.0["journal"].as_array().unwrap().is_empty());
    }
    assert!(alone.share("remote_filesystem", None) > 0.8, "{}", alone.shown());
    assert_eq!(together.most_moved_since(&alone), cell("lock", None), "{}", together.shown());
    // Seven of eight wait at any time.
    assert!((together.share("lock", None) - 0.875).abs() < 0.1, "{}", together.shown());
    let window = together.0["duration_seconds"].as_f64().unwrap();
    let in_syncs = together.0["measured_seconds"].as_f64().unwrap() / (8.0 * window);
    assert!((0.9..1.01).contains(&in_syncs), "8 threads were in their syncs for {in_syncs} of the time");
}

/// A sync that hung before the probes were there, and that ends inside the window or not at all.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn syncs_in_flight_are_cut_at_both_ends_of_the_window() {
    needs(&["/dev/fuse"]);
    // Each sync takes longer than the window, so that none begins and ends in it.
    let slow = FaultFs::mount("delay 6s");
    let load = load(slow.path(), "slow", &["--threads", "2", "--files", "2", "--op", "fsync"]);
    let explained = Explained::of(load.0.id(), 9, &[]);
    explained.assert_adds_up();
    assert!(explained.share("remote_filesystem", None) > 0.9, "{}", explained.shown());
    // A sync that began before the probes is not traced: at least half of the time is left.
    assert!(explained.total() > 4.0 && explained.total() < 18.2, "{}", explained.shown());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn stacks_are_written_folded_and_drawn() {
    needs(&["/sbin/mkfs.ext4"]);
    let disk = Mounted::image("ext4", 256);
    let files = tempfile::tempdir().unwrap();
    let [folded, svg] = ["folded", "graph.svg"].map(|name| files.path().join(name));
    let load = load(disk.path(), "appends", APPEND);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let options = ["--folded", &text(&folded), "--flamegraph", &text(&svg)];
    let explained = Explained::of(load.0.id(), 2, &options);
    let lines = std::fs::read_to_string(&folded).unwrap();
    let microseconds = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap());
    let seconds = microseconds.sum::<f64>() / 1e6;
    assert!((seconds / explained.total() - 1.0).abs() < 0.01, "{seconds} of {}", explained.total());
    assert!(
        lines
            .lines()
            .any(|line| line.contains(";jbd2_log_wait_commit;") && line.contains("[journal commit]"))
    );
    assert!(std::fs::read_to_string(&svg).unwrap().contains("jbd2_log_wait_commit"));
}

/// So many windows at most.
const WINDOWS: u32 = 3;

/// Both servers, each on a filesystem of its own and by so many connections in turn.
fn servers_are_taken_apart_on(filesystem: &str, options: &[&str], connections: &[u32]) {
    on_each(|kind| {
        let disk = Mounted::image(filesystem, 1024);
        let database = Database::start_on(kind, Some(disk.path()), options);
        database.prepare();
        for &connections in connections {
            let load = Running(database.load(connections, 1_000_000).stdout(Stdio::null()).spawn().unwrap());
            std::thread::sleep(std::time::Duration::from_secs(1));
            let logs_add_up = |explained: &Explained| {
                let logs = explained.0["factors"]["logs"].as_array();
                logs.is_some_and(|logs| logs.iter().all(|log| log["adds_up"] == true))
            };
            // As in factors.rs: one window of which the page says that they do not decides nothing.
            let mut explained = Explained::of(database.pid, 3, &[]);
            for _ in 1..WINDOWS {
                explained.assert_adds_up();
                if logs_add_up(&explained) {
                    break;
                }
                explained = Explained::of(database.pid, 3, &[]);
            }
            drop(load);
            explained.assert_adds_up();
            assert_server_is_taken_apart(&explained, connections);
            let by_writes = options.iter().any(|option| option.contains("O_DSYNC"));
            let expected = if by_writes { "durable_writes" } else { "syncs" };
            assert_eq!(explained.0["factors"]["logs"][0]["made_durable_by"], expected, "{:#}", explained.0);
            let of_redo = explained.phases().iter().filter(|row| row["role"] == "redo");
            assert!(
                of_redo.into_iter().all(|row| (row["op"] == "dsync_write") == by_writes),
                "{:#}",
                explained.0
            );
            assert_eq!(explained.journal()["durable_writes"].as_u64().unwrap() > 0, by_writes);
            // XFS does not tell whose changes its log carries.
            let writers = explained.journal()["writers"].as_array();
            let is_traced = writers.map(|all| all.iter().any(|writer| writer["traced"] == true));
            assert_eq!(is_traced, (filesystem == "ext4").then_some(true), "{:#}", explained.journal());
        }
    });
}

/// By role, and by the server's own counters of the same window.
fn assert_server_is_taken_apart(explained: &Explained, connections: u32) {
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{:#}", explained.0));
    let factors = &explained.0["factors"];
    let observed = number(&explained.0["observed_transactions_per_second"]);
    let group = number(&factors["transactions_per_commit_group"]["value"]);
    match connections {
        1 => assert!((group - 1.0).abs() < 0.05, "{factors:#}"),
        n => assert!(group > 1.0 && group <= f64::from(n), "{factors:#}"),
    }
    let logs = factors["logs"].as_array().unwrap();
    assert_eq!(logs.iter().map(|log| log["role"].as_str().unwrap()).collect::<Vec<_>>(), ["redo", "binlog"]);
    for log in logs {
        assert!(explained.phases().iter().any(|row| row["role"] == log["role"]), "{:#}", explained.0);
        assert_eq!(log["in_flight"]["by"], "timer", "{log:#}");
        assert_eq!(log["adds_up"], true, "{connections} connections: {:#}", explained.0);
        // A log that is synced by one after the other is not busy for longer than there is time.
        let bound = number(&log["bound_transactions_per_second"]);
        assert!(observed <= bound * 1.03, "{factors:#}");
    }
    let product =
        number(&factors["transactions_per_binlog_sync"]["value"]) * number(&logs[1]["syncs_per_second"]);
    assert!((product / observed - 1.0).abs() < 0.02, "{product} and {observed}: {factors:#}");
    let is_consistent = |setting: &str| {
        let audit = explained.0["audit"].as_array().unwrap();
        audit.iter().any(|finding| finding["setting"] == setting && finding["standing"] == "consistent")
    };
    let settings = ["sync_binlog=1", "innodb_flush_log_at_trx_commit=1"];
    assert!(settings.into_iter().all(is_consistent), "{:#}", explained.0["audit"]);
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn servers_on_ext4_are_taken_apart() {
    servers_are_taken_apart_on("ext4", &[], &[1, 16, 64]);
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn servers_on_xfs_are_taken_apart() {
    servers_are_taken_apart_on("xfs", &[], &[1, 16, 64]);
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn servers_whose_redo_log_is_durable_by_its_writes_are_taken_apart() {
    servers_are_taken_apart_on("ext4", &["--innodb-flush-method=O_DSYNC"], &[1, 16]);
}
