//! The command line: one file per subcommand, and what they share.

pub mod args;
pub mod check;
pub mod command;
pub mod once;
pub mod session;
pub mod stuck;

use std::process::ExitCode;

/// Exit statuses beside 0, done. 2, bad usage, is clap's.
pub const FAILED: u8 = 1;
pub const NOTHING_TO_TRACE: u8 = 3;

/// An error that ends the program with a status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Exit {
    pub status: u8,
    pub message: String,
}

/// Runs what the arguments ask for.
pub fn run(arguments: args::Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        None => once::run(&arguments.once),

        Some(args::Action::Check(ref check)) => check::run(check),
        Some(args::Action::Stuck(ref stuck)) => stuck::run(stuck),
        Some(args::Action::ExecWhenTold { ref pipe, ref command }) => command::exec_when_told(pipe, command),
    }
}
