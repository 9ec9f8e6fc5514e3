//! Needs root and MariaDB: what the verdict on a real server says while a user without rights runs processes
//! that claim to be it. Whoever fails servers over asks for it by name, so its name is what is attacked.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::asked::Setting;
use crate::common::disk::Mounted;
use crate::common::exporter::Exporter;
use crate::common::faults::{output, stderr};
use crate::common::scrape::{Scrape, label};
use crate::common::server::{Database, Home, Kind};
use crate::common::throwaway::free_port;
use crate::common::web::{curl, status};
use crate::common::{Running, needs, wait_until};

const USER: u32 = 4_711;
/// More than there are labels.
const CROWD: usize = 80;

/// Calls itself mysqld, does what it was told, says so, and waits. Its arguments are a server's.
const PROLOGUE: &str = "
import ctypes, os, socket, sys, time
ctypes.CDLL(None).prctl(15, b'mysqld', 0, 0, 0)
";
const EPILOGUE: &str = "
print('ready', flush=True)
while True:
    time.sleep(0.2)
    act()
";
const NOTHING: &str = "
def act(): pass
";
/// Listens on a port of its own address.
const LISTENS: &str = "
listener = socket.create_server((os.environ['ADDRESS'], int(os.environ['PORT'])))
def act(): pass
";
/// A log on a filesystem that is full.
const FAILS: &str = "
fd = os.open(os.environ['LOG'], os.O_RDWR | os.O_CREAT)
def act():
    try: os.write(fd, bytes(1 << 16))
    except OSError: pass
    os.fsync(fd)
";
/// So many processes of their own, each with a directory.
const SPAWNS: &str = "
idle = \"import ctypes, time; ctypes.CDLL(None).prctl(15, b'mysqld', 0, 0, 0); ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); time.sleep(600)\"
for number in range(int(os.environ['CROWD'])):
    os.posix_spawn('/usr/bin/python3', ['python3', '-c', idle, f'--datadir={os.environ[\"HOME\"]}/{number}', f'--port={20000 + number}'], {})
def act(): pass
";

struct Stranger {
    home: tempfile::TempDir,
}

impl Stranger {
    fn new() -> Stranger {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        chown(home.path(), Some(USER), Some(USER)).unwrap();
        Stranger { home }
    }

    /// `wrapper`: by what its rights allow it to run it.
    fn start(
        &self,
        wrapper: &[&str],
        attack: &str,
        environment: &[(&str, &str)],
        arguments: &[String],
    ) -> Running {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
        command.args(wrapper).args(["/usr/bin/python3", "-c", &format!("{PROLOGUE}{attack}{EPILOGUE}")]);
        command.args(arguments).env("HOME", self.home.path()).envs(environment.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{attack}");
        Running(child)
    }

    fn directory(&self, name: &str) -> PathBuf {
        let directory = self.home.path().join(name);
        fs::create_dir_all(&directory).unwrap();
        chown(&directory, Some(USER), Some(USER)).unwrap();
        directory
    }
}

/// A server that is found whenever it starts: what servers of other names are called is looked up once, when
/// the exporter starts.
fn called(name: &str) -> Home {
    let mut home = Home::new(Kind::MariaDb);
    let own = std::mem::replace(&mut home.comm, name.to_owned());
    fs::rename(home.path().join(own), home.path().join(name)).unwrap();
    home
}

fn start(home: &Home, port: &str) -> Database {
    let port = format!("--port={port}");
    home.start(&[], &["--skip-networking=0", "--bind-address=127.0.0.1", &port])
}

struct Asking {
    exporter: Exporter,
    name: String,
}

impl Asking {
    fn begin(name: &str) -> Asking {
        let exporter = Exporter::start(&["--verdict-listen", "127.0.0.1:0"]);
        Asking { exporter, name: name.to_owned() }
    }

    fn verdict(&self) -> (u16, Value) {
        let line = self.exporter.wait_for_line("verdicts on http://");
        let address = line.split_once("http://").unwrap().1.split_once('/').unwrap().0.to_owned();
        let url = format!("http://{address}/api/v1/verdict?server={}", self.name);
        let body = curl(&[&url]).stdout;
        (status(&[&url]), serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// The label of a process once it is described.
    fn label_of(&self, pid: u32) -> String {
        let mut found = None;
        wait_until("the process to have a label", || {
            let scrape = Scrape::of(&self.exporter);
            let mut series = scrape.of_family("fsynctop_server_pid");
            found = series.find(|&(_, is)| is == f64::from(pid)).map(|(series, _)| label(series, "server"));
            found.is_some()
        });
        found.unwrap()
    }

    fn servers(&self) -> usize {
        Scrape::of(&self.exporter).of_family("fsynctop_server_pid").count()
    }

    fn wait_for_real(&self, database: &Database) {
        wait_until("the verdict to be that of the server", || {
            let (status, verdict) = self.verdict();
            status == 200 && verdict["servers"][0]["pid"] == database.pid
        });
    }

    /// One row of the table.
    fn assert_real(&self, attack: &str, database: &Database) {
        let (status, verdict) = self.verdict();
        let server = &verdict["servers"][0];
        println!("{attack:<70} | {status} {} {}", verdict["state"], server["pid"] == database.pid);
        assert_eq!((status, &server["pid"]), (200, &database.pid.into()), "{attack}: {verdict:#}");
        assert!(server["state"] == "ok" || server["state"] == "idle", "{attack}: {verdict:#}");
    }
}

fn port_and(port: &str, datadir: &Path) -> Vec<String> {
    vec![format!("--port={port}"), format!("--datadir={}", datadir.display())]
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_no_process_of_a_stranger_takes_a_servers_name_or_changes_its_verdict() {
    needs(&["/usr/bin/unshare"]);
    let home = called("mariadbd");
    let port = free_port().to_string();
    let database = start(&home, &port);
    database.prepare();
    let asking = Asking::begin(&port);
    asking.wait_for_real(&database);
    let stranger = Stranger::new();
    let full = Mounted::new(&["-t", "tmpfs", "-o", "size=8k,mode=777", "fsynctop-test"]);
    let log = full.path().join("ib_logfile0");
    let log = log.to_str().unwrap();
    let environment = |address| {
        [("PORT", port.clone()), ("ADDRESS", address), ("LOG", log.to_owned()), ("CROWD", CROWD.to_string())]
    };
    let begin = |wrapper: &[&str], attack: &str, address: &str, datadir: &Path| {
        let environment = environment(address.to_owned());
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, &**value)).collect();
        stranger.start(wrapper, attack, &environment, &port_and(&port, datadir))
    };
    let own = |name| stranger.directory(name);

    println!("{:<70} | what the verdict on the real server says", "attack");
    let idle = begin(&[], NOTHING, "", &own("idle"));
    assert_eq!(asking.label_of(idle.0.id()), format!("{port} (uid {USER})"));
    asking.assert_real("says that it has the port", &database);

    let fails = begin(&[], FAILS, "", &database.datadir);
    let name = asking.label_of(fails.0.id());
    assert!(name.starts_with(&format!("{port} (uid {USER})")), "{name}");
    wait_until("its own failure to be told", || {
        let metrics = asking.exporter.get("/metrics");
        metrics.contains(&format!("fsynctop_verdict{{server=\"{name}\",state=\"failing\"}} 1"))
    });
    asking.assert_real("says that it runs in the data directory, and fails", &database);

    let listens = begin(&[], LISTENS, "127.0.0.2", &own("listens"));
    assert_ne!(asking.label_of(listens.0.id()), port);
    asking.assert_real("listens on the port of another address", &database);

    let unshare = ["unshare", "--user", "--map-root-user", "--net"];
    let in_namespaces = begin(&unshare, LISTENS, "0.0.0.0", &own("namespaces"));
    let name = asking.label_of(in_namespaces.0.id());
    assert!(name.starts_with(&format!("{port} (uid {USER})")), "{name}");
    asking.assert_real("listens on the port in a network of its own", &database);

    let before = asking.servers();
    let crowd = begin(&[], SPAWNS, "", &own("crowd"));
    wait_until("the crowd to be known", || asking.servers() >= before + 30);
    asking.assert_real("eighty processes, each with a directory", &database);

    // The server is restarted among all of them.
    database.kill();
    drop(database);
    let is_unknown = |what: &str| {
        wait_until(what, || {
            let (status, verdict) = asking.verdict();
            let pid = &verdict["servers"][0]["pid"];
            assert!(
                [&idle, &fails, &listens, &in_namespaces].iter().all(|other| *pid != other.0.id()),
                "{verdict:#}"
            );
            status == 202
        });
    };
    is_unknown("the verdict of a server that does not run");
    let strangers = begin(&[], LISTENS, "127.0.0.3", &own("later"));
    // It shares a label with others: its user has no more labels. By then it is described.
    std::thread::sleep(Duration::from_secs(4));
    is_unknown("the verdict to stay so beside one that listens");
    println!("{:<70} | 202 unknown", "while it is down, another one listens on its port");
    let database = start(&home, &port);
    asking.wait_for_real(&database);
    asking.assert_real("it is started again", &database);

    // Another server of the system's own, which nobody has seen before.
    let second_home = called("mysqld-debug");
    let second_port = free_port().to_string();
    let second = start(&second_home, &second_port);
    let asking_second = Asking { name: second_port.clone(), ..asking };
    asking_second.wait_for_real(&second);
    asking_second.assert_real("a new server, while the crowd is there", &second);
    let asking = Asking { name: port.clone(), ..asking_second };

    // The exporter is started again while the server is down and the others are not.
    drop(asking);
    database.kill();
    drop(database);
    let asking = Asking::begin(&port);
    wait_until("the others to be known", || asking.servers() >= 30);
    let (status, verdict) = asking.verdict();
    println!("{:<70} | {status} {}", "a new exporter, while it is down", verdict["state"]);
    assert_eq!(status, 202, "{verdict:#}");
    assert!(verdict["servers"].as_array().unwrap().is_empty(), "{verdict:#}");
    let database = start(&home, &port);
    asking.wait_for_real(&database);
    asking.assert_real("and it is started again", &database);
    drop((strangers, crowd));
}

/// Of a user without rights: two thousand connections a second, kept, given up and asked on.
const FLOOD: &str = "
import socket, sys, threading, time
def flood():
    kept = []
    while True:
        time.sleep(0.01)
        try:
            one = socket.socket(socket.AF_UNIX)
            one.connect(sys.argv[1])
            one.send(b'GET /api/v1/verdict HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' if len(kept) % 2 else b'GET')
            kept.append(one)
        except OSError:
            pass
        if len(kept) > 200:
            kept = kept[100:]
for _ in range(20):
    threading.Thread(target=flood, daemon=True).start()
print('ready', flush=True)
sys.stdin.read()
";

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_flood_of_connections_of_one_user_does_not_keep_anothers_check_out() {
    let setting = Setting::new(&[]);
    let mut flood = Command::new("setpriv");
    flood.args(["--reuid=4711", "--regid=4711", "--clear-groups", "/usr/bin/python3", "-c", FLOOD]);
    flood.arg(setting.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut flood = Running(flood.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(flood.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // Until its queue is full.
    std::thread::sleep(Duration::from_secs(3));
    let check = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/verdict/fsynctop-verdict");
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let mut command = Command::new(check);
        command.arg("shop").env("FSYNCTOP_VERDICT_SOCKET", setting.socket());
        let begun = Instant::now();
        let output = output(&mut command);
        slowest = slowest.max(begun.elapsed());
        let said = stderr(&output);
        assert!(output.status.success() && said.is_empty(), "{:?} {said}", output.status);
    }
    println!("the slowest of 20 checks beside the flood: {slowest:?}");
}

/// Connections on which nothing is said, a thousand a second.
const SILENT: &str = "
import socket, sys, time
kept = []
print('ready', flush=True)
while True:
    for _ in range(10):
        one = socket.socket()
        one.setblocking(False)
        try: one.connect(('127.0.0.1', int(sys.argv[1])))
        except BlockingIOError: pass
        kept.append(one)
    while len(kept) > 800:
        kept.pop(0).close()
    time.sleep(0.01)
";

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_flood_of_silent_connections_does_not_keep_anothers_scrape_out() {
    needs(&["/usr/bin/openssl"]);
    let directory = tempfile::tempdir().unwrap();
    let of = |name: &str| directory.path().join(name);
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl
        .args(["-days", "3", "-subj", "/CN=localhost", "-keyout"])
        .arg(of("key"))
        .arg("-out")
        .arg(of("crt"));
    assert!(output(&mut openssl).status.success());
    fs::write(of("web.yml"), "tls_server_config: { cert_file: crt, key_file: key }\n").unwrap();
    let web = of("web.yml");
    for options in [&[][..], &["--web-config-file", web.to_str().unwrap()]] {
        let exporter = Exporter::spawn(&[&["--listen", "127.0.0.1:0"], options].concat());
        exporter.wait_for_line("attached by");
        let url = exporter.url("/metrics");
        let url = if options.is_empty() { url } else { url.replace("http:", "https:") };
        let port = url.split(':').nth(2).unwrap().split('/').next().unwrap();
        let mut flood = Command::new("setpriv");
        flood.args([
            "--reuid=4711",
            "--regid=4711",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            SILENT,
            port,
        ]);
        let mut flood = Running(flood.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(flood.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // Until its queue is full.
        std::thread::sleep(Duration::from_secs(3));
        let mut slowest = Duration::ZERO;
        for _ in 0..10 {
            let begun = Instant::now();
            assert_eq!(status(&["-k", &url]), 200, "{url}");
            slowest = slowest.max(begun.elapsed());
        }
        println!("the slowest of 10 scrapes of {url} beside the flood: {slowest:?}");
        // Prometheus' own limit is ten; a packet that is dropped is sent again after one, two and four.
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    }
}
