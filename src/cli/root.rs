//! The command line as a whole: the actions, and what stands without one.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, Parser, Subcommand};

use super::calibrate::Calibrate;
use super::check::Check;
use super::events::Events;
use super::explain::Explain;
use super::exporter::Exporter;
use super::history::History;
use super::manual;
use super::once::Once;
use super::plain::Plain;
use super::settings::config;
use super::stuck::Stuck;
use super::top::Top;
use super::verify::Verify;
use crate::probe::build_info;

/// Shows which files database servers sync, how long it takes, what hangs.
///
/// Traces the sync calls of MySQL, MariaDB, PostgreSQL, etcd, Redis, Valkey and others: which files, how
/// often, how long, what failed, what is stuck. Without an action, shows them live, as `top` does for
/// processes; `fsynctop once` measures for a while and prints. Attaches to the servers that run, changes
/// nothing in them, and detaches when it ends. Needs root, or the capabilities that `fsynctop check` names.
#[derive(Debug, Parser)]
#[command(
    version,
    long_version = build_info().to_string(),
    args_conflicts_with_subcommands = true,
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
    /// Show the last minutes, as an exporter on this host remembers them
    ///
    /// It traces nothing.
    History(History),
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
    /// List the threads that are inside a sync call right now
    ///
    /// It needs no BPF and works where nothing else does.
    Stuck(Stuck),
    /// Tell of changed verdicts, and of what is slow or fails
    ///
    /// A JSON line for each, to standard output or to systemd's journal, until Ctrl-C. For programs to act
    /// on.
    Events(Events),
    /// Measure what one sync costs in a directory
    ///
    /// In every way that databases do it, alone and by many threads.
    Calibrate(Calibrate),
    /// Compare what is traced with what the server itself counts
    ///
    /// It fails if they differ.
    Verify(Verify),
    /// The child's side of `-- COMMAND`: waits until it is traced
    #[command(hide = true)]
    ExecWhenTold { pipe: PathBuf, command: Vec<OsString> },
    /// The exporter's process that serves: gets its sockets on standard input
    #[command(hide = true)]
    ExporterWeb,
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
    let command = command
        .mut_arg("interval", |arg| {
            arg.help("From one snapshot to the next; + and - change it").help_heading("What to show")
        })
        .mut_args(|arg| match arg.get_id().as_str() {
            "by" | "stuck_after" | "color" | "no_unicode" => arg.help_heading("What to show"),
            _ => arg,
        });
    manual::with_manuals(config::with_options(command))
}

/// The action that was probably meant, beside the error. Clap takes a first word that is no action for a
/// command that lacks its `--`, and suggests nothing; so it is asked as if there were actions alone.
pub(crate) fn with_suggestion(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let Some(word) = arguments.get(1).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'))
    else {
        return error;
    };
    if error.get(ContextKind::InvalidArg) != Some(&ContextValue::String(word.to_owned())) {
        return error;
    }
    let arguments = Arguments::command();
    let actions = arguments.get_subcommands().filter(|action| !action.is_hide_set());
    let actions = actions.map(|action| Command::new(action.get_name().to_owned()));
    let guess = Command::new("fsynctop").subcommands(actions).try_get_matches_from(["fsynctop", word]);
    let similar = guess.err().and_then(|guess| guess.get(ContextKind::SuggestedSubcommand).cloned());
    if let Some(similar) = similar {
        error.insert(ContextKind::SuggestedSubcommand, similar);
    }
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
        let said = |words: &[&str]| {
            let words: Vec<OsString> = ["fsynctop"].iter().chain(words).map(OsString::from).collect();
            let error = command().try_get_matches_from(&words).unwrap_err();
            with_suggestion(error, &words).to_string()
        };
        for (wrong, meant) in
            [("expalin", "explain"), ("onec", "once"), ("histroy", "history"), ("verfy", "verify")]
        {
            let said = said(&[wrong, "-d", "1"]);
            assert!(said.contains(&format!("'{wrong}'")) && said.contains(&format!("'{meant}'")), "{said}");
        }
        for none in [&["./load.sh"][..], &["once", "onec"], &["--onec"], &["exec-when-tolt"]] {
            assert!(!said(none).contains("subcommand exists"), "{none:?}: {}", said(none));
        }
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
