//! Needs root: verdicts of a redo log whose syncs hang, fail or are slow for real, on the command line:
//! status 4 while it lasts, 0 when it is over, and a line for each change.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::faults::{FaultFs, Series, fsynctop, output, stderr, stdout};
use crate::common::{Running, needs, wait_until};
use serde_json::Value;

const TRACEFS: &str = "/sys/kernel/tracing/events";
const FUSE: &str = "/dev/fuse";
const LOG: &str = "ib_logfile0";
const DIRECTORY: &str = "FSYNCTOP_TEST_VERDICT";
/// What a busy machine may take beyond the limit and an interval, to start programs and to print a line.
const SLACK: Duration = Duration::from_secs(3);

/// Syncs its log until it is told to end, whatever comes of that; opens another if it is told to.
fn sync_for_ever(directory: &Path) {
    let open = |name: &str| File::create(directory.join(name)).unwrap();
    let mut log = open(LOG);
    while !directory.join("end").exists() {
        if fs::remove_file(directory.join("reopen")).is_ok() {
            log = open("ib_logfile1");
        }
        let _ = log.write_all(b"commit");
        let _ = log.sync_data();
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The test itself, again, as a process with a redo log.
struct Server<'a> {
    mount: &'a FaultFs,
    running: Running,
}

impl<'a> Server<'a> {
    fn start(mount: &'a FaultFs) -> Server<'a> {
        let name = std::thread::current().name().unwrap().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--include-ignored", "--exact", &name, "--nocapture"]).env(DIRECTORY, mount.path());
        let running = Running(command.stdout(std::process::Stdio::null()).spawn().unwrap());
        wait_until("its log", || mount.path().join(LOG).exists());
        Server { mount, running }
    }

    fn pid(&self) -> String {
        self.running.0.id().to_string()
    }

    fn once(&self, options: &[&str]) -> Output {
        output(fsynctop().args(["once", "--pid", &self.pid()]).args(options))
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.mount.control("ok\nrelease");
        let _ = fs::write(self.mount.path().join("end"), "");
        let _ = self.running.0.wait();
    }
}

/// Runs the workload if this is its process.
fn begin() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        sync_for_ever(Path::new(&directory));
        std::process::exit(0);
    }
    needs(&[TRACEFS, FUSE]);
}

fn only_verdict(output: &Output) -> Value {
    let value: Value = serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{output:?}"));
    let verdicts = value["verdicts"].as_array().unwrap_or_else(|| panic!("no verdicts in {value:#}"));
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    verdicts[0].clone()
}

#[test]
#[ignore = "needs root"]
fn root_stuck_ends_with_4_while_a_log_hangs_and_with_0_when_it_no_longer_does() {
    begin();
    let mount = FaultFs::mount("ok");
    let server = Server::start(&mount);
    let stuck = |options: &[&str]| output(fsynctop().args(["stuck", "--pid", &server.pid()]).args(options));
    assert_eq!(stuck(&["--fail-on", "stalled=1s"]).status.code(), Some(0));
    mount.control(&format!("hang on {LOG}"));
    mount.wait_for_hanging(1);
    let hung = Instant::now();
    let limit = Duration::from_secs(2);
    let found = loop {
        let found = stuck(&["--fail-on", "stalled=2s"]);
        match found.status.code() {
            Some(4) => break found,
            status => assert_eq!(status, Some(0), "{found:?}"),
        }
        assert!(hung.elapsed() < limit + SLACK, "not found within {:?}", hung.elapsed());
    };
    assert!(hung.elapsed() >= limit - Duration::from_millis(300), "too early: {:?}", hung.elapsed());
    let text = stdout(&found);
    assert!(
        text.contains("is stalled. An fdatasync of the redo log has not returned for at least 2."),
        "{text}"
    );
    let json = stuck(&["--fail-on", "stalled=2s", "--output", "json"]);
    let verdict = only_verdict(&json);
    assert_eq!((&verdict["state"], &verdict["because"]["role"]), (&"stalled".into(), &"redo".into()));
    assert_eq!(json.status.code(), Some(4));
    mount.control("ok\nrelease");
    let over = stuck(&["--fail-on", "stalled=1s", "--output", "json"]);
    assert_eq!(over.status.code(), Some(0), "{over:?}");
    let over: Value = serde_json::from_str(&stdout(&over)).unwrap();
    assert_eq!(over["verdicts"], Value::Array(Vec::new()));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_once_ends_with_4_while_a_log_hangs_fails_or_is_slow_and_with_0_when_that_is_over() {
    begin();
    let mount = FaultFs::mount("ok");
    let server = Server::start(&mount);
    let json = ["--output", "json"];
    let all = "--fail-on=stalled=1s,failing,slow=2s";
    let well = || {
        let well = server.once(&[&["-d", "1", all][..], &json].concat());
        assert_eq!(well.status.code(), Some(0), "{well:?}");
        assert_eq!(only_verdict(&well)["state"], "ok", "{well:?}");
    };
    well();

    mount.control(&format!("hang on {LOG}"));
    mount.wait_for_hanging(1);
    let hangs = server.once(&[&["-d", "2", all][..], &json].concat());
    assert_eq!(hangs.status.code(), Some(4), "{hangs:?}");
    let verdict = only_verdict(&hangs);
    assert_eq!((&verdict["state"], &verdict["because"]["op"]), (&"stalled".into(), &"fdatasync".into()));
    assert_eq!(server.once(&["-d", "1", "--fail-on", "failing"]).status.code(), Some(0), "not asked for");
    // A command's own status comes after it.
    let command = ["--fail-on", "stalled=1s", "--", "sh", "-c", "sleep 1.5; exit 7"];
    let hangs = server.once(&command);
    assert_eq!(hangs.status.code(), Some(4), "{hangs:?}");
    let text = stdout(&hangs);
    assert!(text.contains("is stalled. An fdatasync of the redo log has not returned for "), "{text}");
    mount.control("ok\nrelease");
    let command = ["--fail-on", "stalled=1s", "--", "sh", "-c", "sleep 1; exit 7"];
    let ended = server.once(&command);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    well();

    mount.control(&format!("fail EIO on {LOG}"));
    let fails = server.once(&[&["-d", "1", all][..], &json].concat());
    assert_eq!(fails.status.code(), Some(4), "{fails:?}");
    let verdict = only_verdict(&fails);
    assert_eq!((&verdict["state"], &verdict["because"]["errno"]), (&"failing".into(), &"EIO".into()));
    let csv = server.once(&["-d", "1", "--output", "csv", "--fail-on", "failing"]);
    assert_eq!(csv.status.code(), Some(4), "{csv:?}");
    assert!(stderr(&csv).contains("is failing. An fdatasync of the redo log failed with EIO"), "{csv:?}");
    mount.control(&format!("fail EINVAL on {LOG}"));
    well();

    mount.control(&format!("delay 20ms on {LOG}"));
    let slow = server.once(&["-d", "5", "--fail-on", "slow=10ms"]);
    assert_eq!(slow.status.code(), Some(4), "{slow:?}");
    assert!(stdout(&slow).contains("is slow. The redo log is slow: "), "{slow:?}");
    well();
}

/// The lines of `fsynctop events`.
struct Events(Series);

impl Events {
    /// The next line for which something holds, and those before it.
    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        while let Some(line) = self.0.line() {
            let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if holds(&event) {
                return (event, before);
            }
            before.push(event);
        }
        panic!("no {what}: {before:?}");
    }

    fn until_state(&self, state: &str) -> (Value, Vec<Value>) {
        self.until(state, |event| event["verdict"]["state"] == state)
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_each_change_of_a_verdict_is_a_line_within_the_limit_and_an_interval() {
    begin();
    let mount = FaultFs::mount("ok");
    let server = Server::start(&mount);
    let (interval, limit) = (Duration::from_millis(500), Duration::from_secs(2));
    let options = ["events", "-i", "0.5", "--stalled", "2s", "--above", "600ms", "--pid", &server.pid()];
    let events = Events(Series::start(fsynctop().args(options)));
    let (first, _) = events.until_state("ok");
    assert_eq!((&first["event"], first["pid"].to_string()), (&"verdict".into(), server.pid()));

    mount.control(&format!("hang on {LOG}"));
    mount.wait_for_hanging(1);
    let hung = Instant::now();
    let (in_flight, before) = events.until("hang", |event| event["event"] == "in_flight");
    assert_eq!(before, [] as [Value; 0]);
    assert_eq!((&in_flight["role"], &in_flight["op"]), (&"redo".into(), &"fdatasync".into()));
    assert!(in_flight["path"].as_str().unwrap().ends_with(LOG), "{in_flight:#}");
    let (stalled, before) = events.until_state("stalled");
    let took = hung.elapsed();
    assert!(took >= limit - interval && took <= limit + interval + SLACK, "{took:?}");
    println!("from the hang to the verdict: {took:?}, of which the limit is {limit:?}");
    assert_eq!(before, [] as [Value; 0], "a hang is told once");
    assert_eq!(stalled["from"], "ok");
    for line in [&in_flight, &stalled] {
        let stack = line["stack"].as_array().unwrap_or_else(|| panic!("no stack: {line:#}"));
        assert!(stack.iter().any(|frame| frame.as_str().unwrap().contains("fuse")), "{line:#}");
        assert_eq!(line["waits_for"], "the FUSE server's answer", "{line:#}");
    }

    mount.control("ok\nrelease");
    let (well, before) = events.until_state("ok");
    assert_eq!(well["from"], "stalled");
    let (slow, _) = match before.into_iter().find(|event| event["event"] == "slow") {
        Some(slow) => (slow, Vec::new()),
        None => events.until("slow sync", |event| event["event"] == "slow"),
    };
    assert!(slow["latency_seconds"].as_f64().unwrap() >= 2.0, "{slow:#}");
    assert_eq!((&slow["count"], &slow["latency_is_exact"]), (&1.into(), &true.into()));

    mount.control(&format!("fail EIO on {LOG}"));
    let (failing, mut before) = events.until_state("failing");
    assert_eq!(failing["verdict"]["because"]["errno"], "EIO", "{failing:#}");
    mount.control("ok");
    before.extend(events.until("failure", |event| event["event"] == "failed").1);
    // It syncs well again, and is failing for as long as it has the file open.
    std::thread::sleep(4 * interval);
    fs::write(mount.path().join("reopen"), "").unwrap();
    let (well, before) = events.until_state("ok");
    assert_eq!(well["from"], "failing");
    assert!(before.iter().all(|event| event["event"] == "failed"), "{before:?}");

    drop(server);
    events.until("end", |event| event["event"] == "ended");
    let (_, _, status) = events.0.interrupt();
    assert_eq!(status.code(), Some(0));
}
