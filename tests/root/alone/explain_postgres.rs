//! Needs root and a real PostgreSQL: its throughput taken apart, and what of its settings' promises is kept.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::common::explained::Explained;
use crate::common::needs;
use crate::common::postgres::{Cluster, Postgres};

/// So many windows at most: the samples of one may be disturbed by what else runs on this machine.
const WINDOWS: u32 = 3;

/// When, in seconds since the epoch, how many transactions had committed: each inserts a row.
type Moment = (f64, f64);

fn moment(server: &Postgres<'_>) -> Moment {
    let row = server.query("SELECT extract(epoch FROM clock_timestamp()), count(*) FROM pgbench_history");
    let (when, rows) = row.split_once('|').unwrap();
    (when.parse().unwrap(), rows.parse().unwrap())
}

/// A window in the midst of a load, with checkpoints; and the transactions per second that the server counted
/// meanwhile.
fn window(server: &Postgres<'_>, connections: u32) -> (Value, f64) {
    let _load = server.begin_load(connections);
    std::thread::sleep(Duration::from_secs(2));
    let ended = AtomicBool::new(false);
    // When the window begins is not known.
    let look = || {
        let mut moments = vec![moment(server)];
        while !ended.load(Ordering::Relaxed) {
            if moments.len() % 8 == 0 {
                server.query("CHECKPOINT");
            }
            std::thread::sleep(Duration::from_millis(200));
            moments.push(moment(server));
        }
        moments
    };
    let (value, moments) = std::thread::scope(|scope| {
        let looks = scope.spawn(look);
        let explained = Explained::of(server.pid(), 6, &[]);
        ended.store(true, Ordering::Relaxed);
        (explained.0, looks.join().unwrap())
    });
    let [from, to] = ["start", "end"].map(|edge| {
        let edge = value[edge].as_str().unwrap();
        let edge = server.query(&format!("SELECT extract(epoch FROM timestamptz '{edge}')"));
        at(&moments, edge.parse().unwrap())
    });
    (value, (to.1 - from.1) / (to.0 - from.0))
}

/// Between two moments, as if the load were even there.
fn at(moments: &[Moment], when: f64) -> Moment {
    let next = moments.partition_point(|moment| moment.0 < when);
    let ((from, n), (to, m)) = (moments[next - 1], moments[next]);
    (when, n + (m - n) * (when - from) / (to - from))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn standing<'a>(value: &'a Value, setting: &str) -> &'a str {
    let mut findings = value["audit"].as_array().unwrap().iter();
    let found = findings.find(|finding| finding["setting"].as_str().unwrap().starts_with(setting));
    found.unwrap_or_else(|| panic!("{setting}: {value:#}"))["standing"].as_str().unwrap()
}

/// A cluster with the tables of pgbench.
fn prepared() -> Cluster {
    let cluster = Cluster::on("ext4", 1_024);
    cluster.let_in_by("peer");
    let server = cluster.start(&["fsync=off"]);
    server.prepare();
    server.stop();
    cluster
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_explain_takes_the_throughput_apart() {
    needs(&[]);
    let cluster = prepared();
    for connections in [1, 8] {
        let server = cluster.start(&[]);
        let mut windows = 0;
        let (value, rate) = loop {
            let (value, rate) = window(&server, connections);
            windows += 1;
            if windows == WINDOWS || value["factors"]["logs"][0]["adds_up"] == true {
                break (value, rate);
            }
        };
        let factors = &value["factors"];
        let said = format!("{connections} connections, {rate} transactions/s: {value:#}");
        let observed = number(&value["observed_transactions_per_second"]);
        assert!((observed / rate - 1.0).abs() < 0.1, "{said}");
        let log = &factors["logs"][0];
        assert_eq!((&log["role"], &log["made_durable_by"]), (&"wal".into(), &"syncs".into()), "{said}");
        assert_eq!(log["adds_up"], true, "{said}");
        let per_sync = number(&factors["transactions_per_wal_sync"]["value"]);
        assert!((per_sync * number(&log["syncs_per_second"]) / observed - 1.0).abs() < 1e-6, "{said}");
        // Alone, each commit waits for a sync of its own; of several, some share one.
        let expected = if connections == 1 { 0.5..1.1 } else { 1.2..8.5 };
        assert!(expected.contains(&per_sync), "{said}");
        assert!(number(&log["busy"]) <= 1.02, "one at a time: {said}");
        assert!(number(&log["bound_transactions_per_second"]) >= observed * 0.98, "{said}");

        let first = &factors["synced_by"][0];
        assert_eq!(first["who"], "client backend", "{said}");
        assert!(number(&first["share"]) > 0.8, "{said}");
        let checkpoints = &factors["checkpoints"];
        assert!(number(&checkpoints["count"]) >= 1.0 && number(&checkpoints["data_syncs"]) > 0.0, "{said}");

        assert_eq!(standing(&value, "fsync=on"), "consistent", "{said}");
        assert_eq!(standing(&value, "synchronous_commit=on"), "consistent", "{said}");
        assert_eq!(standing(&value, "ext4 on "), "kept", "{said}");
        let each = &value["bytes_per_transaction"];
        assert!(number(&each["wal"]) > 0.0 && number(&each["all"]) >= number(&each["wal"]), "{said}");
        server.stop();
    }
}

/// The setting is read as fsynctop's own session has it. Others' is noticed by commits that no sync released.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_explain_notices_sessions_that_do_not_wait() {
    needs(&[]);
    let cluster = prepared();
    let server = cluster.start(&[]);
    server.query("CREATE TABLE counted (n int)");
    let load = server.begin(
        "DO $$ BEGIN FOR n IN 1..1000000000 LOOP PERFORM set_config('synchronous_commit', 'off', false); \
         INSERT INTO counted VALUES (n); COMMIT; END LOOP; END $$",
    );
    std::thread::sleep(Duration::from_secs(1));
    let Explained(value) = Explained::of(server.pid(), 4, &[]);
    assert_eq!(standing(&value, "synchronous_commit=on"), "unclear", "{value:#}");
    drop(load);
    server.stop();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_explain_says_what_a_commit_waits_for() {
    needs(&[]);
    let cluster = prepared();

    let server = cluster.start(&[]);
    let load = server.begin_load(8);
    std::thread::sleep(Duration::from_secs(1));
    let Explained(value) = Explained::of(server.pid(), 3, &[]);
    let connections = &value["factors"]["connections"];
    assert_eq!(number(&connections["connected"]), 8.0, "{value:#}");
    let each = number(&connections["seconds_per_transaction"]);
    assert!(number(&connections["seconds_in_syncs"]) < each, "{value:#}");
    drop(load);
    server.stop();

    let server = cluster.start(&["synchronous_commit=off"]);
    let (value, _) = window(&server, 8);
    let form = &value["factors"]["form"];
    assert!(form["why_not_wal"].as_str().unwrap().contains("synchronous_commit=off"), "{value:#}");
    assert_eq!(standing(&value, "synchronous_commit=off"), "weak", "{value:#}");
    assert!(number(&value["factors"]["transactions_per_wal_sync"]["value"]) > 8.0, "{value:#}");
    server.stop();

    let server = cluster.start(&["wal_sync_method=open_datasync"]);
    let (value, _) = window(&server, 8);
    let log = &value["factors"]["logs"][0];
    assert_eq!(log["made_durable_by"], "durable_writes", "{value:#}");
    assert_eq!(value["factors"]["form"]["by_writes"], "wal_sync_method=open_datasync", "{value:#}");
    assert_eq!(standing(&value, "synchronous_commit=on"), "consistent", "{value:#}");
    server.stop();

    let server = cluster.start(&["fsync=off"]);
    let load = server.begin_load(8);
    std::thread::sleep(Duration::from_secs(1));
    let output = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["explain", "-d", "3", "--pid", &server.pid().to_string()])
        .output()
        .unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("fsync=off: nothing is ever synced"), "{page}");
    assert!(
        page.find("BROKEN").unwrap() < page.find("Why transactions per second differ").unwrap(),
        "{page}"
    );
    drop(load);
    server.stop();
}
