//! Holds what was traced against what a server itself counted in the same time.

use serde_json::Value;

use super::measured::{Measured, number, path_of, sum, text};
use super::needs;
use super::server::{Counters, Database, Kind};
use super::tracing::Tracing;

/// The server's own background syncs can fall between a reading of its counters and the edge of the tracing:
/// then the whole measurement is made again.
const ATTEMPTS: u32 = 6;

/// Of the files that Innodb_data_fsyncs is about.
pub const INNODB: [&str; 7] =
    ["redo", "doublewrite", "undo", "system_tablespace", "tablespace", "dictionary", "temporary"];

/// MariaDB and MySQL, or those kinds of servers that `make servers` names in FSYNCTOP_SERVERS. All at once:
/// they spend most of the time coming to rest.
pub fn on_each(check: impl Fn(Kind) + Sync) {
    needs(&[]);
    let kinds = match std::env::var("FSYNCTOP_SERVERS") {
        Ok(names) => names.split_whitespace().map(Kind::named).collect(),
        Err(_) => vec![Kind::MariaDb, Kind::MySql],
    };
    assert!(!kinds.is_empty(), "FSYNCTOP_SERVERS names no server");
    let check = &check;
    std::thread::scope(|scope| {
        for kind in kinds {
            scope.spawn(move || check(kind));
        }
    });
}

/// Tries until a measurement's edges were quiet: None says that one was not.
pub fn until_quiet<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for number in 1..=ATTEMPTS {
        if let Some(result) = attempt() {
            return result;
        }
        eprintln!("attempt {number}: the server synced at an edge of the tracing, or missed a sync itself");
    }
    panic!("the server synced at an edge of the tracing, or missed a sync itself, {ATTEMPTS} times");
}

/// MySQL's Innodb_data_fsyncs is a plain variable that threads increment without a lock (++os_n_fsyncs in
/// os0file.cc): of two that do so at the same moment one is missing there. It happens when a server starts,
/// and several threads make files. Then that measurement decides nothing about InnoDB's files, and is made
/// again; the kernel's own count (kernel_count.rs) is the one to hold every measurement against.
pub fn missed_by_innodb(kind: Kind, seen: u64, counted: u64) -> bool {
    kind != Kind::MariaDb && (1..=2).contains(&seen.saturating_sub(counted))
}

/// Traces a load on a server: what was printed, and what the server itself counted in that time, which is
/// exactly the time of the tracing, because nothing was counted at its edges.
pub fn bracket(
    database: &mut Database,
    options: &[&str],
    mut load: impl FnMut(&Database),
) -> (String, Counters) {
    let pid = database.pid.to_string();
    until_quiet(|| {
        let before = database.quiet_counters();
        let tracing = Tracing::begin(&[&["--pid", &pid], options].concat());
        if database.counters() != before {
            return None;
        }
        load(database);
        let quiet = database.quiet_counters();
        let text = tracing.end();
        let after = database.counters();
        (after == quiet).then(|| (text, after.since(&before)))
    })
}

/// As [`bracket`], with the one measurement that was made.
pub fn measure(
    database: &mut Database,
    options: &[&str],
    load: impl FnMut(&Database),
) -> (Measured, Counters) {
    let (text, counters) = bracket(database, &[&["--output", "json"], options].concat(), load);
    (Measured::parse(&text), counters)
}

pub fn innodb(measured: &Measured) -> u64 {
    // MariaDB's dictionary is the server's: .frm files and the log of its changes. So is that of old MySQLs.
    let is_innodb = |row: &&Value| {
        let is_ibd = || path_of(row).is_some_and(|path| path.extension() == Some("ibd".as_ref()));
        // To the server a durable write is a write.
        row["op"] != "dsync_write"
            && INNODB.contains(&text(row, "role").as_str())
            && (row["role"] != "dictionary" || is_ibd())
    };
    sum(measured.files().iter().filter(is_innodb))
}

/// The syncs of a role that were made by that call.
pub fn of_op(measured: &Measured, role: &str, op: &str) -> u64 {
    sum(measured.roles().iter().filter(|row| row["role"] == role && row["op"] == op))
}

/// One server's part.
pub fn of_server(measured: &Measured, pid: u32) -> Measured {
    let mut part = measured.0.clone();
    for table in ["servers", "roles", "files", "threads", "in_flight"] {
        if let Some(rows) = part[table].as_array_mut() {
            rows.retain(|row| number(row, "pid") == u64::from(pid));
        }
    }
    Measured(part)
}

/// Every sync of a load was counted once and has its role, nothing was lost, and the sums agree.
pub fn assert_exact(measured: &Measured, counted: &Counters) {
    measured.assert_nothing_lost();
    assert_sums(measured, counted);
    assert_eq!(measured.of_role("other"), 0, "{}", counts_of(measured));
    if let Some(redo) = counted.redo {
        let syncs = measured.of_role("redo") - of_op(measured, "redo", "dsync_write");
        assert_eq!(syncs, redo, "{counted:?} {}", counts_of(measured));
    }
}

/// The same from a server's start on. It syncs its pid's file then, and MySQL the redo files that it makes,
/// which Innodb_data_fsyncs has and Innodb_os_log_fsyncs has not.
pub fn assert_exact_in_sum(measured: &Measured, counted: &Counters) {
    assert_sums(measured, counted);
    measured.assert_nothing_lost();
}

fn assert_sums(measured: &Measured, counted: &Counters) {
    measured.assert_no_call_lost();
    assert!(measured.in_flight().is_empty(), "{}", measured.0["in_flight"]);
    assert_eq!(innodb(measured), counted.innodb, "{counted:?} {}", counts_of(measured));
    let total = measured.total(); // roles against files
    if measured.0["threads"].is_array() {
        assert_eq!(sum(measured.threads()), total);
    }
}

/// For messages: each file with its role, call and count.
pub fn counts_of(measured: &Measured) -> String {
    let line = |row: &Value| format!("\n{} {} {} {}", row["role"], row["op"], row["count"], row["path"]);
    measured.files().iter().map(line).collect()
}
