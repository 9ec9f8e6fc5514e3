//! The programs that make syncs, delay them and let them hang; and measurements of what they do.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Running, wait_until};

/// No test waits longer for a program. The tool itself has to be far faster.
const LONG: Duration = Duration::from_secs(90);

pub fn fsynctop() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    // The environment of whoever runs the tests decides nothing. That their configuration does not is in
    // .cargo/config.toml.
    command.env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

/// A program of tools/, which stands beside fsynctop; it is built if it is not there yet.
pub fn tool(name: &str) -> PathBuf {
    static DIRECTORY: LazyLock<PathBuf> =
        LazyLock::new(|| Path::new(env!("CARGO_BIN_EXE_fsynctop")).parent().unwrap().to_owned());
    static BUILT: Once = Once::new();
    let path = DIRECTORY.join(name);
    BUILT.call_once(|| {
        if ["faultfs", "syncgen"].iter().any(|tool| !DIRECTORY.join(tool).exists()) {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--package", "faultfs", "--package", "syncgen"]);
            if DIRECTORY.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        }
    });
    assert!(path.exists(), "{path:?} is not built: cargo build --workspace");
    path
}

/// A file system whose syncs do what they are told to; unmounted in the end.
pub struct FaultFs {
    directory: tempfile::TempDir,
    serving: Running,
}

impl FaultFs {
    pub fn mount(control: &str) -> FaultFs {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(tool("faultfs"));
        command.arg(directory.path()).args(["--control", control]).stdout(Stdio::piped());
        let mut serving = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "faultfs cannot mount: {line}");
        FaultFs { directory, serving }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn control(&self, command: &str) {
        std::fs::write(self.path().join(".control"), command).unwrap();
    }

    /// From now on it answers on this processor only, and at once, whoever else would like to run there.
    pub fn pin(&self, processor: usize) {
        let pid = self.serving.0.id().to_string();
        super::disk::run("taskset", &["-a", "-c", "-p", &processor.to_string(), &pid]);
        super::disk::run("chrt", &["-a", "-f", "-p", "1", &pid]);
    }

    /// From now on it answers at once, whoever else would like to run.
    pub fn go_first(&self) {
        super::disk::run("chrt", &["-a", "-f", "-p", "1", &self.serving.0.id().to_string()]);
    }

    fn report(&self) -> String {
        std::fs::read_to_string(self.path().join(".control")).unwrap()
    }

    /// `sync` of coreutils makes exactly one call.
    pub fn hang_fdatasync(&self, file: &Path) -> Hung<'_> {
        self.hang(Command::new("sync").arg("--data").arg(file).stderr(Stdio::null()))
    }

    /// Starts a program and waits for its sync to hang.
    pub fn hang(&self, command: &mut Command) -> Hung<'_> {
        let hung = Hung { mount: self, running: Running(command.spawn().unwrap()) };
        self.wait_for_hanging(1);
        hung
    }

    pub fn wait_for_hanging(&self, n: u32) {
        let wanted = format!("hanging {n}");
        wait_until(&wanted, || self.report().lines().any(|line| line == wanted));
    }

    /// Whoever asks it anything from now on waits.
    pub fn freeze(&self) -> Frozen<'_> {
        signal(self.serving.0.id(), "STOP");
        Frozen(self)
    }
}

pub struct Frozen<'a>(&'a FaultFs);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        signal(self.0.serving.0.id(), "CONT");
    }
}

impl Drop for FaultFs {
    fn drop(&mut self) {
        // It fails what hangs and unmounts.
        signal(self.serving.0.id(), "TERM");
        let _ = self.serving.0.wait();
    }
}

fn signal_group(leader: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).args(["--", &format!("-{leader}")]).status();
    assert!(status.unwrap().success(), "process group {leader} has gone before it got {name}");
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
    assert!(status.success(), "process {pid} has gone before it got {name}");
}

/// A process with a sync that hangs. It cannot be killed before that is released.
pub struct Hung<'a> {
    mount: &'a FaultFs,
    running: Running,
}

impl<'a> Hung<'a> {
    /// Of a process whose syncs will hang.
    pub fn new(mount: &'a FaultFs, running: Running) -> Hung<'a> {
        Hung { mount, running }
    }

    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }
}

impl Drop for Hung<'_> {
    fn drop(&mut self) {
        let _ = self.running.0.kill();
        self.mount.control("ok\nrelease EIO");
    }
}

/// The end of a program, or a failed test if it does not come; then the program is killed.
pub fn finish(child: Child, within: Duration) -> Output {
    let pid = child.id();
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(within) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            panic!("process {pid} did not end within {within:?}");
        }
    }
}

pub fn output(command: &mut Command) -> Output {
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), LONG)
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Traces a command from its first to its last call: what fsynctop measured, and what the command printed.
pub fn trace(options: &[&str], command: &mut Command) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("measured");
    let mut once = fsynctop();
    once.args(["once", "--output", "json", "--output-file"]).arg(&file).args(options).arg("--");
    once.arg(command.get_program()).args(command.get_args());
    let output = output(&mut once);
    assert!(output.status.success(), "{output:?}");
    let measured = std::fs::read_to_string(file).unwrap();
    (serde_json::from_str(&measured).unwrap_or_else(|error| panic!("{error}: {measured}")), stdout(&output))
}

/// A run whose output is read while it measures. Killed in the end, with the command that it runs.
pub struct Series {
    running: Running,
    lines: Receiver<String>,
}

impl Series {
    pub fn start(command: &mut Command) -> Series {
        let mut running = Running(command.stdout(Stdio::piped()).process_group(0).spawn().unwrap());
        let out = running.0.stdout.take().unwrap();
        Series { lines: lines(out), running }
    }

    /// The next line; None when the program has ended.
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(LONG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("fsynctop prints nothing any more"),
        }
    }

    pub fn interval(&self) -> Option<Value> {
        Some(serde_json::from_str(&self.line()?).unwrap())
    }

    /// The first interval for which something holds.
    pub fn interval_in_which(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LONG;
        while Instant::now() < deadline {
            let interval = self.interval().unwrap_or_else(|| panic!("it ended before {what}"));
            if holds(&interval) {
                return interval;
            }
        }
        panic!("waited in vain for {what}");
    }

    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }

    /// Ctrl-C, which reaches a command as well: the rest of the output, how long it took to end, and the
    /// status.
    pub fn interrupt(mut self) -> (Vec<String>, Duration, std::process::ExitStatus) {
        signal_group(self.pid(), "INT");
        let began = Instant::now();
        let rest: Vec<String> = std::iter::from_fn(|| self.line()).collect();
        let status = self.running.0.wait().unwrap();
        (rest, began.elapsed(), status)
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        // Of a group that has ended nobody is left to be killed.
        let group = format!("-{}", self.pid());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    }
}

fn lines(out: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut line = String::new();
        while out.read_line(&mut line).is_ok_and(|n| n > 0) {
            if sender.send(line.trim_end_matches('\n').to_owned()).is_err() {
                break;
            }
            line.clear();
        }
        let _ = out.read_to_end(&mut Vec::new());
    });
    receiver
}

/// The only row of a list that has these values.
pub fn row<'a>(rows: &'a Value, wanted: &[(&str, &str)]) -> &'a Value {
    let has = |row: &&Value| wanted.iter().all(|(key, value)| row[key] == *value);
    let found: Vec<&Value> = rows.as_array().unwrap().iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{wanted:?} in {rows:#}");
    found[0]
}

/// That nothing was missed, and that this was checked.
pub fn assert_nothing_lost(measured: &Value) {
    // What other processes of the host do is theirs, and a call may have begun before the tracing.
    let lost = measured["lost"].as_object().unwrap().iter();
    for (what, n) in lost.filter(|(what, _)| !["neighbours_unwatched", "answered"].contains(&what.as_str())) {
        assert_eq!(n.as_f64(), Some(0.0), "lost {what}: {measured:#}");
    }
}
