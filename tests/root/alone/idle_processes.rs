//! Needs root: a user without rights starts thousands of processes that are called like servers and do
//! nothing. What hangs of a real server is told as soon as without them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::faults::{Series, fsynctop};
use crate::common::nested::Nested;
use crate::common::{Running, needs};

const TRACEFS: &str = "/sys/kernel/tracing/events";
const USER: u32 = 65_534;
const IDLE: usize = 2_000;
/// From the hang to its line.
const LIMIT: Duration = Duration::from_secs(7);
/// What a busy machine may take beyond that.
const SLACK: Duration = Duration::from_secs(3);

/// So many programs, each of them a server of several processes by its name, and none the child of another.
const MANY: &str = "
import os, sys
for _ in range(int(sys.argv[2])):
    os.posix_spawn(sys.argv[1], [sys.argv[1], '600'], {})
print('ready', flush=True)
sys.stdin.read()
";
/// A server that syncs once, and writes past the page cache when it is told to, as InnoDB writes its pages.
const SERVER: &str = "
import ctypes, mmap, os, sys
ctypes.CDLL(None).prctl(15, b'mysqld', 0, 0, 0)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
print('ready', flush=True)
while sys.stdin.readline() == 'sync\\n':
    os.fsync(fd)
os.pwrite(fd, mmap.mmap(-1, 65536), 0)
";

/// They end when this is dropped.
struct Idle {
    parent: Child,
    program: String,
}

impl Idle {
    fn start(directory: &Path) -> Idle {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
        // Under a name that nothing else on the machine has, to end them by; the name of the process is
        // shorter.
        let program = directory.join("postgres");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let program = program.to_str().unwrap().to_owned();
        let mut setpriv = Command::new("setpriv");
        setpriv.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
        setpriv.args(["/usr/bin/python3", "-c", MANY, &program, &IDLE.to_string()]);
        let mut parent = setpriv.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Idle { parent, program }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = Command::new("pkill").args(["-KILL", "-f", &format!("^{} 600", self.program)]).status();
        drop(self.parent.stdin.take());
        let _ = self.parent.wait();
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_write_that_hangs_is_told_beside_thousands_of_idle_servers_of_a_stranger() {
    needs(&[TRACEFS]);
    let nested = Nested::new().unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", SERVER]).arg(nested.inner().join("shop.ibd"));
    let mut server = Running(python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = server.0.id();
    let directory = tempfile::tempdir().unwrap();
    let idle = Idle::start(directory.path());
    let series = Series::start(fsynctop().args(["once", "-i", "0.5", "--output", "json"]));
    series.interval_in_which("all of them to be met", |interval| {
        interval["servers"].as_array().unwrap().len() > IDLE
    });

    let stdin = server.0.stdin.as_mut().unwrap();
    stdin.write_all(b"sync\n").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    nested.freeze();
    let hung = Instant::now();
    stdin.write_all(b"write\n").unwrap();
    let of_it = |sync: &Value| sync["pid"] == pid;
    let interval = series.interval_in_which("the write to be told", |interval| {
        interval["in_flight"].as_array().unwrap().iter().any(of_it)
    });
    let took = hung.elapsed();
    nested.thaw();
    drop(idle);
    println!("told after {took:?}");
    let told = interval["in_flight"].as_array().unwrap().iter().find(|sync| of_it(sync)).unwrap();
    assert_eq!(told["op"], "write", "{told:#}");
    assert!(told["path"].as_str().unwrap().ends_with("shop.ibd"), "{told:#}");
    assert!(took <= LIMIT + SLACK, "told after {took:?}");
}
