//! What may be in fsynctop.toml, who wins, and what is said of mistakes.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::super::root;
use super::*;
use crate::model::fixture::assert_expected;

const ME: &str = "/etc/fsynctop/fsynctop.toml";

fn one(text: &str) -> Result<Vec<Setting>, String> {
    let command = root::command();
    let path = Path::new(ME);
    settings(&command, path, text).map_err(|complaint| options::invalid(path, text, complaint).to_string())
}

fn refused(text: &str, says: &[&str]) {
    let error = one(text).expect_err(text);
    for part in says {
        assert!(error.contains(part), "no {part:?} in {error:?}");
    }
}

#[test]
fn a_mistake_is_named_with_its_place_its_key_and_what_is_allowed() {
    refused("\n  colour = 'always'\n", &["fsynctop.toml:2:3: ", "colour", "did you mean color?", "max-cpu"]);
    refused("all = true\ncolor = 'red'\n", &["fsynctop.toml:2:9: color: ", "'red'", "always"]);
    refused("[top]\nby = 'nobody'\n", &["fsynctop.toml:2:6: [top] by: ", "neighbour"]);
    refused("max_files = 100\n", &["it is written max-files"]);
    refused("max-files = 3\n", &[":1:13: max-files: ", "16"]);
    refused("max-cpu = 'much'\n", &[":1:11: max-cpu: ", "much"]);
    refused("[topp]\n", &[":1:2: unknown table [topp]", "[top], [once], [history]"]);
    refused("top = 1\n", &["top is a table: write [top]"]);
    refused("interval = '1s'\n", &["interval belongs below [top]"]);
    refused("[once]\ncolor = 'auto'\n", &["[once]: color belongs to the top of the file"]);
    refused("[once]\ncolums = ['op']\n", &["[once]: unknown key colums: did you mean columns?"]);
    refused("all = 'yes'\n", &["true or false"]);
    refused("roles = 'roles.toml'\n", &["roles: a path that begins with / is expected"]);
    refused("stuck-after = 0\n", &["stuck-after: ", "at least a millisecond"]);
    refused("all = true\nall = false\n", &["fsynctop.toml:2:1: "]);
    refused("color = \n", &["fsynctop.toml:1:"]);
    refused("comm = ['mysqld', {}]\n", &["a text or a number"]);
}

#[test]
fn what_could_do_harm_is_for_the_command_line_alone() {
    for key in [
        "output-file",
        "output-path",
        "folded",
        "for",
        "flamegraph",
        "web-config-file",
        "user",
        "defaults-file",
        "service-file",
        "socket",
        "pid",
        "listen",
    ] {
        refused(&format!("{key} = 'x'\n"), &[&format!("--{key} is for the command line alone")]);
    }
    refused("command = ['rm']\n", &["unknown key command"]);
}

/// Options that are no keys, each for a reason: they name a place to write to or a place to ask, choose among
/// what happens to run, or say what this one call is for.
const FOR_ONE_CALL: [&str; 64] = [
    "at",
    "buckets",
    "by",
    "config",
    "count",
    "counters",
    "defaults-file",
    "duration",
    "each",
    "fail-on",
    "file-limit",
    "flamegraph",
    "folded",
    "for",
    "format",
    "from",
    "help",
    "history",
    "host",
    "interval",
    "journal",
    "json",
    "last",
    "listen",
    "no-config",
    "no-file-metrics",
    "no-record",
    "no-save",
    "no-socket",
    "once",
    "output",
    "output-directory",
    "output-file",
    "output-path",
    "password",
    "pid",
    "port",
    "production",
    "record",
    "record-limit",
    "redact",
    "replay",
    "server",
    "service-file",
    "sessions",
    "socket",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "threads",
    "to",
    "user",
    "verbose",
    "verdict-listen",
    "verdict-slow",
    "verdict-slow-for",
    "verdict-socket",
    "verdict-stalled",
    "version",
    "wait",
    "waits",
    "watch",
    "web-config-file",
];

#[test]
fn every_option_is_a_key_or_is_known_to_be_none() {
    let command = root::command();
    let commands = std::iter::once(&command).chain(command.get_subcommands());
    let options: BTreeSet<&str> =
        commands.flat_map(|command| command.get_arguments().filter_map(|option| option.get_long())).collect();
    for option in &options {
        let is_key = KEYS.iter().any(|key| key.name == *option);
        assert!(is_key || FOR_ONE_CALL.contains(option), "is --{option} a key of fsynctop.toml?");
    }
}

#[test]
fn every_key_is_an_option_of_each_action_that_it_holds_for() {
    let command = root::command();
    for key in &KEYS {
        for name in key.actions {
            let action = command.find_subcommand(name).unwrap_or_else(|| panic!("no action {name}"));
            assert_eq!(option(action, key).get_long(), Some(key.name));
            assert_eq!(
                option(action, key).get_id().as_str(),
                key.name.replace('-', "_"),
                "is_given looks for it"
            );
        }
        // An action with that option for which it does not hold is meant to be none.
        if key.table.is_none() && !key.is_target() {
            for action in command.get_subcommands().filter(|action| !key.actions.contains(&action.get_name()))
            {
                let has = action.get_arguments().any(|option| option.get_long() == Some(key.name));
                assert!(!has, "{} does not hold for {}", key.name, action.get_name());
            }
        }
    }
}

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fsynctop.toml");
    std::fs::read_to_string(path).unwrap()
}

/// With what is commented out taken in.
fn uncommented() -> String {
    let is_key = |rest: &str| KEYS.iter().any(|key| rest.starts_with(&format!("{} = ", key.name)));
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if is_key(rest) => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    example().lines().map(line).collect()
}

#[test]
fn the_example_changes_nothing_and_has_every_key() {
    assert_eq!(one(&example()).unwrap().len(), 0);
    let settings = one(&uncommented()).unwrap();
    let found: Vec<String> = settings.iter().map(|setting| setting.key.title()).collect();
    let expected: Vec<String> = KEYS.iter().map(Key::title).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_the_example_says_is_the_default_is_the_default() {
    let command = root::command();
    let text = uncommented();
    for setting in one(&text).unwrap() {
        let line = text.lines().nth(setting.at.line - 1).unwrap();
        if line.contains("# for example") {
            continue;
        }
        let of = option(action(&command, setting.key.actions[0]), setting.key);
        let defaults: Vec<String> = of
            .get_default_values()
            .iter()
            .flat_map(|value| value.to_str().unwrap().split(','))
            .map(str::to_owned)
            .collect();
        let is_flag = matches!(of.get_action(), clap::ArgAction::SetTrue);
        let defaults = if is_flag { Vec::new() } else { defaults };
        assert_eq!(setting.values, defaults, "{line}");
    }
}

/// Keys of a table or of none, by the actions that they hold for.
#[test]
fn the_page_of_the_configuration_has_every_key() {
    let mut rows: Vec<(&Key, Vec<&str>)> = Vec::new();
    for key in &KEYS {
        match rows.iter_mut().find(|(first, _)| (first.table, first.actions) == (key.table, key.actions)) {
            Some((_, names)) => names.push(key.name),
            None => rows.push((key, vec![key.name])),
        }
    }
    let quoted = |names: &[&str]| format!("`{}`", names.join("`, `"));
    let row = |(key, names): &(&Key, Vec<&str>)| {
        let table = key.table.map(|table| format!("`[{table}]`: ")).unwrap_or_default();
        format!("| {table}{} | {} |\n", quoted(names), quoted(key.actions))
    };
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap();
    const HEAD: &str = "| key | for |\n|---|---|\n";
    let (before, rest) = page.split_once(HEAD).unwrap();
    let (_, after) = rest.split_once("|\n\n").unwrap();
    let table: String = rows.iter().map(row).collect();
    assert_expected("docs/configuration.md", &format!("{before}{HEAD}{table}\n{after}"));
}

#[test]
fn the_mistake_on_the_page_of_the_configuration_is_said_so() {
    let text = "\n\n\ncolour = 'always'\n";
    let error = one(text).unwrap_err();
    let page = include_str!("../../../docs/configuration.md");
    assert!(page.contains(&format!("fsynctop: {error}\n")), "{error}");
}

fn merged(texts: &[&str]) -> Configuration {
    let mut configuration = Configuration::default();
    let command = root::command();
    for (i, text) in texts.iter().enumerate() {
        let path = PathBuf::from(format!("/{i}.toml"));
        configuration.add(settings(&command, &path, text).unwrap());
    }
    configuration
}

fn shown(configuration: &Configuration) -> Vec<String> {
    configuration.settings.iter().map(|s| format!("{}={} {}", s.key.title(), s.text, s.origin())).collect()
}

#[test]
fn a_later_file_wins_key_by_key() {
    let configuration = merged(&[
        "color = 'never'\nmax-cpu = '2%'\n[once]\nby = 'file'\n[top]\nby = 'thread'\n",
        "\ncolor = 'always'\n[once]\nby = 'role'\n",
    ]);
    let expected = [
        "max-cpu='2%' /0.toml:2",
        "color='always' /1.toml:2",
        "[top] by='thread' /0.toml:6",
        "[once] by='role' /1.toml:4",
    ];
    assert_eq!(shown(&configuration), expected);
    assert_eq!(configuration.replaced.len(), 2);
}

#[test]
fn which_processes_is_one_choice() {
    let configuration = merged(&["comm = ['mysqld']\nall = true\n", "cgroup = '/system.slice'\n"]);
    assert_eq!(shown(&configuration), ["cgroup='/system.slice' /1.toml:1"]);
    let configuration = merged(&["comm = ['mysqld']\ncgroup = '/a'\n"]);
    assert_eq!(configuration.settings.len(), 2, "one file may say more than one thing");
}
