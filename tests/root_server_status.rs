//! Needs root and real servers: their counters through accounts with few rights, through TLS, and through a socket
//! found in the server's own root.

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use fsynctop::files::rules::Rules;
use fsynctop::server_status::connection::Connection;
use fsynctop::server_status::counters::Between;
use fsynctop::server_status::find::Target;
use fsynctop::server_status::options::ConnectOptions;
use fsynctop::server_status::reading::Scope;
use fsynctop::target::{describe, processes};
use serde_json::Value;

use common::disk::run;
use common::exact::on_both;
use common::server::{Database, Kind};
use common::terminal::{TMUX, Terminal};
use common::{Running, can_run};

const PASSWORD: &str = "pa#ss 'word";

fn verify(database: &Database) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["verify", "-d", "1", "--output", "json", "--pid", &database.pid.to_string()]);
    command
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Succeeds, and returns what was compared.
fn verified(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), message(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(command: &mut Command, says: &str) {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(message(&output).contains(says), "no {says:?} in {}", message(&output));
    assert!(!message(&output).contains(PASSWORD));
}

#[test]
fn an_account_without_rights_sees_all_but_what_needs_one() {
    on_both("an_account_without_rights_sees_all_but_what_needs_one", |kind| {
        let database = Database::start(kind, &[]);
        let create = "CREATE USER monitor@localhost IDENTIFIED BY \"pa#ss 'word\"";
        database.execute(&[create]);
        let socket = database.socket.to_str().unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "[client]\nuser=monitor\npassword=\"pa#ss 'word\"\nsocket={socket}").unwrap();
        let defaults = format!("--defaults-file={}", file.path().display());

        let value = verified(verify(&database).arg(&defaults));
        let refusals = value["refused"].as_array().unwrap();
        let rows = value["rows"].as_array().unwrap();
        let has = |what: &str| rows.iter().any(|row| row["what"] == what && row["kind"] == "exact");
        assert!(has("InnoDB together"), "{value:#}");
        match kind {
            // Its counter of groups is open to all.
            Kind::MariaDb => assert!(refusals.is_empty() && has("binary log"), "{value:#}"),
            Kind::MySql => {
                assert!(refusals[0].as_str().unwrap().contains("file_summary_by_instance"), "{value:#}");
                assert!(!has("binary log"), "{value:#}");
                let grant =
                    "GRANT SELECT ON performance_schema.file_summary_by_instance TO monitor@localhost";
                database.execute(&[grant]);
                let value = verified(verify(&database).arg(&defaults));
                assert_eq!(value["refused"].as_array().unwrap().len(), 0, "{value:#}");
            }
        }

        // The same password from the environment; a wrong one; one that would go to a place that nobody named.
        let account = ["--user", "monitor", "--socket", socket];
        verified(verify(&database).args(account).env("MYSQL_PWD", PASSWORD));
        refused(verify(&database).args(account).env("MYSQL_PWD", "wrong"), "Access denied");
        let astray = "not sent to a socket that was merely found";
        refused(verify(&database).args(["--user", "monitor"]).env("MYSQL_PWD", PASSWORD), astray);
        // A file that everyone can write is nobody's.
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        refused(verify(&database).arg(&defaults), "everyone can write it");
        // An argument is no place for a password.
        let output = verify(&database).arg(format!("--password={PASSWORD}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    });
}

/// What the server says of 1,600 INSERTs by 16 connections: (count, the counter's name, exact), and its groups.
fn counted(database: &Database) -> ((u64, &'static str, bool), Option<u64>) {
    let id = processes::find(Path::new("/proc"), database.pid).unwrap().id();
    let server = describe::describe(Path::new("/proc"), id, &Rules::builtin()).0;
    let mut connection = Connection::open(&Target::of(ConnectOptions::default(), &server).unwrap()).unwrap();
    let from = connection.read(Scope::Everything).unwrap();
    database.insert(16, 100);
    let to = connection.read(Scope::Everything).unwrap();
    let between = Between { from: &from, to: &to };
    assert_eq!(between.interrupted(), None);
    assert!(between.redo_bytes().unwrap() > 100_000 && to.redo_capacity().unwrap() > 1 << 20);
    assert!(to.checkpoint_age().unwrap() <= to.redo_capacity().unwrap());
    assert!(to.refused.is_empty(), "{:?}", to.refused);
    let transactions = between.transactions().unwrap();
    let groups = between.commit_groups().map(|groups| groups.count);
    ((transactions.count, transactions.source, transactions.exact), groups)
}

#[test]
fn transactions_are_those_that_the_client_made() {
    on_both("transactions_are_those_that_the_client_made", |kind| {
        let database = Database::start(kind, &[]);
        database.prepare();
        let (transactions, groups) = counted(&database);
        match kind {
            Kind::MariaDb => {
                assert_eq!(transactions, (1_600, "binlog_commits", true));
                assert!(groups.is_some_and(|groups| (100..=1_600).contains(&groups)), "{groups:?}");
            }
            Kind::MySql => assert_eq!((transactions, groups), ((1_600, "gtid_executed", true), None)),
        }
        // Without a binary log, about.
        let database = Database::start(kind, &["--skip-log-bin"]);
        database.prepare();
        let ((count, source, exact), _) = counted(&database);
        assert_eq!((source, exact), ("handler_commit", false));
        assert!((1_600..2_000).contains(&count), "{count}");
    });
}

#[test]
fn over_tcp_the_connection_is_encrypted_and_the_certificate_is_looked_at() {
    if !can_run("over_tcp_the_connection_is_encrypted_and_the_certificate_is_looked_at", &[]) {
        return;
    }
    let keys = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    let ca = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test-ca"];
    run("openssl", &[&ca[..], &["-keyout", &path("ca.key"), "-out", &path("ca.pem")]].concat());
    let request = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=db"];
    run("openssl", &[&request[..], &["-keyout", &path("key.pem"), "-out", &path("request.pem")]].concat());
    std::fs::write(path("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    let sign = [
        "x509",
        "-req",
        "-days",
        "2",
        "-CAcreateserial",
        "-in",
        &path("request.pem"),
        "-CA",
        &path("ca.pem"),
    ];
    let rest = ["-CAkey", &path("ca.key"), "-extfile", &path("names"), "-out", &path("cert.pem")];
    run("openssl", &[&sign[..], &rest[..]].concat());
    for name in ["key.pem", "cert.pem", "ca.pem"] {
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    std::fs::set_permissions(keys.path(), std::fs::Permissions::from_mode(0o755)).unwrap();

    // Free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = [
        "--skip-networking=0".to_owned(),
        "--bind-address=0.0.0.0".into(),
        format!("--port={port}"),
        format!("--ssl-cert={}", path("cert.pem")),
        format!("--ssl-key={}", path("key.pem")),
        "--require-secure-transport=ON".into(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let database = Database::start(Kind::MariaDb, &options);
    // Both, because a server may or may not look up the name of an address.
    database.execute(&[
        "CREATE USER monitor@localhost IDENTIFIED BY \"pa#ss 'word\"",
        "CREATE USER monitor@'127.0.0.1' IDENTIFIED BY \"pa#ss 'word\"",
    ]);
    let port = port.to_string();
    let to = |host: &str, options: &[&str]| {
        let mut command = verify(&database);
        command.args(["--host", host, "--port", &port, "--user", "monitor"]).args(options);
        command.env("MYSQL_PWD", PASSWORD);
        command
    };
    let over_tcp = |options: &[&str]| to("127.0.0.1", options);
    // The server takes no connection that is not encrypted, whatever it says about it.
    refused(&mut over_tcp(&["--ssl-mode", "disabled"]), "no connection to the server at 127.0.0.1:");
    verified(&mut over_tcp(&[]));
    verified(&mut over_tcp(&["--ssl-mode", "required"]));
    verified(&mut over_tcp(&["--ssl-ca", &path("ca.pem")]));
    refused(&mut over_tcp(&["--ssl-mode", "verify-identity"]), "UnknownIssuer");
    let ca = path("ca.pem");
    let identity = ["--ssl-mode", "verify-identity", "--ssl-ca", &ca];
    verified(&mut over_tcp(&identity));
    verified(&mut to("localhost", &identity));
    // The same server by an address that its certificate does not name.
    refused(&mut to("127.0.0.2", &identity), "not valid for name");
}

#[test]
fn a_password_is_asked_for_on_the_terminal_and_not_shown() {
    if !can_run("a_password_is_asked_for_on_the_terminal_and_not_shown", &[TMUX]) {
        return;
    }
    let database = Database::start(Kind::MariaDb, &[]);
    database.execute(&["CREATE USER monitor@localhost IDENTIFIED BY \"pa#ss 'word\""]);
    let (socket, pid) = (database.socket.to_str().unwrap(), database.pid.to_string());
    let asked = || {
        let to = ["--pid", &pid, "--socket", socket, "--user", "monitor", "--password"];
        let terminal = Terminal::fsynctop(120, 40, &[&["verify", "-d", "1"], &to[..]].concat());
        terminal.until_shown("Password:");
        terminal
    };
    let terminal = asked();
    terminal.keys(&["-l", PASSWORD]);
    terminal.keys(&["Enter"]);
    let screen = terminal.until_shown("ended with");
    assert!(screen.contains("InnoDB together") && !screen.contains(PASSWORD), "{screen}");
    terminal.assert_restored(0);

    let terminal = asked();
    terminal.keys(&["-l", "mistaken"]);
    terminal.keys(&["Enter"]);
    let screen = terminal.until_shown("ended with");
    assert!(screen.contains("Access denied") && !screen.contains("mistaken"), "{screen}");
    terminal.assert_restored(1);

    let terminal = asked();
    terminal.keys(&["C-c"]);
    terminal.until_shown("given up");
    terminal.assert_restored(1);
}

#[test]
fn another_server_is_not_taken_for_the_traced_one() {
    if !can_run("another_server_is_not_taken_for_the_traced_one", &[]) {
        return;
    }
    let (one, other) = (Database::start(Kind::MariaDb, &[]), Database::start(Kind::MariaDb, &[]));
    refused(verify(&one).arg("--socket").arg(&other.socket), "leads to another server: its data directory");
    // One that cannot be connected to chooses none: why is what is said.
    let account =
        ["verify", "-d", "1", "--user", "nobody-at-all", "--socket", other.socket.to_str().unwrap()];
    let output =
        Command::new(env!("CARGO_BIN_EXE_fsynctop")).args(account).env("MYSQL_PWD", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = message(&output);
    assert!(said.contains("Access denied") && said.contains("--pid has to say which server"), "{said}");
    assert!(said.contains(&format!("\n  mariadbd {}", one.pid)), "{said}");
    // Without a choice, the connection chooses: also where there is one of which nothing is known, as of one that ends.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("mariadbd");
    std::fs::copy("/bin/sleep", &path).unwrap();
    let _unknown = Running(Command::new(&path).arg("600").spawn().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["verify", "-d", "1", "--output", "json", "--socket"]).arg(&other.socket);
    assert_eq!(verified(&mut command)["server"]["pid"], other.pid);
}
