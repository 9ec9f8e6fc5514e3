//! The words of the command line before clap reads them, so that options may stand before their action, and
//! `--json` and `--csv` say which form the output has.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

/// The words as clap takes them.
pub(super) fn in_order(command: &Command, words: &[OsString]) -> Vec<OsString> {
    let Sorted { plain, options } = sort(command, words);
    let mut ordered = words.to_vec();
    let first = plain.first().copied();
    let action = first.and_then(|at| command.find_subcommand(&words[at]));
    for (form, long) in [("--json", "--output=json"), ("--csv", "--output=csv")] {
        if action.unwrap_or(command).get_arguments().any(|option| option.get_long() == Some("output")) {
            options.iter().filter(|&&at| words[at] == form).for_each(|&at| ordered[at] = long.into());
        }
    }
    let asks_for_version = |&at: &usize| words[at] == "-V" || words[at] == "--version";
    if let (Some(at), true) = (first, action.is_some())
        && !options.iter().take_while(|&&option| option < at).any(asks_for_version)
    {
        ordered[1..=at].rotate_right(1);
    }
    ordered
}

/// The words that are neither options nor their values, from the first on that is one. None of what follows
/// `--` is among them.
pub(super) fn plain<'a>(command: &Command, words: &'a [OsString]) -> Vec<&'a OsStr> {
    sort(command, words).plain.into_iter().map(|at| words[at].as_os_str()).collect()
}

/// Places of words.
#[derive(Debug, Default)]
struct Sorted {
    plain: Vec<usize>,
    options: Vec<usize>,
}

fn sort(command: &Command, words: &[OsString]) -> Sorted {
    let mut sorted = Sorted::default();
    let mut is_value = false;
    for (at, word) in words.iter().enumerate().skip(1) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let word = word.to_string_lossy();
        if word == "--" {
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            is_value = takes_value(command, &|option| option.get_long() == Some(long));
            sorted.options.push(at);
        } else if word.starts_with('-') && word.len() > 1 {
            // Of several in one word, the rest behind the first that takes a value is that value.
            let takes = |letter| takes_value(command, &|option| option.get_short() == Some(letter));
            let first = word.char_indices().skip(1).find(|&(_, letter)| takes(letter));
            is_value = first.is_some_and(|(place, letter)| place + letter.len_utf8() == word.len());
            sorted.options.push(at);
        } else {
            sorted.plain.push(at);
        }
    }
    sorted
}

/// An option of the same name takes one in every action or in none.
fn takes_value(command: &Command, is_it: &dyn Fn(&Arg) -> bool) -> bool {
    let commands = std::iter::once(command).chain(command.get_subcommands());
    let mut options = commands.flat_map(Command::get_arguments).filter(|option| is_it(option));
    options.any(|option| option.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::root;
    use super::*;

    fn ordered(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = ["fsynctop"].iter().chain(words).map(OsString::from).collect();
        let ordered = in_order(&root::command(), &words).into_iter();
        ordered.skip(1).map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn an_option_of_the_same_name_takes_a_value_everywhere_or_nowhere() {
        let command = root::command();
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            for option in command.get_arguments() {
                let names = option
                    .get_long()
                    .map(str::to_owned)
                    .into_iter()
                    .chain(option.get_short().map(String::from));
                for name in names {
                    let takes = option.get_action().takes_values();
                    assert_eq!(*known.entry(name.clone()).or_insert(takes), takes, "{name}");
                    assert!(option.get_num_args().is_none_or(|number| number == 1.into()), "{name}");
                }
            }
        }
    }

    #[test]
    fn an_action_comes_before_its_options() {
        for (words, as_clap_takes_them) in [
            (&["-d", "5", "once"][..], &["once", "-d", "5"][..]),
            (&["-d5", "-v", "once", "--all"], &["once", "-d5", "-v", "--all"]),
            (&["-vd", "once", "once"], &["once", "-vd", "once"]),
            (&["--pid", "4711", "explain", "-d", "1"], &["explain", "--pid", "4711", "-d", "1"]),
            (&["--pid=4711", "explain"], &["explain", "--pid=4711"]),
            (&["--each", "5s", "calibrate", "/srv"], &["calibrate", "--each", "5s", "/srv"]),
        ] {
            assert_eq!(ordered(words), as_clap_takes_them);
        }
        for as_they_are in [
            &["once", "--comm", "explain"][..],
            &["--comm", "once"],
            &["mysql", "once"],
            &["once", "--", "explain"],
            &["-i", "1", "--", "once"],
            &["-V", "once"],
            &[],
        ] {
            assert_eq!(ordered(as_they_are), as_they_are);
        }
    }

    #[test]
    fn a_form_of_output_may_be_an_option_of_its_own() {
        for (words, as_clap_takes_them) in [
            (&["once", "--json"][..], &["once", "--output=json"][..]),
            (&["--csv", "once"], &["once", "--output=csv"]),
            (&["verify", "--json", "-d", "1"], &["verify", "--output=json", "-d", "1"]),
            (&["--json"], &["--output=json"]),
            (&["once", "--comm", "--json"], &["once", "--comm", "--json"]),
            (&["once", "--", "sh", "--json"], &["once", "--", "sh", "--json"]),
            (&["exporter", "--json"], &["exporter", "--json"]),
        ] {
            assert_eq!(ordered(words), as_clap_takes_them);
        }
    }
}
