//! The command line: a file for each action over the options that they share.

mod ack;
mod arguments;
mod calibrate;
mod check;
mod command;
pub mod connection;
mod events;
mod exit;
mod explain;
mod export;
mod exporter;
mod fail_on;
mod history;
pub mod manual;
mod named;
mod once;
pub mod one_server;
pub mod options;
mod output;
mod output_file;
mod own_counters;
mod plain;
mod progress;
mod record;
mod replay;
mod root;
mod segments;
mod session;
pub mod settings;
mod shell;
mod signals;
mod standing;
mod status;
mod stuck;
mod top;
mod verify;
mod wait_probes;
mod words;

#[cfg(test)]
mod absence_tests;
#[cfg(test)]
mod said_tests;

use std::process::ExitCode;

use arguments::ArgumentsError;
use exit::{Exit, FAILED, NeedsRoot};
use root::Action;
pub use root::command;

use crate::text::causes;

/// Does what the arguments ask for. An error is said on standard error.
pub fn run() -> ExitCode {
    act().unwrap_or_else(|error| {
        match error.downcast_ref::<NeedsRoot>() {
            Some(needs_root) => eprintln!("{needs_root}"),
            None => eprintln!("fsynctop: {}", causes(error.chain())),
        }
        ExitCode::from(error.downcast_ref::<Exit>().map_or(FAILED, |exit| exit.status))
    })
}

/// Reads the arguments, the environment and the configuration files. Bad usage ends the program here.
fn act() -> anyhow::Result<ExitCode> {
    let words: Vec<_> = std::env::args_os().collect();
    let mut asked = arguments::parse(root::command(), &words).map_err(|error| match error {
        ArgumentsError::Usage(usage) => root::with_suggestion(usage, &words).exit(),
        ArgumentsError::File(error) => Exit { status: exit::BAD_USAGE, message: error.to_string() },
    })?;
    let engines = asked.arguments.engines()?;
    asked.arguments.name_servers(&engines, &words)?;
    let Some(action) = asked.arguments.action else { return plain::run(asked.arguments.plain, engines) };
    match action {
        Action::Once(once) => once::run(&once, engines),
        Action::Record(record) => record::run(&record, engines),
        Action::Segments(segments) => segments::run(&segments),
        Action::Export(export) => export::run(&export),
        Action::History(history) => history::run(&history),
        Action::Top(top) => top::run(top, engines),
        Action::Events(events) => events::run(&events, engines),
        Action::Check(check) => check::run(&check, engines, &asked.configuration, &asked.given),
        Action::Explain(explain) => explain::run(&explain, engines),
        Action::Exporter(exporter) => exporter::run(exporter, engines),
        Action::Status(status) => status::run(&status, engines),
        Action::Ack(ack) => ack::run(ack),
        Action::Stuck(stuck) => stuck::run(&stuck, engines),
        Action::Calibrate(calibrate) => calibrate::run(&calibrate),
        Action::Verify(verify) => verify::run(&verify, engines),
        Action::Help { action } => root::help(action.as_deref()),
        Action::ExporterWeb => Ok(exporter::run_web()),
        Action::ExporterRecorder => Ok(exporter::run_recorder()),
        Action::ExecWhenTold { pipe, command } => command::exec_when_told(&pipe, &command),
    }
}
