//! Needs root, and a real PostgreSQL. All of its processes are one server. Its log is made durable by its
//! writes or by syncs, as wal_sync_method says, and either is counted as the server counts it, to the call.

use std::cell::Cell;

use serde_json::Value;

use crate::common::exact::{counts_of, until_quiet};
use crate::common::measured::{number, sum};
use crate::common::needs;
use crate::common::postgres::Cluster;
use crate::common::postgres_log::{PAGE, assert_is_one, measure, of_log};
use crate::common::tracing::Tracing;
use crate::common::wait_until;

fn each_method_on(filesystem: &str, megabytes: u64, wal_level: &str) {
    let cluster = Cluster::on(filesystem, megabytes);
    let server = cluster.start(&["fsync=off"]);
    server.prepare();
    server.stop();
    for (method, is_durable) in
        [("open_datasync", true), ("open_sync", true), ("fsync", false), ("fdatasync", false)]
    {
        let setting = format!("wal_sync_method={method}");
        let server = cluster.start(&[&setting, wal_level, "max_wal_senders=0"]);
        let pid = server.pid().to_string();
        let (measured, counted) = measure(&["--pid", &pid], &server, |server| server.load(16, 200));
        assert_is_one(&measured, &server);
        server.stop();
        let said = format!("{filesystem} {method}: {counted:?} {}", counts_of(&measured));
        measured.assert_nothing_lost();
        assert!(counted.writes > 100, "{said}");
        let (writes, syncs) = (
            of_log(&measured, "dsync_write"),
            of_log(&measured, if is_durable { "fdatasync" } else { method }),
        );
        let made = [&writes, &syncs].map(|rows| sum(rows.iter().copied()));
        if is_durable {
            assert_eq!((made, counted.syncs), ([counted.writes, 0], 0), "{said}");
            let bytes: u64 = writes.iter().map(|row| number(row, "bytes")).sum();
            assert!(bytes.is_multiple_of(PAGE) && bytes >= counted.bytes, "{bytes} bytes: {said}");
        } else {
            assert!(counted.syncs > 100, "{said}");
            assert_eq!(made, [0, counted.syncs], "{said}");
        }
        assert!(measured.files().iter().all(|row| row["errors"] == serde_json::json!({})), "{said}");
    }
}

/// Where nobody reads the log but a recovery (wal_level=minimal), PostgreSQL opens it with O_DIRECT as well.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_postgres_is_seen_to_make_its_log_durable_as_often_as_it_counts() {
    needs(&[]);
    std::thread::scope(|scope| {
        scope.spawn(|| each_method_on("ext4", 512, "wal_level=replica"));
        scope.spawn(|| each_method_on("xfs", 512, "wal_level=minimal"));
    });
}

/// Hundreds of processes that live for one transaction each, selected by the number of any of the server's.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_all_processes_of_postgres_are_one_server() {
    needs(&[]);
    let cluster = Cluster::with_tables(15);
    let server = cluster.start(&[]);
    let walwriter = server.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
    let (measured, counted) =
        measure(&["--pid", &walwriter], &server, |server| server.load_by_short_lived(8, 50));
    measured.assert_nothing_lost();
    assert_is_one(&measured, &server);
    let said = format!("{counted:?} {}", counts_of(&measured));
    assert!(counted.syncs >= 50, "{said}");
    assert_eq!(sum(of_log(&measured, "fdatasync")), counted.syncs, "{said}");
    server.stop();
}

/// By their name both are found, and each has what is its own.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_two_clusters_are_two_servers() {
    needs(&[]);
    let clusters = [Cluster::with_tables(15), Cluster::with_tables(15)];
    let [first, second] = clusters.each_ref().map(|cluster| cluster.start(&[]));
    let (measured, counted, also) = until_quiet(|| {
        let before = second.quiet_wal();
        let quiet = Cell::new(None);
        let (measured, counted) = measure(&["--comm", "postgres"], &first, |server| {
            if second.wal() == before {
                server.load_by_short_lived(4, 50);
                second.load(4, 25);
                quiet.set(Some(second.quiet_wal()));
            }
        });
        let quiet = quiet.get().filter(|quiet| second.wal() == *quiet)?;
        Some((measured, counted, quiet.since(before)))
    });
    for (server, counted) in [(&first, counted), (&second, also)] {
        let own = |row: &&&Value| number(row, "pid") == u64::from(server.pid());
        let rows = of_log(&measured, "fdatasync");
        assert_eq!(sum(rows.iter().filter(own).copied()), counted.syncs, "{}", counts_of(&measured));
        // A sync is of one commit of each connection at most.
        assert!(counted.syncs >= 25, "{counted:?}");
    }
    first.stop();
    second.stop();
}

/// A postmaster that is killed leaves processes behind that go on until they are to wait for something. Those
/// that synced before and those that did not still belong to it.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_a_killed_postmaster_leaves_behind_is_still_its_server() {
    needs(&[]);
    let cluster = Cluster::with_tables(15);
    let server = cluster.start(&[]);
    // A table for each: a backend that waited for the other's lock would look whether its postmaster lives.
    server.query("CREATE TABLE t (n int); CREATE TABLE u (n int)");
    server.query(
        "CREATE PROCEDURE go_on(wait interval, own text) LANGUAGE plpgsql AS $$ BEGIN \
         WHILE clock_timestamp() < statement_timestamp() + wait LOOP END LOOP; \
         LOOP EXECUTE format('INSERT INTO %I VALUES (1)', own); COMMIT; END LOOP; END $$",
    );
    let tracing = Tracing::begin(&["--comm", "postgres", "--by", "thread", "--output", "json"]);
    let clients = [server.begin("CALL go_on('0 s', 't')"), server.begin("CALL go_on('4 s', 'u')")];
    let backends = || {
        let pids =
            server.query("SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL%' ORDER BY backend_start");
        pids.lines().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
    };
    wait_until("both to be at work", || backends().len() == 2);
    wait_until("the first to have synced", || server.query("SELECT count(*) > 10 FROM t") == "t");
    let backends = backends();
    let postmaster = server.pid();
    server.kill();
    std::thread::sleep(std::time::Duration::from_secs(6));
    let alive = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "postgres\n")
    };
    assert!(backends.iter().all(alive), "they were to outlive it");
    let measured = tracing.one();
    for pid in &backends {
        crate::common::disk::run("kill", &["-KILL", &pid.to_string()]);
    }
    drop(clients);
    let ours = |row: &&Value| {
        let pid = number(row, "pid");
        pid == u64::from(postmaster) || backends.iter().any(|&backend| u64::from(backend) == pid)
    };
    let rows: Vec<&Value> = measured.files().iter().filter(ours).collect();
    assert!(rows.iter().all(|row| number(row, "pid") == u64::from(postmaster)), "{rows:#?}");
    let threads: Vec<&Value> = measured.threads().iter().filter(ours).collect();
    for backend in backends {
        let own = threads.iter().find(|row| number(row, "tid") == u64::from(backend));
        let own = own.unwrap_or_else(|| panic!("{backend}: {threads:#?}"));
        assert_eq!(number(own, "pid"), u64::from(postmaster));
        assert!(number(own, "count") > 10, "{own}");
    }
}
