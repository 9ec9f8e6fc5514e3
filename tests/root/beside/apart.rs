//! Needs root: the exporter's two processes, from outside (who they are, what they have open, what becomes of
//! one without the other) and from inside (what code that runs in them cannot do). docs/security.md makes
//! these promises.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::exporter::{Exporter, children, status_lines};
use crate::common::faults::signal;
use crate::common::web::{curl, status};
use crate::common::{Running, built, needs, sleeper, wait_until};
use fsynctop::exporter::confine::seccomp::{self, Process};
use fsynctop::exporter::confine::{User, landlock};
use fsynctop::exporter::privileges;
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, getsockname, shutdown};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::Value;

const TRACEPOINTS: &str = "/sys/kernel/tracing/events";
const NOBODY: [&str; 2] = ["--comm", "no-such-comm"];

/// The number of the process that serves.
fn web_of(exporter: &Exporter) -> u32 {
    let mut found = Vec::new();
    wait_until("the process that serves", || {
        found = children(exporter.pid());
        !found.is_empty()
    });
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// Where the descriptors of a process lead.
fn open_files(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())).collect()
}

/// Sockets of TCP and netlink, as descriptors lead to them.
fn network_sockets() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (file, column) in [("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9), ("netlink", 9)] {
        let text = fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            all.extend(line.split_whitespace().nth(column).map(|inode| format!("socket:[{inode}]")));
        }
    }
    all
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn what_traces_has_no_network_socket_and_what_serves_has_no_rights() {
    needs(&[TRACEPOINTS]);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("exporter.sock");
    let exporter = Exporter::start(&["--comm", "no-such-comm", "--socket", socket.to_str().unwrap()]);
    let web = web_of(&exporter);
    let network = network_sockets();
    let has_network = |pid| open_files(pid).iter().any(|file| network.contains(file));
    let has_probes = |pid| open_files(pid).iter().any(|file| file.contains("bpf"));
    assert_eq!((has_network(exporter.pid()), has_probes(exporter.pid())), (false, true));
    assert_eq!((has_network(web), has_probes(web)), (true, false), "{:?}", open_files(web));

    for (pid, rights) in [(exporter.pid(), "with"), (web, "without")] {
        for (thread, uids) in status_lines(pid, "Uid:").into_iter().chain(status_lines(pid, "Gid:")) {
            assert!(uids.split_whitespace().all(|id| id == "65534"), "{rights}: {thread} is {uids}");
        }
        for (thread, groups) in status_lines(pid, "Groups:") {
            assert_eq!(groups, "", "{rights}: {thread}");
        }
        for (thread, mode) in status_lines(pid, "Seccomp:") {
            assert_eq!(mode, "2", "{rights}: {thread} has no filter");
        }
        for (thread, value) in status_lines(pid, "NoNewPrivs:") {
            assert_eq!(value, "1", "{rights}: {thread}");
        }
    }
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        for (thread, value) in status_lines(web, set) {
            assert_eq!(u64::from_str_radix(&value, 16), Ok(0), "{thread}: {set}");
        }
    }
    let environment = fs::read(format!("/proc/{web}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("PATH="), "{environment:?}");

    // And it works: pages, the history, and what each says of itself.
    assert!(exporter.get("/metrics").contains("\nfsynctop_exporter_web_resident_memory_bytes "));
    let page: Value = serde_json::from_str(&exporter.get("/status")).unwrap();
    let checks = page["checks"].as_array().unwrap();
    let web_check = checks.iter().find(|check| check["name"] == "web process").unwrap();
    let detail = web_check["detail"].as_str().unwrap();
    assert!(
        detail.contains("user 65534, rights: none") && detail.contains("system calls filtered"),
        "{detail}"
    );
    wait_until("something to remember", || {
        let mut history = crate::common::faults::fsynctop();
        history.args(["history", "--last", "1m", "--output", "json", "--socket"]).arg(&socket);
        crate::common::faults::output(&mut history).status.success()
    });
}

/// Its sockets can be shut down by whoever has taken the web process over, and nothing but new ones helps.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_listener_that_was_shut_down_ends_both_processes() {
    needs(&[TRACEPOINTS]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exporter.sock");
    for which in ["/metrics", "the history"] {
        let exporter = Exporter::start(&["--comm", "no-such-comm", "--socket", path.to_str().unwrap()]);
        let web = Pid::from_raw(web_of(&exporter).cast_signed()).unwrap();
        let process = pidfd_open(web, PidfdFlags::empty()).unwrap();
        let descriptors = fs::read_dir(format!("/proc/{}/fd", web.as_raw_nonzero())).unwrap().flatten();
        let numbers = descriptors.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let copies = numbers.filter_map(|fd| pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).ok());
        let family = if which == "/metrics" { AddressFamily::INET } else { AddressFamily::UNIX };
        let listeners: Vec<_> = copies
            .filter(|fd| socket_acceptconn(fd).unwrap_or(false))
            .filter(|fd| getsockname(fd).unwrap().address_family() == family)
            .collect();
        assert_eq!(listeners.len(), 1, "{which}");
        shutdown(&listeners[0], Shutdown::Both).unwrap();
        let (ended, said) = exporter.ended();
        assert_eq!(ended.code(), Some(1), "{which}: {said}");
        assert!(said.contains("a listening socket takes no connections any more"), "{which}: {said}");
    }
}

/// The errno of a system call with arguments that are all -1.
fn raw(number: i64, first: i64) -> i32 {
    #[expect(unsafe_code, reason = "calls that have no binding, with arguments that no call can use")]
    // SAFETY: no argument is an address or a descriptor that exists.
    let outcome = unsafe { libc::syscall(number, first, -1i64, -1i64, -1i64, -1i64, -1i64) };
    if outcome < 0 { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}

/// A thread like those of the exporter's processes.
fn inside<T: Send + 'static>(process: Process, task: impl FnOnce() -> T + Send + 'static) -> T {
    let confined = move || {
        privileges::forever().unwrap();
        privileges::keep_needed(User::default()).unwrap();
        if process == Process::Web {
            privileges::keep_none(None).unwrap();
            println!("Landlock: {}", landlock::allow_nothing().unwrap());
        }
        seccomp::apply_to_thread(process).unwrap();
        task()
    };
    std::thread::spawn(confined).join().unwrap()
}

/// The same of the process that records, in this folder.
fn inside_recorder<T: Send + 'static>(folder: &Path, task: impl FnOnce() -> T + Send + 'static) -> T {
    let folder = fs::File::open(folder).unwrap();
    let confined = move || {
        privileges::forever().unwrap();
        privileges::keep_none(Some(User::default())).unwrap();
        println!("Landlock: {}", landlock::allow_folder(&folder).unwrap());
        seccomp::apply_to_thread(Process::Recorder).unwrap();
        task()
    };
    std::thread::spawn(confined).join().unwrap()
}

/// Calls by which a process with the prober's rights could become another, change one, or reach the kernel's
/// insides; they fail here without any rights as well, but not as if the kernel did not have them.
const REFUSED: [(&str, i64); 32] = [
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("process_madvise", libc::SYS_process_madvise),
    ("kcmp", libc::SYS_kcmp),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("pidfd_send_signal", libc::SYS_pidfd_send_signal),
    ("kill", libc::SYS_kill),
    ("execve", libc::SYS_execve),
    ("execveat", libc::SYS_execveat),
    ("clone3", libc::SYS_clone3),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("move_mount", libc::SYS_move_mount),
    ("open_tree", libc::SYS_open_tree),
    ("fsopen", libc::SYS_fsopen),
    ("setns", libc::SYS_setns),
    ("unshare", libc::SYS_unshare),
    ("chroot", libc::SYS_chroot),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("finit_module", libc::SYS_finit_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("keyctl", libc::SYS_keyctl),
    ("setresuid", libc::SYS_setresuid),
    ("capset", libc::SYS_capset),
    ("fchmod", libc::SYS_fchmod),
    ("linkat", libc::SYS_linkat),
    ("renameat2", libc::SYS_renameat2),
];

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn neither_process_can_become_another_or_change_one() {
    needs(&[]);
    for process in [Process::Prober, Process::Web] {
        let errnos = inside(process, || REFUSED.map(|(_, number)| raw(number, -1)));
        for ((name, _), errno) in REFUSED.iter().zip(errnos) {
            // By it the one that traces is told when a server ends; all that could be done to the process by
            // the descriptor is refused.
            let tells_ends = process == Process::Prober && *name == "pidfd_open";
            assert_eq!(errno == libc::ENOSYS, !tells_ends, "{process:?}: {name}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let errnos = inside_recorder(folder.path(), || REFUSED.map(|(_, number)| raw(number, -1)));
    assert_eq!(errnos, [libc::ENOSYS; REFUSED.len()], "{REFUSED:?}");
    // Of these calls, this kernel has nearly all: elsewhere they fail for what is wrong with the arguments.
    let outside = std::thread::spawn(|| {
        privileges::keep_needed(User::default()).unwrap();
        let harmless = REFUSED.iter().filter(|(name, _)| !["kill", "execve"].contains(name));
        harmless.filter(|&&(_, number)| raw(number, -1) == libc::ENOSYS).count()
    });
    assert!(outside.join().unwrap() <= 4);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_prober_reads_open_maps_and_loads_nothing() {
    needs(&[]);
    let [load, make, attach, look] = inside(Process::Prober, || {
        let command = |number| raw(libc::SYS_bpf, number);
        // BPF_PROG_LOAD, BPF_MAP_CREATE, BPF_RAW_TRACEPOINT_OPEN; BPF_MAP_LOOKUP_ELEM
        [command(5), command(0), command(17), command(1)]
    });
    assert_eq!([load, make, attach], [libc::ENOSYS; 3]);
    assert_ne!(look, libc::ENOSYS);
    assert_eq!(inside(Process::Web, || raw(libc::SYS_bpf, 1)), libc::ENOSYS);
}

/// What a thread of a process can do with files and sockets: write to a file of root's, make one beside it,
/// write to the memory of root's process, read a file that is root's alone, look at that process's
/// descriptors, open a network socket, connect to a local one.
fn reach(file: &Path, pid: u32) -> [bool; 7] {
    [
        fs::OpenOptions::new().write(true).open(file).is_ok(),
        fs::write(file.with_extension("new"), "x").is_ok(),
        fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem")).is_ok(),
        fs::read(file).is_ok(),
        fs::read_dir(format!("/proc/{pid}/fd"))
            .is_ok_and(|mut all| all.next().is_some_and(|one| one.is_ok())),
        std::net::UdpSocket::bind("127.0.0.1:0").is_ok(),
        std::os::unix::net::UnixStream::connect(file.with_extension("sock")).is_ok(),
    ]
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_prober_reads_and_does_not_write_and_the_web_process_does_neither() {
    needs(&[]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("of-root");
    fs::write(&file, "secret").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let socket = file.with_extension("sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (&socket, 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let target = sleeper();
    let pid = target.0.id();
    let of = |process| {
        let file = file.clone();
        inside(process, move || reach(&file, pid))
    };
    assert_eq!(reach(&file, pid), [true; 7], "this test itself");
    fs::remove_file(file.with_extension("new")).unwrap();
    assert_eq!(of(Process::Prober), [false, false, false, true, true, false, false]);
    assert_eq!(of(Process::Web), [false; 7]);
    assert!(!file.with_extension("new").exists());
}

/// What the process that records can do in a folder: read a file of it, append to a new one and remove it;
/// make a directory, a link to a file outside, a named pipe, a file there that can be executed.
fn reach_within(folder: &Path, outside: &Path) -> [bool; 7] {
    use rustix::fs::{AtFlags, CWD, Mode, linkat, mkfifoat, symlinkat, unlinkat};
    let made = folder.join("made");
    [
        fs::read(folder.join("there")).is_ok(),
        fs::OpenOptions::new().append(true).create_new(true).open(&made).is_ok(),
        unlinkat(CWD, &made, AtFlags::empty()).is_ok(),
        fs::create_dir(folder.join("directory")).is_ok(),
        symlinkat(outside, CWD, folder.join("link")).is_ok()
            || linkat(CWD, outside, CWD, folder.join("hard"), AtFlags::empty()).is_ok(),
        mkfifoat(CWD, folder.join("pipe"), Mode::RUSR).is_ok(),
        fs::set_permissions(folder.join("there"), fs::Permissions::from_mode(0o777)).is_ok(),
    ]
}

/// Even where everybody may write to it, what is outside of its folder cannot be reached.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_recorder_reaches_its_folder_and_nothing_else() {
    needs(&[]);
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = elsewhere.path().join("of-everybody");
    let within = folder.path().join("there");
    for path in [&file, &within] {
        fs::write(path, "x").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    for directory in [folder.path(), elsewhere.path()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let socket = file.with_extension("sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let target = sleeper();
    let pid = target.0.id();
    assert_eq!(reach(&file, pid), [true; 7], "this test itself");
    fs::remove_file(file.with_extension("new")).unwrap();
    let theirs = file.clone();
    assert_eq!(inside_recorder(folder.path(), move || reach(&theirs, pid)), [false; 7]);
    let (of, outside) = (folder.path().to_owned(), file.clone());
    let within = inside_recorder(folder.path(), move || reach_within(&of, &outside));
    assert_eq!(within, [true, true, true, false, false, false, false]);
    let of = folder.path().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let reached = inside_recorder(&of, move || {
        let opened = fs::File::open(folder.path().join("there")).unwrap();
        further(&listener, &opened, pid, &file)
    });
    assert_eq!(reached, [false; 6]);
}

/// Allowed calls with arguments by which they would reach further: a listener that becomes a socket that can
/// connect, an address to send to, another pair of sockets, a lock on a file, another process's limits, and
/// the memory of another process by a file that everybody may write to.
fn further(listener: &TcpListener, file: &fs::File, pid: Pid, shared: &Path) -> [bool; 6] {
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
    let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    let (stream, datagram) = (rustix::net::SocketType::STREAM, rustix::net::SendFlags::empty());
    let pair = rustix::net::socketpair(rustix::net::AddressFamily::UNIX, stream, SocketFlags::empty(), None);
    let refused = Some(rustix::io::Errno::NOSYS);
    [
        rustix::net::sendto(listener, b"x", datagram, &nowhere).err() != refused,
        pair.is_ok(),
        rustix::fs::fcntl_lock(file, rustix::fs::FlockOperation::NonBlockingLockShared).is_ok(),
        rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, limit).is_ok(),
        fs::OpenOptions::new().write(true).open(shared).is_ok(),
        // Last: outside, the listener is none any more.
        rustix::net::shutdown(listener, rustix::net::Shutdown::Read).is_ok(),
    ]
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn allowed_calls_reach_no_further_by_their_arguments() {
    needs(&[]);
    let target = sleeper();
    let pid = Pid::from_raw(target.0.id().try_into().unwrap()).unwrap();
    // In memory, which anybody may write to who finds it.
    let memory = rustix::fs::memfd_create("shared", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let shared = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd()));
    let of = |process: Option<Process>| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (file, shared) = (tempfile::tempfile().unwrap(), shared.clone());
        let task = move || further(&listener, &file, pid, &shared);
        match process {
            Some(process) => inside(process, task),
            None => task(),
        }
    };
    assert_eq!(of(None), [true; 6], "this test itself");
    assert_eq!(of(Some(Process::Prober)), [false; 6]);
    assert_eq!(of(Some(Process::Web)), [false; 6]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn without_the_process_that_serves_the_other_ends_and_says_why() {
    needs(&[TRACEPOINTS]);
    let exporter = Exporter::start(&NOBODY);
    signal(web_of(&exporter), "KILL");
    let (ended, log) = exporter.ended();
    assert_eq!(ended.code(), Some(1), "{log}");
    assert!(log.contains("the process that serves has ended (signal: 9"), "{log}");
    assert!(log.contains("detached"), "{log}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn without_the_process_that_traces_the_other_says_so_and_ends() {
    needs(&[TRACEPOINTS]);
    let exporter = Exporter::start(&NOBODY);
    let (web, healthy) = (web_of(&exporter), exporter.url("/-/healthy"));
    assert_eq!(status(&[&healthy]), 200);
    signal(exporter.pid(), "KILL");
    let mut said = String::new();
    wait_until("a page that says so", || {
        said = String::from_utf8(curl(&[&healthy]).stdout).unwrap();
        !said.contains("is healthy") && !said.is_empty()
    });
    assert_eq!(said, "the process that traces has ended\n");
    assert_eq!(status(&[&exporter.url("/metrics")]), 503);
    wait_until("its end", || !Path::new(&format!("/proc/{web}/fd/0")).exists());
    assert!(exporter.log().contains("the process that traces has ended, so the one that serves ends too"));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_process_that_hangs_is_noticed_by_the_other() {
    needs(&[TRACEPOINTS]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let exporter = Exporter::start(&NOBODY);
            signal(exporter.pid(), "STOP");
            let healthy = exporter.url("/-/healthy");
            wait_until("a page that says so", || {
                String::from_utf8(curl(&[&healthy]).stdout).unwrap().contains("has not answered for 1")
            });
            assert_eq!(status(&[&healthy]), 503);
            signal(exporter.pid(), "CONT");
            let recovered = (0..1_000).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                status(&[&healthy]) == 200
            });
            assert!(recovered, "{}", exporter.log());
            assert_eq!(status(&[&exporter.url("/metrics")]), 200);
        });
        scope.spawn(|| {
            let exporter = Exporter::start(&NOBODY);
            let web = web_of(&exporter);
            signal(web, "STOP");
            exporter.wait_for_line("the process that serves has not answered for 3");
            signal(web, "CONT");
            assert_eq!(exporter.ended().0.code(), Some(1));
        });
    });
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_that_cannot_become_another_user_is_refused() {
    needs(&[TRACEPOINTS]);
    let five = "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search,+syslog";
    let mut command = Command::new("setpriv");
    command.args([format!("--inh-caps={five}"), format!("--bounding-set={five}")]);
    command.arg(env!("CARGO_BIN_EXE_fsynctop")).args(["exporter", "--listen", "127.0.0.1:0"]).args(NOBODY);
    let (ended, log) = Exporter::spawn_as(&mut command).ended();
    assert_eq!(ended.code(), Some(1), "{log}");
    assert!(log.contains("cannot become user 65534:65534") && log.contains("CAP_SETUID"), "{log}");
}

/// A process to trace, which has synced a file in this directory.
fn load(directory: &Path) -> Running {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(["--syncs", "100", "--hold"]).stdin(Stdio::piped()).stdout(Stdio::null());
    Running(command.spawn().unwrap())
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn another_user_can_be_chosen_and_servers_are_still_described() {
    needs(&[TRACEPOINTS]);
    let directory = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(&["--comm", "syncgen", "--user", "64000:64001"]);
    let _load = load(directory.path());
    for pid in [exporter.pid(), web_of(&exporter)] {
        assert!(status_lines(pid, "Uid:").iter().all(|(_, ids)| ids.starts_with("64000\t64000")), "{pid}");
        assert!(status_lines(pid, "Gid:").iter().all(|(_, ids)| ids.starts_with("64001\t64001")), "{pid}");
    }
    let path = directory.path().display().to_string();
    wait_until("its files by name", || exporter.get("/metrics").contains(&path));
}

/// Applies a profile in the form of container runtimes, by libseccomp as these do, and becomes another
/// program.
const UNDER_PROFILE: &str = "
import json, os, seccomp, sys
profile = json.load(open(sys.argv[1]))
filter = seccomp.SyscallFilter(seccomp.ERRNO(profile['defaultErrnoRet']))
for rule in profile['syscalls']:
    for name in rule['names']:
        filter.add_rule(seccomp.ALLOW, name)
filter.load()
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_daemon_sets_profile_and_capabilities_are_enough() {
    needs(&[TRACEPOINTS, "/usr/bin/python3"]);
    let manifest =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kubernetes/daemonset.yaml"));
    let manifest = manifest.unwrap();
    let added = manifest.lines().find_map(|line| line.trim().strip_prefix("add: [")).unwrap();
    let capabilities: Vec<String> =
        added.trim_end_matches(']').split(", ").map(|name| format!("+{}", name.to_lowercase())).collect();
    let capabilities = format!("-all,{}", capabilities.join(","));
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kubernetes/fsynctop-seccomp.json");
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("run/exporter.sock");
    let mut command = Command::new("setpriv");
    command.args([format!("--inh-caps={capabilities}"), format!("--bounding-set={capabilities}")]);
    command.args(["--no-new-privs", "/usr/bin/python3", "-c", UNDER_PROFILE, profile]);
    command.arg(env!("CARGO_BIN_EXE_fsynctop")).args(["exporter", "--listen", "127.0.0.1:0"]);
    command.args(["--comm", "syncgen", "--socket"]).arg(&socket);
    // Below a directory that is root's, as that of a node is.
    let of_node = directory.path().join("of-node");
    fs::create_dir(&of_node).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    command.arg("--record").arg(of_node.join("recording"));
    let exporter = Exporter::spawn_as(&mut command);
    exporter.wait_until_ready();
    exporter.wait_for_line("recording by process");
    let _load = load(directory.path());
    let path = directory.path().display().to_string();
    wait_until("its files by name", || exporter.get("/metrics").contains(&path));
    assert_eq!(status(&[&exporter.url("/status")]), 200);
    exporter.signal("TERM");
    let (ended, log) = exporter.ended();
    assert!(ended.success(), "{log}");
}
