//! Options in a TOML file, by their names on the command line. What stands in the file becomes the default of
//! the option, so that it is read, checked and overridden as one.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a file of options cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read the configuration file {path}: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the configuration file {path} is not used: {why}", path = path.display())]
    Refused { path: PathBuf, why: String },
    #[error("{path}:{at}: {message}", path = path.display())]
    Invalid { path: PathBuf, at: Place, message: String },
}

/// Line and column of a file, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Of a byte of a text.
pub(super) fn place(text: &str, offset: usize) -> Place {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Place { line: before.iter().filter(|&&byte| byte == b'\n').count() + 1, column }
}

/// A message and the byte of the file that it is about.
pub(super) type Complaint = (usize, String);

pub(super) fn invalid(path: &Path, text: &str, (offset, message): Complaint) -> FileError {
    FileError::Invalid { path: path.to_owned(), at: place(text, offset), message }
}

/// What is in a table, in the order of the text.
pub(super) fn in_order<'a>(table: DeTable<'a>) -> Vec<(Key<'a>, Spanned<DeValue<'a>>)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

pub(super) type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;

pub(super) fn table(text: &str) -> Result<Vec<(Key<'_>, Spanned<DeValue<'_>>)>, Complaint> {
    match DeTable::parse(text) {
        Ok(table) => Ok(in_order(table.into_inner())),
        Err(error) => Err((error.span().map_or(0, |span| span.start), error.message().to_owned())),
    }
}

/// The values of a key, as they would be written on the command line. None for a flag that is off.
pub(super) fn values(option: &Arg, value: &Spanned<DeValue>) -> Result<Vec<String>, String> {
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

/// Asks clap, as if the option stood alone on the command line. `prefix`: the words before it.
pub(super) fn accepts(
    command: &Command,
    prefix: &[&str],
    option: &Arg,
    values: &[String],
) -> Result<(), String> {
    let name = option.get_long().unwrap_or_default();
    let words = match option.get_action() {
        ArgAction::SetTrue => vec![format!("--{name}")],
        _ => values.iter().map(|value| format!("--{name}={value}")).collect(),
    };
    let words = prefix.iter().map(|&word| word.to_owned()).chain(words);
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

/// What is said of a key that is none: how it is written, or what was probably meant, and what is known.
pub(super) fn unknown(key: &str, known: &[&str]) -> String {
    let meant = key.replace('_', "-");
    let likeness = known.iter().map(|one| (strsim::jaro_winkler(one, &meant), *one));
    let nearest = likeness.max_by(|one, other| one.0.total_cmp(&other.0));
    let (key, all) = (crate::text::escape(key.as_bytes()), known.join(", "));
    match nearest {
        Some((_, same)) if same == meant => format!("unknown key {key}: it is written {meant}"),
        Some((likeness, similar)) if likeness > 0.8 => {
            format!("unknown key {key}: did you mean {similar}? Known are {all}")
        }
        _ => format!("unknown key {key}; known are {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_characters_from_one() {
        let text = "a\nüx = 1\n";
        let of = |part: &str| place(text, text.find(part).unwrap());
        assert_eq!(of("a"), Place { line: 1, column: 1 });
        assert_eq!(of("x"), Place { line: 2, column: 2 });
        assert_eq!(place(text, 1_000), Place { line: 3, column: 1 });
    }

    #[test]
    fn what_was_probably_meant_is_suggested() {
        let known = ["color", "columns", "comm"];
        assert!(unknown("colour", &known).contains("did you mean color?"));
        assert_eq!(unknown("max_files", &["max-files"]), "unknown key max_files: it is written max-files");
        assert_eq!(unknown("zzz\x1b", &known), "unknown key zzz\\x1b; known are color, columns, comm");
    }
}
