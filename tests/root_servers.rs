//! Needs root, MariaDB as installed and a MySQL in a root tree of its own: what is traced equals what the
//! server itself counts, to the last sync.

mod common;

use serde_json::{Value, json};

use common::exact::{
    INNODB, assert_exact, assert_exact_of_watched, bracket, counts_of, measure, of_op, of_server, on_each,
    until_quiet,
};
use common::measured::{Measured, sum, text};
use common::needs;
use common::server::{Database, Kind};
use common::tracing::Tracing;

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
        let mut fsynctop = std::process::Command::new(env!("CARGO_BIN_EXE_fsynctop"));
        let output = fsynctop.args(["once", "--duration", "500ms", "--output", "json"]).output().unwrap();
        let measured = Measured::parse(std::str::from_utf8(&output.stdout).unwrap());
        // Servers of other tests are found, too.
        let part = of_server(&measured, database.pid);
        let [server] = part.0["servers"].as_array().unwrap().as_slice() else { panic!("{}", measured.0) };
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

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_redo_log_that_is_durable_by_its_descriptors_has_no_syncs_and_a_note() {
    on_each(|kind| {
        let mut database = Database::start(kind, &["--innodb-flush-method=O_DSYNC"]);
        database.prepare();
        let (measured, counted) = measure(&mut database, &[], |database| database.insert(16, 300));
        assert_exact(&measured, &counted);
        assert_eq!(of_op(&measured, "binlog", kind.log_op()), counted.binlog);
        // Each group of commits has written the redo log.
        let writes = of_op(&measured, "redo", "dsync_write");
        assert_eq!(measured.of_role("redo"), writes, "{}", measured.0["roles"]);
        assert!(writes >= counted.binlog, "{writes} of the redo log, {counted:?}");

        let (measured, counted) =
            measure(&mut database, &["--writes", "off"], |database| database.insert(4, 50));
        assert_exact_of_watched(&measured, &counted);
        assert!(measured.lost("unwatched") >= counted.binlog, "{}", measured.0["lost"]);

        let (table, counted) = bracket(&mut database, &[], |database| database.insert(4, 50));
        let writes = syncs_in_row(&table, "redo", "dsync_write");
        assert!(writes.is_some_and(|writes| writes >= counted.binlog), "{table}");
        assert_eq!(syncs_in_row(&table, "binlog", kind.log_op()), Some(counted.binlog), "{table}");
        let text = words(&table);
        assert!(text.contains("The redo log is written through O_DSYNC descriptors"), "{table}");
        // What is known is not supposed as well.
        assert!(!text.contains("innodb_flush_log_at_trx_commit is not 1"), "{table}");
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn durable_writes_of_a_redo_log_are_those_that_the_server_counts() {
    on_each(|kind| {
        let database = Database::start(kind, &["--innodb-flush-method=O_DSYNC", "--performance-schema=ON"]);
        database.prepare();
        let pid = database.pid.to_string();
        let (measured, from, to) = until_quiet(|| {
            let before = database.quiet_redo_writes();
            let tracing = Tracing::begin(&["--pid", &pid, "--output", "json"]);
            if database.redo_writes() != before {
                return None;
            }
            database.insert(16, 300);
            let quiet = database.quiet_redo_writes();
            let [measured] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
            let is_quiet = database.redo_writes() == quiet && quiet.checkpoint == before.checkpoint;
            is_quiet.then_some((measured, before, quiet))
        });
        measured.assert_nothing_lost();
        let via = |via: &str| {
            let is_one =
                |row: &&Value| row["role"] == "redo" && row["op"] == "dsync_write" && via == row["via"];
            sum(measured.files().iter().filter(is_one))
        };
        let (by_calls, by_requests) = (via("call"), via("aio"));
        let blocks = to.blocks - from.blocks;
        let said = format!("{kind:?}: {from:?} to {to:?}, {}", counts_of(&measured));
        assert!(blocks > 100, "{said}");
        match kind {
            Kind::MariaDb => assert_eq!((by_calls, by_requests), (blocks, 0), "{said}"),
            Kind::MySql => {
                let files = to.files.zip(from.files).map(|(to, from)| to - from);
                assert_eq!((Some(by_calls), by_requests), (files, 0), "{said}");
                assert!(blocks <= by_calls, "{said}");
            }
            // What is asynchronous are its checkpoints.
            Kind::MySql56 => assert_eq!(by_calls, blocks, "{said}"),
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn the_table_shows_the_same_counts_and_the_ratio_of_the_logs() {
    on_each(|kind| {
        let mut database = Database::start(kind, &[]);
        database.prepare();
        let (table, counted) = bracket(&mut database, &[], |database| database.insert(1, 100));
        assert_eq!(syncs_in_row(&table, "binlog", kind.log_op()), Some(100), "{table}");
        let redo = syncs_in_row(&table, "redo", kind.log_op()).unwrap();
        assert!(counted.redo.is_none_or(|counted| redo == counted), "{table}");
        let ratio = format!("{:.2} redo syncs per binary-log sync.", redo as f64 / 100.0);
        assert!(words(&table).contains(&ratio), "{ratio} in {table}");
        assert!(table.contains(common::ALL_WELL), "{table}");
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
    let why = "Redo syncs per binary-log sync: no ratio: no binary-log sync: the binary log is off, or sync_binlog is \
               not 1 (MariaDB's default is 0).";
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
