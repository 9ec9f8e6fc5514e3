//! Needs root, and a real etcd: `fsynctop verify` agrees with what it counts itself.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::chroot::Chroot;
use crate::common::etcd::{self, Etcd};
use crate::common::explained::Explained;
use crate::common::throwaway::free_port;
use crate::common::tracing::Tracing;
use crate::common::verified::{exact, parse, row, verify_while};
use crate::common::web::Authority;
use crate::common::{needs, wait_until};

const LOG: &str = "write-ahead log";
const BACKEND: &str = "backend (bbolt)";

fn tree() -> Chroot {
    needs(&[]);
    Chroot::on(etcd::TOOL, 0, "ext4", 768)
}

fn verify(etcd: &Etcd, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["verify", "--output", "json", "--pid", &etcd.pid().to_string()]).args(options);
    command
}

/// A window with that in its midst.
fn window(etcd: &Etcd, load: impl FnOnce()) -> Value {
    let output = verify_while(&mut verify(etcd, &[]), load);
    let value = parse(&output);
    assert!(output.status.success(), "{value:#}");
    value
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_agrees_with_what_etcd_counts() {
    let tree = tree();
    let etcd = Etcd::start(&tree);
    let before = etcd.quiet();
    let value = window(&etcd, || {
        etcd.load(8, 50);
        etcd.quiet();
    });
    let after = etcd.quiet();
    let [wal, commits, snapshots] = [0, 1, 2].map(|i| after[i] - before[i]);
    assert!(wal > 50 && commits > 2 && snapshots > 0, "{value:#}");
    let seen = [LOG, BACKEND, "snapshots"].map(|what| exact(&value, what));
    assert_eq!(seen, [wal, 2 * commits, snapshots], "{value:#}");
    assert_eq!(value["server"]["version"], "etcd 3.4.23", "{value:#}");
    // Of one that has nothing to do, too.
    let output = verify(&etcd, &["-d", "1"]).output().unwrap();
    let value = parse(&output);
    assert!(output.status.success(), "{value:#}");
    assert_eq!([LOG, BACKEND].map(|what| exact(&value, what)), [0, 0]);
    assert_eq!(value["rows"].as_array().unwrap().len(), 2, "{value:#}");
}

/// Of a server that never rests, the count is a range that holds what was traced.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_of_a_busy_etcd_is_a_narrow_range() {
    let tree = tree();
    let etcd = Etcd::start(&tree);
    let ends = AtomicBool::new(false);
    let value = std::thread::scope(|scope| {
        for client in 0..8 {
            let (etcd, ends) = (&etcd, &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    etcd.put(client);
                }
            });
        }
        let output = verify(&etcd, &["-d", "5"]).output().unwrap();
        ends.store(true, Ordering::Relaxed);
        parse(&output)
    });
    for what in [LOG, BACKEND] {
        let line = row(&value, what);
        assert_eq!((&line["kind"], &line["verdict"]), (&"exact".into(), &"agrees".into()), "{value:#}");
        let number = |name: &str| line["counted"][name].as_u64().unwrap();
        // Two readings of the server's take some milliseconds, and a commit is two syncs.
        assert!(number("at_most") - number("at_least") < 200, "{value:#}");
    }
    assert!(row(&value, LOG)["traced"].as_u64().unwrap() > 500, "it was busy: {value:#}");
}

/// Files of the log are begun, for which etcd syncs its directory and counts that with the log, while the
/// backend grows to a hundred megabytes.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_follows_files_that_are_begun_and_that_grow() {
    let tree = tree();
    let etcd = Etcd::start(&tree);
    let files = || {
        let entries = std::fs::read_dir(tree.disk().join("etcd/member/wal")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().extension() == Some("wal".as_ref())).count()
    };
    assert_eq!(files(), 1);
    let before = etcd.quiet();
    let value = window(&etcd, || {
        // A megabyte each; a file of the log has 64 (SegmentSizeBytes).
        let large = "YWFh".repeat((1 << 20) / 3);
        for _ in 0..90 {
            etcd.put_value(&large);
        }
        etcd.quiet();
    });
    assert!(files() > 1, "no file was begun");
    let after = etcd.quiet();
    assert_eq!(exact(&value, LOG), after[0] - before[0], "{value:#}");
    assert_eq!(exact(&value, BACKEND), 2 * (after[1] - before[1]), "{value:#}");
    // Which would be a line of its own, if anything else was synced: a directory, for one.
    assert_eq!(row(&value, "everything else"), &Value::Null, "{value:#}");
    // Another file takes its place.
    let value = window(&etcd, || etcd.defragment());
    let line = row(&value, BACKEND);
    assert_eq!(
        (&line["kind"], line["traced"].as_u64() > Some(0)),
        (&"approximate".into(), true),
        "{value:#}"
    );
    exact(&value, LOG);
}

/// Where clients need TLS: the port for metrics is found by itself, and the other by certificates.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_verify_reaches_an_etcd_that_wants_tls() {
    let tree = tree();
    let keys = tree.directory();
    let authority = Authority::new(keys, "an authority");
    authority.sign("server", "DNS:localhost,IP:127.0.0.1");
    authority.sign("monitor", "DNS:monitor.example.org");
    let inside = |name: &str| tree.inside(&keys.join(name)).display().to_string();
    let (certificate, key, ca) = (inside("server.crt"), inside("server.key"), inside("ca.crt"));
    let tls =
        ["--cert-file", &certificate, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"];
    let listens = |port| std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).is_ok();
    let start = |options: &[&str]| {
        let etcd = Etcd::begin(&tree, "https", &[&tls, options].concat());
        wait_until("etcd to listen", || listens(etcd.port));
        // Until it serves, it says nothing; then it ends a connection without TLS.
        let _ = etcd.ask("GET", "/health", "");
        etcd
    };
    let etcd = start(&[]);
    let refused = |etcd: &Etcd, options: &[&str], says: &str| {
        let output = verify(etcd, &[&["-d", "1"], options].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(message(&output).contains(says), "no {says:?} in {}", message(&output));
    };
    refused(&etcd, &[], "plain HTTP is refused there");
    let port = etcd.port.to_string();
    refused(&etcd, &["--port", &port], "--listen-metrics-urls=http://127.0.0.1:2381");
    refused(&etcd, &["--port", &port, "--ssl-mode", "required"], "no connection to the server at");
    let file = |name: &str| keys.join(name).display().to_string();
    let of = |name: &str| {
        [
            format!("--ssl-cert={}", file(&format!("{name}.crt"))),
            format!("--ssl-key={}", file(&format!("{name}.key"))),
        ]
    };
    let ours = [&[format!("--ssl-ca={}", file("ca.crt"))][..], &of("monitor")].concat();
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    // By the ports that it listens on, one of which speaks TLS.
    for place in [&[][..], &["--port", &port]] {
        let output = verify(&etcd, &[&["-d", "1"], place, &ours].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        exact(&parse(&output), LOG);
    }
    drop(etcd);

    let metrics = free_port();
    let etcd = start(&["--listen-metrics-urls", &format!("http://127.0.0.1:{metrics}")]);
    wait_until("etcd to be healthy", || {
        etcd::ask(metrics, "GET", "/health", "").is_ok_and(|answer| answer.contains("\"health\":\"true\""))
    });
    for place in [&[][..], &["--port", &metrics.to_string()]] {
        let output = verify(&etcd, &[&["-d", "1"], place].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        exact(&parse(&output), LOG);
    }
}

/// What of its promise to sync is kept, and which of its time-outs a sync exceeded.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_explain_of_an_etcd_says_whether_it_syncs() {
    let tree = tree();
    let finding = |etcd: &Etcd| {
        let ended = AtomicBool::new(false);
        let value = std::thread::scope(|scope| {
            // When the window begins is not known.
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    etcd.load(4, 10);
                }
            });
            let explained = Explained::of(etcd.pid(), 4, &[]);
            ended.store(true, Ordering::Relaxed);
            explained.0
        });
        let audit = value["audit"].as_array().unwrap();
        let is_of_it = |finding: &&Value| finding["setting"].as_str().unwrap().starts_with("unsafe-no-fsync");
        audit.iter().find(is_of_it).unwrap_or_else(|| panic!("{value:#}")).clone()
    };
    // The shortest that it takes: the longest of some hundred syncs takes longer.
    let short = ["--heartbeat-interval", "1", "--election-timeout", "10"];
    let etcd = Etcd::begin(&tree, "http", &short);
    etcd.until_healthy();
    let kept = finding(&etcd);
    assert_eq!(
        (&kept["setting"], &kept["standing"]),
        (&"unsafe-no-fsync=false".into(), &"consistent".into()),
        "{kept:#}"
    );
    let says = ["more than heartbeat-interval (1", "more than election-timeout (10"];
    let said = || {
        let tracing = Tracing::begin(&["--pid", &etcd.pid().to_string()]);
        etcd.load(8, 50);
        tracing.end().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let is_said = |table: &String| {
        table.contains("The longest sync of the WAL took") && says.iter().any(|text| table.contains(text))
    };
    // A build for tests takes most of a second of processor time to search etcd's executable for its version:
    // beside other tests, a trace may be over before it knows the server.
    let mut table = String::new();
    for _ in 0..5 {
        table = said();
        if is_said(&table) {
            break;
        }
    }
    assert!(is_said(&table), "{table}");
}
