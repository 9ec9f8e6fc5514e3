//! The syntax of MySQL's and MariaDB's option files and command lines (mysys/my_default), without any I/O.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Lists of files are the longest values that matter; a path has 4,096 bytes at most.
const MAX_VALUE: usize = 8_192;

/// One meaningful line of an option file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Group(Vec<u8>),
    Option { name: Vec<u8>, value: Option<Vec<u8>> },
    Include(Vec<u8>),
    IncludeDirectory(Vec<u8>),
}

/// The lines of an option file, one at a time: all of them at once can take many times the memory of the
/// file. Comments and lines that hold no option are left out.
pub fn parse(contents: &[u8]) -> impl Iterator<Item = Line> {
    contents.split(|&b| b == b'\n').filter_map(parse_line)
}

fn parse_line(line: &[u8]) -> Option<Line> {
    let line = line.trim_ascii();
    match line.first()? {
        b'#' | b';' => None,
        b'!' => {
            // "!includedir" begins with "!include": the longer one first.
            let argument = |keyword: &[u8]| {
                let rest = line.strip_prefix(keyword)?;
                rest.first()?.is_ascii_whitespace().then(|| rest.trim_ascii().to_vec())
            };
            argument(b"!includedir")
                .map(Line::IncludeDirectory)
                .or_else(|| argument(b"!include").map(Line::Include))
        }
        b'[' => {
            let end = line.iter().position(|&b| b == b']')?;
            Some(Line::Group(line[1..end].trim_ascii().to_vec()))
        }
        _ => {
            let line = without_comment(line);
            let (name, value) = match line.iter().position(|&b| b == b'=') {
                Some(at) => (&line[..at], Some(unquote(line[at + 1..].trim_ascii()))),
                None => (line, None),
            };
            Some(Line::Option { name: name.trim_ascii().to_vec(), value })
        }
    }
}

/// Cuts a comment off the end of a line: a '#' outside quotes.
fn without_comment(line: &[u8]) -> &[u8] {
    let mut quote = None;
    let mut escaped = false;
    for (at, &byte) in line.iter().enumerate() {
        match byte {
            b'\'' | b'"' if !escaped => match quote {
                None => quote = Some(byte),
                Some(open) if open == byte => quote = None,
                Some(_) => {}
            },
            b'#' if quote.is_none() => return &line[..at],
            _ => {}
        }
        escaped = quote.is_some() && byte == b'\\' && !escaped;
    }
    line
}

/// Takes quotes off and resolves the escapes that option files know.
fn unquote(value: &[u8]) -> Vec<u8> {
    let value = match value {
        [open @ (b'"' | b'\''), inner @ .., close] if open == close => inner,
        other => other,
    };
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'b') => bytes.push(8),
            Some(b's') => bytes.push(b' '),
            Some(b'\\') => bytes.push(b'\\'),
            Some(b'"') => bytes.push(b'"'),
            Some(b'\'') => bytes.push(b'\''),
            Some(&other) => bytes.extend([b'\\', other]),
            None => bytes.push(b'\\'),
        }
    }
    bytes
}

/// An option's name in one spelling: underscores, without "loose-". None if it is not text.
fn canonical_name(name: &[u8]) -> Option<String> {
    // The longest variable of a server has 61 letters.
    if name.len() > 256 {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?.replace('-', "_");
    Some(name.strip_prefix("loose_").map_or(name.clone(), str::to_owned))
}

/// Records one option if its name is `wanted`; a later one replaces an earlier one. An option without a value
/// is empty; `skip-X` and `disable-X` also set X to OFF, `enable-X` to ON. A value longer than any path is
/// left out.
pub fn set(
    values: &mut BTreeMap<String, OsString>,
    wanted: &dyn Fn(&str) -> bool,
    name: &[u8],
    value: Option<&[u8]>,
) {
    let Some(name) = canonical_name(name) else { return };
    let value = value.unwrap_or_default();
    if value.len() > MAX_VALUE {
        return;
    }
    let is_off = matches!(value.to_ascii_uppercase().as_slice(), b"0" | b"OFF" | b"FALSE");
    let switch = if let Some(of) = name.strip_prefix("skip_").or_else(|| name.strip_prefix("disable_")) {
        Some((of, if is_off { "ON" } else { "OFF" }))
    } else {
        name.strip_prefix("enable_").map(|of| (of, if is_off { "OFF" } else { "ON" }))
    };
    if let Some((of, switch)) = switch.filter(|(of, _)| wanted(of)) {
        values.insert(of.to_owned(), switch.into());
    }
    if wanted(&name) {
        values.insert(name, OsString::from_vec(value.to_vec()));
    }
}

/// A command-line argument as an option: `--name`, `--name=value`.
pub(crate) fn split_argument(argument: &OsStr) -> Option<(&[u8], Option<&[u8]>)> {
    let option = argument.as_bytes().strip_prefix(b"--")?;
    match option.iter().position(|&b| b == b'=') {
        Some(at) => Some((&option[..at], Some(&option[at + 1..]))),
        None if option.is_empty() => None,
        None => Some((option, None)),
    }
}

/// Options of a command line, in order. The few short options that servers are started with are spelt out,
/// and the argument after one of [`TAKES_ARGUMENT`] is its value.
pub fn arguments(command_line: &[OsString]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut options = Vec::new();
    let mut rest = command_line.iter().skip(1);
    while let Some(argument) = rest.next() {
        if let Some((name, value)) = split_argument(argument) {
            let takes = value.is_none()
                && canonical_name(name).is_some_and(|name| TAKES_ARGUMENT.contains(&name.as_str()));
            let value = match value {
                Some(value) => Some(value.to_vec()),
                None if takes => rest.next().map(|next| next.as_bytes().to_vec()),
                None => None,
            };
            options.push((name.to_vec(), value));
        } else if let [b'-', letter, value @ ..] = argument.as_bytes() {
            let name: &[u8] = match letter {
                b'h' => b"datadir",
                b'P' => b"port",
                b'b' => b"basedir",
                b't' => b"tmpdir",
                b'u' => b"user",
                _ => continue,
            };
            let value = match value {
                [] => rest.next().map(|next| next.as_bytes().to_vec()),
                value => Some(value.to_vec()),
            };
            options.push((name.to_vec(), value));
        }
    }
    options
}

/// Options with a required argument, which may stand in the next word; those that matter here. `log-bin` is
/// not one: its argument is optional and so must follow a '='.
const TAKES_ARGUMENT: &[&str] = &[
    "datadir",
    "socket",
    "port",
    "tmpdir",
    "innodb_log_group_home_dir",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "innodb_undo_directory",
    "innodb_tmpdir",
    "innodb_doublewrite_dir",
    "innodb_flush_method",
    "log_bin_index",
    "relay_log",
    "relay_log_index",
    "sync_binlog",
];

/// The variables of mysqld-auto.cnf (SET PERSIST), any of its versions: objects by name that carry a "Value".
pub fn persisted(json: &[u8]) -> Vec<(String, String)> {
    fn collect(object: &serde_json::Map<String, serde_json::Value>, found: &mut Vec<(String, String)>) {
        for (name, value) in object {
            let Some(inner) = value.as_object() else { continue };
            match inner.get("Value") {
                Some(serde_json::Value::String(value)) => found.push((name.clone(), value.clone())),
                Some(other) if !other.is_object() => found.push((name.clone(), other.to_string())),
                _ => collect(inner, found),
            }
        }
    }
    let mut found = Vec::new();
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(json) {
        collect(&object, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: Option<&str>) -> Line {
        Line::Option { name: name.into(), value: value.map(Into::into) }
    }

    #[test]
    fn option_files_are_read_as_the_server_reads_them() {
        let text = br#"
# a comment
; another
[mysqld]   trailing
datadir = /var/lib/mysql  # where
log-bin
socket="/run/a b#c.sock"   # quotes keep the hash
tmpdir=C:\\x\ty\sz
!include /etc/extra.cnf
!includedir  /etc/mysql/conf.d/
!includes
empty=
"#;
        assert_eq!(
            parse(text).collect::<Vec<_>>(),
            [
                Line::Group(b"mysqld".to_vec()),
                option("datadir", Some("/var/lib/mysql")),
                option("log-bin", None),
                option("socket", Some("/run/a b#c.sock")),
                option("tmpdir", Some("C:\\x\ty z")),
                Line::Include(b"/etc/extra.cnf".to_vec()),
                Line::IncludeDirectory(b"/etc/mysql/conf.d/".to_vec()),
                option("empty", Some("")),
            ]
        );
    }

    #[test]
    fn spellings_of_a_name_are_one_and_the_last_value_wins() {
        let mut values = BTreeMap::new();
        let mut set = |name: &[u8], value: Option<&[u8]>| super::set(&mut values, &|_| true, name, value);
        set(b"sync-binlog", Some(b"0"));
        set(b"loose_sync_binlog", Some(b"1"));
        set(b"log-bin", Some(b"foo"));
        set(b"skip-log-bin", None);
        set(b"enable-innodb-doublewrite", None);
        set(b"bad\xff", Some(b"1"));
        assert_eq!(values["sync_binlog"], "1");
        assert_eq!(values["log_bin"], "OFF");
        assert_eq!(values["innodb_doublewrite"], "ON");
        assert_eq!(values.len(), 5);
    }

    #[test]
    fn only_wanted_names_and_values_of_a_sane_length_are_kept() {
        let mut values = BTreeMap::new();
        let wanted = |name: &str| name == "log_bin" || name == "tmpdir";
        let mut set = |name: &[u8], value: Option<&[u8]>| super::set(&mut values, &wanted, name, value);
        set(b"innodb_io_capacity", Some(b"1"));
        set(b"skip-log-bin", None);
        set(b"tmpdir", Some(&[b'x'; MAX_VALUE + 1]));
        set(&[b'x'; 1 << 20], None);
        assert_eq!(values, BTreeMap::from([("log_bin".to_owned(), OsString::from("OFF"))]));
    }

    #[test]
    fn arguments_may_stand_in_the_next_word_and_optional_ones_may_not() {
        let line: Vec<OsString> = [
            "mysqld",
            "--datadir",
            "/d",
            "--log-bin",
            "--relay_log=/r/x=y",
            "-P3307",
            "-h",
            "/h",
            "word",
            "--",
        ]
        .map(Into::into)
        .to_vec();
        let expected: Vec<(Vec<u8>, Option<Vec<u8>>)> = vec![
            (b"datadir".into(), Some(b"/d".into())),
            (b"log-bin".into(), None),
            (b"relay_log".into(), Some(b"/r/x=y".into())),
            (b"port".into(), Some(b"3307".into())),
            (b"datadir".into(), Some(b"/h".into())),
        ];
        assert_eq!(arguments(&line), expected);
    }

    proptest::proptest! {
        /// Whatever a file holds, what is kept of it is no longer than the file, and of sane names.
        #[test]
        fn no_option_file_is_more_than_its_bytes(contents: Vec<u8>) {
            let mut kept = 0;
            let mut values = BTreeMap::new();
            for line in parse(&contents) {
                kept += 1 + match &line {
                    Line::Group(name) | Line::Include(name) | Line::IncludeDirectory(name) => name.len(),
                    Line::Option { name, value } => name.len() + value.as_ref().map_or(0, Vec::len),
                };
                if let Line::Option { name, value } = line {
                    super::set(&mut values, &|_| true, &name, value.as_deref());
                }
            }
            proptest::prop_assert!(kept <= contents.len() + 1);
            proptest::prop_assert!(values.keys().all(|name| name.len() <= 256 && !name.contains('-')));
        }

        /// What a server writes between quotes comes back as it was.
        #[test]
        fn a_quoted_value_survives(value in "[ -~]{0,40}") {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            let line = format!("name = \"{escaped}\" # comment\n");
            let expected = Line::Option { name: b"name".to_vec(), value: Some(value.into_bytes()) };
            proptest::prop_assert_eq!(parse(line.as_bytes()).collect::<Vec<_>>(), [expected]);
        }

        #[test]
        fn no_command_line_is_more_than_its_words(words: Vec<Vec<u8>>) {
            let line: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            proptest::prop_assert!(arguments(&line).len() <= line.len());
        }

        #[test]
        fn no_persisted_file_makes_a_panic(json: Vec<u8>, nested in "[{}\\[\\]\"Value:,a]{0,200}") {
            persisted(&json);
            persisted(nested.as_bytes());
        }
    }

    #[test]
    fn persisted_variables_are_found_in_both_versions_of_the_file() {
        let first = br#"{"Version":1,"mysql_server":{"sync_binlog":{"Value":"0","Metadata":{"Timestamp":1}},
            "mysql_server_static_options":{"innodb_flush_method":{"Value":"O_DSYNC","Metadata":{}}}}}"#;
        let second = br#"{"Version":2,"mysql_dynamic_parse_early_variables":{"sync_binlog":{"Value":"0"}},
            "mysql_static_variables":{"innodb_flush_method":{"Value":"O_DSYNC"}}}"#;
        for json in [&first[..], second] {
            let mut found = persisted(json);
            found.sort();
            let expected = [("innodb_flush_method", "O_DSYNC"), ("sync_binlog", "0")];
            assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        assert!(persisted(b"{\"Version\":").is_empty());
    }
}
