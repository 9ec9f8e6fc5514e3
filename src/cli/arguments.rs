//! What the program is asked to do, by all places together: the command line first, then the environment, the
//! exporter's own file, and fsynctop.toml.

use std::env;
use std::ffi::OsString;

use clap::{ArgMatches, Command, FromArgMatches};

use super::root::{Action, Arguments, OLD_FORMS};
use super::settings::config::{Configuration, Sources, is_given};
use super::settings::exporter;
use super::settings::options::FileError;
use super::words;

#[derive(Debug, thiserror::Error)]
pub(super) enum ArgumentsError {
    /// Bad usage, or a text that was asked for: says so itself.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    #[error(transparent)]
    File(#[from] FileError),
}

/// What was asked for, and what the files had a part in.
#[derive(Debug)]
pub(super) struct Asked {
    pub arguments: Arguments,
    pub configuration: Configuration,
    /// Of the action, as they stand on the command line and in the environment.
    pub given: ArgMatches,
}

pub(super) fn parse(command: Command, words: &[OsString]) -> Result<Asked, ArgumentsError> {
    let is_set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).is_some();
    parse_with(command, words, &is_set, &|action, matches| Sources::of(action, matches))
}

/// `is_set`: whether there is an environment variable.
fn parse_with(
    command: Command,
    words: &[OsString],
    is_set: &dyn Fn(&str) -> bool,
    sources: &dyn Fn(&str, &ArgMatches) -> Sources,
) -> Result<Asked, ArgumentsError> {
    let mut words = words::in_order(&command, words);
    let mut command = exporter::with_environment(command, is_set);
    let matches = command.clone().try_get_matches_from(&words)?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    let (action, given) = match (&arguments.action, matches.subcommand()) {
        (
            Some(
                Action::Help { .. }
                | Action::ExporterWeb
                | Action::ExporterRecorder
                | Action::ExecWhenTold { .. },
            ),
            _,
        ) => {
            return Ok(Asked { arguments, configuration: Configuration::default(), given: matches });
        }
        (_, Some((action, given))) => (action, given.clone()),
        (_, None) => (arguments.plain.action(), matches.clone()),
    };
    let configuration = sources(action, &given).read(&command)?;
    let mut in_file = Vec::new();
    if let Some(path) = exporter::file_of(&matches) {
        (command, in_file) = exporter::with_file(command, &path)?;
    }
    let written = matches.subcommand().is_some();
    let is_old_form = || OLD_FORMS.iter().any(|id| is_given(&matches, id));
    let in_root = !written && (action != "top" || is_old_form());
    if !written && !in_root {
        // The live view's settings are those of `top`, which has some options more than the program itself.
        words.insert(1.min(words.len()), action.into());
    }
    let is_given = |id: &str| is_given(&given, id) || in_file.iter().any(|file| file == id);
    let command = configuration.apply(command, action, in_root, &is_given);
    let matches = command.try_get_matches_from(&words)?;
    Ok(Asked { arguments: Arguments::from_arg_matches(&matches)?, configuration, given })
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
