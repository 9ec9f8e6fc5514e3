//! fsynctop.toml from the outside: which files are read, which are refused, and who wins.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::faults::{fsynctop, output, stderr};
use tempfile::TempDir;

/// A directory with `fsynctop/fsynctop.toml` in it, as XDG_CONFIG_HOME has it.
fn own(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fsynctop/fsynctop.toml");
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    (directory, path)
}

/// With that directory as the user's own, unlike in every other test.
fn reading(home: &Path) -> Command {
    let mut command = fsynctop();
    command.env_remove("FSYNCTOP_NO_CONFIG").env("XDG_CONFIG_HOME", home);
    command
}

/// `stuck` of this process alone: it needs no rights, and fails if it cannot read the roles file of the
/// configuration.
fn stuck(home: &Path, arguments: &[&str]) -> Output {
    let pid = std::process::id().to_string();
    output(reading(home).args(["stuck", "--pid", &pid]).args(arguments))
}

fn refused(home: &Path, arguments: &[&str], says: &[&str]) {
    let ended = stuck(home, arguments);
    let said = stderr(&ended);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    for part in says {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(ended.stdout.is_empty(), "{ended:?}");
}

#[test]
fn the_users_own_file_is_read_unless_another_or_none_is_asked_for() {
    let (home, _) = own("roles = '/no/such/roles'\n");
    refused(home.path(), &[], &["/no/such/roles"]);
    for without in [&["--no-config"][..], &["--config", "/dev/null"]] {
        let ended = stuck(home.path(), without);
        let expected = if without.len() == 1 { Some(0) } else { Some(2) };
        assert_eq!(ended.status.code(), expected, "{without:?}: {}", stderr(&ended));
    }
    let (_other, path) = own("stuck-after = '2s'\n");
    let ended = stuck(home.path(), &["--config", path.to_str().unwrap()]);
    assert!(ended.status.success(), "{}", stderr(&ended));
}

#[test]
fn the_command_line_comes_before_the_file() {
    let (home, _) = own("roles = '/no/such/roles'\n");
    let rules = tempfile::NamedTempFile::new().unwrap();
    fs::write(rules.path(), "[[rule]]\nrole = 'redo'\nname = 'x'\n").unwrap();
    let ended = stuck(home.path(), &["--roles", rules.path().to_str().unwrap()]);
    assert!(ended.status.success(), "{}", stderr(&ended));
}

#[test]
fn a_mistake_is_named_with_its_place_and_a_suggestion() {
    let (home, path) = own("# mine\n\n  colour = 'always'\n");
    let place = format!("fsynctop: {}:3:3: unknown key colour: did you mean color?", path.display());
    refused(home.path(), &[], &[&place]);
    fs::write(&path, "color = 'pink'\n").unwrap();
    refused(home.path(), &[], &[":1:9: color: ", "pink", "always, never"]);
    fs::write(&path, "[top]\ninterval = 0\n").unwrap();
    refused(home.path(), &[], &[":2:12: [top] interval: ", "at least a millisecond"]);
}

#[test]
fn what_others_can_write_and_what_is_no_file_is_refused() {
    let (home, path) = own("");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    refused(home.path(), &[], &["is not used", "others than its owner may write", "chmod go-w"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(home.path(), &[], &["is not used", "not a regular file"]);
    fs::remove_dir(&path).unwrap();
    assert!(stuck(home.path(), &[]).status.success(), "there need be none");
    refused(
        home.path(),
        &["--config", "/no/such/file"],
        &["cannot read the configuration file /no/such/file"],
    );
    refused(home.path(), &["--config", "/dev/zero"], &["not a regular file"]);
}

#[test]
fn the_color_of_the_file_stands_behind_no_color() {
    let (home, _) = own("color = 'always'\n");
    let colored = |variables: &[(&str, &str)], arguments: &[&str]| {
        // A usage error is coloured by clap; what `stuck` prints of nothing is its heading.
        let mut command = reading(home.path());
        command.envs(variables.iter().copied());
        let pid = std::process::id().to_string();
        let ended = output(command.args(["stuck", "--pid", &pid]).args(arguments));
        assert!(ended.status.success(), "{ended:?}");
        ended.stdout.contains(&0x1b)
    };
    let plain = colored(&[], &["--color", "never"]);
    assert!(!plain);
    assert_eq!(colored(&[("NO_COLOR", "1")], &[]), plain);
}
