//! Needs root, and a real PostgreSQL. A standby is a server of its own beside the one that it follows, and
//! what either syncs of its log is as much as it counts itself.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::common::exact::until_quiet;
use crate::common::exporter::Exporter;
use crate::common::measured::{Measured, number, path_of, sum};
use crate::common::postgres::{Cluster, Postgres, Wal};
use crate::common::postgres_log::{of, of_log};
use crate::common::scrape::Scrape;
use crate::common::tracing::Tracing;
use crate::common::turn::takes_long;
use crate::common::{needs, wait_until};

/// From this version on, the receiver of the log hands in what it has counted while it runs.
const RECEIVER_COUNTS: u32 = 18;
const NEWEST: u32 = 18;

/// What both did, and what they have counted of it.
struct Done {
    measured: Measured,
    primary: Wal,
    /// Before its promotion, and at the end.
    streamed: Wal,
    standby: Wal,
    /// The standby's process that receives the log.
    receiver: u64,
}

/// From before the standby's first sync until it has been promoted and has had a load of its own.
fn follow_and_promote<'a>(primary: &Postgres<'_>, copy: &'a Cluster) -> Option<(Done, Postgres<'a>)> {
    let before = primary.quiet_wal();
    let tracing = Tracing::begin(&["--comm", "postgres", "--by", "thread", "--output", "json"]);
    if primary.wal() != before {
        return None;
    }
    let standby = copy.start(&["wal_receiver_status_interval=1s"]);
    wait_until("the standby to follow", || {
        primary.query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1"
    });
    primary.load(8, 100);
    let written = primary.query("SELECT pg_current_wal_lsn()");
    wait_until("the standby to have all", || {
        standby.query(&format!("SELECT pg_last_wal_replay_lsn() >= '{written}'")) == "t"
    });
    let streamed = standby.quiet_wal();
    let receiver = standby.query("SELECT pid FROM pg_stat_wal_receiver").parse().unwrap();
    assert_eq!(standby.query("SELECT pg_promote()"), "t");
    standby.load(4, 50);
    let counted = standby.quiet_wal();
    // Now and then it writes for its standby what runs there (LogStandbySnapshot in bgwriter.c).
    let end = primary.wal();
    let measured = tracing.one();
    let is_over = primary.wal() == end && standby.wal() == counted;
    let done = Done { measured, primary: end.since(before), streamed, standby: counted, receiver };
    is_over.then_some((done, standby))
}

/// What an exporter, and a table, call the servers that there are.
fn assert_are_two(servers: [&Postgres<'_>; 2]) {
    let exporter = Exporter::start(&["--comm", "postgres", "--max-cpu", "off"]);
    servers.iter().for_each(|server| server.load(2, 20));
    let mut scrape = Scrape::of(&exporter);
    scrape.assert_whole();
    wait_until("both to be described", || {
        scrape = Scrape::of(&exporter);
        servers.iter().all(|server| scrape.servers_in(&server.data()).len() == 1)
    });
    for server in servers {
        let label = scrape.label_of(server.pid());
        assert_eq!(scrape.servers_in(&server.data()), BTreeSet::from([label.clone()]));
        assert!(scrape.syncs(&["role=\"wal\"", &format!("server=\"{label}\"")]) > 0, "{scrape:#?}");
    }
    // Of all that are called postgres, those of other tests too, idle ones may be folded into one line.
    let pids = servers.map(|server| server.pid().to_string());
    let mut once = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    let once = once.args(["once", "--pid", &pids[0], "--pid", &pids[1], "--by", "server", "--duration", "1"]);
    let table = String::from_utf8(once.output().unwrap().stdout).unwrap();
    for server in servers {
        let own = scrape.label_of(server.pid());
        let said: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix(own.as_str())).collect();
        assert!(!said.is_empty(), "{table}");
        // One row for each call, whichever of its processes made it.
        let calls =
            said.iter().filter(|rest| rest.starts_with(' ')).map(|rest| rest.split_whitespace().next());
        let calls: Vec<_> = calls.collect();
        assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len(), "{table}");
    }
}

fn each_counts_its_own(version: u32) {
    takes_long("it copies a cluster of a thousand tables and promotes the copy");
    let cluster = Cluster::with_tables(version);
    let disk = cluster.data().parent().unwrap().display().to_string();
    let primary = cluster.start(&[]);
    let mut attempt = 0;
    let (done, standby) = until_quiet(|| {
        attempt += 1;
        let copy = primary.copy(&format!("standby{attempt}"));
        let (done, standby) = follow_and_promote(&primary, &copy)?;
        if version == NEWEST {
            assert_are_two([&primary, &standby]);
        }
        let pid = standby.pid();
        standby.stop();
        Some((done, pid))
    });
    let measured = &done.measured;
    measured.assert_nothing_lost();
    let counted = [done.primary, done.streamed, done.standby];
    let said = format!("{version}: {counted:?} {:#?}", of_log(measured, "fdatasync"));
    eprintln!("{version}: {counted:?}");
    let servers = measured.0["servers"].as_array().unwrap();
    let ours = |server: &&Value| server["datadir"].as_str().is_some_and(|data| data.starts_with(&disk));
    let servers: BTreeSet<u64> = servers.iter().filter(ours).map(|server| number(server, "pid")).collect();
    assert_eq!(servers, BTreeSet::from([primary.pid(), standby].map(u64::from)), "{said}");
    let syncs = |pid: u32| sum(of(of_log(measured, "fdatasync"), pid));
    assert!(done.primary.syncs >= 100 && done.standby.syncs >= 50, "{said}");
    assert_eq!(syncs(primary.pid()), done.primary.syncs, "{said}");
    assert_eq!(syncs(standby), done.standby.syncs, "{said}");
    // Until 17 the receiver of the log hands in what it has counted when it ends; from 18 on also when
    // nothing has arrived for wal_receiver_status_interval (pgstat_report_wal in walreceiver.c).
    let threads = of(measured.threads(), standby);
    let by_receiver = |row: &&&Value| number(row, "tid") == done.receiver && row["op"] == "fdatasync";
    let received = sum(threads.iter().filter(by_receiver).copied());
    assert!(received > 50, "{threads:#?}");
    match version {
        RECEIVER_COUNTS.. => assert!((50..=received).contains(&done.streamed.syncs), "{received} {said}"),
        _ => assert_eq!(done.streamed.syncs, 0, "{said}"),
    }
    // The standby's own time line begins with a file that says where it leaves the other one.
    let history = |row: &&&Value| path_of(row).is_some_and(|path| path.ends_with("pg_wal/00000002.history"));
    let rows = of(measured.files(), standby);
    let rows: Vec<_> = rows.iter().filter(history).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["role"] == "wal"), "{rows:#?} {said}");
    primary.stop();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_standby_is_a_server_of_its_own() {
    needs(&[]);
    each_counts_its_own(15);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_standby_of_17_is_a_server_of_its_own() {
    needs(&[]);
    each_counts_its_own(17);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_standby_of_18_is_a_server_of_its_own() {
    needs(&[]);
    each_counts_its_own(NEWEST);
}
