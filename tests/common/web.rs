//! The exporter's web server with figures that are made up, in a process of its own, so that its memory can
//! be measured; and clients of all kinds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fsynctop::exporter::source::{Form, NotReady, Source};
use fsynctop::exporter::verdict::Told;
use fsynctop::exporter::web::address::listen;
use fsynctop::exporter::web::files::{Files, OnDisk};
use fsynctop::exporter::web::{Statistics, Web};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::{Value, json};

/// Figures of any size that take any time.
struct MadeUp {
    bytes: usize,
    takes: Duration,
    renders: AtomicU64,
    is_ready: bool,
}

impl Source for MadeUp {
    fn metrics(&self, form: Form) -> Result<Vec<u8>, NotReady> {
        std::thread::sleep(self.takes);
        let renders = self.renders.fetch_add(1, Ordering::Relaxed) + 1;
        let mut text = format!("# TYPE renders_total counter\nrenders_total {renders}\n# {form:?}\n");
        while text.len() < self.bytes {
            text.push_str(&format!("made_up{{n=\"{}\"}} 1\n", text.len()));
        }
        Ok(text.into_bytes())
    }

    fn status(&self) -> Result<Vec<u8>, NotReady> {
        Ok(format!("{:#}\n", json!({ "schema": 1, "status": "ok", "checks": [] })).into_bytes())
    }

    fn healthy(&self) -> Result<(), NotReady> {
        Ok(())
    }

    fn ready(&self) -> Result<(), NotReady> {
        if self.is_ready { Ok(()) } else { Err(NotReady("not yet: <attaching>".into())) }
    }

    fn verdicts(&self) -> Result<Arc<Told>, NotReady> {
        Err(NotReady("nothing is traced here".into()))
    }

    fn acknowledge(&self, _: &str, _: u32) -> Result<Option<u64>, NotReady> {
        Ok(None)
    }
}

/// What the child process is told, in this environment variable.
const VARIABLE: &str = "FSYNCTOP_TEST_SERVER";

/// The test of the server itself, which is also how the others start it: in a process of its own that was
/// told what to serve, it serves until standard input ends.
#[test]
fn the_server_of_these_tests_answers_and_ends_with_its_input() {
    let Ok(told) = std::env::var(VARIABLE) else {
        let server = Server::start(json!({}));
        assert_eq!(scrape(&server).status, 200);
        assert_eq!(server.end()["requests"]["200"], 1);
        return;
    };
    let told: Value = serde_json::from_str(&told).unwrap();
    let source = Arc::new(MadeUp {
        bytes: told["bytes"].as_u64().unwrap_or(0) as usize,
        takes: Duration::from_millis(told["takes_ms"].as_u64().unwrap_or(0)),
        renders: AtomicU64::new(0),
        is_ready: told["not_ready"].is_null(),
    });
    let statistics = Arc::new(Statistics::default());
    let files =
        told["web_config_file"].as_str().map(|path| Arc::new(OnDisk::new(path.into())) as Arc<dyn Files>);
    let web = Web::new(source, files, statistics.clone()).unwrap();
    let listeners = listen(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    println!("address {}", listeners[0].local_addr().unwrap());
    let (stop, stopped) = tokio::sync::watch::channel(false);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.send_replace(true);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(web.serve(listeners, stopped)).unwrap();
    runtime.shutdown_background();
    let requests: Value = statistics.requests().map(|(code, n)| (code.to_string(), json!(n))).collect();
    let report = json!({
        "requests": requests,
        "connections": statistics.connections.get(),
        "refused": statistics.refused.get(),
        "gave_way": statistics.gave_way.get(),
        "timed_out": statistics.timed_out.get(),
        "failed_handshakes": statistics.failed_handshakes.get(),
        "denied": statistics.denied.get(),
        "reloads": statistics.reloads.get(),
        "failed_reloads": statistics.failed_reloads.get(),
        "made": statistics.made().count,
    });
    println!("report {report}");
    std::process::exit(0);
}

pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

impl Server {
    /// `told`: bytes, takes_ms, not_ready, web_config_file.
    pub fn start(told: Value) -> Server {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // The harness leaves out the name of the crate.
        let (_, here) = module_path!().split_once("::").expect("a module of a test program");
        let served = format!("{here}::the_server_of_these_tests_answers_and_ends_with_its_input");
        command.args(["--exact", "--nocapture", &served]);
        command.env(VARIABLE, told.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let address = line_after(&mut stdout, "address ").parse().unwrap();
        Server { stdin: child.stdin.take(), child, stdout, address }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// From a source address of the client's choice: all of 127.0.0.0/8 is this host.
    pub fn connect_from(&self, source: Ipv4Addr) -> std::io::Result<TcpStream> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddr::from((source, 0)))?;
        rustix::net::connect(&socket, &self.address)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(stream)
    }

    /// Tells it to end.
    pub fn tell_to_end(&mut self) {
        drop(self.stdin.take());
    }

    /// Ends it; what it counted.
    pub fn end(mut self) -> Value {
        self.tell_to_end();
        let report = line_after(&mut self.stdout, "report ");
        assert!(self.child.wait().unwrap().success());
        serde_json::from_str(&report).unwrap()
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id())
    }

    /// Bytes.
    pub fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most it ever was; bytes.
    pub fn peak_resident(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).unwrap().count()
    }

    /// Processor time, all threads.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(self.proc("stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line_after(from: &mut impl BufRead, prefix: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(from.read_line(&mut line).unwrap() > 0, "the server ended before it said {prefix:?}");
        // The test harness may have written something in front.
        if let Some((_, rest)) = line.split_once(prefix) {
            return rest.trim().to_owned();
        }
    }
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    pub took: Duration,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request on a connection and reads the answer, which must say how long it is.
pub fn ask(stream: &mut TcpStream, request: &str) -> std::io::Result<Answer> {
    let begun = Instant::now();
    stream.write_all(request.as_bytes())?;
    read_answer(stream, begun)
}

pub fn read_answer(stream: &mut TcpStream, begun: Instant) -> std::io::Result<Answer> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
    let mut answer = Answer { status, head, body: Vec::new(), took: Duration::ZERO };
    let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
    answer.body.resize(length, 0);
    reader.read_exact(&mut answer.body)?;
    answer.took = begun.elapsed();
    Ok(answer)
}

pub const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

/// A scrape as Prometheus does it for the first time.
pub fn scrape(server: &Server) -> Answer {
    ask(&mut server.connect(), SCRAPE).unwrap()
}

/// `curl --silent --show-error`, never longer than 20 s.
pub fn curl(arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20"]).args(arguments);
    command.output().expect("curl is needed (tools/dependencies installs it)")
}

/// The status that curl got; 0 if there was no answer.
pub fn status(arguments: &[&str]) -> u16 {
    let fixed = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let output = curl(&[&fixed, arguments].concat());
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

/// Whether the other side has closed the connection. Takes in what it sent before.
pub fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    let closed = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break false,
            Err(_) => break true,
        }
    };
    stream.set_nonblocking(false).unwrap();
    closed
}

/// A certificate authority and what it signed, as files in a directory.
pub struct Authority<'a>(pub &'a Path);

impl<'a> Authority<'a> {
    pub fn new(directory: &'a Path, name: &str) -> Authority<'a> {
        let authority = Authority(directory);
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
        ]);
        authority
    }

    /// NAME.crt and NAME.key, valid for these names ("DNS:…,IP:…,URI:…").
    pub fn sign(&self, name: &str, names: &str) {
        let (key, request, certificate) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"));
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &key,
            "-out",
            &request,
            "-addext",
            &format!("subjectAltName={names}"),
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-days",
            "2",
            "-copy_extensions",
            "copy",
            "-out",
            &certificate,
        ]);
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl").args(arguments).current_dir(self.0).output();
        let output = output.expect("openssl is needed (tools/dependencies installs it)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Clients that guess passwords without a pause, each on a connection of its own, until they are dropped.
pub struct Guessers {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    guesses: Arc<AtomicU64>,
}

impl Guessers {
    /// `connect` is called on each guesser's own thread; a connection that was closed is made anew. Returns
    /// when guessing goes on.
    pub fn start(
        number: usize,
        connect: impl Fn(usize) -> std::io::Result<TcpStream> + Send + Sync + 'static,
    ) -> Guessers {
        let (stop, guesses) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let connect = Arc::new(connect);
        let guesser = |number: usize| {
            let (stop, guesses, connect) = (stop.clone(), guesses.clone(), connect.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut stream) = connect(number) else { continue };
                    while !stop.load(Ordering::Relaxed) {
                        let guess = guesses.fetch_add(1, Ordering::Relaxed);
                        let request = authorized("prometheus", &format!("guess {guess}"));
                        if ask(&mut stream, &request).is_err() {
                            break;
                        }
                    }
                }
            })
        };
        let threads: Vec<_> = (0..number).map(guesser).collect();
        while guesses.load(Ordering::Relaxed) < 10 * number as u64 {
            std::thread::sleep(Duration::from_millis(10));
        }
        Guessers { stop, threads, guesses }
    }

    pub fn guesses(&self) -> u64 {
        self.guesses.load(Ordering::Relaxed)
    }
}

impl Drop for Guessers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A scrape with a name and a password.
pub fn authorized(name: &str, password: &str) -> String {
    let credentials =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("{name}:{password}"));
    format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credentials}\r\n\r\n")
}

/// A web configuration file with these users, each with their name as the password.
pub fn users_file(directory: &Path, names: &[&str]) -> PathBuf {
    let lines = names.iter().map(|name| format!("  {name}: {}\n", bcrypt::hash(name, 10).unwrap()));
    let path = directory.join("web.yml");
    std::fs::write(&path, format!("basic_auth_users:\n{}", lines.collect::<String>())).unwrap();
    path
}
