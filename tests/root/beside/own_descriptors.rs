//! Needs root and FUSE: threads that outlive their process's first one, or have descriptors of their own.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::asked::Setting;
use crate::common::faults::{FaultFs, fsynctop, output, signal, stdout};
use crate::common::{Running, needs, wait_until};

const CONDITION: i32 = 4;

/// Its first thread sleeps; another one syncs the file.
const IN_A_THREAD: &str = r#"import os, sys, threading, time
def work():
    fd = os.open(sys.argv[1], os.O_RDWR)
    while True:
        os.fdatasync(fd)
        time.sleep(0.01)
threading.Thread(target=work).start()"#;

/// The same after the thread has given up sharing its descriptors, and goes on when the sync fails.
const WITH_ITS_OWN: &str = r#"import ctypes, os, sys, threading, time
open("/proc/self/comm", "w").write("shop")
def work():
    if ctypes.CDLL(None).unshare(0x400) != 0: os._exit(1)
    fd = os.open(sys.argv[1], os.O_RDWR)
    while True:
        try: os.fdatasync(fd)
        except OSError: pass
        time.sleep(0.05)
threading.Thread(target=work).start()"#;

fn stuck(pid: u32) -> Output {
    output(fsynctop().args(["stuck", "--fail-on", "stalled=1s", "--pid", &pid.to_string()]))
}

#[test]
#[ignore = "needs root and FUSE"]
fn root_what_hangs_is_told_also_when_its_process_was_killed() {
    needs(&["/dev/fuse"]);
    let mount = FaultFs::mount("ok");
    let file = mount.path().join("ib_logfile0");
    std::fs::write(&file, "redo").unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", IN_A_THREAD]).arg(&file).stdin(Stdio::null());
    let server = Running(command.spawn().unwrap());
    // What hangs has to go before the process that it keeps.
    let mount = mount;
    let pid = server.0.id();
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    wait_until("two threads", || threads() == 2);
    mount.control("hang");
    mount.wait_for_hanging(1);
    for state in ["S", "Z"] {
        if state == "Z" {
            signal(pid, "KILL");
        }
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        wait_until("the state of its first thread", || stat().contains(&format!(") {state} ")));
        assert_eq!(threads(), 2);
        // An age is the time since the thread last ran, which a kill makes it do.
        std::thread::sleep(Duration::from_millis(1_500));
        let said = stuck(pid);
        let text = stdout(&said);
        assert!(text.contains("ib_logfile0") && text.contains("redo"), "{state}: {text}");
        assert_eq!(said.status.code(), Some(CONDITION), "{state}: {text}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_failure_of_a_file_that_one_thread_alone_has_open_is_not_over() {
    let setting = Setting::with_server(WITH_ITS_OWN, &[]);
    setting.mount.control("fail EIO on ib_logfile0");
    setting.wait_for("failing", 503);
    setting.mount.control("ok");
    // It is looked up every two seconds whether the file is open.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(setting.verdict().state(), "failing");
    assert!(setting.verdict().body.contains("ib_logfile0"), "{}", setting.verdict().body);
}
