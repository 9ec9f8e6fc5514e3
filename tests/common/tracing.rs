//! fsynctop run by a test: begun and ended when the test says so, with what it printed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::measured::Measured;
use super::server::{Counters, Database};

/// The server's own background syncs can fall between a reading of its counters and the edge of the tracing: then the
/// whole measurement is made again.
const ATTEMPTS: u32 = 6;

/// `fsynctop --once … -- COMMAND`, where the command does nothing but wait for the end.
pub struct Tracing {
    child: Child,
    /// Closing it ends the command, and so the tracing.
    end: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    messages: tempfile::NamedTempFile,
}

impl Tracing {
    /// Returns when every sync is counted from now on.
    pub fn begin<S: AsRef<OsStr>>(options: &[S]) -> Tracing {
        let messages = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
            .arg("--once")
            .args(options)
            .args(["--", "sh", "-c", "echo tracing; read _ || true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(messages.reopen().unwrap())
            .spawn()
            .unwrap();
        let end = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut tracing = Tracing { child, end, output, messages };
        let mut line = String::new();
        tracing.output.read_line(&mut line).unwrap();
        assert_eq!(line, "tracing\n", "{}", tracing.messages());
        tracing
    }

    /// Ends it, and returns what was printed.
    pub fn end(mut self) -> String {
        self.end.take().unwrap().write_all(b"\n").unwrap();
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}{}", self.messages());
        text
    }

    /// What it said beside its output.
    fn messages(&self) -> String {
        std::fs::read_to_string(self.messages.path()).unwrap()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // Of a test that failed.
        self.end = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures a load on a server: what was traced, as it was printed, and what the server itself counted in that time,
/// which is exactly the time of the tracing, because nothing was counted at its edges.
pub fn bracket(
    database: &mut Database,
    options: &[&str],
    mut load: impl FnMut(&Database),
) -> (String, Counters) {
    for attempt in 1..=ATTEMPTS {
        let pid = database.pid.to_string();
        let before = database.quiet_counters();
        let tracing = Tracing::begin(&[&["--pid", &pid], options].concat());
        let begun = database.counters();
        if begun != before {
            eprintln!("attempt {attempt}: the server synced while the tracing began");
            continue;
        }
        load(database);
        let quiet = database.quiet_counters();
        let text = tracing.end();
        let after = database.counters();
        if after == quiet {
            return (text, after.since(&before));
        }
        eprintln!("attempt {attempt}: the server synced while the tracing ended");
    }
    panic!("the server synced at an edge of the tracing {ATTEMPTS} times");
}

/// As [`bracket`], with the one measurement that was made.
pub fn measure(
    database: &mut Database,
    options: &[&str],
    load: impl FnMut(&Database),
) -> (Measured, Counters) {
    let (text, counters) = bracket(database, &[&["--output", "json"], options].concat(), load);
    (Measured::parse(&text), counters)
}
