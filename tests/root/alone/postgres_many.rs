//! Needs root, and a real PostgreSQL. However many processes it has, at once or one after the other, they are
//! one server, whose syncs are as many as it counts itself.

use std::collections::BTreeSet;
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::common::exact::{counts_of, until_quiet};
use crate::common::exporter::Exporter;
use crate::common::measured::{number, sum};
use crate::common::postgres::{Cluster, Postgres};
use crate::common::postgres_log::{assert_is_one, measure, of_log};
use crate::common::scrape::{Scrape, watched};
use crate::common::{needs, wait_until};

const BACKENDS: u32 = 1_000;

/// A load of so many connections, none of which commits before all of them are there.
fn load_all_at_once(server: &Postgres<'_>) {
    let count = |of: &str| server.query(&format!("SELECT count(*) FROM {of}")).parse::<u32>().unwrap();
    let gate = server.begin("BEGIN; LOCK pgbench_history IN SHARE ROW EXCLUSIVE MODE; SELECT pg_sleep(3600)");
    wait_until("the gate to be shut", || {
        count("pg_locks WHERE mode = 'ShareRowExclusiveLock' AND granted") == 1
    });
    scope(|scope| {
        scope.spawn(|| server.load(BACKENDS, 3));
        wait_until("all of them to wait", || {
            sleep(Duration::from_millis(200));
            count("pg_stat_activity WHERE wait_event_type = 'Lock'") == BACKENDS
        });
        // What a client that is killed has begun goes on.
        server
            .query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%'");
    });
    drop(gate);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_thousand_backends_at_once_are_one_server() {
    needs(&[]);
    let cluster = Cluster::with_tables(15);
    let server = cluster.start(&["max_connections=1100", "deadlock_timeout=10min"]);
    let pid = server.pid().to_string();
    let (measured, counted) = measure(&["--pid", &pid, "--by", "thread"], &server, load_all_at_once);
    measured.assert_nothing_lost();
    assert_is_one(&measured, &server);
    let said = format!("{counted:?} {}", counts_of(&measured));
    assert!(counted.syncs > 100, "{said}");
    assert_eq!(sum(of_log(&measured, "fdatasync")), counted.syncs, "{said}");
    // Of those that commit together one syncs.
    assert_eq!(sum(measured.threads()), measured.total(), "{said}");
    let processes: BTreeSet<u64> = measured.threads().iter().map(|row| number(row, "tid")).collect();
    eprintln!("{} of {BACKENDS} synced: {said}", processes.len());
    assert!(processes.len() > 50, "{processes:?}");
    server.stop();
}

/// A process for each of 2,400 transactions: none has a label, none is a neighbour.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_thousands_of_short_lived_backends_have_one_label() {
    needs(&[]);
    let cluster = Cluster::with_tables(15);
    let server = cluster.start(&[]);
    until_quiet(|| {
        let exporter = Exporter::start(&["--comm", "postgres", "--max-cpu", "off"]);
        let before = server.quiet_wal();
        let first = Scrape::of(&exporter);
        if server.wal() != before {
            return None;
        }
        let ((), watched) = watched(&exporter, || server.load_by_short_lived(8, 300));
        let quiet = server.quiet_wal();
        let last = Scrape::of(&exporter);
        if server.wal() != quiet {
            return None;
        }
        let label = last.label_of(server.pid());
        let of_log = [&format!("server=\"{label}\""), "role=\"wal\"", "op=\"fdatasync\""];
        let (seen, counted) = (last.syncs(&of_log) - first.syncs(&of_log), quiet.since(before).syncs);
        eprintln!("{counted} syncs, {} scrapes, at most {} samples", watched.scrapes, watched.most_samples);
        assert!(counted > 1_000 && watched.scrapes > 10);
        assert_eq!(seen, counted, "{last:#?}");
        last.assert_whole();
        assert_eq!(last.servers_in(&cluster.data()), BTreeSet::from([label]));
        for nobody in ["server=\"unknown\"", "server=\"other\""] {
            assert_eq!(last.syncs(&[nobody]), 0, "{last:#?}");
        }
        assert_eq!(last.sum("fsynctop_neighbour_syncs_total", &["comm=\"postgres\""]), 0);
        Some(())
    });
    server.stop();
}
