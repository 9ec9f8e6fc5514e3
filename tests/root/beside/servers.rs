//! Needs root, MariaDB as installed and a MySQL in a root tree of its own: what is traced equals what the
//! server itself counts, to the last sync.

use serde_json::{Value, json};

use crate::common::exact::{
    INNODB, assert_exact, bracket, counts_of, measure, of_op, of_server, on_each, until_quiet,
};
use crate::common::measured::{Measured, sum, text};
use crate::common::server::{Database, Kind};
use crate::common::tracing::Tracing;
use crate::common::{needs, wait_until};

/// One server with these options under the classic load and under a single connection, traced exactly.
/// Returns both measurements.
fn both_loads(kind: Kind, options: &[&str], rows: u32) -> [Measured; 2] {
    let mut database = Database::start(kind, options);
    database.prepare();
    let syncs_binlog = !options.contains(&"--sync-binlog=0");
    let loads = [(16, rows, &["--by", "thread"][..]), (1, 1000, &[])];
    loads.map(|(connections, rows, by)| {
        let (measured, counted) = measure(&mut database, by, |database| database.insert(connections, rows));
        assert_exact(&measured, &counted);
        let binlog = of_op(&measured, "binlog", kind.log_op());
        assert_eq!(measured.of_role("binlog"), binlog);
        if syncs_binlog {
            assert_eq!(binlog, counted.binlog, "{}", measured.0["roles"]);
        }
        match (syncs_binlog, connections) {
            (false, _) => assert_eq!(binlog, 0),
            (true, 1) => assert_eq!(binlog, 1000),
            (true, _) => assert!(binlog > 0 && binlog <= u64::from(connections * rows)),
        }
        assert_eq!(measured.threads().is_empty(), by.is_empty());
        measured
    })
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn the_classic_load_is_traced_exactly() {
    on_each(|kind| {
        for measured in both_loads(kind, &[], 1000) {
            assert_eq!(of_op(&measured, "redo", kind.log_op()), measured.of_role("redo"));
            assert_eq!(measured.0["servers"][0]["notes"], json!([]));
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn by_default_the_servers_are_found_by_their_names() {
    on_each(|kind| {
        let database = Database::start(kind, &[]);
        // Servers of other tests are found, too, and the one that is described last may not be in time.
        let mut part = None;
        wait_until("it to be described", || {
            let mut fsynctop = std::process::Command::new(env!("CARGO_BIN_EXE_fsynctop"));
            let output = fsynctop.args(["once", "-d", "500ms", "--output", "json"]).output().unwrap();
            let measured = Measured::parse(std::str::from_utf8(&output.stdout).unwrap());
            let found = of_server(&measured, database.pid);
            let is_described = found.0["servers"][0]["version"].is_string();
            part = Some(found);
            is_described
        });
        let part = part.unwrap();
        let [server] = part.0["servers"].as_array().unwrap().as_slice() else { panic!("{}", part.0) };
        assert_eq!(text(server, "comm"), if kind == Kind::MariaDb { "mariadbd" } else { "mysqld" });
        assert_eq!(text(server, "version"), database.version);
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn flush_method_fsync_is_traced_exactly() {
    on_each(|kind| {
        both_loads(kind, &["--innodb-flush-method=fsync"], 300);
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn flush_method_o_direct_no_fsync_is_traced_exactly() {
    on_each(|kind| {
        both_loads(kind, &["--innodb-flush-method=O_DIRECT_NO_FSYNC"], 300);
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn without_sync_binlog_the_rest_is_traced_exactly() {
    on_each(|kind| {
        both_loads(kind, &["--sync-binlog=0"], 300);
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn innodb_syncs_by_fsync_without_use_fdatasync() {
    needs(&[]);
    for measured in both_loads(Kind::MySql, &["--innodb-use-fdatasync=OFF"], 300) {
        assert_eq!(INNODB.map(|role| of_op(&measured, role, "fdatasync")), [0; INNODB.len()]);
    }
}

/// Traces a load on a server whose redo log is made durable by its writes: what was printed, and how many
/// writes of the log the server counted meanwhile. It does not count those that record a checkpoint, so a
/// window with a checkpoint is not taken.
fn bracket_redo_writes(database: &Database, options: &[&str], load: impl Fn()) -> (String, u64) {
    let pid = database.pid.to_string();
    until_quiet(|| {
        let before = database.quiet_redo_writes();
        let tracing = Tracing::begin(&[&["--pid", &pid], options].concat());
        if database.redo_writes() != before {
            return None;
        }
        load();
        let quiet = database.quiet_redo_writes();
        let text = tracing.end();
        let is_quiet = database.redo_writes() == quiet && quiet.checkpoint == before.checkpoint;
        let blocks = quiet.blocks - before.blocks;
        let files = quiet.files.zip(before.files).map(|(quiet, before)| quiet - before);
        assert!(files.is_none_or(|files| blocks <= files), "{before:?} to {quiet:?}");
        is_quiet.then_some((text, if database.kind == Kind::MySql { files.unwrap() } else { blocks }))
    })
}

const BY_WRITES: [&str; 2] = ["--innodb-flush-method=O_DSYNC", "--performance-schema=ON"];

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn durable_writes_of_a_redo_log_are_those_that_the_server_counts() {
    on_each(|kind| {
        let database = Database::start(kind, &BY_WRITES);
        database.prepare();
        let (text, writes) =
            bracket_redo_writes(&database, &["--output", "json"], || database.insert(16, 300));
        let measured = Measured::parse(&text);
        measured.assert_nothing_lost();
        let via = |via: &str| {
            let is_one =
                |row: &&Value| row["role"] == "redo" && row["op"] == "dsync_write" && via == row["via"];
            sum(measured.files().iter().filter(is_one))
        };
        assert!(writes > 100, "{writes}");
        assert_eq!(via("call"), writes, "{kind:?}: {}", counts_of(&measured));
        // Those of 5.6 that are asynchronous are its checkpoints.
        assert!(kind == Kind::MySql56 || via("aio") == 0, "{kind:?}: {}", counts_of(&measured));
        let redo = measured.of_role("redo");
        assert_eq!(redo, via("call") + via("aio"), "it has no other syncs: {}", measured.0["roles"]);
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_redo_log_that_is_durable_by_its_descriptors_has_no_syncs_and_a_note() {
    on_each(|kind| {
        let mut database = Database::start(kind, &BY_WRITES);
        database.prepare();
        let (measured, counted) = measure(&mut database, &[], |database| database.insert(16, 300));
        assert_exact(&measured, &counted);
        assert_eq!(of_op(&measured, "binlog", kind.log_op()), counted.binlog);

        let unwatched = ["--writes", "off", "--output", "json"];
        let (text, writes) = bracket_redo_writes(&database, &unwatched, || database.insert(4, 50));
        assert_eq!(Measured::parse(&text).lost("unwatched"), writes, "{text}");

        let (table, writes) = bracket_redo_writes(&database, &[], || database.insert(4, 50));
        assert_eq!(syncs_in_row(&table, "redo", "dsync_write"), Some(writes), "{table}");
        let text = words(&table);
        assert!(text.contains("The redo log is written through O_DSYNC descriptors"), "{table}");
        // What is known is not supposed as well.
        assert!(!text.contains("innodb_flush_log_at_trx_commit"), "{table}");
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn the_table_shows_the_same_counts_and_that_both_logs_are_synced() {
    on_each(|kind| {
        let mut database = Database::start(kind, &[]);
        database.prepare();
        let (table, counted) = bracket(&mut database, &[], |database| database.insert(1, 100));
        assert_eq!(syncs_in_row(&table, "binlog", kind.log_op()), Some(100), "{table}");
        let redo = syncs_in_row(&table, "redo", kind.log_op()).unwrap();
        assert!(counted.redo.is_none_or(|counted| redo == counted), "{table}");
        assert!((100..150).contains(&redo), "{table}");
        // A usual ratio of the two is not worth a sentence, and a log that is not synced would be.
        let busy = words(&table);
        assert!(busy.contains("The redo log is ") && busy.contains(" % busy and the binary log "), "{table}");
        assert!(!busy.contains("binary-log sync"), "{table}");
        assert!(table.contains(crate::common::ALL_WELL), "{table}");
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn without_binary_log_syncs_there_is_no_ratio_and_the_table_says_why() {
    needs(&[]);
    let mut database = Database::start(Kind::MariaDb, &["--sync-binlog=0"]);
    database.prepare();
    let (table, _) = bracket(&mut database, &[], |database| database.insert(4, 50));
    assert!(has_row(&table, "redo") && !has_row(&table, "binlog"), "{table}");
    let why = "No binary-log sync: as with the binary log off, or sync_binlog other than 1 (0 is MariaDB's default)";
    assert!(words(&table).contains(why), "{table}");
}

fn has_row(table: &str, role: &str) -> bool {
    table.lines().any(|line| line.split_whitespace().next() == Some(role))
}

/// The syncs of a role, which does them all by that call, as the table has them.
fn syncs_in_row(table: &str, role: &str, op: &str) -> Option<u64> {
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.starts_with(&[role, op]))?;
    row[2].replace(',', "").parse().ok()
}

/// The text without its line breaks.
fn words(table: &str) -> String {
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}
