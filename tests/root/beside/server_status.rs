//! Needs root and real servers: their counters through accounts with few rights, through TLS, and through a
//! socket found in the server's own root.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use fsynctop::engine::rules::Rules;
use fsynctop::server::asking::Scope;
use fsynctop::server::asking::find::Target;
use fsynctop::server::asking::options::{ConnectOptions, Place, Tls};
use fsynctop::server::asking::secret::Secret;
use fsynctop::server::mysql::status::Connection;
use fsynctop::server::mysql::status::counters::Between;
use fsynctop::server::what::describe;
use fsynctop::server::who::processes;
use serde_json::Value;

use crate::common::disk::run;
use crate::common::exact::on_each;
use crate::common::server::{Database, Kind};
use crate::common::terminal::{TMUX, Terminal};
use crate::common::{Running, needs};

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
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn an_account_without_rights_sees_all_but_what_needs_one() {
    on_each(|kind| {
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
            Kind::MySql | Kind::MySql56 => {
                assert!(refusals[0].as_str().unwrap().contains("file_summary_by_instance"), "{value:#}");
                assert!(!has("binary log"), "{value:#}");
                let grant =
                    "GRANT SELECT ON performance_schema.file_summary_by_instance TO monitor@localhost";
                database.execute(&[grant]);
                let value = verified(verify(&database).arg(&defaults));
                assert_eq!(value["refused"].as_array().unwrap().len(), 0, "{value:#}");
            }
        }

        // The same password from the environment; a wrong one; one that would go to a place that nobody
        // named.
        let account = ["--user", "monitor", "--socket", socket];
        verified(verify(&database).args(account).env("MYSQL_PWD", PASSWORD));
        refused(verify(&database).args(account).env("MYSQL_PWD", "wrong"), "Access denied");
        let astray = "not sent to a place that was merely found";
        refused(verify(&database).args(["--user", "monitor"]).env("MYSQL_PWD", PASSWORD), astray);
        // A file that everyone can write is nobody's.
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        refused(verify(&database).arg(&defaults), "everyone can write it");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o620)).unwrap();
        std::os::unix::fs::chown(file.path(), None, Some(65534)).unwrap();
        refused(verify(&database).arg(&defaults), "group 65534 can write it");
        std::os::unix::fs::chown(file.path(), Some(65534), None).unwrap();
        refused(verify(&database).arg(&defaults), "it belongs to user 65534");
        // An argument is no place for a password.
        let output = verify(&database).arg(format!("--password={PASSWORD}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    });
}

/// What the server says of 1,600 INSERTs by 16 connections: (count, the counter's name, exact), and its
/// groups.
fn counted(database: &Database) -> ((u64, &'static str, bool), Option<u64>) {
    let id = processes::find(Path::new("/proc"), database.pid).unwrap().id();
    let server = describe::describe(Path::new("/proc"), id, &Rules::builtin()).0;
    let mut connection =
        Connection::open(&Target::of(ConnectOptions::default(), &server, 3306).unwrap()).unwrap();
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
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn transactions_are_those_that_the_client_made() {
    on_each(|kind| {
        let database = Database::start(kind, &[]);
        database.prepare();
        let (transactions, groups) = counted(&database);
        match kind {
            Kind::MariaDb => {
                assert_eq!(transactions, (1_600, "binlog_commits", true));
                assert!(groups.is_some_and(|groups| (100..=1_600).contains(&groups)), "{groups:?}");
            }
            Kind::MySql => assert_eq!((transactions, groups), ((1_600, "gtid_executed", true), None)),
            // Where transactions have no identifiers.
            Kind::MySql56 => {
                let source = "binlog_cache_use + binlog_stmt_cache_use";
                assert_eq!((transactions, groups), ((1_600, source, false), None));
            }
        }
        // Without a binary log, about.
        let database = Database::start(kind, &["--skip-log-bin"]);
        database.prepare();
        let ((count, source, exact), _) = counted(&database);
        assert_eq!((source, exact), ("handler_commit", false));
        assert!((1_600..2_000).contains(&count), "{count}");
    });
}

/// A certificate for this host's own addresses and [`ELSEWHERE`], and that of the authority which signed it.
struct Keys(tempfile::TempDir);

impl Keys {
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn make() -> Keys {
        let keys = Keys(tempfile::tempdir_in("/var/tmp").unwrap());
        let path = |name: &str| keys.path(name);
        let ca = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test-ca"];
        run("openssl", &[&ca[..], &["-keyout", &path("ca.key"), "-out", &path("ca.pem")]].concat());
        let request = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=db"];
        let to = ["-keyout", &path("key.pem"), "-out", &path("request.pem")];
        run("openssl", &[&request[..], &to[..]].concat());
        let names = format!("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:{ELSEWHERE}\n");
        std::fs::write(path("names"), names).unwrap();
        let sign = ["x509", "-req", "-days", "2", "-CAcreateserial", "-in", &path("request.pem")];
        let by = ["-CA", &path("ca.pem"), "-CAkey", &path("ca.key"), "-extfile", &path("names")];
        run("openssl", &[&sign[..], &by[..], &["-out", &path("cert.pem")]].concat());
        for name in ["key.pem", "cert.pem", "ca.pem"] {
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        std::fs::set_permissions(keys.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        keys
    }
}

/// A server on all addresses that takes no connection which is not encrypted, and its port.
fn encrypted_server(keys: &Keys) -> (Database, String) {
    // Free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = [
        "--skip-networking=0".to_owned(),
        "--bind-address=0.0.0.0".into(),
        format!("--port={port}"),
        format!("--ssl-cert={}", keys.path("cert.pem")),
        format!("--ssl-key={}", keys.path("key.pem")),
        "--require-secure-transport=ON".into(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    (Database::start(Kind::MariaDb, &options), port.to_string())
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn over_tcp_the_connection_is_encrypted_and_the_certificate_is_looked_at() {
    needs(&[]);
    let keys = Keys::make();
    let (database, port) = encrypted_server(&keys);
    // Both, because a server may or may not look up the name of an address.
    database.execute(&[
        "CREATE USER monitor@localhost IDENTIFIED BY \"pa#ss 'word\"",
        "CREATE USER monitor@'127.0.0.1' IDENTIFIED BY \"pa#ss 'word\"",
    ]);
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
    let ca = keys.path("ca.pem");
    verified(&mut over_tcp(&["--ssl-ca", &ca]));
    // An authority that this host believes, and nobody signed with.
    let mut unknown = over_tcp(&["--ssl-mode", "verify-identity"]);
    refused(unknown.env("SSL_CERT_FILE", ca_of_nobody(&keys)), "UnknownIssuer");
    // The same, where this host believes the right one.
    verified(over_tcp(&["--ssl-mode", "verify-identity"]).env("SSL_CERT_FILE", &ca));
    let identity = ["--ssl-mode", "verify-identity", "--ssl-ca", &ca];
    verified(&mut over_tcp(&identity));
    verified(&mut to("localhost", &identity));
    // The same server by an address that its certificate does not name.
    refused(&mut to("127.0.0.2", &identity), "not valid for name");
}

fn ca_of_nobody(keys: &Keys) -> String {
    let ca = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=nobody"];
    let path = keys.path("nobody.pem");
    run("openssl", &[&ca[..], &["-keyout", &keys.path("nobody.key"), "-out", &path]].concat());
    path
}

/// An address that is none of this host's as far as anybody can tell (TEST-NET-3); it leads to the loopback
/// device of a network namespace of the test's own.
const ELSEWHERE: &str = "203.0.113.7";

/// Runs it on a thread whose network namespace has that address.
fn elsewhere(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run_there = || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            run("ip", &["link", "set", "lo", "up"]);
            run("ip", &["address", "add", &format!("{ELSEWHERE}/32"), "dev", "lo"]);
            test();
        };
        scope.spawn(run_there).join().unwrap();
    });
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_password_goes_to_another_host_only_when_that_has_proved_who_it_is() {
    needs(&[]);
    elsewhere(|| {
        let keys = Keys::make();
        let (database, port) = encrypted_server(&keys);
        database.execute(&[
            "CREATE USER monitor@'%' IDENTIFIED BY \"pa#ss 'word\"".to_owned(),
            "CREATE USER open@'%'".into(),
        ]);
        let as_user = |user: &str, options: &[&str]| {
            let mut command = verify(&database);
            command.args(["--host", ELSEWHERE, "--port", &port, "--user", user]).args(options);
            command
        };
        let with_password = |options: &[&str]| {
            let mut command = as_user("monitor", options);
            command.env("MYSQL_PWD", PASSWORD).env("SSL_CERT_FILE", ca_of_nobody(&keys));
            command
        };
        for mode in ["disabled", "preferred", "required"] {
            let said = "203.0.113.7 is another host, and with this --ssl-mode anybody";
            refused(&mut with_password(&["--ssl-mode", mode]), said);
        }
        refused(&mut with_password(&[]), "UnknownIssuer");
        verified(&mut with_password(&["--ssl-ca", &keys.path("ca.pem")]));
        // Where there is nothing to steal, all is as it was asked for.
        verified(&mut as_user("open", &[]));
        verified(&mut as_user("open", &["--ssl-mode", "required"]));
    });
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn whoever_stands_in_the_way_to_another_host_receives_nothing() {
    needs(&[]);
    elsewhere(|| {
        let listener = TcpListener::bind((ELSEWHERE, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (outbox, inbox) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Plain, with a challenge for a scramble.
                let _ = stream.write_all(GREETING);
                let mut sent = Vec::new();
                let _ = stream.read_to_end(&mut sent);
                let _ = outbox.send(sent);
            }
        });
        let open = |tls, port| {
            let password = Some(Secret::new(PASSWORD.into()));
            let options = ConnectOptions { password, tls, ..ConnectOptions::default() };
            let place = Place::Tcp { host: ELSEWHERE.into(), port };
            // A server that runs here and has the same port says nothing about one there.
            let target = Target::named(options, place).where_addresses_are_the_servers([(
                std::net::Ipv4Addr::LOCALHOST,
                port,
            )
                .into()]);
            Connection::open(&target).map(|_| ()).unwrap_err().to_string()
        };
        let error = open(None, port);
        assert!(error.contains("has no TLS"), "{error}");
        assert_eq!(inbox.recv_timeout(Duration::from_secs(10)).unwrap(), b"");
        for tls in [Tls::Disabled, Tls::Preferred, Tls::Required] {
            let error = open(Some(tls), port);
            assert!(error.contains("is another host"), "{error}");
        }
        assert!(inbox.try_recv().is_err());
    });
}

/// Of caching_sha2_password, without TLS.
const GREETING: &[u8] =
    b"\x49\0\0\0\x0a8.4.0\0\x01\0\0\0abcdefgh\0\0\x82\x2d\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0\
                          ijklmnopqrst\0caching_sha2_password\0";

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn mysql_gets_a_password_that_it_has_not_cached_only_through_encryption() {
    needs(&[]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let options = ["--skip-networking=0", "--bind-address=127.0.0.1", &format!("--port={port}")];
    let database = Database::start(Kind::MySql, &options);
    database.execute(&[
        "CREATE USER monitor@localhost IDENTIFIED WITH caching_sha2_password BY \"pa#ss 'word\"",
        "CREATE USER monitor@'127.0.0.1' IDENTIFIED WITH caching_sha2_password BY \"pa#ss 'word\"",
    ]);
    let over_tcp = |mode: &[&str]| {
        let mut command = verify(&database);
        command.args(["--host", "127.0.0.1", "--port", &port, "--user", "monitor"]).args(mode);
        command.env("MYSQL_PWD", PASSWORD);
        command
    };
    refused(&mut over_tcp(&["--ssl-mode", "disabled"]), "the connection is not encrypted, so it is not sent");
    verified(&mut over_tcp(&[]));
    // Now it knows the scramble.
    verified(&mut over_tcp(&["--ssl-mode", "disabled"]));
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_password_is_asked_for_on_the_terminal_and_not_shown() {
    needs(&[TMUX]);
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
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn another_server_is_not_taken_for_the_traced_one() {
    needs(&[]);
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
    // Without a choice, the connection chooses: also where there is one of which nothing is known, as of one
    // that ends.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("mariadbd");
    std::fs::copy("/bin/sleep", &path).unwrap();
    let _unknown = Running(Command::new(&path).arg("600").spawn().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["verify", "-d", "1", "--output", "json", "--socket"]).arg(&other.socket);
    assert_eq!(verified(&mut command)["server"]["pid"], other.pid);
}
