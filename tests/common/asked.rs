//! An exporter that is asked how a server stands, and that server, whose log hangs and fails as it is told
//! to.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::exporter::Exporter;
use super::faults::FaultFs;
use super::{Running, needs, wait_until};

const FUSE: &str = "/dev/fuse";
/// After which a log that hangs is stalled.
pub const LIMIT: Duration = Duration::from_secs(2);
pub const INTERVAL: Duration = Duration::from_secs(1);
/// What a busy machine adds.
pub const BUSY: Duration = Duration::from_secs(3);

/// A process that syncs its redo log all the time, and goes on when that fails. Its name is what the metrics
/// call it.
const SERVER: &str = r#"import os, sys, time
open("/proc/self/comm", "w").write("shop")
fd = os.open(sys.argv[1], os.O_RDWR)
while True:
    try: os.fdatasync(fd)
    except OSError: pass
    time.sleep(0.05)"#;

pub struct Asked {
    pub status: u16,
    pub body: String,
    pub took: Duration,
}

impl Asked {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn state(&self) -> String {
        self.json()["state"].as_str().unwrap().to_owned()
    }
}

fn converse(mut stream: impl Read + Write, method: &str, path: &str) -> Asked {
    let begun = Instant::now();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: db1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    assert!(head.to_ascii_lowercase().contains("cache-control: no-store"), "{head}");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Asked { status, body: body.to_owned(), took: begun.elapsed() }
}

fn own_options<'a>(sockets: [&'a Path; 2], options: &[&'a str]) -> Vec<&'a str> {
    let own = ["--comm", "shop", "--verdict-stalled", "2s", "--verdict-listen", "127.0.0.1:0"];
    let [verdicts, history] = sockets.map(|socket| socket.to_str().unwrap());
    [&own[..], &["--verdict-socket", verdicts, "--socket", history], options].concat()
}

/// That of the verdicts, and that of the history.
fn sockets(directory: &Path) -> [PathBuf; 2] {
    ["verdict.sock", "exporter.sock"].map(|name| directory.join(name))
}

/// Each exporter watches all servers of that name, those of other tests as well.
static TURN: Mutex<()> = Mutex::new(());

/// An exporter, and a server that it watches.
pub struct Setting {
    pub mount: FaultFs,
    pub directory: tempfile::TempDir,
    server: Running,
    pub exporter: Exporter,
    _turn: MutexGuard<'static, ()>,
}

impl Setting {
    pub fn new(options: &[&str]) -> Setting {
        Setting::with_server(SERVER, options)
    }

    /// `script`: Python's; it is given the file, and calls itself shop.
    pub fn with_server(script: &str, options: &[&str]) -> Setting {
        needs(&[FUSE]);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mount = FaultFs::mount("ok");
        let file = mount.path().join("ib_logfile0");
        std::fs::write(&file, "redo").unwrap();
        let mut command = Command::new("/usr/bin/python3");
        let server = Running(command.args(["-c", script]).arg(&file).stdin(Stdio::null()).spawn().unwrap());
        let directory = tempfile::tempdir().unwrap();
        // Others of this host are to reach the socket.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let [verdicts, history] = sockets(directory.path());
        let exporter = Exporter::start(&own_options([&verdicts, &history], options));
        let setting = Setting { mount, directory, server, exporter, _turn: turn };
        setting.wait_for("ok", 200);
        setting
    }

    /// Another exporter in the place of the one that ran, as an upgrade has it; without `options`.
    pub fn upgrade(&mut self) {
        let listen = self.exporter.url("").trim_start_matches("http://").to_owned();
        self.exporter.signal("TERM");
        wait_until("the end of the exporter", || !self.exporter.is_running());
        let [verdicts, history] = sockets(self.directory.path());
        self.exporter = Exporter::spawn(&own_options([&verdicts, &history], &["--listen", &listen]));
        self.exporter.wait_until_ready();
    }

    pub fn socket(&self) -> PathBuf {
        let [verdicts, _] = sockets(self.directory.path());
        verdicts
    }

    pub fn history_socket(&self) -> PathBuf {
        let [_, history] = sockets(self.directory.path());
        history
    }

    pub fn server_pid(&self) -> u32 {
        self.server.0.id()
    }

    pub fn loopback(&self) -> String {
        let line = self.exporter.wait_for_line("verdicts on http://");
        line.split_once("http://").unwrap().1.split_once('/').unwrap().0.to_owned()
    }

    pub fn ask(&self, path: &str) -> Asked {
        converse(UnixStream::connect(self.socket()).unwrap(), "GET", path)
    }

    pub fn verdict(&self) -> Asked {
        self.ask("/api/v1/verdict")
    }

    pub fn ask_on_loopback(&self, method: &str, path: &str) -> Asked {
        converse(TcpStream::connect(self.loopback()).unwrap(), method, path)
    }

    /// How long it took to be told so.
    pub fn wait_for(&self, state: &str, status: u16) -> Duration {
        let begun = Instant::now();
        wait_until(state, || {
            let asked = self.verdict();
            let is_so = asked.state() == state;
            assert!(!is_so || asked.status == status, "{state}: {}", asked.status);
            is_so
        });
        begun.elapsed()
    }
}
