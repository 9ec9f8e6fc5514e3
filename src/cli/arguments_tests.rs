//! Which place wins, and what is said of mistakes in the exporter's file.

use crate::model::Figure;
use std::path::Path;
use std::time::Duration;

use super::super::exporter::Exporter;
use super::super::once::Once;
use super::super::root;
use super::super::top::Top;
use super::*;
use crate::render::{By, Shown};
use crate::top::View;

/// As if `config` were the system's fsynctop.toml.
fn parse_all(config: &str, words: &[&str]) -> Result<Asked, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fsynctop.toml");
    std::fs::write(&path, config).unwrap();
    let sources = |_: &str, _: &ArgMatches| Sources::file(&path);
    let words: Vec<OsString> = ["fsynctop"].iter().chain(words).map(OsString::from).collect();
    parse_with(root::command(), &words, &|_| false, &sources).map_err(|error| error.to_string())
}

fn action(config: &str, words: &[&str]) -> Action {
    parse_all(config, words).unwrap().arguments.action.expect("an action")
}

fn once(config: &str, words: &[&str]) -> Once {
    match action(config, words) {
        Action::Once(once) => once,
        other => panic!("{other:?}"),
    }
}

fn top(config: &str, words: &[&str]) -> Top {
    match action(config, words) {
        Action::Top(top) => top,
        other => panic!("{other:?}"),
    }
}

const CONFIG: &str = "comm = ['postgres']
max-cpu = '5%'
stuck-after = 3
[top]
interval = '2s'
by = 'neighbour'
no-mouse = true
[once]
by = 'file'
columns = ['op', 'p99']
[history]
last = '90s'
";

#[test]
fn the_configuration_is_the_default_of_what_the_command_line_does_not_say() {
    let from_file = once(CONFIG, &["once"]);
    assert_eq!(
        (from_file.by, &from_file.columns[..]),
        (By::File, &[Shown::Op, Shown::Figure(Figure::P99)][..])
    );
    assert_eq!(from_file.stuck_after, Duration::from_secs(3));
    assert_eq!((&from_file.trace.targets.comm[..], from_file.interval), (&["postgres".to_owned()][..], None));
    let given =
        once(CONFIG, &["once", "--by", "role", "--columns", "max", "--comm", "mysqld", "--stuck-after", "1"]);
    assert_eq!((given.by, &given.columns[..]), (By::Role, &[Shown::Figure(Figure::Max)][..]));
    assert_eq!(
        (given.stuck_after, &given.trace.targets.comm[..]),
        (Duration::from_secs(1), &["mysqld".to_owned()][..])
    );
}

#[test]
fn the_live_view_has_its_settings_with_and_without_its_name() {
    for words in [&["top"][..], &[]] {
        let top = top(CONFIG, words);
        assert_eq!((top.interval, top.no_mouse), (Duration::from_secs(2), true), "{words:?}");
        assert_eq!(top.by, View::Neighbour, "{words:?}");
    }
    let top = top(CONFIG, &["-i", "5", "--by", "role", "--pid", "1"]);
    assert_eq!(top.interval, Duration::from_secs(5));
    assert_eq!(top.by, View::Role);
}

#[test]
fn the_old_forms_have_the_settings_of_what_they_mean() {
    let plain = |words: &[&str]| {
        let asked = parse_all(CONFIG, words).unwrap();
        assert!(asked.arguments.action.is_none());
        asked.arguments.plain.measure
    };
    assert_eq!(plain(&["-d", "1"]).by, By::File);
    assert_eq!(plain(&["--once"]).interval, None);
    let waits = plain(&["--wait"]);
    assert_eq!((waits.by, waits.interval, waits.stuck_after), (By::Role, None, Duration::from_secs(3)));
    let last = parse_all(CONFIG, &["--last", "1m"]).unwrap().arguments.plain.last;
    assert_eq!(last, Some(Duration::from_secs(60)));
}

#[test]
fn whoever_names_processes_names_all_of_them() {
    for words in [&["once", "--pid", "1"][..], &["once", "--all"], &["once", "--", "true"]] {
        assert!(once(CONFIG, words).trace.targets.comm.is_empty(), "{words:?}");
    }
    let Action::Stuck(stuck) = action(CONFIG, &["stuck"]) else { panic!() };
    assert!(!stuck.targets.is_given(), "it examines every process");
}

#[test]
fn a_mistake_anywhere_in_the_file_is_one_for_every_action() {
    for words in [&["stuck"][..], &["once"], &[], &["check"], &["exporter"]] {
        let error = parse_all("[once]\nby = 'x'\n", words).map(drop).expect_err("refused");
        assert!(error.contains("fsynctop.toml:2:6: [once] by: "), "{words:?}: {error}");
    }
}

#[test]
fn without_the_files_or_with_another_one_in_their_place() {
    let with = |no_config: Option<&str>, words: &[&str]| {
        let words = ["fsynctop"].iter().chain(words);
        let matches = root::command().try_get_matches_from(words).unwrap();
        let (action, matches) = matches.subcommand().unwrap_or(("top", &matches));
        let variable = |name: &str| no_config.filter(|_| name == "FSYNCTOP_NO_CONFIG").map(OsString::from);
        let sources = Sources::with_environment(action, matches, variable);
        sources.paths().iter().map(|path| path.to_path_buf()).collect::<Vec<_>>()
    };
    let of = |words: &[&str]| with(None, words);
    let system = Path::new("/etc/fsynctop/fsynctop.toml");
    assert!(of(&["once", "--no-config"]).is_empty() && of(&["--no-config"]).is_empty());
    assert_eq!(of(&["exporter", "--config", "/x.toml"]), [system], "its --config is another file");
    assert!(of(&["exporter", "--no-config"]).is_empty());
    assert_eq!(of(&["check", "--config", "/x.toml"]), [Path::new("/x.toml")]);
    assert_eq!(of(&["check"])[0], system);
    assert!(with(Some("true"), &["once"]).is_empty() && with(Some("true"), &[]).is_empty());
    assert!(with(Some("true"), &["exporter", "--config", "/x.toml"]).is_empty());
    assert_eq!(with(Some("true"), &["once", "--config", "/x.toml"]), [Path::new("/x.toml")]);
    for none in ["false", ""] {
        assert_eq!(with(Some(none), &["once"])[0], system);
    }
    assert!(root::command().try_get_matches_from(["fsynctop", "--config", "x", "--no-config"]).is_err());
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let words = ["fsynctop", "once", "--config", "/no/such/file"].map(OsString::from);
    let error = parse(root::command(), &words).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the configuration file /no/such/file: No such file"), "{error}");
}

/// The exporter's options, from a file of its own over a system's fsynctop.toml.
fn exporter_with(config: &str, file: &str, arguments: &[&str]) -> Result<Exporter, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exporter.toml");
    std::fs::write(&path, file).unwrap();
    let words = [&["exporter", "--config", path.to_str().unwrap()], arguments].concat();
    match parse_all(config, &words)?.arguments.action {
        Some(Action::Exporter(exporter)) => Ok(exporter),
        other => panic!("{other:?}"),
    }
}

fn exporter(file: &str, arguments: &[&str]) -> Result<Exporter, String> {
    exporter_with("", file, arguments)
}

fn refused(file: &str, says: &[&str]) {
    let error = exporter(file, &[]).expect_err(file);
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
fn the_exporters_file_sets_what_the_command_line_does_not() {
    let one = exporter(FILE, &["--interval", "250ms", "--ops", "fdatasync"]).unwrap();
    assert_eq!(one.listen.len(), 2);
    assert_eq!(one.web_config_file.unwrap(), Path::new("/etc/fsynctop/web.yml"));
    assert_eq!(one.interval, Duration::from_millis(250));
    assert_eq!((one.trace.max_files, one.trace.max_histograms), (1024, 4096));
    assert_eq!(one.trace.targets.comm, ["mysqld"]);
    assert!(one.trace.targets.all && !one.trace.verbose);
    assert_eq!(one.trace.ops.len(), 1);
    let one = exporter(FILE, &[]).unwrap();
    assert_eq!((one.interval, one.trace.ops.len()), (Duration::from_secs(5), 2));
    let one = exporter("", &[]).unwrap();
    assert_eq!((one.interval, one.listen.len()), (Duration::from_secs(1), 0));
}

#[test]
fn the_exporters_file_comes_before_the_systems() {
    let config = "max-files = 2048\nmax-histograms = 512\ncgroup = '/system.slice'\n[top]\ninterval = 9\n";
    let one = exporter_with(config, FILE, &[]).unwrap();
    assert_eq!((one.trace.max_files, one.trace.max_histograms), (1024, 512));
    assert_eq!((one.trace.targets.cgroup, one.interval), (None, Duration::from_secs(5)));
    let one = exporter_with(config, "", &[]).unwrap();
    assert_eq!((one.trace.max_files, one.interval), (2048, Duration::from_secs(1)));
    assert!(one.trace.targets.cgroup.is_some());
    // A flag that is off there is not on by the other file.
    let one = exporter_with("all = true\n", "all = false\n", &[]).unwrap();
    assert!(!one.trace.targets.all);
}

#[test]
fn what_is_wrong_with_the_exporters_file_is_said_with_its_line() {
    refused("interval = 1\nlissten = []\n", &["exporter.toml:2:", "unknown key lissten", "listen"]);
    refused("\nmax_files = 100\n", &["exporter.toml:2:", "it is written max-files"]);
    refused("max-files = 3\n", &["exporter.toml:1:", "max-files", "16"]);
    refused("interval = 1\nattach = 'uprobe'", &["exporter.toml:2:", "uprobe", "fentry"]);
    refused("listen = ['nowhere']", &["exporter.toml:1:", "127.0.0.1:9871"]);
    refused("all = 'yes'", &["true or false"]);
    refused("max-files = [1, 2]", &["one value"]);
    refused("roles = {}", &["a text or a number"]);
    refused("config = 'other.toml'", &["unknown key config"]);
    refused("no-config = true", &["unknown key no-config"]);
    refused("interval = \n", &["exporter.toml:1:"]);
    refused("interval = 1\ninterval = 2\n", &["exporter.toml:2:"]);
    refused("[listen]\n", &["exporter.toml:1:"]);
}

#[test]
fn a_file_of_the_exporter_that_is_not_there_is_named() {
    let error = parse_all("", &["exporter", "--config", "/no/such/file"]).map(drop).unwrap_err();
    assert!(error.starts_with("cannot read the configuration file /no/such/file: No such file"), "{error}");
}

#[test]
fn every_option_of_the_exporter_has_a_variable_and_no_other_action_has() {
    let command = exporter::with_environment(root::command(), &|_| true);
    let exporter = command.find_subcommand("exporter").unwrap();
    for option in exporter.get_arguments().filter(|option| !option.is_positional()) {
        let name = option.get_long().unwrap();
        let expected = "FSYNCTOP_".to_owned() + &name.to_uppercase().replace('-', "_");
        assert_eq!(option.get_env().unwrap(), expected.as_str());
    }
    assert!(command.get_arguments().all(|option| option.get_env().is_none()));
    let check = command.find_subcommand("check").unwrap();
    assert!(check.get_arguments().all(|option| option.get_env().is_none()));
}
