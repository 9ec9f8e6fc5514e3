//! `fsynctop exporter` as a process, for tests that need root.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::faults::{finish, fsynctop, signal};
use super::wait_until;
use super::web::{curl, status};

pub struct Exporter {
    child: Option<Child>,
    pid: u32,
    log: Arc<Mutex<Vec<String>>>,
}

impl Exporter {
    /// Waits for nothing.
    pub fn spawn(arguments: &[&str]) -> Exporter {
        let mut command = fsynctop();
        Exporter::spawn_as(command.arg("exporter").args(arguments))
    }

    /// Any command that becomes an exporter.
    pub fn spawn_as(command: &mut Command) -> Exporter {
        // Others have theirs; whoever wants one says where.
        if !command.get_args().any(|argument| argument == "--socket") {
            command.env("FSYNCTOP_NO_SOCKET", "true");
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stderr, lines) = (child.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Exporter { pid: child.id(), child: Some(child), log }
    }

    /// With `--listen` on a free port of 127.0.0.1; returns when it traces.
    pub fn start(arguments: &[&str]) -> Exporter {
        let exporter = Exporter::spawn(&[&["--listen", "127.0.0.1:0"], arguments].concat());
        exporter.wait_until_ready();
        exporter
    }

    pub fn wait_until_ready(&self) {
        self.wait_for_line("attached by");
        wait_until("the exporter to be ready", || status(&[&self.url("/-/ready")]) == 200);
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// The first line of the log with this part.
    pub fn wait_for_line(&self, part: &str) -> String {
        let find = || self.log.lock().unwrap().iter().find(|line| line.contains(part)).cloned();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let ended = !Path::new(&format!("/proc/{}/fd/0", self.pid)).exists();
            if let Some(line) = find() {
                return line;
            }
            assert!(!ended && Instant::now() < deadline, "no {part:?} in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// On the first address that it listens on.
    pub fn url(&self, path: &str) -> String {
        let line = self.wait_for_line("listening on");
        let metrics = line.split_once("listening on ").unwrap().1;
        metrics.trim_end_matches("/metrics").to_owned() + path
    }

    pub fn get(&self, path: &str) -> String {
        String::from_utf8(curl(&[&self.url(path)]).stdout).unwrap()
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid, name);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Waits for its end; what it logged.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let child = self.child.take().unwrap();
        let output = finish(child, Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
        (output.status, self.log())
    }

    /// The numbers of the BPF programs that it holds.
    pub fn programs(&self) -> BTreeSet<u32> {
        let directory = format!("/proc/{}/fdinfo", self.pid);
        let texts = fs::read_dir(directory)
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
        texts.filter_map(|text| field(&text, "prog_id:")?.parse().ok()).collect()
    }

    /// A line of each thread's status, by thread name and number.
    pub fn threads(&self, wanted: &str) -> Vec<(String, String)> {
        status_lines(self.pid, wanted)
    }

    /// Bytes of memory that are its own: no other process shares them, no file backs them.
    pub fn private(&self) -> u64 {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).unwrap();
        field(&rollup, "Private_Dirty:").unwrap().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Bytes.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        field(&status, "VmRSS:").unwrap().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

/// A line of the status of each thread of a process, by thread name and number.
pub fn status_lines(pid: u32, wanted: &str) -> Vec<(String, String)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks
        .filter_map(|task| {
            let task = task.ok()?.path();
            let status = fs::read_to_string(task.join("status")).ok()?;
            let name = format!("{} {}", field(&status, "Name:")?, task.file_name()?.to_string_lossy());
            Some((name, field(&status, wanted)?))
        })
        .collect()
}

/// The processes that one has started.
pub fn children(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        field(&status, "PPid:").is_some_and(|parent| parent == pid.to_string())
    };
    numbers.filter(is_child).collect()
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Its web process would go on listening until it notices.
            let web = children(self.pid);
            let _ = child.kill();
            let _ = child.wait();
            for pid in web {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
                wait_until("the web process to end", || !Path::new(&format!("/proc/{pid}/fd/0")).exists());
            }
        }
    }
}
