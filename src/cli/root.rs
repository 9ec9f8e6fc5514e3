//! The command line as a whole: the actions, and what stands without one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory, Parser, Subcommand};

use super::ack::Ack;
use super::calibrate::Calibrate;
use super::check::Check;
use super::events::Events;
use super::exit::{BAD_USAGE, Exit};
use super::explain::Explain;
use super::export::Export;
use super::exporter::Exporter;
use super::history::History;
use super::manual;
use super::named;
use super::once::Once;
use super::options::TargetArgs;
use super::plain::Plain;
use super::record::Record;
use super::segments::Segments;
use super::session;
use super::settings::config;
use super::shell;
use super::status::Status;
use super::stuck::Stuck;
use super::top::Top;
use super::verify::Verify;
use super::words;
use crate::engine::engines::Engines;
use crate::probe::build_info;
use crate::server::who::naming::GivenName;
use crate::text::escape;

const USAGE: &str = "fsynctop [ACTION] [SERVER] [OPTIONS]";

/// Shows which files database servers sync, how long it takes, what hangs.
///
/// Traces the sync calls of MySQL, MariaDB, PostgreSQL, etcd, Redis, Valkey, Kafka, ZooKeeper and others:
/// which files, how often, how long, what failed, what is stuck. Without an action, shows them live, as `top`
/// does for processes; `fsynctop once` measures for a while and prints. Attaches to the servers that run,
/// changes nothing in them, and detaches when it ends. Needs root, or the capabilities that `fsynctop check`
/// names.
#[derive(Debug, Parser)]
#[command(
    version,
    long_version = build_info().to_string(),
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    override_usage = USAGE,
    subcommand_value_name = "ACTION",
    subcommand_help_heading = "Actions"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub plain: Plain,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Measure for a while, or for as long as a command runs, and print
    ///
    /// Ten seconds, another time, as long as a command runs, or a series of intervals; as a table,
    /// histograms, JSON or CSV.
    Once(Once),
    /// Show what an exporter on this host remembers, or a recording
    ///
    /// It traces nothing.
    History(History),
    /// Record all that is measured into a folder, to look at it later
    ///
    /// Until Ctrl-C, or for as long as a command runs. `fsynctop once` and `fsynctop history` show it, with
    /// --replay, also on another host and without rights.
    Record(Record),
    /// Say what a recording holds, and what of it is missing
    Segments(Segments),
    /// Copy a recording, or write it as CSV, JSON, HdrHistogram, Parquet
    ///
    /// All of it or a part. With --redact, without names, it can be attached to a public report.
    Export(Export),
    /// Say what works on this host, and if tracing does not, why
    ///
    /// Kernel, rights, probes, memory, configuration, servers and their files.
    Check(Check),
    /// Say why commits take as long as they do
    ///
    /// What the syncs wait for, and what the filesystem does meanwhile; what the throughput is made of; what
    /// of the settings' promises is kept.
    Explain(Explain),
    /// Trace permanently and serve Prometheus
    ///
    /// The daemon for every host. It also remembers the last minutes, for `fsynctop history` and the live
    /// view.
    Exporter(Exporter),
    /// Show live what is synced; the same as without an action
    ///
    /// What is stuck, what is slow, since when. It has some options more than without an action.
    Top(Top),
    /// Say how each server stands: ok, idle, slow, stalled, failing
    ///
    /// In a fraction of a second, from the memory of the exporter on this host; without one, from two seconds
    /// of tracing.
    Status(Status),
    /// Acknowledge the failures of a server
    ///
    /// It is failing no more until something fails again. The exporter on this host takes note of it.
    Ack(Ack),
    /// List the threads that are inside a sync call right now
    ///
    /// It needs no BPF, and works where tracing does not.
    Stuck(Stuck),
    /// Tell of changed verdicts, and of what is slow or fails
    ///
    /// A line for each, to standard output or to systemd's journal, until Ctrl-C: for people on a terminal,
    /// as JSON for programs to act on.
    Events(Events),
    /// Measure what one sync costs in a directory
    ///
    /// In every way that databases do it, alone and by many threads.
    Calibrate(Calibrate),
    /// Compare what is traced with what the server itself counts
    ///
    /// It fails if they differ.
    Verify(Verify),
    /// The help of an action. Clap's own would be one line more in a list that fits on a screen.
    #[command(hide = true)]
    Help { action: Option<String> },
    /// The child's side of `-- COMMAND`: waits until it is traced
    #[command(hide = true)]
    ExecWhenTold { pipe: PathBuf, command: Vec<OsString> },
    /// The exporter's process that serves: gets its sockets on standard input
    #[command(hide = true)]
    ExporterWeb,
    /// The exporter's process that records: gets a socket on standard input
    #[command(hide = true)]
    ExporterRecorder,
}

/// Options of [`Plain`] that the live view does not take: they only keep the old forms working.
pub(crate) const OLD_FORMS: [&str; 13] = [
    "once",
    "last",
    "duration",
    "count",
    "wait",
    "sort",
    "limit",
    "columns",
    "histogram",
    "output",
    "output_file",
    "fail_on",
    "command",
];

/// The command line as its help shows it.
pub fn command() -> Command {
    let command =
        OLD_FORMS.iter().fold(Arguments::command(), |command, id| command.mut_arg(id, |arg| arg.hide(true)));
    // The short help ends with where there is more: a line for that beside it would be one too many.
    let print = |name: &'static str, action| {
        Arg::new(name).long(name).action(action).help(format!("Print {name}")).hide_short_help(true)
    };
    let command = command
        // Clap's own has an empty line more: the short help fits on a screen.
        .help_template("{about-with-newline}{usage-heading} {usage}\n\n{all-args}{after-help}")
        .disable_help_flag(true)
        .arg(print("help", ArgAction::Help).short('h').global(true))
        .disable_version_flag(true)
        .arg(print("version", ArgAction::Version).short('V'))
        .mut_arg("interval", |arg| {
            arg.help("Refresh interval; + and - change it").help_heading("What to show")
        })
        .mut_args(|arg| match arg.get_id().as_str() {
            "by" | "stuck_after" | "color" | "no_unicode" => arg.help_heading("What to show"),
            _ => arg,
        });
    manual::with_manuals(config::with_options(command))
}

/// `fsynctop help`, `fsynctop help once`: as with --help.
pub(crate) fn help(action: Option<&str>) -> anyhow::Result<ExitCode> {
    if let Some(unknown) = action.filter(|action| command().find_subcommand(action).is_none()) {
        let message = format!("there is no action {}", escape(unknown.as_bytes()));
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    let words = ["fsynctop"].into_iter().chain(action).chain(["--help"]);
    match command().try_get_matches_from(words) {
        Err(help) => help.exit(),
        Ok(_) => unreachable!("--help ends with the help"),
    }
}

impl Arguments {
    /// Which processes, of whatever the action is; None: it selects none.
    fn targets(&mut self) -> Option<&mut TargetArgs> {
        Some(match &mut self.action {
            None => &mut self.plain.measure.trace.targets,
            Some(Action::Once(once)) => &mut once.trace.targets,
            Some(Action::Record(record)) => &mut record.trace.targets,
            Some(Action::Top(top)) => &mut top.trace.targets,
            Some(Action::Events(events)) => &mut events.trace.targets,
            Some(Action::Check(check)) => &mut check.trace.targets,
            Some(Action::Explain(explain)) => &mut explain.trace.targets,
            Some(Action::Exporter(exporter)) => &mut exporter.trace.targets,
            Some(Action::Verify(verify)) => &mut verify.trace.targets,
            Some(Action::Status(status)) => &mut status.trace.targets,
            Some(Action::Stuck(stuck)) => &mut stuck.targets,
            Some(
                Action::Ack(_)
                | Action::History(_)
                | Action::Segments(_)
                | Action::Export(_)
                | Action::Calibrate(_)
                | Action::Help { .. }
                | Action::ExecWhenTold { .. }
                | Action::ExporterWeb
                | Action::ExporterRecorder,
            ) => return None,
        })
    }

    /// The engines, with the user's own profiles; none for an action that selects no processes.
    pub(crate) fn engines(&mut self) -> anyhow::Result<Arc<Engines>> {
        self.targets().map_or_else(|| Ok(Arc::default()), |targets| session::engines(targets))
    }

    /// Gives a word that names servers its option. `words`: as they were typed.
    pub(crate) fn name_servers(&mut self, engines: &Arc<Engines>, words: &[OsString]) -> anyhow::Result<()> {
        let command = command();
        let actions: Vec<&str> = actions(&command).map(Command::get_name).collect();
        // Behind an action, no other is meant.
        let first = words::plain(&command, words).first().and_then(|word| word.to_str().map(str::to_owned));
        let typo = |word: &str| similar_action(word).filter(|_| first.as_deref() == Some(word));
        let given = self.given_names();
        if self.is_replay() {
            // Its servers do not run here.
            return Ok(());
        }
        self.targets().map_or(Ok(()), |targets| named::resolve(targets, &given, engines, &actions, typo))
    }

    fn is_replay(&self) -> bool {
        let replay = match &self.action {
            None => &self.plain.measure.replay,
            Some(Action::Once(once)) => &once.replay,
            Some(Action::Top(top)) => &top.replay,
            Some(Action::Status(status)) => &status.replay,
            Some(Action::Stuck(stuck)) => &stuck.replay,
            Some(Action::Events(events)) => &events.replay,
            Some(Action::Explain(explain)) => &explain.replay,
            Some(_) => return false,
        };
        replay.replay.is_some()
    }

    /// What the user calls servers, for the actions that can be told.
    fn given_names(&self) -> Vec<GivenName> {
        let names = match &self.action {
            None => &self.plain.measure.names,
            Some(Action::Once(once)) => &once.names,
            Some(Action::Record(record)) => &record.names,
            Some(Action::Top(top)) => &top.names,
            Some(Action::Events(events)) => &events.names,
            Some(Action::Exporter(exporter)) => &exporter.names,
            Some(Action::Status(status)) => &status.names,
            Some(_) => return Vec::new(),
        };
        names.server_name.clone()
    }
}

fn actions(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|action| !action.is_hide_set())
}

/// What clap says of a word that is almost an action, if it were asked for one.
fn similar_action(word: &str) -> Option<clap::Error> {
    let arguments = Arguments::command();
    let actions = actions(&arguments).map(|action| Command::new(action.get_name().to_owned()));
    let alone =
        Command::new("fsynctop").override_usage(USAGE).subcommands(actions).disable_help_subcommand(true);
    let error = alone.try_get_matches_from(["fsynctop", word]).err()?;
    error.get(ContextKind::SuggestedSubcommand).is_some().then_some(error)
}

/// The error, with where an option belongs that the action has not, or how a command is traced.
pub(crate) fn with_suggestion(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg).cloned() else { return error };
    let command = command();
    let suggestion = if error.kind() != ErrorKind::UnknownArgument {
        return error;
    } else if wrong.starts_with('-') {
        let is_it = |option: &Arg| {
            let long = option.get_long().is_some_and(|long| wrong.strip_prefix("--") == Some(long));
            let short = option.get_short().is_some_and(|short| wrong == format!("-{short}"));
            !option.is_hide_set() && (long || short)
        };
        let has_it = |action: &&Command| action.get_arguments().any(is_it);
        let homes: Vec<String> = actions(&command)
            .filter(has_it)
            .map(|action| format!("fsynctop {}", action.get_name()))
            .collect();
        if homes.is_empty() {
            return error;
        }
        error.remove(ContextKind::SuggestedArg);
        format!("'{wrong}' is an option of `{}`", homes.join("`, `"))
    } else {
        // Behind a word that names servers: both are taken for a command that lacks its `--`.
        let mut plain = words::plain(&command, words).into_iter().peekable();
        let action = plain.next_if(|word| command.find_subcommand(word).is_some());
        let action = action.and_then(|word| command.find_subcommand(word)).unwrap_or(&command);
        if action.get_positionals().all(|argument| argument.get_id() != "word") {
            return error;
        }
        let Some(at) = plain.next().and_then(|first| words.iter().position(|word| word == first)) else {
            return error;
        };
        let once = ["fsynctop", "once", "--"].map(OsString::from);
        let typed = shell::words(once.into_iter().chain(words[at..].iter().cloned()));
        format!("one word says which servers; a command is traced by `{typed}`")
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![suggestion.into()]));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::budget::Limit;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn nothing_is_left_without_a_word_of_explanation() {
        let command = Arguments::command();
        for command in std::iter::once(&command).chain(command.get_subcommands().filter(|c| !c.is_hide_set()))
        {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} of {}", argument.get_id(), command.get_name());
            }
        }
    }

    #[test]
    fn processor_time_has_a_limit_unless_it_is_switched_off() {
        let limit = |arguments: &[&str]| {
            let all = ["fsynctop", "-i", "1"].iter().chain(arguments);
            Arguments::try_parse_from(all).map(|parsed| parsed.plain.measure.long_run.max_cpu.0)
        };
        assert_eq!(limit(&[]).unwrap(), Some(Limit::default()));
        assert_eq!(limit(&["--max-cpu", "off"]).unwrap(), None);
        assert_eq!(limit(&["--max-cpu", "0.5%/30s"]).unwrap().unwrap().share, 0.005);
        assert!(limit(&["--max-cpu", "none"]).is_err());
    }

    #[test]
    fn the_action_that_was_probably_meant_is_suggested() {
        let suggested = |word: &str| similar_action(word).map(|error| error.to_string());
        for (wrong, meant) in
            [("expalin", "explain"), ("onec", "once"), ("histroy", "history"), ("verfy", "verify")]
        {
            let said = suggested(wrong).unwrap();
            assert!(said.contains(&format!("'{wrong}'")) && said.contains(&format!("'{meant}'")), "{said}");
        }
        for none in ["./load.sh", "mongod", "exec-when-tolt"] {
            assert_eq!(suggested(none), None);
        }
    }

    #[test]
    fn what_stands_in_the_wrong_place_is_said_with_where_it_belongs() {
        let said = |words: &[&str]| {
            let words: Vec<OsString> = ["fsynctop"].iter().chain(words).map(OsString::from).collect();
            let error = command().try_get_matches_from(words::in_order(&command(), &words)).unwrap_err();
            with_suggestion(error, &words).to_string()
        };
        for (words, tip) in [
            (&["--histogram", "explain"][..], "'--histogram' is an option of `fsynctop once`"),
            (&["explain", "-n", "3"], "'-n' is an option of `fsynctop once`"),
            (&["stuck", "--last", "1m"], "'--last' is an option of `fsynctop history`"),
            (&["./load.sh", "a b"], "a command is traced by `fsynctop once -- ./load.sh 'a b'`"),
            (&["once", "-d", "5", "sync", "x"], "a command is traced by `fsynctop once -- sync x`"),
        ] {
            let said = said(words);
            assert!(said.contains(tip), "{words:?}: {said}");
        }
        assert!(!said(&["--onec"]).contains("is an option of"));
        assert!(!said(&["history", "mysql"]).contains("a command is traced"));
    }

    #[test]
    fn contradictions_are_refused() {
        for bad in [
            &["fsynctop", "once", "-n", "3"][..],
            &["fsynctop", "once", "-i", "1", "-n", "0"],
            &["fsynctop", "once", "-d", "5", "--", "true"],
            &["fsynctop", "--ops", "write"],
        ] {
            assert!(Arguments::try_parse_from(bad).is_err(), "{bad:?}");
        }
        let good = ["fsynctop", "once", "--pid", "1,2", "--", "sleep", "--version"];
        let parsed = Arguments::try_parse_from(good).unwrap();
        let Some(Action::Once(once)) = parsed.action else { panic!("{parsed:?}") };
        assert_eq!(once.trace.targets.pid, [1, 2]);
        assert_eq!(once.command, ["sleep", "--version"]);
    }
}
