//! fsynctop run by a test: begun and ended when the test says so, with what it printed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::disk::run;
use super::measured::Measured;
use super::wait_until;

pub struct Tracing {
    child: Child,
    /// Of the traced command, which waits for it: closing it ends the command, and so the tracing.
    end: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    messages: tempfile::NamedTempFile,
}

impl Tracing {
    /// `fsynctop once … -- COMMAND`, where the command does nothing but wait for the end. Returns when every
    /// sync is counted from now on.
    pub fn begin<S: AsRef<OsStr>>(options: &[S]) -> Tracing {
        let mut command = once();
        command.args(options).args(["--", "sh", "-c", "echo tracing; read _ || true"]);
        let mut tracing = Tracing::spawn(command.stdin(Stdio::piped()));
        let mut line = String::new();
        tracing.output.read_line(&mut line).unwrap();
        assert_eq!(line, "tracing\n", "{}", tracing.messages());
        tracing
    }

    /// `fsynctop once --wait …`, which ends by Ctrl-C. Returns when it waits, and so counts.
    pub fn waiting<S: AsRef<OsStr>>(options: &[S]) -> Tracing {
        let mut command = once();
        let tracing = Tracing::spawn(command.args(["--wait", "--duration", "1h"]).args(options));
        wait_until("fsynctop to wait", || tracing.messages().contains("waiting for "));
        tracing
    }

    /// `fsynctop once --pid …`, a series that ends by Ctrl-C. Returns after the first line of its first
    /// result, and so counts.
    pub fn of_pid<S: AsRef<OsStr>>(pid: &str, options: &[S]) -> Tracing {
        let mut command = once();
        let mut tracing = Tracing::spawn(command.args(["--interval", "0.5", "--pid", pid]).args(options));
        tracing.output.read_line(&mut String::new()).unwrap();
        tracing
    }

    fn spawn(command: &mut Command) -> Tracing {
        let messages = tempfile::NamedTempFile::new().unwrap();
        let command = command.stdout(Stdio::piped()).stderr(messages.reopen().unwrap());
        let mut child = command.spawn().unwrap();
        let end = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Tracing { child, end, output, messages }
    }

    /// Ends it, and returns what was printed.
    pub fn end(mut self) -> String {
        match self.end.take() {
            Some(mut end) => end.write_all(b"\n").unwrap(),
            None => run("kill", &["-INT", &self.child.id().to_string()]),
        }
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}{}", self.messages());
        text
    }

    /// Ends it, and returns its measurements, of which there are several in a series.
    pub fn measured(self) -> Vec<Measured> {
        self.end().lines().map(Measured::parse).collect()
    }

    /// The same of one that makes a single measurement.
    pub fn one(self) -> Measured {
        let [measured] = self.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
        measured
    }

    /// What it said beside its output.
    fn messages(&self) -> String {
        std::fs::read_to_string(self.messages.path()).unwrap()
    }
}

fn once() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.arg("once");
    command
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // Of a test that failed.
        self.end = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
