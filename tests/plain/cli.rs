//! The command line as far as it goes without root: usage, help, and what is wrong with the arguments.

use crate::common::faults::{fsynctop, output, stderr, stdout};
use crate::common::sleeper;

fn fails_with(arguments: &[&str], status: i32, says: &[&str]) {
    let output = output(fsynctop().args(arguments));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
    assert!(stdout(&output).is_empty(), "{arguments:?}: {output:?}");
    for part in says {
        assert!(message.contains(part), "{arguments:?}: no {part:?} in {message}");
    }
    assert!(!message.contains("panicked") && !message.contains("libbpf:"), "{arguments:?}: {message}");
}

#[test]
fn bad_usage_has_a_status_of_its_own_and_names_the_argument() {
    fails_with(&["once", "-n", "3"], 2, &["--interval"]);
    fails_with(&["once", "-d", "soon"], 2, &["--duration", "soon"]);
    fails_with(&["once", "-i", "0"], 2, &["--interval", "at least a millisecond"]);
    fails_with(&["once", "--ops", "write"], 2, &["write", "fdatasync"]);
    fails_with(&["once", "--output", "xml"], 2, &["xml", "json", "csv"]);
    fails_with(&["once", "-d", "5", "--", "true"], 2, &["--duration"]);
    fails_with(&["once", "--max-files", "3"], 2, &["--max-files", "16"]);
    fails_with(&["no-such-action"], 2, &["no-such-action"]);
    fails_with(&["expalin", "-d", "1"], 2, &["expalin", "a similar subcommand exists: 'explain'"]);
}

#[test]
fn a_word_names_servers_or_says_what_could_be_meant() {
    for line in [&["4194305"][..], &["once", "4194305"], &["stuck", "4194305"], &["4194305", "-d", "1"]] {
        fails_with(line, 3, &["there is no process 4194305"]);
    }
    fails_with(&["once", "sqlite"], 2, &["SQLite is a library"]);
    fails_with(&["mysql", "--pid", "1"], 2, &["[SERVER]", "--pid"]);
    fails_with(&["onec"], 2, &["a similar subcommand exists: 'once'"]);
    for line in [&["no-such-engine"][..], &["once", "no-such-engine"]] {
        let both = ["fsynctop --comm no-such-engine", "fsynctop once -- no-such-engine"];
        fails_with(line, 2, &[&["no engine is called no-such-engine"][..], &both].concat());
        assert_eq!(stderr(&output(fsynctop().args(line))).lines().count(), 1);
    }
    fails_with(&["once", "./load.sh"], 2, &["`fsynctop once -- ./load.sh` traces a command"]);
    fails_with(&["sync", "--data", "x y"], 2, &["--data"]);
    fails_with(&["sync", "x y"], 2, &["a command is traced by `fsynctop once -- sync 'x y'`"]);
    fails_with(&["once", "explain"], 2, &["one action at a time", "`fsynctop explain`"]);
}

#[test]
fn who_asks_for_what_does_not_run_is_told_what_does() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("valkey-server");
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let server = crate::common::Running(std::process::Command::new(&program).arg("60").spawn().unwrap());
    let pid = server.0.id();
    crate::common::wait_until("the server", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "valkey-server\n")
    });
    // Others may run beside it.
    fails_with(&["once", "--comm", "no-such-comm"], 3, &["What runs here is "]);
}

#[test]
fn an_option_may_stand_before_its_action() {
    fails_with(&["--pid", "4194305", "once"], 3, &["4194305"]);
    fails_with(&["-d", "5", "--comm", "no-such-comm", "explain"], 3, &["nothing to explain"]);
    fails_with(&["--histogram", "explain"], 2, &["'--histogram' is an option of `fsynctop once`"]);
    fails_with(&["explain", "--histogram"], 2, &["'--histogram' is an option of `fsynctop once`"]);
    let version = stdout(&output(fsynctop().args(["-V", "once"])));
    assert!(version.starts_with("fsynctop "), "{version}");
}

#[test]
fn the_form_of_the_output_is_an_option_of_its_own_too() {
    for action in ["once", "explain", "verify"] {
        fails_with(&[action, "--json", "--comm", "no-such-comm"], 3, &["no-such-comm"]);
    }
    fails_with(&["once", "--csv", "--comm", "no-such-comm"], 3, &["no-such-comm"]);
    fails_with(&["verify", "--csv"], 2, &["'csv' for '--output"]);
    fails_with(&["calibrate", "--json", "/no/such/directory"], 1, &["/no/such/directory"]);
    fails_with(&["exporter", "--json"], 2, &["--json"]);
}

#[test]
fn a_name_is_a_pid_where_one_process_alone_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("twin-process");
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let start = || crate::common::Running(std::process::Command::new(&program).arg("60").spawn().unwrap());
    let (one, other) = (start(), start());
    let is_itself = |running: &crate::common::Running| {
        std::fs::read_to_string(format!("/proc/{}/comm", running.0.id()))
            .is_ok_and(|comm| comm == "twin-process\n")
    };
    crate::common::wait_until("the processes", || is_itself(&one) && is_itself(&other));
    let [first, second] = [&one, &other].map(|running| running.0.id().to_string());
    let both = ["2 processes have this name", &first, &second, "--comm twin-process selects all of them"];
    fails_with(&["stuck", "--pid", "twin-process"], 2, &both);
    drop(other);
    let alone = output(fsynctop().args(["stuck", "--pid", "twin-process", "--json"]));
    assert_eq!(alone.status.code(), Some(0), "{alone:?}");
    fails_with(&["once", "--pid", "no-such-process"], 2, &["no process here has this name"]);
}

#[test]
fn what_cannot_be_traced_is_said_before_anything_is_attached() {
    fails_with(&["once", "--pid", "4194305"], 3, &["4194305"]);
    fails_with(&["stuck", "--pid", "4194305"], 3, &["4194305"]);
    fails_with(&["once", "--comm", "a-name-of-more-than-fifteen"], 2, &["a-name-of-more-than-fifteen", "15"]);
    fails_with(&["once", "--cgroup", "/no/such/group"], 3, &["/no/such/group"]);
    fails_with(&["once", "--comm", "no-such-comm"], 3, &["nothing to trace", "no-such-comm", "--wait"]);
}

#[test]
fn a_pid_and_a_name_are_not_given_together() {
    let pid = std::process::id().to_string();
    let both = ["--pid", &pid, "--comm", "mysqld"];
    fails_with(&both, 2, &["--pid", "--comm"]);
    for action in ["once", "top", "check", "stuck", "explain", "verify", "exporter"] {
        fails_with(&[&[action][..], &both].concat(), 2, &["--pid", "--comm"]);
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("exporter.toml");
    std::fs::write(&file, "comm = 'mysqld'\n").unwrap();
    let exporter = ["exporter", "--no-socket", "--config", file.to_str().unwrap(), "--pid", &pid];
    fails_with(&exporter, 2, &["--pid", "--comm"]);
}

#[test]
fn what_is_neither_mysql_nor_mariadb_has_no_counters_to_be_verified_against() {
    let strangers = [sleeper(), sleeper()];
    let [one, other] = strangers.each_ref().map(|running| running.0.id().to_string());
    let plainly = format!("sleep {one} is neither MySQL, MariaDB, PostgreSQL, etcd, Redis nor Valkey");
    fails_with(&["verify", "--pid", &one], 3, &["nothing to compare with", &plainly]);
    let none = "none of the 2 selected processes (sleep ";
    fails_with(
        &["verify", "--pid", &one, "--pid", &other],
        3,
        &[none, "is MySQL, MariaDB, PostgreSQL, etcd, Redis or Valkey"],
    );
    // Nor is one of them to be named, or a socket of theirs.
    let output = output(fsynctop().args(["verify", "--pid", &one, "--pid", &other]));
    assert!(!stderr(&output).contains("name one") && !stderr(&output).contains("--socket"), "{output:?}");
}

#[test]
fn the_number_of_a_thread_is_no_pid_and_its_process_is_named() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (_keep, wait) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        sender.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        let _ = wait.recv();
    });
    let own = receiver.recv().unwrap();
    let tid = own.file_name().unwrap().to_str().unwrap();
    fails_with(&["once", "--pid", tid], 2, &[tid, &std::process::id().to_string()]);
}

#[test]
fn a_bad_rules_file_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("roles.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[[rule]]\nrole = \"redo\"\nname = \"^ok$\"\n\n[[rule]]\nrole = \"nonsense\"\n")
        .unwrap();
    for action in [&["once"][..], &["check"], &["stuck"]] {
        fails_with(&[action, &["--roles", path]].concat(), 2, &[&format!("{path}:6:"), "nonsense"]);
        fails_with(&[action, &["--roles", "/no/such/file"]].concat(), 2, &["/no/such/file"]);
    }
}

#[test]
fn an_output_file_that_cannot_be_written_is_known_at_once() {
    fails_with(
        &["once", "--output-file", "/no/such/directory/file", "--all"],
        1,
        &["cannot write /no/such/directory/file", "No such file"],
    );
}

#[test]
fn the_help_says_what_one_must_know() {
    let help = stdout(&output(fsynctop().arg("--help")));
    for part in
        ["Which processes:", "How to trace:", "Examples:", "Exit status:", "check", "stuck", "history"]
    {
        assert!(help.contains(part), "no {part:?} in {help}");
    }
    assert!(!help.contains("exec-when-told"), "{help}");
    for (words, as_well) in [(&["help"][..], &["--help"][..]), (&["help", "record"], &["record", "--help"])] {
        let (help, same) = (output(fsynctop().args(words)), output(fsynctop().args(as_well)));
        assert!(help.status.success() && stdout(&help) == stdout(&same), "{words:?}: {help:?}");
    }
    fails_with(&["help", "no-such-action"], 2, &["no-such-action"]);
    let short = stdout(&output(fsynctop().arg("-h")));
    let examples =
        short.split("Examples (more: fsynctop --help, man fsynctop):\n").nth(1).unwrap_or_default();
    assert_eq!(examples.lines().filter(|line| line.starts_with("  fsynctop")).count(), 2, "{short}");
    let help = stdout(&output(fsynctop().args(["once", "--help"])));
    assert!(help.contains("--wait") && help.contains("--histogram"), "{help}");
}

#[test]
fn the_version_is_one_line_or_all_that_is_known_of_the_build() {
    let short = stdout(&output(fsynctop().arg("-V")));
    assert_eq!(short, format!("fsynctop {}\n", env!("CARGO_PKG_VERSION")));
    let long = stdout(&output(fsynctop().arg("--version")));
    let lines: Vec<_> = long.lines().collect();
    assert_eq!(lines[0], short.trim_end());
    let begins = ["commit: ", "target: ", "libbpf: ", "BPF objects: sha256 "];
    assert!(
        lines.len() == 5 && lines[1..].iter().zip(begins).all(|(line, with)| line.starts_with(with)),
        "{long}"
    );
}

#[test]
fn stuck_needs_no_rights_to_answer() {
    let output =
        output(fsynctop().args(["stuck", "--output", "json", "--pid", &std::process::id().to_string()]));
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["schema"], 1);
    assert!(answer["in_flight"].is_array());
}

#[test]
fn the_old_forms_of_actions_and_output_say_the_same_as_the_new() {
    let socket = ["--socket", "/no/such/socket"];
    let (status, nobody) = (Some(1), "/no/such/socket");
    for (old, new) in [
        (&["--once", "--comm", "no-such-comm"][..], &["once", "--comm", "no-such-comm"][..]),
        (&["-d", "1", "--comm", "no-such-comm"], &["once", "-d", "1", "--comm", "no-such-comm"]),
    ] {
        // Servers of other tests come and go: what is said of them is not compared.
        let said = |arguments: &[&str]| {
            let ended = output(fsynctop().args(arguments));
            let message = stderr(&ended);
            let (nothing, rest) = message.split_once("no process called no-such-comm.").unwrap();
            let (_, advice) = rest.split_once(" --pid, --comm").unwrap();
            (ended.status.code(), nothing.to_owned(), advice.to_owned())
        };
        let (old, new) = (said(old), said(new));
        assert_eq!(old, new);
        assert!(new.0 == Some(3) && new.1.contains("there is "), "{new:?}");
    }
    for form in
        [&["--once", "--last", "1m"][..], &["--last", "1m"], &["history", "--last", "1m"], &["history"]]
    {
        let ended = output(fsynctop().args(form).args(socket));
        assert_eq!(ended.status.code(), status, "{form:?}: {ended:?}");
        assert!(stderr(&ended).contains(nobody), "{form:?}: {ended:?}");
    }
    let pid = std::process::id().to_string();
    for form in [&["--json"][..], &["--output", "json"], &["--output=json"]] {
        let ended = output(fsynctop().args(["stuck", "--pid", &pid]).args(form));
        let answer: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        assert_eq!(answer["schema"], 1, "{form:?}");
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(answer["host"], host.trim_end(), "{form:?}");
    }
}

#[test]
fn the_help_shows_the_new_forms_alone() {
    for arguments in [&["--help"][..], &["stuck", "--help"], &["check", "--help"]] {
        let help = stdout(&output(fsynctop().args(arguments)));
        assert!(!help.contains("--once") && !help.contains("--json"), "{help}");
    }
    let help = stdout(&output(fsynctop().arg("--help")));
    assert!(help.contains("fsynctop once") && help.contains("fsynctop history"), "{help}");
    assert!(!help.contains("--histogram\n") && !help.contains("--count"), "{help}");
}

#[test]
fn every_bad_configuration_ends_with_the_status_of_bad_usage() {
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong");
    std::fs::write(&wrong, "nonsense = [\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    for action in ["once", "top", "check", "stuck", "explain", "verify", "exporter"] {
        fails_with(&[action, "--roles", wrong], 2, &[wrong]);
        fails_with(&[action, "--no-such-option"], 2, &["--no-such-option"]);
    }
    fails_with(&["exporter", "--config", wrong], 2, &[wrong]);
    fails_with(&["exporter", "--config", "/no/such/file"], 2, &["/no/such/file"]);
    fails_with(&["exporter", "--listen", "nowhere"], 2, &["nowhere"]);
    fails_with(&["history", "--last", "soon"], 2, &["soon"]);
    let set = output(fsynctop().arg("exporter").env("FSYNCTOP_INTERVAL", "soon"));
    assert_eq!(set.status.code(), Some(2), "{set:?}");
}

#[test]
fn a_failure_that_no_configuration_explains_has_another_status() {
    fails_with(&["once", "--output-file", "/no/such/directory/file"], 1, &["/no/such/directory/file"]);
    fails_with(&["history", "--socket", "/no/such.sock"], 1, &["/no/such.sock"]);
    fails_with(&["calibrate", "/no/such/directory"], 1, &["/no/such/directory"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails_with(&["exporter", "--no-socket", "--listen", &address], 1, &[&address, "in use"]);
}

#[test]
fn a_cause_is_said_once() {
    for arguments in [&["calibrate", "/no/such"][..], &["once", "--roles", "/no/such"]] {
        let ended = output(fsynctop().args(arguments));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(said.matches("No such file or directory").count(), 1, "{said}");
    }
}

#[test]
fn a_time_that_is_none_is_refused_with_what_would_be_one() {
    fails_with(&["once", "-d", "soon"], 2, &["soon", "90s"]);
    fails_with(&["once", "-d", "-5"], 2, &["-5", "at least a millisecond"]);
}
