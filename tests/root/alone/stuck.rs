//! `stuck` on a sync that really hangs, in D state: needs root, a loop device and mkfs.ext4, no BPF.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::nested::Nested;
use crate::common::{Running, needs};
use fsynctop::model::{Op, Role};
use fsynctop::render::Style;
use fsynctop::stuck;
use fsynctop::threads::{self, Looks, Processes, Scan, Standing, waits_for};

/// The scan, or a failed test if it does not come back: it must never wait for what hangs.
fn scan_in_time(processes: Processes, looks: Looks) -> Scan {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(threads::scan(Path::new("/proc"), &processes, &looks)));
    let outcome = receiver.recv_timeout(Duration::from_secs(20)).expect("the scan blocked on a hung sync");
    outcome.expect("/proc can be listed")
}

#[test]
#[ignore = "needs root"]
fn root_a_sync_that_hangs_is_found_with_its_file_and_a_minimum_age() {
    needs(&[]);
    let nested = Nested::new().expect("loop devices, mkfs.ext4 and fsfreeze");
    let path = nested.inner().join("ib_logfile0");
    let mut file = File::create(&path).unwrap();
    file.write_all(&[7; 8192]).unwrap();
    nested.freeze();

    let (announce, announced) = mpsc::channel();
    let hung = thread::Builder::new()
        .name("ib_log_flush".into())
        .spawn(move || {
            announce.send((fs::read_link("/proc/thread-self").unwrap(), Instant::now())).unwrap();
            file.sync_data().unwrap();
            Instant::now()
        })
        .unwrap();
    let (own, began) = announced.recv().unwrap();
    let tid: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
    thread::sleep(Duration::from_millis(1500));

    let before_scan = began.elapsed();
    let scan = scan_in_time(Processes::These(vec![std::process::id()]), Looks::default());
    let oldest_possible = began.elapsed();
    let sync = scan.syncs.iter().find(|sync| sync.tid == tid).unwrap_or_else(|| panic!("{scan:?}"));
    assert_eq!(
        (sync.pid, sync.op, sync.thread.as_str()),
        (std::process::id(), Op::Fdatasync, "ib_log_flush")
    );
    assert_eq!(sync.path.as_deref(), Some(path.as_path()));
    assert_eq!((sync.state, sync.standing), ('D', Standing::Unmoved));
    let mount = sync.mount.as_ref().unwrap();
    assert_eq!((mount.mount_point.as_path(), mount.filesystem.as_str()), (nested.inner().as_path(), "ext4"));
    let (age, _) = sync.age.unwrap();
    assert!(age <= oldest_possible, "at least {age:?}, but it began {oldest_possible:?} ago");
    if fs::read_to_string("/proc/thread-self/sched").is_ok_and(|text| text.contains("se.exec_start")) {
        // it blocked at once; a hypervisor may have stolen some of the time
        assert!(age > before_scan / 2, "at least {age:?} only, but it began {before_scan:?} before the scan");
    } else {
        assert!(age >= Looks::default().apart);
    }
    let wait = waits_for(&sync.stack, sync.wait_channel.as_deref()).unwrap();
    assert_eq!(wait.what, "its data pages to be written", "{:?}", sync.stack);

    // the whole host, at a single look, as the tracer does it when it attaches
    let whole_host = scan_in_time(Processes::All, Looks::once());
    assert!(whole_host.syncs.iter().any(|sync| sync.tid == tid));
    let text = stuck::table(&scan, &|_, _| Role::Redo, stuck::Reader::Root, &Style::default());
    assert!(text.contains("ib_logfile0") && text.contains("its data pages to be written"), "{text}");
    println!("{text}");

    assert!(!hung.is_finished(), "the sync was to hang");
    nested.thaw();
    let ended = hung.join().unwrap();
    assert!(ended - began >= before_scan);
    let after = scan_in_time(Processes::These(vec![std::process::id()]), Looks::once());
    assert!(after.syncs.iter().all(|sync| sync.tid != tid), "{after:?}");
}

#[test]
#[ignore = "needs root"]
fn root_writes_that_hang_are_found_and_told_apart_by_descriptor_and_inode() {
    needs(&[]);
    let nested = Nested::new().expect("loop devices, mkfs.ext4 and fsfreeze");
    let open = |name: &str, flags: i32| {
        let path = nested.inner().join(name);
        let mut options = fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true).write(true).create(true), flags);
        (options.open(&path).unwrap(), path)
    };
    // A write that ends in the page cache hangs for nobody.
    let files = [open("ib_logfile0", libc::O_DSYNC), open("shop.ibd", libc::O_DIRECT), open("undo_001", 0)];
    crate::common::disk::run("chattr", &["+S", files[2].1.to_str().unwrap()]);
    // Before Linux 6.17 it does not tell of the flag without opening the file.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut version = release.split('.').map(|number| number.trim().parse::<u32>().unwrap_or(0));
    let tells_flag = (version.next(), version.next()) >= (Some(6), Some(17));
    let ops = [Op::DsyncWrite, Op::Write, if tells_flag { Op::DsyncWrite } else { Op::Write }];
    nested.freeze();
    let (announce, announced) = mpsc::channel();
    let hung = files.map(|(mut file, path)| {
        let announce = announce.clone();
        let thread = thread::spawn(move || {
            announce.send(()).unwrap();
            file.write_all(&Page([7; 8192]).0).unwrap();
        });
        (thread, path)
    });
    ops.iter().for_each(|_| announced.recv().unwrap());
    thread::sleep(Duration::from_millis(1_500));
    // Also where the kernel does not tell for how long a thread has been blocked.
    let looks = Looks { apart: Duration::from_millis(1_200), ..Looks::default() };
    let scan = scan_in_time(Processes::These(vec![std::process::id()]), looks);
    for ((_, path), op) in hung.iter().zip(ops) {
        let found = scan.syncs.iter().find(|sync| sync.path.as_ref() == Some(path));
        let found = found.unwrap_or_else(|| panic!("no {path:?}: {scan:?}"));
        assert_eq!((found.op, found.standing), (op, Standing::Unmoved));
        assert!(found.age.unwrap().0 >= Duration::from_secs(1), "{found:?}");
    }
    let only = Looks { plain_writes_only: true, ..looks };
    let scan = scan_in_time(Processes::These(vec![std::process::id()]), only);
    let found: Vec<_> = scan.syncs.iter().map(|sync| sync.path.as_ref().unwrap()).collect();
    assert!(found.len() == 2 && !found.contains(&&hung[0].1), "{scan:?}");
    nested.thaw();
    for (thread, _) in hung {
        thread.join().unwrap();
    }
    assert_eq!(scan_in_time(Processes::These(vec![std::process::id()]), looks).syncs, []);
}

#[test]
#[ignore = "needs root"]
fn root_a_writer_that_waits_for_its_reader_hangs_in_no_file() {
    needs(&[]);
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // It is read by nobody: 64 KB fill it.
    let script = r#"exec 3<>"$1"; exec head -c 200000 /dev/zero >&3"#;
    let mut command = Command::new("bash");
    let writer = Running(command.args(["-c", script, "bash"]).arg(&fifo).spawn().unwrap());
    let pid = writer.0.id();
    crate::common::wait_until("the writer to wait", || {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        call.starts_with(&format!("{} 0x1 ", libc::SYS_write))
    });
    let looks = Looks { apart: Duration::from_millis(1_500), ..Looks::default() };
    assert_eq!(scan_in_time(Processes::These(vec![pid]), looks).syncs, []);
}

/// What a write past the page cache takes.
#[repr(align(4096))]
struct Page([u8; 8192]);

/// `stuck` as a user without rights, who can run it wherever it was built.
struct Nobody {
    directory: tempfile::TempDir,
}

impl Nobody {
    const AS: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

    fn new() -> Nobody {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_fsynctop"), directory.path().join("fsynctop")).unwrap();
        Nobody { directory }
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("fsynctop")
    }

    fn stuck(&self, options: &[&str]) -> Output {
        Command::new("setpriv")
            .args(Self::AS)
            .arg(self.program())
            .arg("stuck")
            .args(options)
            .output()
            .unwrap()
    }
}

fn text(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Who sees of a PID namespace, as a user without rights, itself and a process of root's with this name.
fn stuck_beside(name: &str, options: &[&str]) -> Output {
    let nobody = Nobody::new();
    let program = nobody.directory.path().join(name);
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let script = r#""$2" 600 & until grep -qx "$1" /proc/$!/comm; do :; done; shift 2; exec setpriv "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh", name]);
    command.arg(&program).args(Nobody::AS).arg(nobody.program()).arg("stuck").args(options).output().unwrap()
}

#[test]
#[ignore = "needs root"]
fn root_the_status_tells_of_a_server_that_could_not_be_examined_and_of_nothing_else() {
    needs(&[]);
    let unseen = "1 thread could not be examined without root (first: ";
    for (name, options, status) in [
        ("not-a-server", &[][..], 0),
        ("not-a-server", &["--comm", "not-a-server"], 5),
        ("mysqld", &[], 5),
        ("redis-server", &["--fail-on", "stalled"], 5),
    ] {
        let output = stuck_beside(name, options);
        assert_eq!(output.status.code(), Some(status), "{name} {options:?}: {output:?}");
        let said = text(&output);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("No thread that could be examined is inside a sync call"), "{said}");
        assert!(lines[1].starts_with(&format!("{unseen}{name} ")) && lines.len() == 2, "{said}");
        let json: serde_json::Value =
            serde_json::from_slice(&stuck_beside(name, &[options, &["--json"]].concat()).stdout).unwrap();
        assert_eq!(
            (&json["may_miss_server"], &json["unreadable_threads"]),
            (&(status == 5).into(), &1.into())
        );
    }
}

#[test]
#[ignore = "needs root"]
fn root_is_not_told_first_what_hides_from_it() {
    needs(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_fsynctop")).arg("stuck").output().unwrap();
    let said = text(&output);
    let first = said.lines().next().unwrap();
    assert!(first.contains("inside a sync call right now") || first.contains("AGE"), "{said}");
    assert!(!said.contains("without root"), "{said}");
}

#[test]
#[ignore = "needs root"]
fn root_who_may_not_look_everywhere_is_told_what_it_missed() {
    needs(&[]);
    let nobody = Nobody::new();
    let said = text(&nobody.stuck(&[]));
    let init = fs::read_to_string("/proc/1/comm").unwrap();
    let last = said.lines().last().unwrap();
    assert!(
        last.ends_with(&format!("could not be examined without root (first: {} 1).", init.trim_end())),
        "{said}"
    );
    let json = nobody.stuck(&["--output", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["unreadable_threads"].as_u64() > Some(0), "{json}");
    let named = json["unexamined"].as_array().unwrap();
    assert_eq!((&named[0]["pid"], &named[0]["comm"]), (&1.into(), &init.trim_end().into()), "{json}");

    // Of what is its own it sees everything.
    let own = Running(Command::new("setpriv").args(Nobody::AS).args(["sleep", "600"]).spawn().unwrap());
    let pid = own.0.id();
    crate::common::wait_until("the user's own process", || {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sleep\n")
    });
    let own = nobody.stuck(&["--pid", &pid.to_string()]);
    assert_eq!(own.status.code(), Some(0), "{own:?}");
    assert_eq!(text(&own), "No thread is inside a sync call right now, and no write hangs.\n");
    // And root does of a process that is not its own.
    let root = Command::new(nobody.program()).args(["stuck", "--pid", &pid.to_string()]).output().unwrap();
    assert_eq!(root.status.code(), Some(0), "{root:?}");
}

#[test]
#[ignore = "needs root"]
fn root_a_proc_that_hides_processes_is_no_reason_to_see_none() {
    needs(&[]);
    let nobody = Nobody::new();
    for hidepid in ["noaccess", "invisible"] {
        let script = r#"mount -t proc -o hidepid="$1" proc /proc && shift && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", hidepid, "setpriv"]).args(Nobody::AS);
        let output = command.arg(nobody.program()).arg("stuck").output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{hidepid}: {output:?}");
        let said = text(&output);
        assert!(said.lines().last().unwrap().contains("could not be examined"), "{hidepid}: {said}");
    }
}

#[test]
#[ignore = "needs root"]
fn root_a_sync_that_hangs_does_not_hide_what_could_not_be_looked_at() {
    needs(&["/dev/fuse"]);
    let nobody = Nobody::new();
    let mount = crate::common::faults::FaultFs::mount("hang on ib_logfile0");
    let file = mount.path().join("ib_logfile0");
    fs::write(&file, "redo").unwrap();
    // It is opened by root and synced by the other user.
    let script = r#"exec 3<>"$1"; shift; exec setpriv "$@" /usr/bin/python3 -c 'import os; os.fdatasync(3)'"#;
    let mut command = Command::new("bash");
    let _hung = mount.hang(command.args(["-c", script, "bash"]).arg(&file).args(Nobody::AS));
    let said = text(&nobody.stuck(&[]));
    let at = |what: &str| said.find(what).unwrap_or_else(|| panic!("no {what:?} in\n{said}"));
    assert!(at("AGE") < at("python3") && at("python3") < at("threads could not be examined"), "{said}");
}
