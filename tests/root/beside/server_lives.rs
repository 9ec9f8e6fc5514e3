//! Needs root, MariaDB as installed and a MySQL in a root tree of its own: servers that start, are started
//! again or are killed while they are traced.

use std::process::Stdio;

use serde_json::Value;

use crate::common::exact::{
    assert_exact_in_sum, counts_of, innodb, missed_by_innodb, of_op, of_server, on_each, until_quiet,
};
use crate::common::kernel_count::KernelCount;
use crate::common::measured::{Measured, count, path_of, sum, text};
use crate::common::server::{Database, Home, Kind};
use crate::common::tracing::Tracing;
use crate::common::wait_until;

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_server_that_was_waited_for_is_traced_from_its_first_sync() {
    on_each(|kind| {
        let home = Home::new(kind);
        let (measured, counted) = until_quiet(|| {
            let kernel = KernelCount::begin();
            let tracing = Tracing::waiting(&["--comm", &home.comm, "--output", "json", "--by", "thread"]);
            let mut database = home.start(&[], &[]);
            database.prepare();
            database.insert(4, 100);
            let quiet = database.quiet_counters();
            let mut measured = tracing.measured();
            let after = database.counters();
            let by_kernel = kernel.end(database.pid);
            if quiet == after {
                assert_eq!(measured[0].total(), by_kernel, "{}", counts_of(&measured[0]));
            }
            let missed = missed_by_innodb(kind, innodb(&measured[0]), after.innodb);
            (quiet == after && !missed).then(|| (measured.remove(0), after))
        });
        // Files that it closed at once have their path inside its own root, too.
        let inside = home.inside();
        let outside = |row: &&Value| !path_of(row).is_some_and(|path| path.starts_with(&inside));
        assert_eq!(measured.files().iter().find(outside), None, "not below {}", inside.display());
        // MySQL makes redo files under a name that it changes before they are used: the one in use has its
        // final name.
        let redo =
            measured.files().iter().filter(|row| row["role"] == "redo").max_by_key(|row| count(row)).unwrap();
        assert!(!text(redo, "path").ends_with("_tmp"), "{}", counts_of(&measured));
        // The counters began at zero, as the server did.
        assert!(counted.innodb > 0);
        assert_exact_in_sum(&measured, &counted);
        let server = &measured.0["servers"][0];
        assert_eq!((server["comm"].as_str(), server["alive"].as_bool()), (Some(&*home.comm), Some(true)));
        assert!(server["version"].is_string() && server["datadir"].is_string(), "{server}");
    });
}

/// A server that is traced under load, killed, and started again: the measurements, and the two processes.
fn restarted(kind: Kind, options: &[&str]) {
    let home = Home::new(kind);
    until_quiet(|| {
        let mut first = home.start(&[], &[]);
        first.prepare();
        let before = first.quiet_counters();
        let tracing = Tracing::begin(&[&["--comm", &home.comm, "--output", "json"], options].concat());
        if first.counters() != before {
            return None;
        }
        first.insert(4, 50);
        let counted = first.quiet_counters().since(&before);
        first.kill();
        let first_pid = first.pid;
        drop(first);
        let kernel = KernelCount::begin();
        let mut second = home.start(&[], &[]);
        second.insert(1, 50);
        let quiet = second.quiet_counters();
        let measured = tracing.measured();
        let after = second.counters();
        let by_kernel = kernel.end(second.pid);
        if after != quiet {
            return None;
        }
        let last = measured.last().unwrap();
        let alive = |pid| {
            let part = of_server(last, pid);
            let [server] = part.0["servers"].as_array().unwrap().as_slice() else { panic!("{}", part.0) };
            server["alive"].as_bool().unwrap()
        };
        assert!(!alive(first_pid) && alive(second.pid), "{}", last.0["servers"]);
        let sum_of = |pid, figure: &dyn Fn(&Measured) -> u64| -> u64 {
            measured.iter().map(|interval| figure(&of_server(interval, pid))).sum()
        };
        // No commit, no sync of the binary log: so this is exact. InnoDB may have synced just before it was
        // killed.
        assert_eq!(sum_of(first_pid, &|part| of_op(part, "binlog", kind.log_op())), counted.binlog);
        assert!(sum_of(first_pid, &innodb) >= counted.innodb);
        let files =
            || measured.iter().map(|part| counts_of(&of_server(part, second.pid))).collect::<String>();
        assert_eq!(sum_of(second.pid, &|part| sum(part.files())), by_kernel, "{}", files());
        let seen = sum_of(second.pid, &innodb);
        if missed_by_innodb(kind, seen, quiet.innodb) {
            return None;
        }
        assert_eq!(seen, quiet.innodb, "{}", files());
        for interval in &measured {
            interval.assert_nothing_lost();
            interval.total();
        }
        Some(())
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_server_that_is_started_again_is_another_and_the_totals_of_the_first_stay() {
    on_each(|kind| {
        restarted(kind, &[]);
    });
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_series_goes_on_over_a_restart() {
    on_each(|kind| restarted(kind, &["--interval", "300ms"]));
}

/// Kills a server in the middle of one connection's load; returns the first row that was not confirmed.
fn kill_under_load(database: &mut Database) -> u64 {
    let before = database.counters().binlog;
    let load = database.load(1, 1_000_000).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the load to run", || database.counters().binlog > before + 100);
    database.kill();
    let output = load.wait_with_output().unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    let row = message.split_once("connection 1, row ").unwrap_or_else(|| panic!("{message}")).1;
    row.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn a_server_that_is_killed_under_load_is_shown_to_its_last_sync() {
    on_each(|kind| {
        let mut database = Database::start(kind, &[]);
        database.prepare();
        database.quiet_counters();
        let pid = database.pid.to_string();
        let json = Tracing::begin(&["--pid", &pid, "--output", "json", "--by", "thread"]);
        let table = Tracing::begin(&["--pid", &pid]);
        let failed = kill_under_load(&mut database);
        let [measured] = &json.measured()[..] else { panic!("one measurement") };
        measured.assert_nothing_lost();
        assert_eq!(measured.0["servers"][0]["alive"], false);
        assert!(measured.in_flight().is_empty(), "{}", measured.0["in_flight"]);
        // What was confirmed is synced; the row after it may have been, too.
        let binlog = of_op(measured, "binlog", kind.log_op());
        assert!((failed - 1..=failed).contains(&binlog), "{binlog} syncs, row {failed} failed");
        assert_eq!(sum(measured.threads()), measured.total());
        let table = table.end();
        let header = table.lines().next().unwrap();
        assert!(header.contains(" has exited · ") && header.contains(&format!(" {pid} ")), "{table}");
        assert!(table.contains(crate::common::ALL_WELL), "{table}");
    });
}
