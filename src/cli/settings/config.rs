//! fsynctop.toml: the system's file, then the user's own. A later one wins key by key.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};
use toml::Spanned;
use toml::de::DeValue;

use super::exporter::{EXPORTER, NO_CONFIG_VARIABLE};
use super::keys::{KEYS, Key, PATHS};
use super::options::{self, Complaint, FileError, Place};
use super::places::{self, Owner};

// Options of every action but the exporter, whose --config is another file. No comment of documentation: it
// would take the place of the action's own description.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigArgs {
    /// Read this file instead of the system's and your own
    ///
    /// Those are /etc/fsynctop/fsynctop.toml and ~/.config/fsynctop/fsynctop.toml; fsynctop.toml(5) and
    /// docs/configuration.md say what may be in it.
    #[arg(id = "config_file", long = "config", value_name = "FILE", conflicts_with = "no_config")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub without: NoConfigArgs,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct NoConfigArgs {
    /// Read no fsynctop.toml
    ///
    /// Neither the system's, /etc/fsynctop/fsynctop.toml, nor your own. FSYNCTOP_NO_CONFIG=true in the
    /// environment says the same, unless --config names a file.
    #[arg(long)]
    pub no_config: bool,
}

/// The command line with the options above in every action that is a user's.
pub(in super::super) fn with_options(command: Command) -> Command {
    let command = command.mut_subcommands(|action| match action.get_name() {
        EXPORTER => NoConfigArgs::augment_args(action),
        _ if action.is_hide_set() => action,
        _ => ConfigArgs::augment_args(action),
    });
    ConfigArgs::augment_args(command)
}

/// Which files are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Sources {
    /// With whose each must be, in the order in which they are read.
    files: Vec<(PathBuf, Owner)>,
    /// Named on the command line: it must be there.
    must_exist: bool,
}

impl Sources {
    /// `matches`: of an action.
    pub fn of(action: &str, matches: &ArgMatches) -> Sources {
        Sources::with_environment(action, matches, |name| std::env::var_os(name))
    }

    /// The exporter, which is no person's, reads the system's file alone.
    pub fn with_environment(
        action: &str,
        matches: &ArgMatches,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Sources {
        let system = || (PathBuf::from(places::SYSTEM), Owner(0));
        let user = Owner(rustix::process::geteuid().as_raw());
        let none = Sources { files: Vec::new(), must_exist: false };
        if matches.get_flag("no_config") {
            return none;
        }
        let by_variable = variable(NO_CONFIG_VARIABLE).is_some_and(|value| value == "true");
        if action == EXPORTER {
            return if by_variable { none } else { Sources { files: vec![system()], must_exist: false } };
        }
        match matches.get_one::<PathBuf>("config_file") {
            Some(file) => Sources { files: vec![(file.clone(), user)], must_exist: true },
            None if by_variable => none,
            None => {
                let own = places::own(variable).map(|path| (path, user));
                Sources { files: std::iter::once(system()).chain(own).collect(), must_exist: false }
            }
        }
    }

    #[cfg(test)]
    pub fn file(path: &Path) -> Sources {
        let user = Owner(rustix::process::geteuid().as_raw());
        Sources { files: vec![(path.to_owned(), user)], must_exist: true }
    }

    #[cfg(test)]
    pub fn paths(&self) -> Vec<&Path> {
        self.files.iter().map(|(path, _)| path.as_path()).collect()
    }

    /// Reads them, each checked as a whole: also what is for other actions than this one.
    pub fn read(&self, command: &Command) -> Result<Configuration, FileError> {
        let mut configuration = Configuration::default();
        for (path, owner) in &self.files {
            let text = places::read(path, *owner)?;
            if text.is_none() && self.must_exist {
                let source = std::io::Error::from(rustix::io::Errno::NOENT);
                return Err(FileError::Unreadable { path: path.clone(), source });
            }
            let settings = match &text {
                Some(text) => settings(command, path, text)
                    .map_err(|complaint| options::invalid(path, text, complaint))?,
                None => Vec::new(),
            };
            configuration.files.push(Read { path: path.clone(), settings: text.map(|_| settings.len()) });
            configuration.add(settings);
        }
        Ok(configuration)
    }
}

/// What is in the files.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    pub files: Vec<Read>,
    /// Those that hold, in the order of [`KEYS`].
    pub settings: Vec<Setting>,
    /// Those that a later file has replaced, each with what replaced it.
    pub replaced: Vec<(Setting, Place, PathBuf)>,
}

/// A file that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub path: PathBuf,
    /// How many there are; None: no such file.
    pub settings: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub key: &'static Key,
    /// As on the command line; none: a flag that is off.
    pub values: Vec<String>,
    /// As it stands in the file.
    pub text: String,
    pub path: PathBuf,
    pub at: Place,
}

impl Setting {
    pub fn origin(&self) -> String {
        format!("{}:{}", self.path.display(), self.at.line)
    }

    fn holds_for(&self, action: &str) -> bool {
        self.key.actions.contains(&action)
    }
}

impl Configuration {
    /// `later`: the settings of one file.
    fn add(&mut self, later: Vec<Setting>) {
        let replaces = |earlier: &Setting| {
            let same =
                |new: &&Setting| new.key == earlier.key || (new.key.is_target() && earlier.key.is_target());
            later.iter().find(same).map(|new| (new.at, new.path.clone()))
        };
        for earlier in std::mem::take(&mut self.settings) {
            match replaces(&earlier) {
                Some((at, path)) => self.replaced.push((earlier, at, path)),
                None => self.settings.push(earlier),
            }
        }
        self.settings.extend(later);
        self.settings.sort_by_key(|setting| KEYS.iter().position(|key| key == setting.key));
    }

    /// The command with the settings as defaults of an action's options. `in_root`: the action is written in
    /// its old form, as options of the program itself. `given`: whether an option was given in a place that
    /// comes before the files.
    pub(in super::super) fn apply(
        &self,
        command: Command,
        action: &str,
        in_root: bool,
        given: &dyn Fn(&str) -> bool,
    ) -> Command {
        let overruled = |setting: &Setting| Overruled::of(setting.key, given).is_some();
        // The program itself has not all options of the live view.
        let has = |setting: &Setting| !in_root || setting.key.table != Some("top");
        let holds = |setting: &&Setting| {
            setting.holds_for(action) && has(setting) && !setting.values.is_empty() && !overruled(setting)
        };
        self.settings.iter().filter(holds).fold(command, |command, setting| {
            let set = |command: Command| {
                let id = option(&command, setting.key).get_id().clone();
                command.mut_arg(id, |option| option.default_values(setting.values.clone()))
            };
            if in_root { set(command) } else { command.mut_subcommand(action, set) }
        })
    }
}

/// What comes before a setting of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overruled {
    /// The option, or another that says which processes.
    ByOption,
    /// NO_COLOR.
    ByEnvironment,
}

impl Overruled {
    pub(in super::super) fn of(key: &Key, given: &dyn Fn(&str) -> bool) -> Option<Overruled> {
        const CHOOSING_PROCESSES: [&str; 8] =
            ["word", "server", "pid", "comm", "cgroup", "all", "engine", "command"];
        let id = key.name.replace('-', "_");
        if given(&id) || (key.is_target() && CHOOSING_PROCESSES.iter().any(|&id| given(id))) {
            return Some(Overruled::ByOption);
        }
        let no_color = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        (key.name == "color" && no_color()).then_some(Overruled::ByEnvironment)
    }
}

/// Whether an option stands on the command line or in the environment.
pub(in super::super) fn is_given(matches: &ArgMatches, id: &str) -> bool {
    // Not every action has every option.
    let known = matches.try_contains_id(id).is_ok();
    let source = if known { matches.value_source(id) } else { None };
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

fn option<'a>(command: &'a Command, key: &Key) -> &'a Arg {
    let found = command.get_arguments().find(|option| option.get_long() == Some(key.name));
    found.expect("a test holds keys.rs to the options that there are")
}

fn action<'a>(command: &'a Command, name: &str) -> &'a Command {
    command.find_subcommand(name).expect("a test holds keys.rs to the actions that there are")
}

/// All of a file's settings, or the first mistake in it.
fn settings(command: &Command, path: &Path, text: &str) -> Result<Vec<Setting>, Complaint> {
    let mut found = Vec::new();
    for (name, value) in options::table(text)? {
        let at = name.span().start;
        let here = escaped(name.get_ref());
        if !is_table(name.get_ref()) {
            if matches!(value.get_ref(), DeValue::Table(_)) {
                return Err((at, format!("unknown table [{here}]; known are {}", tables())));
            }
            found.push(setting(command, keys_of(None), &name, &value, path, text)?);
            continue;
        }
        let DeValue::Table(table) = value.into_inner() else {
            return Err((at, format!("{here} is a table: write [{here}]")));
        };
        for (key, value) in options::in_order(table) {
            found.push(setting(command, keys_of(Some(name.get_ref())), &key, &value, path, text)?);
        }
    }
    Ok(found)
}

fn keys_of(table: Option<&str>) -> impl Iterator<Item = &'static Key> + Clone {
    KEYS.iter().filter(move |key| key.table == table)
}

fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.table == Some(name))
}

fn tables() -> String {
    let mut tables: Vec<_> = KEYS.iter().filter_map(|key| key.table).collect();
    tables.dedup();
    tables.iter().map(|table| format!("[{table}]")).collect::<Vec<_>>().join(", ")
}

fn escaped(name: &str) -> String {
    crate::text::escape(name.as_bytes())
}

fn setting(
    command: &Command,
    known: impl Iterator<Item = &'static Key> + Clone,
    name: &options::Key<'_>,
    value: &Spanned<DeValue>,
    path: &Path,
    text: &str,
) -> Result<Setting, Complaint> {
    let Some(key) = known.clone().find(|key| key.name == name.get_ref()) else {
        // All of them are of one table. Who adds a line at the end of the file may not know that it is in it.
        let table = known.clone().find_map(|key| key.table).map(|table| format!("[{table}]: "));
        let known: Vec<_> = known.map(|key| key.name).collect();
        let why = no_key(command, name.get_ref(), &known);
        return Err((name.span().start, table.unwrap_or_default() + &why));
    };
    let complain = |message: String| (value.span().start, format!("{}: {message}", key.title()));
    // Its options are alike in all of them.
    let of = key.actions[0];
    let option = option(action(command, of), key);
    let values = options::values(option, value).map_err(complain)?;
    if !values.is_empty() {
        options::accepts(command, &["fsynctop", of], option, &values).map_err(complain)?;
    }
    if PATHS.contains(&key.name) && values.iter().any(|value| !value.starts_with('/')) {
        return Err(complain("a path that begins with / is expected".to_owned()));
    }
    let at = options::place(text, name.span().start);
    let text = text.get(value.span()).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Setting { key, values, text: escaped(&text), path: path.to_owned(), at })
}

/// Why a key is none here: it belongs elsewhere, or it is no key at all.
fn no_key(command: &Command, name: &str, known: &[&str]) -> String {
    if let Some(elsewhere) = KEYS.iter().find(|key| key.name == name) {
        return match elsewhere.table {
            Some(table) => format!("{name} belongs below [{table}]"),
            None => format!("{name} belongs to the top of the file, before any table"),
        };
    }
    let is_option = |command: &Command| command.get_arguments().any(|option| option.get_long() == Some(name));
    if std::iter::once(command).chain(command.get_subcommands()).any(is_option) {
        return format!("--{name} is for the command line alone; known are {}", known.join(", "));
    }
    options::unknown(name, known)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
