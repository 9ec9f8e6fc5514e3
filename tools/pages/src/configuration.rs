//! The manual page of fsynctop.toml: what each key is comes from the option of that name.

use anyhow::Context;
use clap::{Arg, ArgAction, Command};
use fsynctop::cli::settings::keys::{KEYS, Key};
use roff::{Roff, bold, italic, roman};

use crate::File;
use crate::manual::{COLLECTION, paragraph};

const EXAMPLE: &str = include_str!("../../../examples/fsynctop.toml");

const DESCRIPTION: [&str; 5] = [
    "What fsynctop's command line takes by default, in TOML. Keys are named as the long options of fsynctop(1) and its \
     actions; their values are written as there, several as an array, and a flag as true or false. A key at the top of the \
     file holds for each action that is named beside it below; one in a table, for that action.",
    "The system's file is read first, then the user's own. The later one wins key by key, and the command line before both. \
     comm, cgroup and all are one choice: a file or a command line that has one of them takes the place of all that came \
     before. NO_COLOR, if it is set, comes before color.",
    "With --config FILE, that file is read instead of both; with --no-config, or FSYNCTOP_NO_CONFIG=true in the \
     environment, none is. fsynctop-exporter(1), which is no person's, reads the system's file only, and its own \
     --config, which is another file with all of its options, comes before it. fsynctop-check(1) shows which files were \
     read, and each setting with where it came from.",
    "An unknown key, a wrong value and a table that does not exist are mistakes, also where they are for another action: \
     fsynctop names the file, line and column and ends with status 2.",
    "No key writes a file, starts a program or connects to anything: what could is for the command line alone.",
];

const TRUST: &str = "Each file is looked at before it is opened: it must be a regular file of 64 kB at most, the system's must \
     belong to root and the user's own to that user or to root, and nobody but its owner may write to it. For root, who may \
     have been left another user's HOME by sudo, a directory that belongs to another user is not root's own: the home in \
     /etc/passwd is.";

/// `command`: built, without what is hidden.
pub fn page(command: &Command, date: &str) -> anyhow::Result<File> {
    let mut roff = Roff::new();
    let source = format!("fsynctop {}", command.get_version().unwrap_or_default());
    roff.control("TH", ["FSYNCTOP.TOML", "5", date, &source, COLLECTION]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("fsynctop.toml - what the command line of fsynctop takes by default")]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([italic("/etc/fsynctop/fsynctop.toml")]);
    roff.control("br", []);
    roff.text([italic("~/.config/fsynctop/fsynctop.toml")]);
    roff.control("SH", ["DESCRIPTION"]);
    for (i, text) in DESCRIPTION.iter().enumerate() {
        if i > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*text)]);
    }
    let mut table = None;
    roff.control("SH", ["KEYS"]);
    for key in &KEYS {
        if key.table != table {
            table = key.table;
            roff.control("SS", [format!("[{}]", key.table.unwrap_or_default()).as_str()]);
        }
        describe(&mut roff, command, key)?;
    }
    roff.control("SH", ["FILES"]);
    for (file, what) in [
        ("/etc/fsynctop/fsynctop.toml", "The system's file."),
        (
            "$XDG_CONFIG_HOME/fsynctop/fsynctop.toml",
            "The user's own; ~/.config/fsynctop/fsynctop.toml if XDG_CONFIG_HOME is not set.",
        ),
    ] {
        roff.control("TP", []);
        roff.text([italic(file)]);
        roff.text([roman(what)]);
    }
    roff.extend([paragraph(TRUST)]);
    roff.control("SH", ["EXIT STATUS"]);
    roff.control("TP", []);
    roff.text([bold("2")]);
    roff.text([roman("A file is wrong, cannot be read or cannot be trusted.")]);
    roff.control("SH", ["EXAMPLES"]);
    roff.text([roman("Every key, as it is without a file unless it says \"for example\":")]);
    roff.control("PP", []);
    roff.control("nf", []);
    for line in EXAMPLE.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("fsynctop"), roman("(1),")]);
    roff.text([bold("fsynctop-check"), roman("(1),")]);
    roff.text([bold("fsynctop-exporter"), roman("(1)")]);
    Ok(("fsynctop.toml.5".to_owned(), roff.render().into_bytes()))
}

fn describe(roff: &mut Roff, command: &Command, key: &Key) -> anyhow::Result<()> {
    let option =
        option(command, key).with_context(|| format!("there is no option for the key {}", key.title()))?;
    roff.control("TP", []);
    roff.text([bold(key.name), roman(" = "), italic(value(option))]);
    roff.text([roman(help(option))]);
    if key.table.is_none() {
        roff.control("IP", []);
        roff.text([roman(format!("For {}.", key.actions.join(", ")))]);
    }
    Ok(())
}

fn option<'a>(command: &'a Command, key: &Key) -> Option<&'a Arg> {
    let action = command.find_subcommand(key.actions.first()?)?;
    action.get_arguments().find(|option| option.get_long() == Some(key.name))
}

/// What may stand there: one of some words, or what the option calls it; of several, as an array.
fn value(option: &Arg) -> String {
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return "true | false".to_owned();
    }
    let possible = option.get_possible_values();
    let words = possible.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name().to_owned());
    let mut words: Vec<String> = words.collect();
    if words.is_empty() {
        let names = option.get_value_names().unwrap_or_default();
        words = names.iter().map(|name| name.trim_end_matches(",…").to_string()).collect();
    }
    let one = words.join(" | ");
    if matches!(option.get_action(), ArgAction::Append) { format!("[{one}, …]") } else { one }
}

/// Sentences: the long help, else the short one; and the default.
fn help(option: &Arg) -> String {
    let help =
        option.get_long_help().or_else(|| option.get_help()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = help.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut text = paragraphs
        .map(|text| if text.ends_with('.') { text } else { text + "." })
        .collect::<Vec<_>>()
        .join(" ");
    let defaults: Vec<_> = option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    if !defaults.is_empty() && !is_flag {
        text.push_str(&format!(" Default: {}.", defaults.join(", ")));
    }
    text
}
