//! The exporter's options from three places: command line, environment, and a TOML file with the same names,
//! in this order. What stands in the file becomes the default of the option, so that it is read, checked and
//! overridden as one.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const EXPORTER: &str = "exporter";
const CONFIG: &str = "config";
const PREFIX: &str = "FSYNCTOP_";

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Bad usage, or a text that was asked for: says so itself.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    #[error("cannot read the configuration file {path}: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}: {message}", path = path.display())]
    Invalid { path: PathBuf, line: usize, message: String },
}

/// What the arguments, the environment and the file that they name ask for.
pub fn parse<A: FromArgMatches>(
    command: Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<A, SettingsError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    parse_in(command, arguments, &|name| env::var_os(name).filter(|value| !value.is_empty()).is_some())
}

/// `is_set`: whether there is an environment variable. An empty one is none.
fn parse_in<A: FromArgMatches>(
    command: Command,
    arguments: Vec<OsString>,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<A, SettingsError> {
    let command = with_environment(command, is_set);
    let matches = command.clone().try_get_matches_from(&arguments)?;
    let matches = match file_of(&matches) {
        None => matches,
        Some(path) => with_file(command, &path)?.try_get_matches_from(&arguments)?,
    };
    Ok(A::from_arg_matches(&matches)?)
}

fn file_of(matches: &ArgMatches) -> Option<PathBuf> {
    let (action, matches) = matches.subcommand()?;
    (action == EXPORTER).then(|| matches.get_one::<PathBuf>(CONFIG).cloned()).flatten()
}

/// Variables in the environment that look like an option of the exporter and are none.
pub(crate) fn unknown_variables(exporter: &Command) -> Vec<String> {
    let known: Vec<String> = exporter.get_arguments().map(variable).collect();
    let given = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    given.filter(|name| name.starts_with(PREFIX) && !known.contains(name)).collect()
}

fn variable(argument: &Arg) -> String {
    format!("{PREFIX}{}", argument.get_id().as_str().to_uppercase())
}

fn exporter(command: &Command) -> &Command {
    command.find_subcommand(EXPORTER).expect("it is defined in root.rs")
}

/// Each option of the exporter, and of nothing else, has a variable.
fn with_environment(command: Command, is_set: &dyn Fn(&str) -> bool) -> Command {
    command.mut_subcommand(EXPORTER, |exporter| {
        exporter.mut_args(|argument| {
            let variable = variable(&argument);
            if is_set(&variable) { argument.env(variable).hide_env(true) } else { argument }
        })
    })
}

fn with_file(command: Command, path: &Path) -> Result<Command, SettingsError> {
    let text = fs::read_to_string(path)
        .map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
    let defaults = read(&command, &text).map_err(|(offset, message)| SettingsError::Invalid {
        path: path.to_owned(),
        line: text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1,
        message,
    })?;
    Ok(command.mut_subcommand(EXPORTER, |exporter| {
        defaults.into_iter().fold(exporter, |exporter, (id, values)| {
            exporter.mut_arg(id, |argument| argument.default_values(values))
        })
    }))
}

/// A message and the byte of the file it is about.
type Complaint = (usize, String);

/// The options in the file, by their ids in clap, each with values that it takes.
fn read(command: &Command, text: &str) -> Result<Vec<(String, Vec<String>)>, Complaint> {
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let mut options = Vec::new();
    for (key, value) in table.into_inner() {
        let option = find(exporter(command), key.get_ref()).map_err(|message| (key.span().start, message))?;
        let values = values(option, &value).map_err(|message| (value.span().start, message))?;
        if !values.is_empty() {
            accepts(command, option, &values).map_err(|message| (value.span().start, message))?;
            options.push((option.get_id().to_string(), values));
        }
    }
    Ok(options)
}

fn find<'a>(exporter: &'a Command, key: &str) -> Result<&'a Arg, String> {
    let options = || exporter.get_arguments().filter(|option| option.get_id() != CONFIG);
    let has_name = |option: &&Arg, name: &str| option.get_long() == Some(name);
    if let Some(option) = options().find(|option| has_name(option, key)) {
        return Ok(option);
    }
    let key = crate::text::escape(key.as_bytes());
    let meant = key.replace('_', "-");
    if options().any(|option| has_name(&option, &meant)) {
        return Err(format!("unknown key {key}: it is written {meant}"));
    }
    let known: Vec<_> = options().filter_map(Arg::get_long).collect();
    Err(format!("unknown key {key}; known are: {}", known.join(", ")))
}

/// As they would be written on the command line. None for a flag that is off.
fn values(option: &Arg, value: &Spanned<DeValue>) -> Result<Vec<String>, String> {
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    match (value.get_ref(), is_flag) {
        (DeValue::Boolean(true), true) => Ok(vec!["true".into()]),
        (DeValue::Boolean(false), true) => Ok(Vec::new()),
        (_, true) => Err("true or false is expected".into()),
        (DeValue::Array(_), false) if !matches!(option.get_action(), ArgAction::Append) => {
            Err("one value is expected, not several".into())
        }
        (DeValue::Array(array), false) => array.iter().map(|one| scalar(one.get_ref())).collect(),
        (one, false) => Ok(vec![scalar(one)?]),
    }
}

fn scalar(value: &DeValue) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        _ => Err("a text or a number is expected".into()),
    }
}

/// Asks clap, as if the option stood alone on the command line.
fn accepts(command: &Command, option: &Arg, values: &[String]) -> Result<(), String> {
    let name = option.get_long().unwrap_or_default();
    let words = match option.get_action() {
        ArgAction::SetTrue => vec![format!("--{name}")],
        _ => values.iter().map(|value| format!("--{name}={value}")).collect(),
    };
    let words = ["fsynctop".to_owned(), EXPORTER.to_owned()].into_iter().chain(words);
    match command.clone().try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.render().to_string();
            // The message and, on a line of its own, what is possible; how to use the command line is no help
            // here.
            let lines: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            Err(lines.join(" ").trim_start_matches("error: ").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exporter::Exporter;
    use super::super::root::{self, Action, Arguments};
    use super::*;
    use std::time::Duration;

    fn parse(file: &str, arguments: &[&str]) -> Result<Exporter, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.toml");
        fs::write(&path, file).unwrap();
        let words = ["fsynctop", "exporter", "--config", path.to_str().unwrap()];
        let words = words.iter().chain(arguments).map(OsString::from).collect();
        let parsed: Result<Arguments, _> = parse_in(root::command(), words, &|_| false);
        match parsed.map_err(|error| error.to_string())?.action {
            Some(Action::Exporter(exporter)) => Ok(exporter),
            other => panic!("{other:?}"),
        }
    }

    fn refused(file: &str, says: &[&str]) {
        let error = parse(file, &[]).expect_err(file);
        for part in says {
            assert!(error.contains(part), "no {part:?} in {error:?}");
        }
    }

    const FILE: &str = "# of the fleet
listen = ['192.0.2.1:9871', '[::1]:9871']
web-config-file = '/etc/fsynctop/web.yml'
interval = 5
max-files = 1024
comm = 'mysqld'
all = true
verbose = false
ops = ['fsync', 'msync']
attach = 'tracepoint'
";

    #[test]
    fn the_file_sets_what_the_command_line_does_not() {
        let exporter = parse(FILE, &["--interval", "250ms", "--ops", "fdatasync"]).unwrap();
        assert_eq!(exporter.listen.len(), 2);
        assert_eq!(exporter.web_config_file.unwrap(), Path::new("/etc/fsynctop/web.yml"));
        assert_eq!(exporter.interval, Duration::from_millis(250));
        assert_eq!((exporter.trace.max_files, exporter.trace.max_histograms), (1024, 4096));
        assert_eq!(exporter.trace.targets.comm, ["mysqld"]);
        assert!(exporter.trace.targets.all && !exporter.trace.verbose);
        assert_eq!(exporter.trace.ops.len(), 1);
        let exporter = parse(FILE, &[]).unwrap();
        assert_eq!((exporter.interval, exporter.trace.ops.len()), (Duration::from_secs(5), 2));
        let exporter = parse("", &[]).unwrap();
        assert_eq!((exporter.interval, exporter.listen.len()), (Duration::from_secs(1), 0));
    }

    #[test]
    fn what_is_wrong_with_the_file_is_said_with_its_line() {
        refused("interval = 1\nlissten = []\n", &["exporter.toml:2:", "unknown key lissten", "listen"]);
        refused("\nmax_files = 100\n", &["exporter.toml:2:", "it is written max-files"]);
        refused("max-files = 3\n", &["exporter.toml:1:", "max-files", "16"]);
        refused("interval = 1\nattach = 'uprobe'", &["exporter.toml:2:", "uprobe", "fentry"]);
        refused("listen = ['nowhere']", &["exporter.toml:1:", "127.0.0.1:9871"]);
        refused("all = 'yes'", &["true or false"]);
        refused("max-files = [1, 2]", &["one value"]);
        refused("roles = {}", &["a text or a number"]);
        refused("config = 'other.toml'", &["unknown key config"]);
        refused("interval = \n", &["exporter.toml:1:"]);
        refused("interval = 1\ninterval = 2\n", &["exporter.toml:2:"]);
        refused("[listen]\n", &["exporter.toml:1:"]);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let words = ["fsynctop", "exporter", "--config", "/no/such/file"].map(OsString::from);
        let error = super::parse::<Arguments>(root::command(), words).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read the configuration file /no/such/file: No such file"),
            "{error}"
        );
    }

    #[test]
    fn every_option_of_the_exporter_has_a_variable_and_no_other_action_has() {
        let command = with_environment(root::command(), &|_| true);
        for option in exporter(&command).get_arguments() {
            let name = option.get_long().unwrap();
            let expected = PREFIX.to_owned() + &name.to_uppercase().replace('-', "_");
            assert_eq!(option.get_env().unwrap(), expected.as_str());
        }
        assert!(command.get_arguments().all(|option| option.get_env().is_none()));
        let check = command.find_subcommand("check").unwrap();
        assert!(check.get_arguments().all(|option| option.get_env().is_none()));
    }
}
