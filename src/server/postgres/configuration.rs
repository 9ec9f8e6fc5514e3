//! The syntax of PostgreSQL's configuration files (src/backend/utils/misc/guc-file.l) and of the server's
//! command line (postmaster.c), without any I/O.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Names of settings have at most 63 letters, those of extensions a prefix.
const MAX_NAME: usize = 256;

/// A line that says something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Setting { name: String, value: Vec<u8> },
    Include(Vec<u8>),
    IncludeIfExists(Vec<u8>),
    IncludeDirectory(Vec<u8>),
}

/// The lines of a file, one at a time. Those with a syntax error are left out: a server does not start with
/// one, so it came later.
pub fn parse(contents: &[u8]) -> impl Iterator<Item = Line> {
    contents.split(|&byte| byte == b'\n').filter_map(parse_line)
}

fn parse_line(line: &[u8]) -> Option<Line> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|&byte| !is_of_name(byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let name = canonical_name(name)?;
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"=").unwrap_or(rest).trim_ascii_start();
    let (value, rest) = match rest.first()? {
        b'\'' => quoted(&rest[1..])?,
        _ => {
            let end = rest.iter().position(|&byte| !is_of_word(byte)).unwrap_or(rest.len());
            (Some(&rest[..end]).filter(|word| !word.is_empty())?.to_vec(), &rest[end..])
        }
    };
    if !matches!(rest.trim_ascii_start().first(), None | Some(b'#')) {
        return None;
    }
    Some(match name.as_str() {
        "include" => Line::Include(value),
        "include_if_exists" => Line::IncludeIfExists(value),
        "include_dir" => Line::IncludeDirectory(value),
        _ => Line::Setting { name, value },
    })
}

/// Of an identifier, or two with a dot.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') || byte >= 0x80
}

/// Of a number with its unit, or of what needs no quotes.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.' | b':' | b'/') || byte >= 0x80
}

/// What stands up to the closing quote, and what follows (DeescapeQuotedString).
fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut rest = text;
    loop {
        rest = match rest {
            [b'\'', b'\'', rest @ ..] => {
                value.push(b'\'');
                rest
            }
            [b'\'', rest @ ..] => return Some((value, rest)),
            [b'\\', b'0'..=b'7', ..] => {
                let digits =
                    rest[1..].iter().take(3).take_while(|byte| (b'0'..=b'7').contains(*byte)).count();
                let octal = &rest[1..=digits];
                value.push(octal.iter().fold(0u8, |sum, digit| sum.wrapping_shl(3) | (digit - b'0')));
                &rest[1 + digits..]
            }
            [b'\\', escaped, rest @ ..] => {
                value.push(match escaped {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    &other => other,
                });
                rest
            }
            [byte, rest @ ..] => {
                value.push(*byte);
                rest
            }
            [] => return None,
        };
    }
}

/// In one spelling: names do not differ by case. None if it is none.
fn canonical_name(name: &[u8]) -> Option<String> {
    let begins = name.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80);
    let name = std::str::from_utf8(name).ok().filter(|name| begins && name.len() <= MAX_NAME)?;
    Some(name.to_ascii_lowercase())
}

/// The options of a server's command line, in order, as the settings that they stand for; `-D` is the
/// setting `-D`, since what it names need not be the data directory.
pub fn arguments(command_line: &[OsString]) -> Vec<(String, Vec<u8>)> {
    let mut settings = Vec::new();
    let mut words = command_line.iter().skip(1).map(|word| word.as_bytes());
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix(b"--") {
            settings.extend(assignment(long));
            continue;
        }
        let Some(mut letters) = word.strip_prefix(b"-").filter(|letters| !letters.is_empty()) else {
            break; // the server takes no arguments but options
        };
        while let Some((letter, rest)) = letters.split_first() {
            let mut set = |name: &str, value: &[u8]| settings.push((name.to_owned(), value.to_vec()));
            letters = rest;
            match letter {
                b'F' => set("fsync", b"off"),
                b'i' => set("listen_addresses", b"*"),
                b'l' => set("ssl", b"on"),
                letter if b"BCcDdfhkNprStW".contains(letter) => {
                    letters = b"";
                    let Some(value) = (if rest.is_empty() { words.next() } else { Some(rest) }) else {
                        break;
                    };
                    match letter {
                        b'c' => settings.extend(assignment(value)),
                        b'B' => set("shared_buffers", value),
                        b'D' => set("-D", value),
                        b'h' => set("listen_addresses", value),
                        b'k' => set("unix_socket_directories", value),
                        b'N' => set("max_connections", value),
                        b'p' => set("port", value),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }
    settings
}

/// `name=value`, where a name may be written with '-' (ParseLongOption).
fn assignment(text: &[u8]) -> Option<(String, Vec<u8>)> {
    let at = text.iter().position(|&byte| byte == b'=')?;
    let name = canonical_name(&text[..at])?;
    Some((name.replace('-', "_"), text[at + 1..].to_vec()))
}

/// A switch, in the ways that PostgreSQL takes it: also as the beginning of a word that is no other's
/// (parse_bool_with_len).
pub(crate) fn is_on(value: &OsStr) -> Option<bool> {
    let value = value.to_str()?.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if begins("true", 1) || begins("yes", 1) || value == "on" || value == "1" {
        return Some(true);
    }
    (begins("false", 1) || begins("no", 1) || begins("off", 2) || value == "0").then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Line {
        Line::Setting { name: name.into(), value: value.into() }
    }

    #[test]
    fn files_are_read_as_the_server_reads_them() {
        let text = br"
# a comment
fsync = on          # at the end
FSYNC off
shared_buffers=128MB
archive_command = 'cp ''%p'' /a\n\101#' # quotes keep the hash
log_timezone = Etc/UTC
checkpoint_completion_target = 0.9
commit_delay = -1
auto_explain.log_min_duration = 5s
include '/etc/extra.conf'
Include_If_Exists = 'more.conf'
include_dir 'conf.d'
empty = ''
two words here
open = 'quote
= 5
9lives = 1
nothing
nothing =
";
        assert_eq!(
            parse(text).collect::<Vec<_>>(),
            [
                setting("fsync", "on"),
                setting("fsync", "off"),
                setting("shared_buffers", "128MB"),
                setting("archive_command", "cp '%p' /a\nA#"),
                setting("log_timezone", "Etc/UTC"),
                setting("checkpoint_completion_target", "0.9"),
                setting("commit_delay", "-1"),
                setting("auto_explain.log_min_duration", "5s"),
                Line::Include(b"/etc/extra.conf".to_vec()),
                Line::IncludeIfExists(b"more.conf".to_vec()),
                Line::IncludeDirectory(b"conf.d".to_vec()),
                setting("empty", ""),
            ]
        );
    }

    fn of_line(words: &[&str]) -> Vec<(String, String)> {
        let line: Vec<OsString> = words.iter().map(Into::into).collect();
        let text = |(name, value): (String, Vec<u8>)| (name, String::from_utf8(value).unwrap());
        arguments(&line).into_iter().map(text).collect()
    }

    #[test]
    fn a_command_line_is_taken_as_settings() {
        let debian = ["postgres", "-D", "/d", "-c", "config_file=/etc/p.conf", "-Fp", "5433", "-k/run", "-i"];
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(
            of_line(&debian),
            pairs(&[
                ("-D", "/d"),
                ("config_file", "/etc/p.conf"),
                ("fsync", "off"),
                ("port", "5433"),
                ("unix_socket_directories", "/run"),
                ("listen_addresses", "*"),
            ])
        );
        let long =
            ["postgres", "--full-page-writes=off", "--Wal_Sync_Method=open_sync", "--single", "stop", "-p1"];
        assert_eq!(of_line(&long), pairs(&[("full_page_writes", "off"), ("wal_sync_method", "open_sync")]));
        assert_eq!(of_line(&["postgres", "-d", "5", "-p"]), pairs(&[]));
        assert_eq!(of_line(&["postgres: 15/main: walwriter "]), pairs(&[]), "a backend's title");
    }

    #[test]
    fn a_switch_may_be_the_beginning_of_its_word() {
        for (text, expected) in [
            ("on", Some(true)),
            ("T", Some(true)),
            ("ye", Some(true)),
            ("1", Some(true)),
            ("of", Some(false)),
            ("FALSE", Some(false)),
            ("n", Some(false)),
            ("0", Some(false)),
            ("o", None),
            ("", None),
            ("onn", None),
        ] {
            assert_eq!(is_on(OsStr::new(text)), expected, "{text}");
        }
    }

    proptest::proptest! {
        /// Whatever a file holds, what is kept of it is no longer than the file.
        #[test]
        fn no_file_is_more_than_its_bytes(contents: Vec<u8>, text in "[a-z'=\\\\0-9 #\n]{0,200}") {
            for contents in [&contents[..], text.as_bytes()] {
                let kept: usize = parse(contents).map(|line| match line {
                    Line::Setting { name, value } => name.len() + value.len(),
                    Line::Include(path) | Line::IncludeIfExists(path) | Line::IncludeDirectory(path) => path.len(),
                }).sum();
                proptest::prop_assert!(kept <= contents.len());
            }
        }

        /// What ALTER SYSTEM writes comes back as it was (write_auto_conf_file doubles quotes and
        /// backslashes).
        #[test]
        fn a_quoted_value_survives(value in "[ -~]{0,40}") {
            let escaped = value.replace('\\', "\\\\").replace('\'', "''");
            let line = format!("name = '{escaped}'\n");
            proptest::prop_assert_eq!(parse(line.as_bytes()).collect::<Vec<_>>(), [setting("name", &value)]);
        }

        #[test]
        fn no_command_line_makes_a_panic(words: Vec<Vec<u8>>) {
            use std::os::unix::ffi::OsStringExt;
            let line: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            arguments(&line);
        }
    }
}
