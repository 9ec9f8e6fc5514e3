//! Needs root and FUSE, and real programs that act on a verdict, configured as examples/verdict has it: each
//! sees in time that a log hangs, and that it goes on, and an upgrade of the exporter moves none of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::asked::{BUSY, INTERVAL, LIMIT, Setting};
use crate::common::faults::{output, stdout};
use crate::common::{Running, wait_until};
use serde_json::Value;

/// From the hang to a 503.
const VERDICT: Duration = LIMIT.checked_add(INTERVAL).unwrap();

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/verdict").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text with each of these replaced, of which none may be missing.
fn with(text: &str, replacements: &[(&str, &str)]) -> String {
    replacements.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} is not in\n{text}");
        text.replace(from, to)
    })
}

/// A directory that only root can write to, with all that are above it: keepalived runs no script elsewhere.
fn roots_directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("fsynctop-test-").tempdir_in("/run").unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

fn install(name: &str, directory: &Path) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, example(name)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn run(command: &[&str]) -> String {
    stdout(&output(Command::new(command[0]).args(&command[1..])))
}

fn hang(setting: &Setting) -> Instant {
    setting.mount.control("hang on ib_logfile0");
    setting.mount.wait_for_hanging(1);
    Instant::now()
}

/// How long it took until it was so, which is in time if it took no longer than `most`.
fn in_time(what: &str, since: Instant, most: Duration, until: impl FnMut() -> bool) {
    wait_until(what, until);
    let took = since.elapsed();
    println!("{what}: {took:?}");
    assert!(took < most + BUSY, "{what}: {took:?} instead of {most:?}");
}

/// What HAProxy has for the server `db1`: its status, and that of its last check.
fn as_haproxy_has_it(socket: &Path) -> (String, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"show stat\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let mut lines = text.trim_start_matches("# ").lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row: Vec<&str> = lines.find(|line| line.contains(",db1,")).unwrap().split(',').collect();
    let column = |wanted: &str| row[names.iter().position(|name| *name == wanted).unwrap()].to_owned();
    (column("status"), column("check_status"))
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_haproxy_takes_a_server_whose_log_hangs_out_and_puts_it_back() {
    let mut setting = Setting::new(&[]);
    let directory = roots_directory();
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = database.local_addr().unwrap().to_string();
    let address = setting.exporter.url("");
    let exporter = address.rsplit_once(':').unwrap().1;
    let stats = directory.path().join("stats");
    let entrance = directory.path().join("mysql.sock");
    let text = with(
        &example("haproxy.cfg"),
        &[
            ("maxconn 1000\n", &format!("maxconn 1000\n    stats socket {} level admin\n", stats.display())),
            ("bind 127.0.0.1:6446", &format!("bind unix@{}", entrance.display())),
            ("port 9871", &format!("port {exporter}")),
            ("server=3306 ", "server=shop "),
            ("192.0.2.11:3306", &server),
            ("192.0.2.12:3306", &server),
        ],
    );
    let config = directory.path().join("haproxy.cfg");
    std::fs::write(&config, text).unwrap();
    let mut haproxy = Command::new("haproxy");
    let _haproxy = Running(haproxy.arg("-db").arg("-f").arg(&config).stdin(Stdio::null()).spawn().unwrap());
    wait_until("haproxy", || UnixStream::connect(&stats).is_ok());
    let state = || as_haproxy_has_it(&stats);
    wait_until("a check", || state() == ("UP".into(), "L7OK".into()));

    let (checks, interval) = (5, Duration::from_secs(1));
    let since = hang(&setting);
    in_time("haproxy takes it out", since, VERDICT + checks * interval, || state().0.starts_with("DOWN"));
    assert_eq!(state().1, "L7STS", "by the status of the answer");
    setting.mount.control("release");
    in_time("haproxy puts it back", Instant::now(), INTERVAL + 3 * interval, || state().0 == "UP");

    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                seen.insert(state().0);
                std::thread::sleep(Duration::from_millis(20));
            }
            seen
        });
        let begun = Instant::now();
        setting.upgrade();
        println!("an upgrade: {:?}", begun.elapsed());
        std::thread::sleep(2 * interval);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let seen = watcher.join().unwrap();
        assert!(seen.iter().all(|status| status.starts_with("UP")), "{seen:?}");
    });
    wait_until("a check", || state() == ("UP".into(), "L7OK".into()));
}

/// Two hosts with a cable between them; each has one end, `a0` or `b0`.
struct Hosts(String);

impl Hosts {
    fn new() -> Hosts {
        let hosts = Hosts(format!("fsynctop-{}", std::process::id()));
        let names = ["a", "b"].map(|name| hosts.name(name));
        for name in &names {
            run(&["ip", "netns", "add", name]);
        }
        let ends =
            ["ip", "-n", &names[0], "link", "add", "a0", "type", "veth", "peer", "b0", "netns", &names[1]];
        run(&ends);
        for (name, end, address) in [(&names[0], "a0", "192.0.2.1/24"), (&names[1], "b0", "192.0.2.2/24")] {
            run(&["ip", "-n", name, "address", "add", address, "dev", end]);
            run(&["ip", "-n", name, "link", "set", end, "up"]);
        }
        hosts
    }

    fn name(&self, host: &str) -> String {
        format!("{}{host}", self.0)
    }

    fn has_the_address(&self, host: &str) -> bool {
        run(&["ip", "-n", &self.name(host), "-oneline", "address"]).contains(" 192.0.2.10/24")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in ["a", "b"] {
            let _ = Command::new("ip").args(["netns", "delete", &self.name(host)]).status();
        }
    }
}

/// Ends by SIGTERM, so that it stops its children.
struct Keepalived(Running);

impl Drop for Keepalived {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.0.id().to_string()).status();
        let _ = self.0.0.wait();
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_keepalived_gives_the_address_to_the_other_host_and_takes_it_back() {
    let mut setting = Setting::new(&[]);
    let directory = roots_directory();
    let script = install("fsynctop-verdict", directory.path());
    let hosts = Hosts::new();
    let start = |host: &str, priority: &str, command: &str| {
        let text = with(
            &example("keepalived.conf"),
            &[
                ("script_user keepalived_script", "script_user nobody"),
                ("/usr/local/bin/fsynctop-verdict 3306", command),
                ("interface eth0", &format!("interface {host}0")),
                ("priority 100", priority),
            ],
        );
        let path = |what: &str| directory.path().join(format!("{host}.{what}"));
        std::fs::write(path("conf"), text).unwrap();
        let mut keepalived = Command::new("ip");
        keepalived.args(["netns", "exec", &hosts.name(host), "keepalived", "--dont-fork", "--log-console"]);
        keepalived.arg("--use-file").arg(path("conf")).arg("--pid").arg(path("pid"));
        keepalived.arg("--vrrp_pid").arg(path("vrrp")).env("FSYNCTOP_VERDICT_SOCKET", setting.socket());
        let log = std::fs::File::create(path("log")).unwrap();
        keepalived.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Keepalived(Running(keepalived.spawn().unwrap()))
    };
    // The other host has a server that is well.
    let a = start("a", "priority 100", &format!("{} shop", script.display()));
    let b = start("b", "priority 80", "/bin/true");
    let log = || std::fs::read_to_string(directory.path().join("a.log")).unwrap();
    wait_until("the address", || hosts.has_the_address("a") && log().contains("(durability) succeeded"));

    // The script is run every second; the other host waits for three advertisements and a part of one.
    let election = Duration::from_secs(1 + 4);
    let since = hang(&setting);
    let is_at_b = || hosts.has_the_address("b") && !hosts.has_the_address("a");
    in_time("the address goes to the other host", since, VERDICT + election, is_at_b);
    setting.mount.control("release");
    let back = INTERVAL + Duration::from_secs(3) + election;
    in_time("the address comes back", Instant::now(), back, || hosts.has_the_address("a"));

    let fails = || log().matches("(durability) failed").count();
    assert_eq!(fails(), 1, "{}", log());
    setting.upgrade();
    std::thread::sleep(Duration::from_secs(2));
    // Gone for good is another matter than a log that hangs, and not for this script.
    setting.exporter.signal("KILL");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((fails(), hosts.has_the_address("a")), (1, true), "{}", log());
    drop((a, b));
}

/// The exec probe of the example, with the socket and the name of these tests. A kubelet runs it in the
/// container once a second, and takes its exit status.
fn probe(socket: &Path) -> (Vec<String>, Value) {
    let pod: Value = serde_saphyr::from_str(&example("kubernetes-readiness.yaml")).unwrap();
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let container = containers.iter().find(|container| container["name"] == "durability").unwrap();
    let probe = container["readinessProbe"].clone();
    let words = probe["exec"]["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let socket = socket.to_str().unwrap();
    let command: Vec<String> =
        words.map(|word| word.replace("/run/fsynctop-verdict/verdict.sock", socket)).collect();
    assert!(command.iter().any(|word| word.contains(socket)), "{command:?}");
    (command, probe)
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_readiness_probe_fails_while_the_log_hangs() {
    let mut setting = Setting::new(&[]);
    let (command, probe) = probe(&setting.socket());
    let period = Duration::from_secs(probe["periodSeconds"].as_u64().unwrap());
    let is_ready = || {
        // As the example's user, with none of root's rights.
        let mut own = Command::new("setpriv");
        own.args(["--reuid", "65532", "--regid", "65532", "--clear-groups", "--no-new-privs"]);
        let begun = Instant::now();
        let run = output(own.args(&command).env("SERVER", "shop"));
        assert!(begun.elapsed() < Duration::from_secs(2), "the probe's time-out");
        run.status.success()
    };
    // Of a failed probe the kubelet takes note at once, as failureThreshold has it.
    assert_eq!((&probe["failureThreshold"], is_ready()), (&1.into(), true));
    let since = hang(&setting);
    in_time("the probe fails", since, VERDICT + period, || !is_ready());
    setting.mount.control("release");
    in_time("the probe succeeds", Instant::now(), INTERVAL + period, is_ready);
    setting.upgrade();
    assert!(is_ready());
    setting.exporter.signal("KILL");
    wait_until("nobody to ask", || UnixStream::connect(setting.socket()).is_err());
    assert!(is_ready(), "an exporter that is gone says nothing of the database");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_script_fails_for_a_503_alone_and_orchestrator_is_told() {
    let mut setting = Setting::new(&[]);
    let directory = roots_directory();
    let script = install("fsynctop-verdict", directory.path());
    let rule = install("orchestrator-promotion-rule", directory.path());
    let socket = setting.socket();
    let ask = |script: &Path, arguments: &[&str]| -> Output {
        output(Command::new(script).args(arguments).env("FSYNCTOP_VERDICT_SOCKET", &socket))
    };
    // Something in Orchestrator's place, which takes down what it is asked for.
    let (requests, asked) = channel();
    let orchestrator = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}/api", orchestrator.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in orchestrator.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if requests.send(line).is_err() {
                return;
            }
        }
    });
    let tell = || {
        let mut command = Command::new(&rule);
        command.args(["db1.example:3306", "shop"]).env("FSYNCTOP_VERDICT_SOCKET", &socket);
        assert!(output(command.env("ORCHESTRATOR_API", &api)).status.success());
        asked.recv_timeout(Duration::from_secs(10)).unwrap()
    };
    let path = "GET /api/register-candidate/db1.example/3306";

    let well = ask(&script, &["shop"]);
    assert!(well.status.success() && well.stdout.is_empty() && well.stderr.is_empty(), "{well:?}");
    assert_eq!(tell(), format!("{path}/neutral HTTP/1.1\r\n"));
    let unknown = ask(&script, &["shops & co"]);
    assert!(unknown.status.success() && !unknown.stderr.is_empty(), "{unknown:?}");

    hang(&setting);
    setting.wait_for("stalled", 503);
    for arguments in [&["shop"][..], &[]] {
        let stalled = ask(&script, arguments);
        assert_eq!(stalled.status.code(), Some(1), "{stalled:?}");
        let said: Value = serde_json::from_str(&stdout(&stalled)).unwrap();
        assert_eq!(said["state"], "stalled");
    }
    assert_eq!(tell(), format!("{path}/must_not HTTP/1.1\r\n"));
    setting.mount.control("release");
    setting.wait_for("ok", 200);
    assert_eq!(tell(), format!("{path}/neutral HTTP/1.1\r\n"));

    setting.exporter.signal("STOP");
    setting.wait_for("unknown", 202);
    let unknown = ask(&script, &["shop"]);
    assert!(unknown.status.success(), "{unknown:?}");
    setting.exporter.signal("CONT");
    setting.upgrade();
    assert!(ask(&script, &["shop"]).status.success());
    setting.exporter.signal("KILL");
    wait_until("nobody to ask", || UnixStream::connect(&socket).is_err());
    let gone = ask(&script, &["shop"]);
    assert!(gone.status.success() && !gone.stderr.is_empty(), "{gone:?}");
}
