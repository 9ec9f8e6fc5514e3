//! The exporter's options from two places beside the command line: the environment, and the TOML file of its
//! `--config`, which may have them all.

use std::env;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};

use super::options::{self, Complaint, FileError};
use super::places::{self, Owner};

pub(in super::super) const EXPORTER: &str = "exporter";
const CONFIG: &str = "config";
const NO_CONFIG: &str = "no_config";
/// In the environment, for what starts fsynctop many times: a script, or the tests, which must not depend on
/// the machine's own file.
pub(super) const NO_CONFIG_VARIABLE: &str = "FSYNCTOP_NO_CONFIG";
const PREFIX: &str = "FSYNCTOP_";

/// The file that the arguments or the environment name.
pub(in super::super) fn file_of(matches: &ArgMatches) -> Option<PathBuf> {
    let (action, matches) = matches.subcommand()?;
    (action == EXPORTER).then(|| matches.get_one::<PathBuf>(CONFIG).cloned()).flatten()
}

/// Variables in the environment that look like an option of the exporter and are none.
pub(in super::super) fn unknown_variables(exporter: &Command) -> Vec<String> {
    let known: Vec<String> = options_of(exporter).map(variable).collect();
    let given = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    given
        .filter(|name| name.starts_with(PREFIX) && name != NO_CONFIG_VARIABLE && !known.contains(name))
        .collect()
}

fn variable(argument: &Arg) -> String {
    format!("{PREFIX}{}", argument.get_id().as_str().to_uppercase())
}

/// What has a name: a word of the command line has no place in the environment or in a file.
fn options_of(exporter: &Command) -> impl Iterator<Item = &Arg> {
    exporter.get_arguments().filter(|argument| !argument.is_positional())
}

fn exporter(command: &Command) -> &Command {
    command.find_subcommand(EXPORTER).expect("it is defined in root.rs")
}

/// Each option of the exporter, and of nothing else, has a variable. `is_set`: whether there is one; an empty
/// one is none.
pub(in super::super) fn with_environment(command: Command, is_set: &dyn Fn(&str) -> bool) -> Command {
    command.mut_subcommand(EXPORTER, |exporter| {
        exporter.mut_args(|argument| {
            let variable = variable(&argument);
            if is_set(&variable) && !argument.is_positional() {
                argument.env(variable).hide_env(true)
            } else {
                argument
            }
        })
    })
}

/// The command with the file's values as defaults, and the ids of the options that are in it.
pub(in super::super) fn with_file(
    command: Command,
    path: &Path,
) -> Result<(Command, Vec<String>), FileError> {
    let user = Owner(rustix::process::geteuid().as_raw());
    let missing = || FileError::Unreadable { path: path.to_owned(), source: rustix::io::Errno::NOENT.into() };
    let text = places::read(path, user)?.ok_or_else(missing)?;
    let found = read(&command, &text).map_err(|complaint| options::invalid(path, &text, complaint))?;
    let ids = found.iter().map(|(id, _)| id.clone()).collect();
    let command = command.mut_subcommand(EXPORTER, |exporter| {
        // A flag that is off is as it would be anyway.
        let found = found.into_iter().filter(|(_, values)| !values.is_empty());
        found.fold(exporter, |exporter, (id, values)| {
            exporter.mut_arg(id, |argument| argument.default_values(values))
        })
    });
    Ok((command, ids))
}

/// The options in the file, by their ids in clap, each with values that it takes.
fn read(command: &Command, text: &str) -> Result<Vec<(String, Vec<String>)>, Complaint> {
    let mut found = Vec::new();
    for (key, value) in options::table(text)? {
        let option = find(exporter(command), key.get_ref()).map_err(|message| (key.span().start, message))?;
        let complain = |message| (value.span().start, message);
        let values = options::values(option, &value).map_err(complain)?;
        if !values.is_empty() {
            options::accepts(command, &["fsynctop", EXPORTER], option, &values).map_err(complain)?;
        }
        found.push((option.get_id().to_string(), values));
    }
    Ok(found)
}

fn find<'a>(exporter: &'a Command, key: &str) -> Result<&'a Arg, String> {
    let candidates =
        || options_of(exporter).filter(|option| option.get_id() != CONFIG && option.get_id() != NO_CONFIG);
    let found = candidates().find(|option| option.get_long() == Some(key));
    found.ok_or_else(|| options::unknown(key, &candidates().filter_map(Arg::get_long).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, FromArgMatches};

    use super::*;
    use crate::cli::exporter::Exporter;
    use crate::cli::root::{self, Action, Arguments};
    use std::fs;

    fn parse(text: &str) -> Exporter {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.toml");
        fs::write(&path, text).unwrap();
        let (command, _) = with_file(root::command(), &path).unwrap();
        let matches = command.try_get_matches_from(["fsynctop", EXPORTER]).unwrap();
        match Arguments::from_arg_matches(&matches).unwrap().action {
            Some(Action::Exporter(exporter)) => exporter,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_example_names_every_option_with_its_default() {
        const EXAMPLE: &str = include_str!("../../../examples/exporter.toml");
        // Without a space behind the sign, it is an option and not a sentence.
        let is_option = |line: &&str| line.starts_with(|first: char| first.is_ascii_lowercase());
        let lines = EXAMPLE.lines().filter_map(|line| line.strip_prefix('#')).filter(is_option);
        let uncommented: String = lines.map(|line| line.to_owned() + "\n").collect();
        let given = read(&root::command(), &uncommented).unwrap_or_else(|(at, error)| {
            panic!("{error}: {}", &uncommented[at..]);
        });
        let given: Vec<_> = given.into_iter().map(|(id, _)| id).collect();
        let command = root::command();
        let options = options_of(exporter(&command));
        for option in options.filter(|option| option.get_id() != CONFIG && option.get_id() != NO_CONFIG) {
            let name = option.get_long().unwrap();
            let is_named = uncommented.lines().any(|line| line.starts_with(&format!("{name} = ")));
            assert!(is_named, "no line for {name}");
            let flag = matches!(option.get_action(), ArgAction::SetTrue);
            let has_value = given.iter().any(|id| option.get_id() == id);
            assert!(flag || has_value, "{name} has no value");
        }
        // What has a default stands there with it, but for what says how it is written.
        let defaults = parse("");
        let shown = parse(&uncommented.replace("pid = [4711]\n", "").replace("server = [\"3306\"]\n", ""));
        let figures = |exporter: &Exporter| {
            format!(
                "{:?} {} {} {:?} {:?} {:?} {:?} {} {} {:?} {} {} {:?}",
                exporter.interval,
                exporter.file_limit,
                exporter.no_file_metrics,
                exporter.history,
                exporter.trace.ops,
                exporter.trace.writes,
                exporter.trace.attach,
                exporter.trace.max_files,
                exporter.trace.max_histograms,
                exporter.long_run.max_cpu,
                exporter.trace.verbose,
                exporter.trace.targets.all,
                [exporter.verdict_stalled, exporter.verdict_slow, exporter.verdict_slow_for],
            )
        };
        assert_eq!(figures(&shown), figures(&defaults));
    }
}
