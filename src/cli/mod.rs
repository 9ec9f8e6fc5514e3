//! The command line: one file per subcommand, and what they share.

pub mod args;
pub mod calibrate;
pub mod check;
pub mod command;
pub mod commit_watch;
pub mod connection;
pub mod explain;
pub mod exporter;
pub mod history;
pub mod once;
pub mod one_server;
pub mod session;
pub mod settings;
pub mod stuck;
pub mod top;
pub mod verify;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Context;

use history::History;

/// Exit statuses beside 0, done.
pub const FAILED: u8 = 1;
/// A wrong option, value, environment variable or configuration file.
pub const BAD_USAGE: u8 = 2;
pub const NOTHING_TO_TRACE: u8 = 3;
/// Not everything could be looked at. 4 is kept for a condition that is asked for.
pub const INCOMPLETE: u8 = 5;

/// An error that ends the program with a status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Exit {
    pub status: u8,
    pub message: String,
}

/// Reads the arguments, and for the exporter the environment and a file. Bad usage ends the program here.
pub fn arguments() -> anyhow::Result<args::Arguments> {
    settings::parse(std::env::args_os()).map_err(|error| match error {
        settings::SettingsError::Usage(usage) => usage.exit(),
        other => Exit { status: BAD_USAGE, message: other.to_string() }.into(),
    })
}

/// Runs what the arguments ask for.
pub fn run(arguments: args::Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        None => match arguments.plain.last {
            Some(length) => history::run(&History::from_old_form(arguments.plain, length)),
            None => top::run_plain(arguments.plain),
        },
        Some(args::Action::Once(ref once)) => once::run(once),
        Some(args::Action::History(ref history)) => history::run(history),
        Some(args::Action::Top(top)) => top::run(top),
        Some(args::Action::Check(ref check)) => check::run(check),
        Some(args::Action::Explain(ref explain)) => explain::run(explain),
        Some(args::Action::Exporter(exporter)) => exporter::run(exporter),
        Some(args::Action::Stuck(ref stuck)) => stuck::run(stuck),
        Some(args::Action::Calibrate(ref calibrate)) => calibrate::run(calibrate),
        Some(args::Action::Verify(ref verify)) => verify::run(verify),
        Some(args::Action::ExecWhenTold { ref pipe, ref command }) => command::exec_when_told(pipe, command),
    }
}

/// To standard output. A reader who has seen enough (`| head`) ends the program quietly.
fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.context("cannot write to standard output"),
    }
}
