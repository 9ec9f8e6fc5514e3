//! Needs root and FUSE: what a program is told that asks the exporter how a server stands, while a log hangs,
//! fails and goes on, and while the exporter itself is stopped, hangs or ends.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::exporter::Exporter;
use common::faults::{FaultFs, output, stdout};
use common::{Running, needs, wait_until};
use serde_json::Value;

const FUSE: &str = "/dev/fuse";
const LIMIT: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_secs(1);
/// What a busy machine adds.
const BUSY: Duration = Duration::from_secs(3);
/// For an answer out of memory, connecting included, on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A process that syncs its redo log all the time, and goes on when that fails. Its name is what the metrics
/// call it.
const SERVER: &str = r#"import os, sys, time
open("/proc/self/comm", "w").write("shop")
fd = os.open(sys.argv[1], os.O_RDWR)
while True:
    try: os.fdatasync(fd)
    except OSError: pass
    time.sleep(0.05)"#;

struct Asked {
    status: u16,
    body: String,
    took: Duration,
}

impl Asked {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn state(&self) -> String {
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

/// Each exporter watches all servers of that name, those of other tests as well.
static TURN: Mutex<()> = Mutex::new(());

/// An exporter, and a server that it watches.
struct Setting {
    mount: FaultFs,
    directory: tempfile::TempDir,
    _server: Running,
    exporter: Exporter,
    _turn: MutexGuard<'static, ()>,
}

impl Setting {
    fn new(options: &[&str]) -> Setting {
        needs(&[FUSE]);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mount = FaultFs::mount("ok");
        let file = mount.path().join("ib_logfile0");
        std::fs::write(&file, "redo").unwrap();
        let mut command = Command::new("/usr/bin/python3");
        let server = Running(command.args(["-c", SERVER]).arg(&file).stdin(Stdio::null()).spawn().unwrap());
        let directory = tempfile::tempdir().unwrap();
        // Others of this host are to reach the socket.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let socket = directory.path().join("verdict.sock");
        let own = ["--comm", "shop", "--verdict-stalled", "2s", "--verdict-listen", "127.0.0.1:0"];
        let arguments = [&own[..], &["--verdict-socket", socket.to_str().unwrap()], options].concat();
        let exporter = Exporter::start(&arguments);
        let setting = Setting { mount, directory, _server: server, exporter, _turn: turn };
        setting.wait_for("ok", 200);
        setting
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("verdict.sock")
    }

    fn loopback(&self) -> String {
        let line = self.exporter.wait_for_line("verdicts on http://");
        line.split_once("http://").unwrap().1.split_once('/').unwrap().0.to_owned()
    }

    fn ask(&self, path: &str) -> Asked {
        converse(UnixStream::connect(self.socket()).unwrap(), "GET", path)
    }

    fn verdict(&self) -> Asked {
        self.ask("/api/v1/verdict")
    }

    fn ask_on_loopback(&self, method: &str, path: &str) -> Asked {
        converse(TcpStream::connect(self.loopback()).unwrap(), method, path)
    }

    /// How long it took to be told so.
    fn wait_for(&self, state: &str, status: u16) -> Duration {
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

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_log_that_hangs_is_told_within_the_limit_and_an_interval_and_so_is_its_end() {
    let setting = Setting::new(&[]);
    setting.mount.control("hang on ib_logfile0");
    setting.mount.wait_for_hanging(1);
    let took = setting.wait_for("stalled", 503);
    println!("hang to 503: {took:?}");
    assert!(took > LIMIT - Duration::from_millis(200) && took < LIMIT + INTERVAL + BUSY, "{took:?}");

    let verdict = setting.verdict().json();
    let server = &verdict["servers"][0];
    assert_eq!((&server["server"], &server["state"]), (&"shop".into(), &"stalled".into()), "{verdict:#}");
    let because = &server["because"];
    assert_eq!((&because["role"], &because["op"]), (&"redo".into(), &"fdatasync".into()), "{verdict:#}");
    assert!(because["path"].as_str().unwrap().ends_with("ib_logfile0"), "{verdict:#}");
    assert!(because["age_seconds"].as_f64().unwrap() >= 2.0, "{verdict:#}");

    let url = "/api/v1/verdict";
    assert_eq!(setting.ask_on_loopback("GET", url).status, 503);
    let head = setting.ask_on_loopback("HEAD", url);
    assert_eq!((head.status, head.body.as_str()), (503, ""));
    assert_eq!(setting.ask("/api/v1/verdict?server=shop").status, 503);
    assert_eq!(setting.ask("/api/v1/verdict?server=shop&strict").status, 503);
    assert_eq!(setting.ask("/api/v1/verdict?server=shops").status, 404);
    assert_eq!(setting.ask("/api/v1/verdict?strct").status, 400);
    assert_eq!(setting.ask_on_loopback("GET", "/-/healthy").status, 200);
    for page in ["/", "/metrics", "/status", "/-/ready", "/api/v1"] {
        assert_eq!(setting.ask(page).status, 404, "{page}");
        assert_eq!(setting.ask_on_loopback("GET", page).status, 404, "{page}");
    }
    let metrics = setting.exporter.get("/metrics");
    for (state, value) in
        [("ok", 0), ("idle", 0), ("slow", 0), ("unknown", 0), ("stalled", 1), ("failing", 0)]
    {
        let line = format!("fsynctop_verdict{{server=\"shop\",state=\"{state}\"}} {value}");
        assert!(metrics.lines().any(|found| found == line), "{line}:\n{metrics}");
    }
    assert!(metrics.contains("fsynctop_verdict_since_timestamp_seconds{server=\"shop\"} 1"), "{metrics}");
    // The main entrance has it as well, among its other pages.
    assert!(setting.exporter.get(url).contains("\"stalled\""));

    setting.mount.control("release");
    let took = setting.wait_for("ok", 200);
    println!("release to 200: {took:?}");
    assert!(took < INTERVAL + BUSY, "{took:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_failure_stays_until_root_acknowledges_it() {
    let setting = Setting::new(&[]);
    setting.mount.control("fail EIO on ib_logfile0");
    let took = setting.wait_for("failing", 503);
    println!("EIO to 503: {took:?}");
    setting.mount.control("ok");
    // What is read after a failed sync may be what was never written: that it works again says nothing.
    std::thread::sleep(3 * INTERVAL);
    let failing = setting.verdict();
    assert_eq!((failing.status, &failing.json()["servers"][0]["because"]["errno"]), (503, &"EIO".into()));

    let acknowledge = "http://db1/api/v1/verdict/acknowledge?server=";
    let socket = setting.socket();
    let curl = ["curl", "-sS", "-X", "POST", "-w", "%{http_code}", "--unix-socket", socket.to_str().unwrap()];
    let ask = |before: &[&str], url: &str| {
        let all = [before, &curl, &[url]].concat();
        stdout(&output(Command::new(all[0]).args(&all[1..])))
    };
    let other = ["setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups"];
    assert!(ask(&other, &format!("{acknowledge}shop")).ends_with("403"));
    assert!(ask(&[], &format!("{acknowledge}nobody")).ends_with("404"));
    assert!(ask(&[], acknowledge.trim_end_matches("?server=")).ends_with("400"));
    assert_eq!(setting.ask("/api/v1/verdict/acknowledge?server=shop").status, 405, "by GET");
    assert_eq!(setting.ask_on_loopback("POST", "/api/v1/verdict/acknowledge?server=shop").status, 404);
    assert_eq!(setting.verdict().state(), "failing");

    let done = ask(&[], &format!("{acknowledge}shop"));
    assert!(done.ends_with("200") && done.contains("\"acknowledged\":1"), "{done}");
    setting.wait_for("ok", 200);
    setting.exporter.wait_for_line("user 0 has acknowledged 1 failure of shop");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_whatever_hangs_there_is_an_answer_at_once() {
    let users = FaultFs::mount("ok");
    let config = users.path().join("web.yml");
    std::fs::write(&config, "{}\n").unwrap();
    let setting = Setting::new(&["--web-config-file", config.to_str().unwrap()]);

    // The filesystem of its own configuration hangs.
    let frozen = users.freeze();
    for _ in 0..20 {
        let asked = setting.verdict();
        assert!(asked.status == 200 && asked.state() == "ok" && asked.took < AT_ONCE, "{:?}", asked.took);
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(frozen);

    // A hundred at once.
    let slowest = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..100).map(|_| scope.spawn(|| setting.verdict())).collect();
        let answers = clients.into_iter().map(|client| client.join().unwrap());
        answers.map(|asked| (assert_eq!(asked.status, 200), asked.took).1).max().unwrap()
    });
    println!("a hundred at once: {slowest:?}");
    assert!(slowest < BUSY, "{slowest:?}");

    // The process that traces stands still: what it said last becomes too old, and is unknown.
    setting.exporter.signal("STOP");
    let took = setting.wait_for("unknown", 200);
    println!("stopped to unknown: {took:?}");
    assert!(took < 3 * INTERVAL + Duration::from_secs(2) + BUSY, "{took:?}");
    let asked = setting.ask("/api/v1/verdict?strict");
    assert!(asked.status == 503 && asked.took < AT_ONCE, "{} {:?}", asked.status, asked.took);
    assert_eq!(asked.json()["stale"], true);
    setting.exporter.signal("CONT");
    setting.wait_for("ok", 200);

    let loopback = setting.loopback();
    setting.exporter.signal("KILL");
    wait_until("nobody to answer", || UnixStream::connect(setting.socket()).is_err());
    let refused = TcpStream::connect(&loopback).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
