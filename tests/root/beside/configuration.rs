//! The system's fsynctop.toml and root's own, in a mount namespace that has them.

use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Output;

use crate::common::faults::{fsynctop, output, stderr, stdout};
use crate::common::needs;

const NOBODY: u32 = 65_534;

/// Runs fsynctop where /etc has nothing but that file.
fn with_system(system: &str, home: &Path, arguments: &[&str]) -> Output {
    let script = "mount -t tmpfs none /etc && mkdir /etc/fsynctop && printf '%s' \"$1\" >/etc/fsynctop/fsynctop.toml && \
                  shift && exec \"$@\"";
    let mut command = fsynctop();
    let program = command.get_program().to_owned();
    command = {
        let mut unshared = std::process::Command::new("unshare");
        unshared.args(["--mount", "sh", "-c", script, "sh", system]).arg(program);
        unshared
            .env_remove("NO_COLOR")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("FSYNCTOP_NO_CONFIG")
            .env_remove("XDG_CONFIG_HOME")
            .env("HOME", home);
        unshared.args(arguments);
        unshared
    };
    output(&mut command)
}

fn home_with(text: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(".config/fsynctop");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("fsynctop.toml"), text).unwrap();
    home
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn check_shows_each_file_and_where_each_setting_comes_from() {
    needs(&[]);
    let home = home_with("[top]\nby = 'file'\n");
    let system = "color = 'never'\nmax-cpu = '0.5%'\n[top]\nby = 'thread'\n";
    let ended = with_system(system, home.path(), &["check", "--color", "auto"]);
    let said = stdout(&ended);
    let own = home.path().join(".config/fsynctop/fsynctop.toml");
    let own = own.display();
    for line in [
        "/etc/fsynctop/fsynctop.toml: 3 settings".to_owned(),
        format!("{own}: 1 setting"),
        "max-cpu = '0.5%', from /etc/fsynctop/fsynctop.toml:2".to_owned(),
        "color = 'never', from /etc/fsynctop/fsynctop.toml:1; passed over: the command line says otherwise"
            .to_owned(),
        format!("[top] by = 'file', from {own}:2 instead of /etc/fsynctop/fsynctop.toml:4"),
    ] {
        assert!(joined(&said).contains(&line), "no {line:?} in {said}");
    }
    let none = with_system(system, home.path(), &["check", "--no-config"]);
    assert!(stdout(&none).contains("none is read (--no-config)"), "{none:?}");
}

/// Without the breaks that a width makes.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "needs root, for a mount namespace"]
fn the_systems_file_must_be_roots_and_anothers_home_is_not_roots_own() {
    needs(&[]);
    let home = home_with("nonsense = 1\n");
    let refused = with_system("", home.path(), &["stuck", "--pid", "1"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("unknown key nonsense"), "{refused:?}");
    chown(home.path(), Some(NOBODY), None).unwrap();
    let passed_over = with_system("", home.path(), &["stuck", "--pid", "1"]);
    assert_ne!(passed_over.status.code(), Some(2), "{passed_over:?}");

    let file = home.path().join("strangers.toml");
    std::fs::write(&file, "").unwrap();
    chown(&file, Some(NOBODY), None).unwrap();
    let ended = output(fsynctop().args(["stuck", "--pid", "1", "--config"]).arg(&file));
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(stderr(&ended).contains("it belongs to user 65534 and must belong to root"), "{ended:?}");
}

#[test]
#[ignore = "needs root, for a mount namespace"]
fn the_exporter_reads_the_systems_file_and_not_roots_own() {
    needs(&[]);
    let home = home_with("nonsense = 1\n");
    let arguments = ["exporter", "--no-socket", "--listen", "127.0.0.1:0"];
    let ended = with_system("roles = '/no/such/roles'\n", home.path(), &arguments);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(stderr(&ended).contains("/no/such/roles") && !stderr(&ended).contains("nonsense"), "{ended:?}");
}
