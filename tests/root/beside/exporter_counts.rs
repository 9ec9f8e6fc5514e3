//! Needs root, tracefs and real servers: what the exporter counts, held against what the servers count
//! themselves, over everything that happens to servers and files.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::disk::Mounted;
use crate::common::exact::{INNODB, on_each, until_quiet};
use crate::common::exporter::Exporter;
use crate::common::faults::{fsynctop, output, stderr, stdout};
use crate::common::kernel_count::{BPFTRACE, KernelCount};
use crate::common::scrape::{Scrape, assert_no_counter_went_down, watched};
use crate::common::server::{Home, Kind};
use crate::common::turn::takes_long;
use crate::common::{Running, built, needs, wait_until};
use serde_json::Value;
use tempfile::TempDir;

/// An exporter of the servers of one home, with a socket of its own.
fn exporter(home: &Home, directory: &TempDir) -> Exporter {
    let socket = socket(directory);
    Exporter::start(&["--comm", &home.comm, "--max-cpu", "off", "--socket", socket.to_str().unwrap()])
}

fn socket(directory: &TempDir) -> PathBuf {
    directory.path().join("exporter.sock")
}

const TRACEPOINTS: &str = "/sys/kernel/tracing/events";

fn of_label(label: &str) -> String {
    format!("server=\"{label}\"")
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn counts_are_the_servers_own_over_a_kill_and_a_restart() {
    on_each(|kind| {
        let home = Home::new(kind);
        until_quiet(|| {
            let directory = tempfile::tempdir().unwrap();
            let exporter = exporter(&home, &directory);
            let ((first, second, died), watched) = watched(&exporter, || {
                let mut database = home.start(&[], &[]);
                database.prepare();
                database.insert(4, 100);
                let first = database.quiet_counters();
                let then = Scrape::of(&exporter);
                if database.counters() != first {
                    return (None, None, then);
                }
                assert_eq!(then.innodb(), first.innodb, "{kind:?} {then:#?}");
                if let Some(redo) = first.redo {
                    // The redo files that MySQL makes at its start are counted by the other one only.
                    assert!(then.syncs(&["role=\"redo\""]) >= redo);
                }
                then.assert_whole();
                database.kill();
                drop(database);
                let mut died = Scrape::of(&exporter);
                wait_until("the end of the server to be told", || {
                    died = Scrape::of(&exporter);
                    died.sum("fsynctop_server_up", &[]) == 0
                });
                // Another process, the same server.
                let mut database = home.start(&[], &[]);
                database.insert(2, 100);
                let second = database.quiet_counters();
                let now = Scrape::of(&exporter);
                if database.counters() != second {
                    return (Some(first), None, died);
                }
                assert_eq!(now.innodb() - died.innodb(), second.innodb, "{kind:?} {now:#?}");
                now.assert_whole();
                assert_eq!(now.servers(), then.servers());
                assert_eq!(now.servers().len(), 1, "{:?}", now.servers());
                assert_eq!(now.sum("fsynctop_server_up", &[]), 1);
                assert_eq!(now.sum("fsynctop_server_pid", &[]), u64::from(database.pid));
                assert_eq!(now.sum("fsynctop_server_info", &[]), 1);
                (Some(first), Some(second), died)
            });
            assert!(watched.scrapes > 10, "{}", watched.scrapes);
            let (first, second) = (first?, second?);
            let last = &watched.last;
            eprintln!(
                "{kind:?}: {} scrapes, at most {} samples; InnoDB's syncs {} and {}, commit groups {} and {}",
                watched.scrapes,
                watched.most_samples,
                first.innodb,
                second.innodb,
                first.binlog,
                second.binlog
            );
            assert!(died.syncs(&[]) <= last.syncs(&[]));
            // The label is the socket: these servers have no port.
            let label = last.servers().into_iter().next().unwrap();
            assert_eq!(label, home.inside().join("db.sock").to_str().unwrap());
            assert_eq!(last.syncs(&[&of_label(&label)]), last.syncs(&[]));
            Some(())
        });
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_kill_under_load_loses_no_sync() {
    on_each(|kind| {
        let home = Home::new(kind);
        let directory = tempfile::tempdir().unwrap();
        let exporter = exporter(&home, &directory);
        let mut database = home.start(&[], &[]);
        database.prepare();
        database.quiet_counters();
        let op = format!("op=\"{}\"", kind.log_op());
        let before = Scrape::of(&exporter).syncs(&["role=\"binlog\"", &op]);
        let (failed, watched) = watched(&exporter, || {
            let groups = database.counters().binlog;
            let load = database.load(1, 1_000_000).stderr(Stdio::piped()).spawn().unwrap();
            wait_until("the load to run", || database.counters().binlog > groups + 200);
            database.kill();
            let message = String::from_utf8(load.wait_with_output().unwrap().stderr).unwrap();
            let row = message.split_once("connection 1, row ").unwrap_or_else(|| panic!("{message}")).1;
            row.split_once(' ').unwrap().0.parse::<u64>().unwrap()
        });
        let after = Scrape::of(&exporter);
        assert_no_counter_went_down(&watched.last, &after);
        after.assert_whole();
        // What was confirmed is synced; the row after it may have been, too.
        let synced = after.syncs(&["role=\"binlog\"", &op]) - before;
        assert!((failed - 1..=failed).contains(&synced), "{synced} syncs, row {failed} failed");
    });
}

/// How many syncs InnoDB's own counter may miss over a thousand tables.
const MISSED_BY_INNODB: u64 = 5;

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_thousand_tables_and_a_hundred_rotations_leave_the_scrape_small_and_exact() {
    needs(&[BPFTRACE]);
    takes_long("two servers make a thousand tables each");
    on_each(|kind| {
        let home = Home::new(kind);
        until_quiet(|| {
            let directory = tempfile::tempdir().unwrap();
            let kernel = KernelCount::begin();
            let exporter = exporter(&home, &directory);
            let mut database = home.start(&[], &[]);
            database.prepare();
            database.insert(2, 20);
            // A measurement that decided nothing leaves it behind.
            database.execute(&[
                "DROP DATABASE IF EXISTS shop",
                "CREATE DATABASE shop",
                "CREATE TABLE shop.first (id INT PRIMARY KEY) ENGINE=InnoDB",
                "INSERT INTO shop.first VALUES (1)",
                "FLUSH BINARY LOGS",
            ]);
            let small = Scrape::of(&exporter).0.len();
            let ((), watched) = watched(&exporter, || {
                for round in 0..10 {
                    let tables: Vec<String> =
                        (0..100).map(|n| format!("shop.t{}", round * 100 + n)).collect();
                    let mut statements = Vec::new();
                    for (n, table) in tables.iter().enumerate() {
                        statements.push(format!("CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=InnoDB"));
                        statements.push(format!("INSERT INTO {table} VALUES (1)"));
                        if n % 10 == 0 {
                            statements.push("FLUSH BINARY LOGS".to_owned());
                        }
                    }
                    statements.extend(tables.iter().map(|table| format!("DROP TABLE {table}")));
                    statements.push(match kind {
                        Kind::MariaDb => "PURGE BINARY LOGS BEFORE NOW()".to_owned(),
                        Kind::MySql | Kind::MySql56 => {
                            "PURGE BINARY LOGS BEFORE DATE_ADD(NOW(), INTERVAL 1 DAY)".to_owned()
                        }
                    });
                    database.execute(&statements);
                }
            });
            let quiet = database.quiet_counters();
            let scrape = Scrape::of(&exporter);
            let by_kernel = kernel.end(database.pid);
            if database.counters() != quiet {
                return None;
            }
            scrape.assert_whole();
            let paths = scrape.paths();
            eprintln!(
                "{kind:?}: {small} samples before, {} after, {} paths, {} scrapes",
                scrape.0.len(),
                paths.len(),
                watched.scrapes
            );
            // Two families of files, and a handful of roles that were not seen before.
            assert!(paths.len() <= 201, "{}", paths.len());
            assert!(scrape.0.len() < small + 2 * 2 * 201 + 200, "{small} and {}", scrape.0.len());
            // MySQL runs in a chroot, of which the kernel's own paths know nothing.
            let logs: Vec<_> = paths.iter().filter(|path| path.ends_with("/binlog.*")).collect();
            let binlog = home.inside().join("data/binlog.*");
            assert_eq!(logs, [binlog.to_str().unwrap()], "{paths:?}");
            assert!(!paths.iter().any(|path| path.contains("binlog.0")), "{paths:?}");
            // The kernel's own count, taken by another program, is ours to the last sync. InnoDB's is a plain
            // variable that threads increment without a lock (++os_n_fsyncs in os0file.cc): of two that do so
            // at the same moment one is missing there, in about every second run.
            assert_eq!(scrape.syncs(&[]), by_kernel, "{scrape:#?}");
            let seen = match kind {
                // The dictionary is made of files of the server's.
                Kind::MariaDb | Kind::MySql56 => INNODB
                    .iter()
                    .filter(|role| **role != "dictionary")
                    .map(|role| scrape.syncs(&[&format!("role=\"{role}\"")]))
                    .sum(),
                Kind::MySql => scrape.innodb(),
            };
            assert!(
                (quiet.innodb..=quiet.innodb + MISSED_BY_INNODB).contains(&seen),
                "{seen} and {quiet:?}: {scrape:#?}"
            );
            Some(())
        });
    });
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn an_exporter_that_is_started_again_begins_at_zero_under_the_same_label() {
    needs(&[TRACEPOINTS]);
    let home = Home::new(Kind::MariaDb);
    let directory = tempfile::tempdir().unwrap();
    let mut database = home.start(&[], &[]);
    database.prepare();
    let scrapes = until_quiet(|| {
        let mut scrapes = Vec::new();
        for _ in 0..2 {
            let before = database.quiet_counters();
            let exporter = exporter(&home, &directory);
            if database.counters() != before {
                return None;
            }
            database.insert(2, 50);
            let counted = database.quiet_counters().since(&before);
            let scrape = Scrape::of(&exporter);
            scrape.assert_whole();
            if database.quiet_counters().since(&before) != counted {
                return None;
            }
            assert_eq!(scrape.innodb(), counted.innodb, "{scrape:#?}");
            assert_eq!(scrape.syncs(&["role=\"binlog\""]), counted.binlog);
            exporter.signal("TERM");
            let (status, log) = exporter.ended();
            assert!(status.success(), "{log}");
            // It has given up removing files. Nobody answers there, and the next exporter takes its place.
            let refused = UnixStream::connect(socket(&directory)).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            scrapes.push(scrape);
        }
        Some(scrapes)
    });
    assert_eq!(scrapes[0].servers(), scrapes[1].servers());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_last_minutes_are_told_by_the_socket() {
    needs(&[TRACEPOINTS]);
    let home = Home::new(Kind::MariaDb);
    let directory = tempfile::tempdir().unwrap();
    let socket = socket(&directory);
    let socket = socket.to_str().unwrap();
    let last = |options: &[&str]| {
        output(fsynctop().args(["history", "--last", "1m", "--socket", socket]).args(options))
    };
    let nobody = last(&[]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("Start `fsynctop exporter`"), "{}", stderr(&nobody));
    let exporter = exporter(&home, &directory);
    let mut database = home.start(&[], &[]);
    database.prepare();
    database.insert(2, 200);
    database.quiet_counters();
    // The history has whole seconds only.
    std::thread::sleep(Duration::from_secs(2));
    let scraped = Scrape::of(&exporter).syncs(&[]);
    let json = last(&["--output", "json"]);
    assert!(json.status.success(), "{}", stderr(&json));
    let parts: Vec<Value> = stdout(&json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!parts.is_empty());
    let rows = || parts.iter().flat_map(|part| part["roles"].as_array().unwrap());
    let remembered: u64 = rows().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(remembered, scraped);
    assert!(rows().all(|row| row["pid"] == database.pid));
    assert!(parts.iter().any(|part| part["worst_seconds"][0]["wait_seconds"].as_f64() > Some(0.0)));
    let text = stdout(&last(&["--pid", &database.pid.to_string()]));
    let redo_of_a_row = |line: &str| line.split_whitespace().nth(3).is_some_and(|max| max.ends_with('s'));
    assert_eq!(text.lines().filter(|line| line.starts_with("UTC")).count(), 1, "{text}");
    assert!(text.lines().any(redo_of_a_row), "{text}");
    assert_eq!(last(&["--pid", "1"]).status.code(), Some(3));
    // Who is not root, and not of its group, is turned away.
    let mut command = Command::new("setpriv");
    let other = ["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_fsynctop")];
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let denied = output(command.args(other).args(["history", "--last", "1m", "--socket", socket]));
    if Path::new(env!("CARGO_BIN_EXE_fsynctop")).starts_with("/root") {
        // It cannot even be run from there.
        assert!(!denied.status.success());
    } else {
        assert!(stderr(&denied).contains("root and its group"), "{}", stderr(&denied));
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn hostile_file_names_are_labels_like_others() {
    needs(&[TRACEPOINTS]);
    let directory = tempfile::tempdir().unwrap();
    let names =
        ["plain.ibd", "a\"b}.ibd", "new\nline.ibd", "back\\slash.ibd", "bidi\u{202e}.ibd", "esc\x1b[2J.ibd"];
    let exporter = Exporter::start(&["--comm", "hostile-names", "--no-socket"]);
    let mut command = Command::new(built("syncgen"));
    command.arg(directory.path()).args([
        "--syncs",
        "12",
        "--comm",
        "hostile-names",
        "--names",
        &names.join(","),
    ]);
    let load = output(&mut command);
    assert!(load.status.success(), "{}", stderr(&load));
    wait_until("its syncs to be told", || Scrape::of(&exporter).syncs(&[]) == 12);
    let text = exporter.get("/metrics");
    assert!(text.lines().all(|line| !line.contains(char::is_control)), "{text}");
    let scrape = Scrape::parse(&text);
    scrape.assert_whole();
    for name in [
        "plain.ibd",
        "a\\\"b}.ibd",
        "new\\\\nline.ibd",
        "back\\\\\\\\slash.ibd",
        "bidi\\\\u{202e}.ibd",
        "esc\\\\x1b[2J.ibd",
    ] {
        let path = format!("path=\"{}/{name}\"", directory.path().display());
        assert_eq!(scrape.sum("fsynctop_file_syncs_total", &[&path]), 2, "{name} {scrape:#?}");
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("promtool, which tools/dependencies installs");
    std::io::Write::write_all(&mut promtool.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

/// `cargo test --release --test root ten_thousand -- --nocapture` prints the figures.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn ten_thousand_files_are_scraped_fast_and_in_little_memory() {
    needs(&[TRACEPOINTS]);
    let memory = Mounted::tmpfs();
    let exporter = Exporter::start(&["--comm", "many-files", "--no-socket", "--max-cpu", "off"]);
    let mut command = Command::new(built("syncgen"));
    command.arg(memory.path()).args(["--files", "10000", "--syncs", "1000000000", "--comm", "many-files"]);
    let _load = Running(command.stdout(Stdio::null()).spawn().unwrap());
    let known = || {
        let scrape = Scrape::of(&exporter);
        scrape.syncs(&[]) > 30_000 && scrape.sum("fsynctop_files_without_name", &[]) == 0
    };
    wait_until("all files to be known", known);
    // Every file changes between two scrapes, and no two scrapes share a snapshot.
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(350));
            let begun = Instant::now();
            let text = exporter.get("/metrics");
            let took = begun.elapsed();
            assert!(text.contains("path=\"other\""));
            took
        })
        .collect();
    took.sort();
    let resident = exporter.resident();
    eprintln!(
        "a scrape of 10,000 files, curl included: median {:?}, slowest {:?}; resident {} kB",
        took[took.len() / 2],
        took[took.len() - 1],
        resident / 1024
    );
    if !cfg!(debug_assertions) {
        assert!(took[took.len() / 2] < Duration::from_millis(20 + 15), "{took:?}");
    }
}
