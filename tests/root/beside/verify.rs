//! Needs root and real servers: `fsynctop verify` agrees with what they count, also in the middle of a load,
//! and a server that hangs hangs nobody.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::exact::on_each;
use crate::common::measured::Measured;
use crate::common::server::{Database, Kind};
use crate::common::terminal::{TMUX, Terminal};
use crate::common::tracing::Tracing;
use crate::common::turn::takes_long;
use crate::common::verified::{parse, row, verify_while};
use crate::common::{Running, needs, wait_until};

/// So many windows at most, until one decides.
const WINDOWS: u32 = 4;

fn verify(database: &Database, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["verify", "--output", "json", "--pid", &database.pid.to_string()]).args(options);
    command
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn traced_syncs_are_those_that_the_server_counts() {
    on_each(|kind| {
        let mut database = Database::start(kind, &[]);
        database.prepare();
        database.quiet_counters();
        let output = verify_while(&mut verify(&database, &[]), || {
            database.insert(16, 500);
            database.quiet_counters();
        });
        let value = parse(&output);
        assert!(output.status.success(), "{value:#}");
        assert_eq!(value["agrees"], true);
        let exact: &[&str] = match kind {
            Kind::MariaDb => &["InnoDB together", "binary log"],
            Kind::MySql | Kind::MySql56 => {
                &["redo log", "data files, doublewrite, undo", "InnoDB together", "binary log"]
            }
        };
        for what in exact {
            let row = row(&value, what);
            assert_eq!((&row["kind"], &row["verdict"]), (&"exact".into(), &"agrees".into()), "{value:#}");
        }
        assert!(row(&value, "binary log")["traced"].as_u64().unwrap() > 100, "{value:#}");
        if kind == Kind::MariaDb {
            assert_eq!(row(&value, "redo log")["verdict"], "not_compared", "{value:#}");
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, and MariaDB"]
fn a_terminal_shows_whose_counters_are_compared_for_as_long_as_they_are() {
    needs(&[TMUX]);
    let database = Database::start(Kind::MariaDb, &[]);
    database.prepare();
    let pid = database.pid.to_string();
    let terminal = Terminal::fsynctop(100, 60, &["verify", "-d", "3", &pid]);
    let line =
        format!("Comparing {} {pid} with its own counters for 3 s (Ctrl-C ends it early)", database.comm());
    terminal.until("the line and its bar", |screen| screen.contains(&line) && screen.contains("[="));
    let screen = terminal.until_shown("ended with");
    assert!(!screen.contains("Ctrl-C") && !screen.contains("[="), "{screen}");
}

/// By each way that InnoDB opens its files: with durable descriptors, past the page cache, and with neither.
const FLUSH_METHODS: [&str; 3] = ["O_DSYNC", "O_DIRECT", "fsync"];

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn bytes_that_are_written_are_those_that_the_server_counts() {
    takes_long("two servers are started by each of three flush methods");
    on_each(|kind| {
        for method in FLUSH_METHODS {
            let method = format!("--innodb-flush-method={method}");
            let mut database = Database::start(kind, &["--performance-schema=ON", &method]);
            database.prepare();
            if kind == Kind::MariaDb {
                // Its pages are written at once, or it would write none in the window.
                database.execute(&["SET GLOBAL innodb_max_dirty_pages_pct = 0"]);
            }
            database.quiet_counters();
            let pid = database.pid.to_string();
            let beside = Tracing::begin(&["--pid", &pid, "--writes", "all", "--output", "json"]);
            // A server that still writes its pages when the window ends says nothing that is exact.
            let window = |database: &mut Database| {
                let mut command = verify(database, &["--writes", "all"]);
                parse(&verify_while(&mut command, || {
                    database.insert(16, 200);
                    database.quiet_counters();
                }))
            };
            let is_quiet = |value: &Value| row(value, "binary log, bytes")["kind"] == "exact";
            let mut values = (0..WINDOWS).map(|_| window(&mut database));
            let value = values.find(is_quiet).unwrap_or_else(|| panic!("{method}: never quiet"));
            let value = &value;
            let written = Measured::parse(&beside.end()).0;
            assert_eq!(value["agrees"], true, "{method}: {value:#}");
            let exact: &[&str] = match kind {
                Kind::MySql => &[
                    "redo log, bytes",
                    "doublewrite buffer, bytes",
                    "data files, bytes",
                    "binary log, bytes",
                ],
                // MariaDB's performance_schema knows nothing of InnoDB's writes, but InnoDB itself does; and
                // 5.6 has its doublewrite buffer among the data files.
                Kind::MariaDb => {
                    &["doublewrite buffer, bytes", "binary log, bytes", "InnoDB without redo log, bytes"]
                }
                Kind::MySql56 => &["redo log, bytes", "binary log, bytes"],
            };
            for what in exact {
                let row = row(value, what);
                let said = (&row["kind"], &row["verdict"]);
                assert_eq!(said, (&"exact".into(), &"agrees".into()), "{method}: {value:#}");
                let traced = row["traced"].as_u64().unwrap();
                assert!(traced > 100_000 || *what == "data files, bytes", "{method}: {value:#}");
            }
            if kind != Kind::MariaDb {
                let all = row(value, "InnoDB together, bytes");
                assert!(all["kind"] == "approximate" && all["note"].is_string(), "{method}: {value:#}");
            }
            eprintln!("{kind:?} {method}: {}", ways(&written));
        }
    });
}

/// By requests of io_uring, and by threads that call pwrite.
const WAYS: [(&str, &str); 2] = [("ON", "io_uring"), ("OFF", "call")];

#[test]
#[ignore = "needs root, a kernel with BTF, and MariaDB"]
fn a_doublewrite_buffer_inside_of_a_tablespace_is_told_by_its_offsets() {
    needs(&[]);
    for (native, via) in WAYS {
        let mut database = Database::start(Kind::MariaDb, &[&format!("--innodb-use-native-aio={native}")]);
        database.prepare();
        database.execute(&["SET GLOBAL innodb_max_dirty_pages_pct = 0"]);
        database.quiet_counters();
        let pid = database.pid.to_string();
        let beside = Tracing::begin(&["--pid", &pid, "--writes", "all", "--output", "json"]);
        let window = |database: &mut Database| {
            parse(&verify_while(&mut verify(database, &["--writes", "all"]), || {
                database.insert(16, 200);
                database.quiet_counters();
            }))
        };
        let is_exact = |value: &Value| row(value, "doublewrite buffer, bytes")["kind"] == "exact";
        let mut values = (0..WINDOWS).map(|_| window(&mut database));
        let value = values.find(is_exact).unwrap_or_else(|| panic!("{via}: never quiet"));
        let found = row(&value, "doublewrite buffer, bytes");
        assert_eq!(found["verdict"], "agrees", "{via}: {value:#}");
        assert!(found["traced"].as_u64().unwrap() > 100_000, "{via}: {value:#}");
        let written = Measured::parse(&beside.end()).0;
        let of = |role: &str| {
            let rows = written["writes"].as_array().unwrap().iter();
            rows.filter(|row| row["role"] == role && row["path"].as_str().unwrap().ends_with("/ibdata1"))
                .map(|row| (row["via"].as_str().unwrap(), row["bytes"].as_u64().unwrap()))
                .collect::<BTreeMap<_, _>>()
        };
        // Both are of the same file.
        assert!(of("doublewrite")[via] > 100_000, "{native}: {}", ways(&written));
        assert!(!of("system_tablespace").is_empty(), "{native}: {}", ways(&written));
        eprintln!("{native}: {}, {} by its own count", ways(&written), found["counted"]);
    }
}

/// How many bytes were written by each way.
fn ways(measured: &Value) -> String {
    let rows = ["files", "writes"].iter().flat_map(|rows| measured[rows].as_array().unwrap());
    let mut ways = BTreeMap::<String, u64>::new();
    for row in rows.filter(|row| row["bytes"].as_u64() > Some(0)) {
        let way = format!("{} {} {}", row["role"].as_str().unwrap(), row["op"].as_str().unwrap(), row["via"]);
        *ways.entry(way).or_default() += row["bytes"].as_u64().unwrap();
    }
    format!("{ways:?}")
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn the_window_may_begin_and_end_in_the_middle_of_a_load() {
    on_each(|kind| {
        let database = Database::start(kind, &[]);
        database.prepare();
        let mut load = database.load(16, 1_000_000);
        let _load = Running(load.stdout(Stdio::null()).spawn().unwrap());
        std::thread::sleep(Duration::from_secs(1));
        let output = verify(&database, &["-d", "3"]).output().unwrap();
        let value = parse(&output);
        assert!(output.status.success(), "{value:#}");
        let binlog = row(&value, "binary log");
        let (least, most) = (&binlog["counted"]["at_least"], &binlog["counted"]["at_most"]);
        // The server is never quiet, and still the window's figures are known to a few syncs.
        let (least, most) = (least.as_u64().unwrap(), most.as_u64().unwrap());
        assert!(least > 0 && most - least < most / 4, "{value:#}");
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn the_syncs_that_make_redo_files_are_where_the_server_counts_them() {
    needs(&[]);
    let mut database = Database::start(Kind::MySql, &[]);
    database.quiet_counters();
    let output = verify_while(&mut verify(&database, &[]), || {
        database.execute(&["SET GLOBAL innodb_redo_log_capacity = 300 * 1024 * 1024"]);
        wait_until("its files to have the new size", || {
            database.status("Innodb_redo_log_resize_status") == "OK"
        });
        database.quiet_counters();
    });
    let value = parse(&output);
    assert!(output.status.success(), "{value:#}");
    for what in ["redo log", "data files, doublewrite, undo", "InnoDB together"] {
        assert_eq!(row(&value, what)["verdict"], "agrees", "{value:#}");
    }
    // Its spare files are made anew, of the new size.
    assert!(row(&value, "data files, doublewrite, undo")["traced"].as_u64().unwrap() >= 10, "{value:#}");
    assert_eq!(row(&value, "InnoDB together")["kind"], "exact", "{value:#}");
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn durable_writes_of_the_redo_log_are_those_that_the_server_counts() {
    on_each(|kind| {
        let mut database = Database::start(kind, &["--innodb-flush-method=O_DSYNC"]);
        database.prepare();
        // A checkpoint in the window makes the row approximate, and decides nothing: another window then.
        let exact = (0..WINDOWS).any(|_| {
            database.quiet_counters();
            let value = parse(&verify_while(&mut verify(&database, &[]), || {
                database.insert(4, 50);
                database.quiet_counters();
            }));
            assert_eq!(value["agrees"], true, "{value:#}");
            assert_eq!(value["not_compared"].as_array().unwrap().len(), 0, "{value:#}");
            let row = row(&value, "redo log, durable writes");
            let traced = row["traced"].as_u64().unwrap();
            let counted = row["counted"]["at_most"].as_u64().unwrap();
            // Beside what is counted there are checkpoints and heads of files only: measured, up to six.
            assert!(traced >= 50 && traced.abs_diff(counted) <= 10, "{value:#}");
            row["kind"] == "exact"
        });
        // MySQL writes a checkpoint whenever it has written pages: it may do so in each window.
        assert!(exact || kind != Kind::MariaDb, "a checkpoint in each of {WINDOWS} windows");
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn where_durable_writes_are_not_watched_they_are_said_not_to_be_compared() {
    on_each(|kind| {
        let mut database = Database::start(kind, &["--innodb-flush-method=O_DSYNC"]);
        database.quiet_counters();
        let output = verify(&database, &["-d", "1", "--writes", "off"]).output().unwrap();
        let value = parse(&output);
        let [sentence] = value["not_compared"].as_array().unwrap().as_slice() else { panic!("{value:#}") };
        assert!(sentence.as_str().unwrap().contains("of the redo log"), "{value:#}");
        assert!(row(&value, "redo log, durable writes").is_null(), "{value:#}");
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn without_the_calls_that_the_server_makes_the_figures_differ() {
    on_each(|kind| {
        let mut database = Database::start(kind, &[]);
        database.prepare();
        database.quiet_counters();
        // What is not watched: requests of io_uring and libaio may ask for fsync as well.
        let (other, left_out) = match kind.log_op() {
            "fsync" => ("fdatasync", "(fsync, io_uring, libaio, msync, "),
            _ => ("fsync", "(fdatasync, msync, "),
        };
        let output = verify_while(&mut verify(&database, &["--ops", other]), || {
            database.insert(4, 100);
            database.quiet_counters();
        });
        let value = parse(&output);
        assert_eq!(output.status.code(), Some(4), "{value:#}");
        assert_eq!(row(&value, "binary log")["verdict"], "differs", "{value:#}");
        let causes = value["possible_causes"][0].as_str().unwrap_or_default();
        assert!(causes.contains(left_out), "{value:#}");
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_server_that_hangs_is_given_up_soon() {
    needs(&[]);
    let database = Database::start(Kind::MariaDb, &[]);
    let pid = database.pid.to_string();
    let hung = |seconds: u64, after: Duration, says: &str| {
        let window = seconds.to_string();
        let mut command = verify(&database, &["-d", &window]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(after);
        crate::common::disk::run("kill", &["-STOP", &pid]);
        let began = Instant::now();
        let output = child.wait_with_output();
        let took = began.elapsed();
        crate::common::disk::run("kill", &["-CONT", &pid]);
        let output = output.unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(says), "{message}");
        assert!(took < Duration::from_secs(seconds + 10), "{took:?}");
    };
    crate::common::disk::run("kill", &["-STOP", &pid]);
    hung(1, Duration::ZERO, "did not answer within 1 s");
    // In the midst of the window: its beginning was read, its end is not to be had.
    hung(6, Duration::from_secs(4), "did not answer within 2 s");
}
