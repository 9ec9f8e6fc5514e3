//! Needs root, and a real PostgreSQL: `fsynctop verify` agrees with what it counts itself, over its own
//! socket, as the user whom its method "peer" lets in.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::needs;
use crate::common::postgres::{Cluster, Postgres};
use crate::common::verified::{parse, row, verify_while};

fn verify(server: &Postgres<'_>, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["verify", "--output", "json", "--pid", &server.pid().to_string()]).args(options);
    command
}

/// A window with a load of these connections in its midst.
fn window(server: &Postgres<'_>, load: impl FnOnce()) -> Value {
    let output = verify_while(&mut verify(server, &[]), load);
    let value = parse(&output);
    assert!(output.status.success(), "{value:#}");
    value
}

const LOG: &str = "write-ahead log";
const WRITES: &str = "write-ahead log, durable writes";

/// A server whose load ends counts exactly; by short-lived processes, too, and by each way to sync the log.
fn each_method(version: u32, methods: &[&str]) {
    let cluster = Cluster::of(version, "ext4", 512);
    cluster.let_in_by("peer");
    let server = cluster.start(&["fsync=off"]);
    server.prepare();
    server.stop();
    for method in methods {
        let setting = format!("wal_sync_method={method}");
        let server = cluster.start(&[&setting]);
        // A file of the log has room for all that follows: with fsync, one that is begun could not be told
        // apart.
        server.query("SELECT pg_switch_wal()");
        let value = window(&server, || {
            server.load(8, 100);
            server.load_by_short_lived(4, 50);
        });
        let said = format!("{version} {method}: {value:#}");
        let (compared, other) = if method.starts_with("open") { (WRITES, LOG) } else { (LOG, WRITES) };
        let line = row(&value, compared);
        assert_eq!((&line["kind"], &line["verdict"]), (&"exact".into(), &"agrees".into()), "{said}");
        let counted = &line["counted"];
        assert_eq!(counted["at_least"], counted["at_most"], "it came to rest: {said}");
        assert!(line["traced"].as_u64().unwrap() > 100, "{said}");
        assert_eq!(row(&value, other), &Value::Null, "{said}");
        server.stop();
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_agrees_with_what_postgresql_counts() {
    needs(&[]);
    each_method(15, &["fdatasync", "fsync", "open_datasync", "open_sync"]);
}

/// From 18 on, the log's counters are those of pg_stat_io.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_agrees_with_what_newer_versions_count() {
    needs(&[]);
    each_method(17, &["fdatasync", "open_datasync"]);
    each_method(18, &["fdatasync", "fsync", "open_datasync"]);
}

/// Files of the log are made and renamed: by fsync(2), which is another call than the log's own.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_tells_syncs_of_the_log_from_those_that_make_its_files() {
    needs(&[]);
    for version in [15, 18] {
        files_are_made(version);
    }
}

fn files_are_made(version: u32) {
    let cluster = Cluster::of(version, "ext4", 512);
    let server = cluster.start(&["wal_sync_method=fdatasync"]);
    server.prepare();
    let value = window(&server, || {
        for _ in 0..4 {
            server.load(4, 20);
            server.query("SELECT pg_switch_wal()");
        }
        server.query("CHECKPOINT");
    });
    let line = row(&value, LOG);
    assert_eq!(
        (&line["kind"], &line["verdict"]),
        (&"exact".into(), &"agrees".into()),
        "{version}: {value:#}"
    );
    assert!(row(&value, "tables and indexes")["traced"].as_u64().unwrap() > 0, "the checkpoint: {value:#}");
    assert!(row(&value, "everything else")["traced"].as_u64().unwrap() > 0, "{value:#}");
}

/// Of a server that never rests, the count is a range that holds what was traced.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_of_a_busy_postgresql_is_a_range() {
    needs(&[]);
    let cluster = Cluster::on("ext4", 512);
    let server = cluster.start(&[]);
    server.prepare();
    let load = server.begin_load(4);
    let child = verify(&server, &["-d", "20"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    drop(load);
    let value = parse(&output);
    let line = row(&value, LOG);
    let number = |name: &str| line["counted"][name].as_u64().unwrap();
    assert_eq!((&line["kind"], &line["verdict"]), (&"exact".into(), &"agrees".into()), "{value:#}");
    assert!(number("at_least") < number("at_most"), "{value:#}");
    assert!(number("at_least") > line["traced"].as_u64().unwrap() / 3, "it says something: {value:#}");
}

/// What was compared in one way until then is compared in no way any more.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_notices_a_setting_that_is_changed_meanwhile() {
    needs(&[]);
    let cluster = Cluster::on("ext4", 512);
    let server = cluster.start(&[]);
    server.prepare();
    let output = verify_while(&mut verify(&server, &[]), || {
        server.query("ALTER SYSTEM SET wal_sync_method = open_datasync");
        server.query("SELECT pg_reload_conf()");
        server.load(2, 20);
    });
    let value = parse(&output);
    let log = row(&value, "write-ahead log, syncs and durable writes");
    assert_eq!(log["kind"], "no_counter", "{value:#}");
    assert!(log["traced"].as_u64() >= Some(20), "{value:#}");
    assert_eq!(output.status.code(), Some(6), "no line decides: {value:#}");
}

/// Whoever may not see whether others are at work does not know whether they have counted everything.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_by_a_role_without_rights_is_approximate() {
    needs(&[]);
    let cluster = Cluster::on("ext4", 512);
    let server = cluster.start(&[]);
    server.query("CREATE ROLE stranger LOGIN");
    let output = verify_while(&mut verify(&server, &["--user", "stranger"]), || {
        server.query("CREATE TABLE made AS SELECT 1");
    });
    let value = parse(&output);
    assert_eq!(row(&value, LOG)["kind"], "approximate", "{value:#}");
    assert_eq!(output.status.code(), Some(6), "no line decides: {value:#}");
}

/// A password is asked for, and comes from a file that nobody else can change.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_logs_in_with_a_password() {
    needs(&[]);
    let cluster = Cluster::on("ext4", 512);
    let server = cluster.start(&[]);
    server.query("CREATE ROLE monitor LOGIN PASSWORD 'sesame' IN ROLE pg_monitor");
    // Where a password is stored for SCRAM, the method md5 asks for that.
    server
        .query("SET password_encryption = 'md5'; CREATE ROLE old LOGIN PASSWORD 'sesame' IN ROLE pg_monitor");
    server.stop();
    for (method, role) in [("scram-sha-256", "monitor"), ("md5", "old")] {
        cluster.let_in_by(method);
        let server = cluster.start(&[]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("service.conf");
        let host = cluster.socket_directory();
        let text = format!("[fsynctop]\nhost={}\nuser={role}\ndbname=postgres\npassword=", host.display());
        let with = |password: &str| {
            std::fs::write(&file, format!("{text}{password}\n")).unwrap();
            let path = file.to_str().unwrap();
            verify(&server, &["-d", "1", "--service-file", path]).output().unwrap()
        };
        let value = parse(&with("sesame"));
        assert_eq!(row(&value, LOG)["verdict"], "agrees", "{method}: {value:#}");
        let wrong = with("simsalabim");
        let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(
            !wrong.status.success() && said.contains("password authentication failed"),
            "{method}: {said}"
        );
        assert!(!said.contains("simsalabim"), "{said}");
        server.stop();
    }
}
