//! The scan on made-up /proc directories; tests/root/alone/stuck.rs has the real ones.

use super::*;
use std::os::unix::fs::symlink;

const MILLISECOND: Duration = Duration::from_millis(1);

fn looks() -> Looks {
    Looks { count: 2, apart: 20 * MILLISECOND, deadline: Duration::from_secs(5), ..Looks::default() }
}

/// A thread in fdatasync(3), last run on CPU 1 at 1,000 s of its clock.
fn add_thread(root: &Path, pid: u32, tid: u32) -> PathBuf {
    let thread = root.join(format!("{pid}/task/{tid}"));
    fs::create_dir_all(&thread).unwrap();
    let zeros = "0 ".repeat(18);
    let line = format!("{} 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffc537eaa98 0x7f338e605ce0\n", libc::SYS_fdatasync);
    for (file, content) in [
        ("syscall", line.as_str()),
        ("stat", &format!("{tid} (ib_log_flush) D {zeros} 500 {} 1 0 0", "0 ".repeat(16))),
        ("schedstat", "15195766 334506 13\n"),
        ("sched", "se.exec_start : 1000000.000000\n"),
        ("comm", "ib_log_flush\n"),
        ("wchan", "jbd2_log_wait_commit"),
        ("stack", "[<0>] jbd2_log_wait_commit+0x1/0x2 [jbd2]\n[<0>] ext4_sync_file+0x1/0x2\n"),
    ] {
        fs::write(thread.join(file), content).unwrap();
    }
    thread
}

fn server(root: &Path) {
    let thread = add_thread(root, 70, 71);
    fs::write(root.join("70/comm"), "mysqld\n").unwrap();
    // Its descriptors are the thread's: those of the process are gone with its first thread.
    fs::create_dir_all(thread.join("fd")).unwrap();
    fs::create_dir_all(thread.join("fdinfo")).unwrap();
    symlink("/var/lib/mysql/#innodb_redo/#ib_redo5", thread.join("fd/3")).unwrap();
    fs::write(thread.join("fdinfo/3"), "pos:\t0\nflags:\t02\nmnt_id:\t45\nino:\t12\n").unwrap();
    fs::write(thread.join("mountinfo"), "45 1 254:16 / /var rw - ext4 /dev/vdb rw\n").unwrap();
}

fn with_clock(root: &Path, seconds: u64) -> Scan {
    let clock = move |cpus: &BTreeSet<u32>| cpus.iter().map(|&c| (c, Duration::from_secs(seconds))).collect();
    scan_with(root, &Processes::All, &looks(), &clock).unwrap()
}

#[test]
fn a_blocked_thread_is_found_with_all_that_is_known_of_it() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let scan = with_clock(root.path(), 1003);
    let [sync] = scan.syncs.as_slice() else { panic!("{scan:?}") };
    assert_eq!((sync.pid, sync.tid, sync.op, sync.fd), (70, 71, Op::Fdatasync, Some(3)));
    assert_eq!((sync.thread.as_str(), sync.comm.as_str(), sync.state), ("ib_log_flush", "mysqld", 'D'));
    assert_eq!(sync.path.as_deref(), Some(Path::new("/var/lib/mysql/#innodb_redo/#ib_redo5")));
    assert_eq!(sync.mount.as_ref().map(|mount| mount.device), Some(254 << 20 | 16));
    assert_eq!(sync.stack, ["jbd2_log_wait_commit", "ext4_sync_file"]);
    assert_eq!(sync.wait_channel.as_deref(), Some("jbd2_log_wait_commit"));
    assert_eq!(sync.standing, Standing::Unmoved);
    assert_eq!(sync.age, Some((Duration::from_secs(3), AgeFrom::Blocked)));
    assert_eq!((scan.finished, scan.unreadable, scan.blocked), (0, 0, 0));

    let server = ServerId { pid: 70, start_ns: 1 };
    let in_flight = sync.in_flight(server, Role::Redo);
    assert_eq!((in_flight.age, in_flight.age_is_minimum), (Duration::from_secs(3), true));
}

#[test]
fn without_a_clock_the_age_is_the_time_it_was_watched() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let scan = scan_with(root.path(), &Processes::These(vec![70]), &looks(), &|_| BTreeMap::new()).unwrap();
    assert_eq!(scan.syncs[0].age, Some((scan.watched, AgeFrom::Watched)));
    assert!(scan.watched >= looks().apart);

    let once = Looks { count: 1, ..looks() };
    let scan = scan_with(root.path(), &Processes::All, &once, &|_| BTreeMap::new()).unwrap();
    assert_eq!((scan.syncs[0].standing, scan.syncs[0].age), (Standing::SeenOnce, None));
}

#[test]
fn a_thread_that_ran_between_the_looks_is_moving_and_no_older_than_since_then() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let thread = root.path().join("70/task/71");
    let run = thread::spawn(move || {
        // between the first look, which is at once, and the second
        thread::sleep(100 * MILLISECOND);
        fs::write(thread.join("schedstat"), "15195767 334506 14\n").unwrap();
        fs::write(thread.join("sched"), "se.exec_start : 1002999.000000\n").unwrap();
    });
    let slow = Looks { apart: 1000 * MILLISECOND, ..looks() };
    let clock = |cpus: &BTreeSet<u32>| cpus.iter().map(|&c| (c, Duration::from_secs(1003))).collect();
    let scan = scan_with(root.path(), &Processes::All, &slow, &clock).unwrap();
    run.join().unwrap();
    assert_eq!(scan.syncs[0].standing, Standing::Moving);
    assert_eq!(scan.syncs[0].age, Some((MILLISECOND, AgeFrom::Blocked)));
}

#[test]
fn a_thread_without_any_sign_of_progress_is_not_said_to_be_unmoved() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    fs::remove_file(root.path().join("70/task/71/schedstat")).unwrap();
    assert_eq!(with_clock(root.path(), 1003).syncs[0].standing, Standing::Moving);
}

#[test]
fn a_call_that_ended_between_the_looks_is_counted_and_not_shown() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let line = root.path().join("70/task/71/syscall");
    let end = thread::spawn(move || {
        thread::sleep(100 * MILLISECOND);
        fs::write(line, "running\n").unwrap();
    });
    let slow = Looks { apart: 1000 * MILLISECOND, ..looks() };
    let scan = scan_with(root.path(), &Processes::All, &slow, &|_| BTreeMap::new()).unwrap();
    end.join().unwrap();
    assert_eq!((scan.syncs.len(), scan.finished), (0, 1));
}

#[test]
fn what_cannot_be_read_is_counted_and_what_is_gone_is_not() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let hidden = add_thread(root.path(), 80, 80);
    fs::remove_file(hidden.join("syscall")).unwrap();
    fs::create_dir_all(root.path().join("90/task/90")).unwrap();
    let scan = with_clock(root.path(), 1003);
    assert_eq!((scan.syncs.len(), scan.unreadable), (1, 1));
    fs::write(root.path().join("80/comm"), "redis-server\n").unwrap();
    let named = |program: Option<&str>| Unexamined {
        pid: 80,
        comm: "redis-server".into(),
        program: program.map(str::to_owned),
    };
    assert_eq!(with_clock(root.path(), 1003).unexamined, [named(None)]);
    symlink("/usr/bin/redis-check-rdb", root.path().join("80/exe")).unwrap();
    assert_eq!(with_clock(root.path(), 1003).unexamined, [named(Some("redis-check-rdb"))]);
}

#[test]
fn a_thread_of_the_kernel_makes_no_call_that_could_be_missed() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let thread = add_thread(root.path(), 80, 80);
    fs::remove_file(thread.join("syscall")).unwrap();
    let stat = |flags: u32| format!("80 (kworker/0:1) I 2 0 0 0 -1 {flags} {} 500 0 1 0", "0 ".repeat(14));
    fs::write(thread.join("stat"), stat(0)).unwrap();
    assert_eq!(with_clock(root.path(), 1003).unreadable, 1);
    fs::write(thread.join("stat"), stat(0x0420_8060)).unwrap();
    assert_eq!(with_clock(root.path(), 1003).unreadable, 0);
}

/// The thread of [`server`] is in pwrite64(3) instead.
fn write_instead(root: &Path, flags: &str) {
    let line = format!("{} 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffc537eaa98 0x7f338e605ce0\n", libc::SYS_pwrite64);
    fs::write(root.join("70/task/71/syscall"), line).unwrap();
    fs::write(root.join("70/task/71/fdinfo/3"), format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t45\nino:\t12\n"))
        .unwrap();
}

#[test]
fn a_write_through_a_durable_descriptor_is_a_durable_write_and_any_other_shows_once_it_hangs() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let seen = |seconds| {
        let scan = with_clock(root.path(), seconds);
        scan.syncs.iter().map(|sync| (sync.op, sync.age.map(|(age, _)| age.as_secs()))).collect::<Vec<_>>()
    };
    // O_DSYNC, and O_SYNC, which includes it.
    for flags in ["010002", "04010002"] {
        write_instead(root.path(), flags);
        assert_eq!(seen(1000), [(Op::DsyncWrite, Some(0))], "{flags}");
    }
    write_instead(root.path(), "02");
    assert_eq!(seen(1000), []);
    assert_eq!(seen(1003), [(Op::Write, Some(3))]);
    // Of a write that ended in time, nothing is said.
    assert_eq!(with_clock(root.path(), 1000).finished, 0);
    // All writes of the mount are durable.
    fs::write(root.path().join("70/task/71/mountinfo"), "45 1 254:16 / /var rw,sync - ext4 /dev/vdb rw\n")
        .unwrap();
    assert_eq!(seen(1000), [(Op::DsyncWrite, Some(0))]);
    let only = Looks { plain_writes_only: true, ..looks() };
    write_instead(root.path(), "010002");
    assert_eq!(scan_with(root.path(), &Processes::All, &only, &|_| BTreeMap::new()).unwrap().syncs, []);
}

#[test]
fn who_waits_for_a_reader_hangs_in_no_file() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    write_instead(root.path(), "02");
    assert_eq!(with_clock(root.path(), 1003).syncs.len(), 1);
    let thread = root.path().join("70/task/71");
    // A FIFO has a path; who may not read the stack is told by the wait channel.
    fs::write(thread.join("wchan"), "anon_pipe_write").unwrap();
    fs::write(thread.join("stack"), "").unwrap();
    assert_eq!(with_clock(root.path(), 1003).syncs, []);
    fs::write(thread.join("wchan"), "folio_wait_bit_common").unwrap();
    assert_eq!(with_clock(root.path(), 1003).syncs.len(), 1);
    for link in ["socket:[4711]", "pipe:[4712]"] {
        fs::remove_file(root.path().join("70/task/71/fd/3")).unwrap();
        symlink(link, root.path().join("70/task/71/fd/3")).unwrap();
        assert_eq!(with_clock(root.path(), 1003).syncs, [], "{link}");
    }
}

#[test]
fn the_oldest_comes_first_and_one_of_unknown_age_last() {
    let root = tempfile::tempdir().unwrap();
    for (tid, last_ran) in [(71, "1002"), (72, "1000"), (73, "1001")] {
        let thread = add_thread(root.path(), 70, tid);
        fs::write(thread.join("sched"), format!("se.exec_start : {last_ran}000.000000\n")).unwrap();
    }
    fs::write(add_thread(root.path(), 70, 70).join("sched"), "").unwrap();
    let once = Looks { count: 1, ..looks() };
    let clock = |cpus: &BTreeSet<u32>| cpus.iter().map(|&c| (c, Duration::from_secs(1003))).collect();
    let scan = scan_with(root.path(), &Processes::All, &once, &clock).unwrap();
    assert_eq!(scan.syncs.iter().map(|sync| sync.tid).collect::<Vec<_>>(), [72, 73, 71, 70]);
}

#[test]
fn a_process_that_blocks_every_reader_is_skipped_and_the_others_are_found() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    // nobody ever writes into this fifo: opening it blocks as a hung file of /proc would
    let hung = add_thread(root.path(), 60, 60);
    fs::remove_file(hung.join("syscall")).unwrap();
    nix::unistd::mkfifo(&hung.join("syscall"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let short = Looks { deadline: 100 * MILLISECOND, ..looks() };
    let started = Instant::now();
    let scan = scan_with(root.path(), &Processes::All, &short, &|_| BTreeMap::new()).unwrap();
    assert_eq!((scan.syncs.len(), scan.blocked), (1, 1));
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_thread_that_cannot_be_looked_at_again_has_not_finished() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    // as btrfs does, which looks into its trees on the device that hangs
    let mounts = root.path().join("70/task/71/mountinfo");
    fs::remove_file(&mounts).unwrap();
    nix::unistd::mkfifo(&mounts, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let short = Looks { deadline: 100 * MILLISECOND, ..looks() };
    let scan = scan_with(root.path(), &Processes::All, &short, &|_| BTreeMap::new()).unwrap();
    assert_eq!((scan.syncs.len(), scan.finished, scan.blocked), (0, 0, 1));
}
