//! Needs root: the exporter as a daemon. Its start and end, its rights, and what systemd and a second
//! exporter see.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::exporter::{Exporter, children};
use crate::common::faults::{fsynctop, output, stderr};
use crate::common::web::{curl, status};
use crate::common::{Running, built, needs, wait_until};
use serde_json::Value;

/// Nobody is called so: these tests are about the daemon.
const NOBODY: [&str; 2] = ["--comm", "no-such-comm"];
const SYS_PTRACE_AND_DAC_READ_SEARCH: u64 = 1 << 19 | 1 << 2;
const BPF: u64 = 1 << 39;

const TRACEPOINTS: &str = "/sys/kernel/tracing/events";

/// What the kernel leaves a thread that has kept what is needed: this kernel may ask for CAP_BPF as well.
fn kept(set: &str) -> bool {
    let set = u64::from_str_radix(set, 16).unwrap();
    set & !BPF == SYS_PTRACE_AND_DAC_READ_SEARCH
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn every_thread_keeps_what_it_needs_and_no_more() {
    needs(&[TRACEPOINTS]);
    let exporter = Exporter::start(&["--comm", "syncgen"]);
    // a server that comes is looked for, described, and named: threads of all kinds
    let directory = tempfile::tempdir().unwrap();
    let load = Command::new(built("syncgen"))
        .arg(directory.path())
        .args(["--seconds", "2", "--hold"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let _load = Running(load.unwrap());
    let begun = Instant::now();
    let mut seen = BTreeSet::new();
    while begun.elapsed() < Duration::from_secs(4) {
        for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
            for (thread, value) in exporter.threads(set) {
                assert!(kept(&value), "{thread} has {set} {value}");
                seen.insert(thread.split(' ').next().unwrap().to_owned());
            }
        }
        for set in ["CapInh:", "CapAmb:"] {
            for (thread, value) in exporter.threads(set) {
                assert_eq!(u64::from_str_radix(&value, 16), Ok(0), "{thread}: {set}");
            }
        }
        for (thread, value) in exporter.threads("NoNewPrivs:") {
            assert_eq!(value, "1", "{thread}");
        }
        assert_eq!(status(&[&exporter.url("/metrics")]), 200);
        assert_eq!(status(&[&exporter.url("/status")]), 200);
    }
    for thread in ["fsynctop", "sampler", "names", "web-lane"] {
        assert!(seen.contains(thread), "no thread {thread} among {seen:?}");
    }
    exporter.wait_for_line("tracing syncgen");
    let status: Value = serde_json::from_str(&exporter.get("/status")).unwrap();
    let verdict = |name: &str| {
        let checks = status["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {status}")).clone()
    };
    // what it was given, not what it has kept
    assert_eq!(verdict("capabilities")["status"], "ok");
    assert_eq!(verdict("tracing")["status"], "ok");
    assert!(verdict("rights kept")["detail"].as_str().unwrap().contains("CAP_SYS_PTRACE"));
    assert!(verdict("server")["detail"].as_str().unwrap().starts_with("syncgen "));
}

/// Real figures, not the made-up ones of the web server's own tests.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_metrics_are_what_their_content_type_says_whatever_was_asked_for() {
    needs(&[TRACEPOINTS]);
    let exporter = Exporter::start(&NOBODY);
    for (accept, is_open_metrics) in [
        ("*/*", false),
        ("application/openmetrics-text", true),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            true,
        ),
        ("application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.3", false),
    ] {
        let header = format!("Accept: {accept}");
        let output = curl(&["--include", "--header", &header, &exporter.url("/metrics")]);
        let answer = String::from_utf8(output.stdout).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let form = match is_open_metrics {
            true => "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n",
            false => "content-type: text/plain; version=0.0.4; charset=utf-8\r\n",
        };
        assert!(head.contains(form), "{accept}: {head}");
        // OpenMetrics has an end mark, units, and counters named without `_total`; version 0.0.4 has none of
        // them.
        assert_eq!(body.ends_with("\n# EOF\n"), is_open_metrics, "{accept}");
        assert_eq!(body.contains("# UNIT"), is_open_metrics, "{accept}");
        let samples = body.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.split('{').next().unwrap(), value.parse::<f64>().unwrap())
        });
        let samples: Vec<_> = samples.collect();
        let types: Vec<_> =
            body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        for (name, _) in &samples {
            let base = |suffix| name.strip_suffix(suffix).unwrap_or(name);
            let is_of = |(family, kind): &(&str, &str)| match *kind {
                "histogram" => {
                    ["_bucket", "_sum", "_count"].into_iter().any(|suffix| base(suffix) == *family)
                }
                "counter" if is_open_metrics => name.strip_suffix("_total") == Some(family),
                "info" => name.strip_suffix("_info") == Some(family),
                _ => name == family,
            };
            assert!(types.iter().any(is_of), "{accept}: {name} has no type");
        }
        assert!(samples.contains(&("fsynctop_up", 1.0)), "{accept}: {body}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_user_of_its_own_with_five_capabilities_is_enough() {
    needs(&[TRACEPOINTS]);
    let five = "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search,+syslog";
    // where nobody else can reach it: the binary of the tests is below root's directories
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("fsynctop");
    fs::copy(env!("CARGO_BIN_EXE_fsynctop"), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args([
        format!("--inh-caps={five}"),
        format!("--ambient-caps={five}"),
        format!("--bounding-set={five}"),
    ]);
    command.arg(&program).args(["exporter", "--listen", "127.0.0.1:0"]).args(NOBODY);
    let exporter = Exporter::spawn_as(&mut command);
    exporter.wait_until_ready();
    for (thread, value) in exporter.threads("CapPrm:") {
        assert!(kept(&value), "{thread} has {value}");
    }
    for (thread, value) in exporter.threads("Uid:") {
        assert_eq!(value.split_whitespace().next(), Some("65534"), "{thread}");
    }
    assert!(exporter.get("/metrics").contains("\nfsynctop_up 1\n"));
    exporter.signal("TERM");
    let (status, log) = exporter.ended();
    assert!(status.success(), "{log}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn without_rights_it_says_which_are_missing_and_ends() {
    needs(&[TRACEPOINTS]);
    let mut command = Command::new("setpriv");
    // Those by which it becomes another user; of what tracing needs, none.
    let two = "-all,+setuid,+setgid";
    command.args([format!("--inh-caps={two}"), format!("--bounding-set={two}")]);
    command.arg(env!("CARGO_BIN_EXE_fsynctop")).args(["exporter", "--listen", "127.0.0.1:0"]).args(NOBODY);
    let (status, log) = Exporter::spawn_as(&mut command).ended();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("cannot trace") && log.contains("CAP_BPF"), "{log}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_second_exporter_on_the_port_fails_before_it_attaches() {
    needs(&[TRACEPOINTS]);
    let exporter = Exporter::start(&NOBODY);
    let address = exporter.url("").trim_start_matches("http://").to_owned();
    let second = output(fsynctop().args(["exporter", "--no-socket", "--listen", &address]).args(NOBODY));
    let message = stderr(&second);
    assert_eq!(second.status.code(), Some(1), "{message}");
    let expected = format!("cannot listen on {address}: Address already in use");
    assert!(message.contains(&expected) && message.contains("another exporter"), "{message}");
    assert!(!message.contains("attached"), "{message}");
    assert_eq!(status(&[&exporter.url("/-/ready")]), 200);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn sigterm_ends_it_in_order_and_nothing_stays_in_the_kernel() {
    needs(&[TRACEPOINTS]);
    for name in ["TERM", "INT", "KILL"] {
        let exporter = Exporter::start(&NOBODY);
        let programs = exporter.programs();
        assert!(programs.len() >= 2, "{programs:?}");
        exporter.signal(name);
        let (status, log) = exporter.ended();
        if name != "KILL" {
            assert!(status.success(), "{log}");
            assert!(log.contains(&format!("SIG{name}: ending")) && log.contains("detached"), "{log}");
        }
        let loaded =
            || libbpf_rs::query::ProgInfoIter::default().map(|info| info.id).collect::<BTreeSet<_>>();
        // the kernel frees them a moment later
        wait_until("the programs to go", || loaded().is_disjoint(&programs));
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_signal_while_it_attaches_ends_it_too() {
    needs(&[TRACEPOINTS]);
    let exporter = Exporter::spawn(&["--listen", "127.0.0.1:0", "--all"]);
    exporter.wait_for_line("listening on");
    std::thread::sleep(Duration::from_millis(20));
    exporter.signal("TERM");
    let (status, log) = exporter.ended();
    // before its handlers stand, the signal itself ends it
    assert!(status.success() || std::os::unix::process::ExitStatusExt::signal(&status) == Some(15), "{log}");
}

/// What systemd would be told.
struct Notified(UnixDatagram);

impl Notified {
    /// The next message that has this in it.
    fn wait_for(&self, part: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let length = self.0.recv(&mut buffer).unwrap_or_else(|error| panic!("no {part:?}: {error}"));
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.contains(part) {
                return message;
            }
        }
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn systemd_is_told_what_happens() {
    needs(&[TRACEPOINTS]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let notified = Notified(UnixDatagram::bind(&path).unwrap());
    notified.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = fsynctop();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    command.args(["exporter", "--listen", "127.0.0.1:0"]).args(NOBODY);
    let exporter = Exporter::spawn_as(&mut command);
    notified.wait_for("STATUS=attaching");
    // ready means that it traces, not only that it listens
    notified.wait_for("READY=1");
    assert_eq!(status(&[&exporter.url("/-/ready")]), 200);
    for _ in 0..3 {
        notified.wait_for("WATCHDOG=1");
    }
    exporter.signal("HUP");
    assert!(notified.wait_for("RELOADING=1").contains("MONOTONIC_USEC="));
    notified.wait_for("READY=1");
    exporter.signal("TERM");
    notified.wait_for("STOPPING=1");
    assert!(exporter.ended().0.success());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn sockets_of_systemd_are_taken_over() {
    needs(&[TRACEPOINTS]);
    // What systemd does: the sockets are descriptors 3 and 4, and the variables say so.
    const ACTIVATE: &str = "
import os, socket, sys
sockets = [socket.socket() for _ in range(2)]
for number, one in enumerate(sockets):
    one.bind(('127.0.0.1', 0)); one.listen(); os.dup2(one.fileno(), 10 + number)
for number in range(2):
    os.dup2(10 + number, 3 + number, inheritable=True)
os.environ.update(LISTEN_FDS='2', LISTEN_PID=str(os.getpid()))
own = '%s:%d' % sockets[0].getsockname()
os.execv(sys.argv[1], sys.argv[1:] + ['--listen', own])
";
    let mut command = Command::new("python3");
    command.args(["-c", ACTIVATE, env!("CARGO_BIN_EXE_fsynctop"), "exporter"]).args(NOBODY);
    let exporter = Exporter::spawn_as(&mut command);
    exporter.wait_until_ready();
    // its own --listen is the first of them, and is not opened twice
    assert_eq!(exporter.log().matches("listening on").count(), 2, "{}", exporter.log());
    for line in exporter.log().lines().filter(|line| line.contains("listening on")) {
        assert_eq!(status(&[line.split_once("listening on ").unwrap().1]), 200, "{line}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn in_the_journal_each_line_has_its_level() {
    needs(&[TRACEPOINTS]);
    let (reader, writer) = std::io::pipe().unwrap();
    let stat = rustix::fs::fstat(writer.as_fd()).unwrap();
    let mut command = fsynctop();
    command.env("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino)).env("FSYNCTOP_LISSTEN", "x");
    command.args(["exporter", "--listen", "192.0.2.1:9871"]).args(NOBODY).stderr(writer);
    assert_eq!(command.status().unwrap().code(), Some(1));
    drop(command);
    let text = std::io::read_to_string(reader).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "<4>the environment variable FSYNCTOP_LISSTEN is no option of the exporter");
    assert!(lines[1].starts_with("<3>cannot listen on 192.0.2.1:9871: "), "{text}");
    assert_eq!(lines.len(), 2, "{text}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn options_come_from_the_command_line_the_environment_and_a_file_in_this_order() {
    needs(&[TRACEPOINTS]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("exporter.toml");
    fs::write(&file, "listen = '192.0.2.1:1'\ncomm = ['no-such-comm']\nattach = 'tracepoint'\n").unwrap();
    let mut command = fsynctop();
    command.env("FSYNCTOP_CONFIG", &file).env("FSYNCTOP_LISTEN", "127.0.0.1:0,127.0.0.2:0").arg("exporter");
    let exporter = Exporter::spawn_as(&mut command);
    exporter.wait_until_ready();
    let log = exporter.log();
    assert!(log.contains("http://127.0.0.1:") && log.contains("http://127.0.0.2:"), "{log}");
    assert!(log.contains("attached by tracepoint"), "{log}");
    fs::write(&file, "listen = '127.0.0.1:0'\n\nmax_files = 5\n").unwrap();
    let wrong = output(fsynctop().env("FSYNCTOP_CONFIG", &file).arg("exporter"));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("exporter.toml:3:1: unknown key max_files: it is written max-files"));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_broken_web_configuration_is_refused_at_the_start_and_reread_on_sighup() {
    needs(&[TRACEPOINTS]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web.yml");
    let path = file.to_str().unwrap();
    fs::write(&file, "basic_auth_users: [\n").unwrap();
    let arguments = ["exporter", "--listen", "127.0.0.1:0", "--web-config-file", path];
    let wrong = output(fsynctop().args(arguments).args(NOBODY));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("web.yml:"), "{}", stderr(&wrong));
    fs::write(&file, "").unwrap();
    let exporter = Exporter::start(&[&["--web-config-file", path], &NOBODY[..]].concat());
    exporter.signal("HUP");
    exporter.wait_for_line("was read anew");
    fs::write(&file, "rate_limit: {interval: 1h, burst: 1}\n").unwrap();
    exporter.signal("HUP");
    wait_until("the limit to hold", || {
        let answer = curl(&["--write-out", "%{http_code}", "--output", "/dev/null", &exporter.url("/")]);
        answer.stdout == b"429"
    });
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn clients_that_ask_without_end_do_not_end_the_tracing() {
    needs(&[TRACEPOINTS]);
    // The window is long enough for what answers under way cost, which is known to be the clients' when they
    // are ready.
    let exporter = Exporter::start(&["--max-cpu", "6%/10s", "--comm", "no-such-comm"]);
    let web = children(exporter.pid())[0];
    let used = || clock_ticks(exporter.pid()) + clock_ticks(web);
    let (begun, before) = (Instant::now(), used());
    std::thread::scope(|scope| {
        // Each form of the metrics is written for itself.
        for (page, accept) in [
            ("/metrics", "text/plain"),
            ("/metrics", "application/openmetrics-text"),
            (
                "/metrics",
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
            ),
            ("/status", "*/*"),
            ("/nothing", "*/*"),
        ] {
            let (url, accept) = (exporter.url(page), format!("Accept: {accept}"));
            scope.spawn(move || {
                while begun.elapsed() < Duration::from_secs(12) {
                    let urls = [url.as_str(); 8];
                    curl(&[&["--output", "/dev/null", "--header", &accept][..], &urls].concat());
                }
            });
        }
    });
    let share = (used() - before) / begun.elapsed().as_secs_f64();
    println!("{:.1} % of a processor in all", share * 100.0);
    assert!(share > 0.08, "too little to show anything: {share}");
    assert_eq!(status(&[&exporter.url("/-/ready")]), 200);
    let metrics = exporter.get("/metrics");
    assert!(metrics.contains("\nfsynctop_up 1\n"), "{metrics}");
    assert!(!exporter.log().contains("less"), "{}", exporter.log());
    assert!(!exporter.log().contains("processor time"), "{}", exporter.log());
}

/// Processor seconds that a process has used.
fn clock_ticks(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
