//! Needs root and FUSE: a user without rights fills the tables of the kernel side, and what others do is
//! counted, named and seen in flight all the same.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::exporter::Exporter;
use crate::common::faults::{FaultFs, Hung};
use crate::common::measured::Measured;
use crate::common::rows::{self, syncs_of};
use crate::common::scrape::Scrape;
use crate::common::tracing::Tracing;
use crate::common::{Running, built, needs, wait_until};
use fsynctop::probe::{Capacity, ProbeConfig};

const USER: u32 = 4_711;
const FUSE: &str = "/dev/fuse";

/// syncgen of a user without rights, on files of theirs.
fn of_user(directory: &Path, arguments: &[&str]) -> Running {
    chown(directory, Some(USER), Some(USER)).unwrap();
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
    command.arg(built("syncgen")).arg(directory).args(arguments);
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

fn of_root(directory: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(arguments);
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

fn in_flight(measured: &Measured, pid: u32) -> usize {
    measured.in_flight().iter().filter(|sync| sync["pid"] == pid).count()
}

/// All that it submits is submitted, and it waits for the end.
fn wait_until_it_waits(pid: u32) {
    wait_until("the process to wait", || {
        let place = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        ["io_cqring_wait", "read_events"].contains(&&*place)
    });
}

const NAMES: [&str; 6] = ["--comm", "crowdgen", "--comm", "loggen", "--output", "json"];

fn requests_that_hang_are_seen(theirs: &[&str], processes: usize, own: &[&str]) {
    needs(&[FUSE]);
    let (crowd, mount) = (FaultFs::mount("hang"), FaultFs::mount("hang"));
    let tracing = Tracing::waiting(&NAMES);
    let theirs = [&["--comm", "crowdgen"], theirs].concat();
    // It ends after the others, behind which the kernel may have put what it asked for.
    let log;
    let start = |number: usize| {
        // Each with a file of its own: a sync that hangs keeps the next one from opening it.
        let directory = crowd.path().join(number.to_string());
        std::fs::create_dir(&directory).unwrap();
        Hung::new(&crowd, of_user(&directory, &theirs))
    };
    let loads: Vec<Hung> = (0..processes).map(start).collect();
    loads.iter().for_each(|load| wait_until_it_waits(load.pid()));
    log = Hung::new(&mount, of_root(mount.path(), &[&["--comm", "loggen"], own].concat()));
    wait_until_it_waits(log.pid());
    let measured = tracing.one();
    let of_user: usize = loads.iter().map(|load| in_flight(&measured, load.pid())).sum();
    let lost = measured.lost("threads");
    println!("{of_user} in flight of the user, {lost} had no room");
    assert!(lost > 0, "the table was full: {}", measured.0["lost"]);
    assert_eq!(in_flight(&measured, log.pid()), 1, "{}", measured.0["lost"]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_hang_in_a_ring_is_seen_beside_thousands_of_another_users() {
    requests_that_hang_are_seen(
        &["--ways", "ring-many", "--syncs", "6000"],
        2,
        &["--ways", "ring-fsync", "--syncs", "1"],
    );
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_hang_of_libaio_is_seen_beside_thousands_of_another_users() {
    requests_that_hang_are_seen(
        &["--ways", "aio-huge", "--syncs", "4500"],
        1,
        &["--ways", "aio-fsync", "--syncs", "1"],
    );
}

/// The processes of this name, wherever they run.
fn called(name: &str) -> Vec<u32> {
    let output = Command::new("pgrep").args(["-x", name]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|pid| pid.parse().unwrap()).collect()
}

/// Of a container without a user namespace, whose root runs its processes as any user.
fn container(script: &str) -> Running {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "sh", "-c", script]).stdout(Stdio::null());
    Running(command.spawn().unwrap())
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_container_is_one_whatever_users_it_runs_and_leaves_room_for_another() {
    needs(&[FUSE]);
    const USERS: [u32; 3] = [5_001, 5_002, 5_003];
    let (crowd, mount) = (FaultFs::mount("hang"), FaultFs::mount("hang"));
    let tracing = Tracing::waiting(&NAMES);
    let syncgen = built("syncgen");
    let one = |user: u32| {
        let directory = crowd.path().join(user.to_string());
        std::fs::create_dir(&directory).unwrap();
        chown(&directory, Some(user), Some(user)).unwrap();
        let (syncgen, directory) = (syncgen.display(), directory.display());
        format!(
            "setpriv --reuid={user} --regid={user} --clear-groups {syncgen} {directory} --comm crowdgen \
             --ways aio-huge --syncs 4500 & "
        )
    };
    let script: String = USERS.map(one).concat() + "wait";
    let log;
    let hostile = Hung::new(&crowd, container(&script));
    wait_until("the hostile container", || called("crowdgen").len() == USERS.len());
    called("crowdgen").into_iter().for_each(wait_until_it_waits);
    let own =
        format!("{} {} --comm loggen --ways aio-fsync --syncs 1", syncgen.display(), mount.path().display());
    log = Hung::new(&mount, container(&own));
    wait_until("the other container", || called("loggen").len() == 1);
    wait_until_it_waits(called("loggen")[0]);
    let measured = tracing.one();
    assert!(measured.lost("threads") > 0, "the table was full: {}", measured.0["lost"]);
    assert_eq!(in_flight(&measured, called("loggen")[0]), 1, "{}", measured.0["lost"]);
    drop(hostile);
    drop(log);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_call_is_counted_beside_thousands_of_another_users_that_hang() {
    needs(&[FUSE]);
    // Four threads have slots; the others' calls are in the table.
    let mut probe = rows::attach(&ProbeConfig {
        capacity: Capacity { threads: 4, ..Capacity::default() },
        ..rows::of_comm("loggen")
    });
    let crowd = FaultFs::mount("hang");
    let load = of_user(crowd.path(), &["--comm", "crowdgen", "--threads", "4300", "--syncs", "1"]);
    let load = Hung::new(&crowd, load);
    wait_until("the table to be full", || probe.counters().no_call_state > 0);
    std::thread::sleep(Duration::from_secs(1));
    let directory = tempfile::tempdir().unwrap();
    let mut log = of_root(directory.path(), &["--comm", "loggen", "--threads", "100", "--syncs", "20"]);
    assert!(log.0.wait().unwrap().success());
    assert_eq!(syncs_of(&mut probe, log.0.id()), (2_000, 2_000), "{:?}", probe.counters());
    drop(load);
    // They took room, and gave it back.
    let before = probe.counters().no_call_state;
    let theirs = tempfile::tempdir().unwrap();
    let mut again = of_user(theirs.path(), &["--comm", "loggen", "--threads", "100", "--syncs", "20"]);
    assert!(again.0.wait().unwrap().success());
    assert_eq!(syncs_of(&mut probe, again.0.id()), (2_000, 2_000), "{:?}", probe.counters());
    assert_eq!(probe.counters().no_call_state, before);
}

/// Syncs so many files once each, each of which fails, then stays.
const FAILS: &str = "
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
for number in range(int(sys.argv[3])):
    fd = os.open(f'{sys.argv[2]}/{number}', os.O_CREAT | os.O_RDWR)
    try: os.fsync(fd)
    except OSError: pass
    os.close(fd)
print('done', flush=True)
sys.stdin.read()
";

fn fails(user: &str, comm: &str, directory: &Path, files: &str) -> Running {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
    command.args(["/usr/bin/python3", "-c", FAILS, comm]).arg(directory).arg(files);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "done\n");
    Running(child)
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_errno_of_a_failure_is_told_beside_thousands_of_another_users() {
    needs(&[FUSE]);
    const CROWD: &str = "2500";
    let crowd = FaultFs::mount("fail EINVAL");
    chown(crowd.path(), Some(USER), Some(USER)).unwrap();
    let mount = FaultFs::mount("fail EINVAL");
    let tracing = Tracing::waiting(&NAMES);
    let theirs = fails(&USER.to_string(), "crowdgen", crowd.path(), CROWD);
    let own = fails("0", "loggen", mount.path(), "1");
    let mut graves = Vec::new();
    for errno in ["EIO", "ENOSPC", "EDQUOT", "EROFS"] {
        mount.control(&format!("fail {errno}"));
        crowd.control(&format!("fail {errno}"));
        graves.push((
            errno,
            fails(&USER.to_string(), "crowdgen", crowd.path(), CROWD),
            fails("0", "loggen", mount.path(), "1"),
        ));
    }
    let measured = tracing.one();
    let errors_of = |pid: u32| -> Vec<(String, u64)> {
        let rows = measured.files().iter().filter(|row| row["pid"] == pid);
        let errors = rows.filter_map(|row| row["errors"].as_object());
        let mut all = BTreeMap::new();
        for (errno, n) in errors.flatten() {
            *all.entry(errno.clone()).or_insert(0) += n.as_u64().unwrap();
        }
        all.into_iter().collect()
    };
    assert!(measured.lost("errors") > 0, "the table was full: {}", measured.0["lost"]);
    assert_eq!(errors_of(own.0.id()), [("EINVAL".to_owned(), 1)], "in the room that is left to others");
    for (errno, theirs, own) in &graves {
        assert_eq!(errors_of(own.0.id()), [((*errno).to_owned(), 1)]);
        assert_eq!(errors_of(theirs.0.id()), [((*errno).to_owned(), 2_500)], "each row has room for these");
    }
    drop(theirs);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn new_files_of_one_user_are_told_apart_as_far_as_they_are_cheap_and_all_are_counted() {
    needs(&[]);
    const FLOOD: u64 = 20_000;
    let exporter =
        Exporter::start(&["--comm", "crowdgen", "--comm", "loggen", "--max-files", "8192", "--max-cpu", "1"]);
    let (crowd, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A log that is opened, synced and closed each time.
    let mut log = of_root(directory.path(), &["--comm", "loggen", "--reopen", "--syncs", "500", "--hold"]);
    let flood = of_user(
        crowd.path(),
        &["--comm", "crowdgen", "--unlink-after", "--syncs", &FLOOD.to_string(), "--hold"],
    );
    let mut scrape = Scrape::default();
    wait_until("all syncs", || {
        scrape = Scrape::of(&exporter);
        scrape.syncs(&[]) >= FLOOD + 500
    });
    assert_eq!(scrape.syncs(&[]), FLOOD + 500);
    let lost = scrape.sum("fsynctop_lost_total", &["files"]);
    println!("{lost} of {FLOOD} files were not told apart");
    assert!((1..=FLOOD - 4_096).contains(&lost), "{lost}");
    let _ = log.0.kill();
    drop(flood);
}
