//! A workload of known syncs under fsynctop. The test runs itself again as the traced command, so that the
//! workload stands in the test, beside what is expected of it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Output, Stdio};

use super::measured::Measured;
use super::{Running, needs};

const DIRECTORY: &str = "FSYNCTOP_TEST_DIRECTORY";

/// A test whose workload runs in a process of its own.
pub struct Traced {
    /// The test's own, with its modules.
    name: String,
}

/// What fsynctop and the command did.
pub struct Run {
    pub output: Output,
    /// One for each interval.
    pub measured: Vec<Measured>,
}

impl Traced {
    /// Begins the test that calls it. In the process that is traced, this runs the workload and does not
    /// return.
    pub fn begin(workload: impl FnOnce(&Path)) -> Traced {
        if let Some(directory) = std::env::var_os(DIRECTORY) {
            workload(Path::new(&directory));
            std::process::exit(0);
        }
        needs(&[]);
        let thread = std::thread::current();
        let name = thread.name().expect("the test harness names each test's thread after the test");
        Traced { name: name.to_owned() }
    }

    /// The command that runs the workload in a directory.
    pub fn command(&self, directory: &Path) -> Vec<PathBuf> {
        let mut assignment = DIRECTORY.as_bytes().to_vec();
        assignment.push(b'=');
        assignment.extend(directory.as_os_str().as_bytes());
        let program = std::env::current_exe().unwrap();
        vec![
            "env".into(),
            OsStr::from_bytes(&assignment).into(),
            program,
            "--include-ignored".into(),
            "--exact".into(),
            self.name.as_str().into(),
            "--nocapture".into(),
        ]
    }

    /// Measures the workload from its first sync to its last.
    pub fn measure(&self, directory: &Path, options: &[&str]) -> Measured {
        let run = measure(options, &self.command(directory));
        assert!(run.output.status.success(), "{:?}", run.output);
        let [measured] =
            run.measured.try_into().unwrap_or_else(|_| panic!("one measurement: {:?}", run.output));
        measured
    }
}

/// `fsynctop once --output json OPTIONS -- COMMAND`.
pub fn measure<S: AsRef<OsStr>>(options: &[&str], command: &[S]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("measured.json");
    let output = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["once", "--output", "json", "--output-file"])
        .arg(&file)
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let measured = text.lines().map(Measured::parse).collect();
    Run { output, measured }
}

/// A workload that is watched while it runs, an interval at a time. It reads commands from standard input.
pub struct Live {
    fsynctop: Running,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Live {
    pub fn start<S: AsRef<OsStr>>(interval: &str, options: &[&str], command: &[S]) -> Live {
        let child = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
            .args(["once", "--output", "json", "--max-cpu", "off", "-i", interval])
            .args(options)
            .arg("--")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut fsynctop = Running(child.unwrap());
        let commands = fsynctop.0.stdin.take().unwrap();
        let lines = BufReader::new(fsynctop.0.stdout.take().unwrap()).lines();
        Live { fsynctop, commands, lines }
    }

    pub fn pid(&self) -> u32 {
        self.fsynctop.0.id()
    }

    /// Sends the workload a line.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.commands, "{line}").unwrap();
    }

    /// Ends the workload's standard input, by which it ends; the intervals that are left, and whether all
    /// went well.
    pub fn end(self) -> (Vec<Measured>, bool) {
        let Live { mut fsynctop, commands, lines } = self;
        drop(commands);
        let left = Intervals(lines).collect();
        (left, fsynctop.0.wait().unwrap().success())
    }
}

impl Iterator for Live {
    type Item = Measured;

    fn next(&mut self) -> Option<Measured> {
        next_interval(&mut self.lines)
    }
}

struct Intervals(Lines<BufReader<ChildStdout>>);

impl Iterator for Intervals {
    type Item = Measured;

    fn next(&mut self) -> Option<Measured> {
        next_interval(&mut self.0)
    }
}

/// What the workload itself prints is passed over.
fn next_interval(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<Measured> {
    lines.map(Result::unwrap).find(|line| line.starts_with("{\"schema\"")).map(|line| Measured::parse(&line))
}
