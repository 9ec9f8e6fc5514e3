//! Needs root, tracefs, real servers and Prometheus: what it knows of them through the exporter and the
//! examples.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::faults::{FaultFs, fsynctop, output, signal, stdout, tool};
use common::prometheus::{Prometheus, free_port, promtool};
use common::server::{Database, Kind};
use common::{Running, needs, wait_until};
use serde_json::Value;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

#[test]
#[ignore = "needs root and promtool"]
fn rules_are_sound_and_each_alert_has_its_cases() {
    let directory = Path::new(EXAMPLES).join("prometheus");
    promtool(&["check", "rules", "fsynctop.rules.yml"], &directory);
    promtool(&["test", "rules", "fsynctop.tests.yml"], &directory);
    let rules = std::fs::read_to_string(directory.join("fsynctop.rules.yml")).unwrap();
    let cases = std::fs::read_to_string(directory.join("fsynctop.tests.yml")).unwrap();
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 12, "{alerts:?}");
    for alert in alerts {
        // One that has to fire and, in the healthy server's case, one that must not.
        assert!(
            cases.contains(&format!("alertname: {alert}\n        exp_alerts:\n          - ")),
            "{alert} fires nowhere"
        );
    }
}

struct Exporter {
    running: Running,
    port: u16,
    /// Its history's socket is there, in a directory that only root may write to.
    _directory: tempfile::TempDir,
}

impl Exporter {
    fn start(options: &[&str]) -> Exporter {
        let port = free_port();
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let socket = directory.path().join("history.sock");
        let mut command = fsynctop();
        command.arg("exporter").args(["--listen", &format!("127.0.0.1:{port}"), "--max-cpu", "off"]);
        command.arg("--socket").arg(&socket).args(options);
        let running = Running(command.stdout(Stdio::null()).spawn().unwrap());
        let exporter = Exporter { running, port, _directory: directory };
        wait_until("the exporter to be ready", || exporter.status("/-/ready") == "200");
        exporter
    }

    fn status(&self, path: &str) -> String {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let output =
            Command::new("curl").args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &url]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}

fn counts(prometheus: &Prometheus, server: &str, condition: &str) -> u64 {
    prometheus.catch_up();
    let selector = format!("fsynctop_sync_duration_seconds_count{{server=\"{server}\"{condition}}}");
    prometheus.query(&format!("sum({selector}) or vector(0)")).first().map_or(0, |sum| sum.value as u64)
}

/// The label that the exporter has given to a server.
fn label_of(prometheus: &Prometheus, database: &Database) -> String {
    let mut label = None;
    wait_until("the server to be described", || {
        let info = prometheus.query(&format!("fsynctop_server_info{{pid=\"{}\"}}", database.pid));
        label = info.first().map(|info| info.labels["server"].clone());
        label.is_some()
    });
    label.unwrap()
}

const INNODB: &str = ",role=~\"redo|doublewrite|undo|system_tablespace|tablespace|dictionary|temporary\"";

#[test]
#[ignore = "needs root, a kernel with BTF, MySQL and MariaDB"]
fn prometheus_knows_what_the_servers_counted_to_the_sync() {
    needs(&[]);
    let exporter = Exporter::start(&["--writes", "all"]);
    let prometheus = Prometheus::start(exporter.port);
    let mut servers = [Kind::MariaDb, Kind::MySql].map(|kind| Database::start(kind, &[]));
    for database in &servers {
        database.prepare();
    }
    let labels: Vec<_> = servers.iter().map(|database| label_of(&prometheus, database)).collect();
    assert_ne!(labels[0], labels[1]);
    let read = |database: &mut Database, label: &str| loop {
        let before = database.quiet_counters();
        let seen = (
            counts(&prometheus, label, INNODB),
            counts(&prometheus, label, ",role=\"redo\""),
            counts(&prometheus, label, ",role=\"binlog\""),
        );
        // A server's own sync in the middle: once more.
        if database.counters() == before {
            return (before, seen);
        }
    };
    let before: Vec<_> = servers.iter_mut().zip(&labels).map(|(server, label)| read(server, label)).collect();
    let loads: Vec<_> = servers.iter().map(|server| Running(server.load(16, 200).spawn().unwrap())).collect();
    for mut load in loads {
        assert!(load.0.wait().unwrap().success());
    }
    for ((server, label), (earlier, first)) in servers.iter_mut().zip(&labels).zip(before) {
        let (later, last) = read(server, label);
        let counted = later.since(&earlier);
        assert_eq!(last.0 - first.0, counted.innodb, "{label}: {counted:?}");
        if let Some(redo) = counted.redo {
            assert_eq!(last.1 - first.1, redo, "{label}");
            assert!(redo > 100, "{redo}: no load");
        }
        assert!(last.2 - first.2 >= counted.binlog && counted.binlog > 100, "{label}: {last:?} {counted:?}");
    }
    assert_eq!(prometheus.query("sum(fsynctop_lost_total)")[0].value, 0.0);

    // The quantile of a window that both saw: fsynctop's own and Prometheus' lie in the same bucket, or in
    // the next one where it lies at its edge.
    let own = fsynctop()
        .args(["once", "--output", "json", "-d", "6", "--pid", &servers[0].pid.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = std::time::SystemTime::now();
    servers[0].insert(8, 400);
    let own = own.wait_with_output().unwrap();
    let own: Value = serde_json::from_slice(&own.stdout).unwrap();
    prometheus.catch_up();
    let window = begun.elapsed().unwrap().as_secs() + 3;
    let theirs = prometheus.query(&format!(
        "histogram_quantile(0.99, sum by (le) (increase(fsynctop_sync_duration_seconds_bucket{{server=\"{}\",role=\"redo\"}}[{window}s])))",
        labels[0]
    ))[0]
        .value;
    let redo = own["roles"].as_array().unwrap().iter().filter(|row| row["role"] == "redo");
    let busiest = redo.max_by_key(|row| row["count"].as_u64()).expect("it synced its redo log");
    let own = busiest["latency_seconds"]["p99"].as_f64().unwrap();
    let mut edges: Vec<f64> = prometheus
        .query(&format!("count by (le) (fsynctop_sync_duration_seconds_bucket{{server=\"{}\"}})", labels[0]))
        .iter()
        .map(|sample| sample.labels["le"].parse().unwrap())
        .collect();
    edges.sort_by(f64::total_cmp);
    assert!((12..=17).contains(&edges.len()), "{edges:?}");
    let bucket = |value: f64| edges.iter().position(|&edge| value <= edge).unwrap();
    let apart = bucket(own).abs_diff(bucket(theirs));
    assert!(apart <= 1, "own p99 {own} s, Prometheus' {theirs} s, edges {edges:?}");

    dashboard_queries_return_data(&prometheus);
    let metrics =
        output(Command::new("curl").args(["-s", &format!("http://127.0.0.1:{}/metrics", exporter.port)]));
    let mut linter =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut linter.stdin.take().unwrap(), stdout(&metrics).as_bytes()).unwrap();
    assert!(linter.wait().unwrap().success());

    // It ends in order, and says nothing of it to those who scrape.
    let mut exporter = exporter;
    signal(exporter.running.0.id(), "TERM");
    assert!(exporter.running.0.wait().unwrap().success());
}

/// Each panel of the dashboard, with what a user would have chosen. What is empty as long as all is well may
/// be empty.
fn dashboard_queries_return_data(prometheus: &Prometheus) {
    // The thresholds are recorded once a minute.
    wait_until("a threshold to be recorded", || !prometheus.query("fsynctop:slow_seconds").is_empty());
    let text = std::fs::read_to_string(Path::new(EXAMPLES).join("grafana/fsynctop.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let query = expression
                .replace("$job", "fsynctop")
                .replace("$instance", ".*")
                .replace("$server", ".*")
                .replace("$role", "redo")
                .replace("$__rate_interval", "30s");
            let found = prometheus.query(&query);
            asked += 1;
            let only_when_broken = expression.ends_with("> 0") || expression.ends_with("> 0.1");
            assert!(!found.is_empty() || only_when_broken, "{}: {query} returns nothing", panel["title"]);
        }
    }
    assert!(asked >= 20, "{asked} queries");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_hung_sync_and_a_failed_one_raise_their_alerts() {
    needs(&["/dev/fuse"]);
    let exporter = Exporter::start(&["--comm", "mysqld"]);
    let prometheus = Prometheus::start(exporter.port);
    let faults = FaultFs::mount("delay 20ms");
    let mut load = Command::new(tool("syncgen"));
    load.arg(faults.path()).args(["--comm", "mysqld", "--op", "fdatasync", "--seconds", "600"]);
    let _load = Running(load.args(["--names", "#ib_redo1"]).stdout(Stdio::null()).spawn().unwrap());
    wait_until("syncs to be counted", || {
        !prometheus.query("fsynctop_sync_duration_seconds_count{role=\"redo\"} > 10").is_empty()
    });
    assert!(prometheus.firing().is_empty(), "{:?}", prometheus.firing());

    faults.control("fail EIO");
    wait_until("a sync to fail", || {
        !prometheus.query("fsynctop_sync_errors_total{errno=\"EIO\"} > 0").is_empty()
    });
    faults.control("delay 20ms");
    wait_until("SyncFailed to fire", || {
        prometheus.firing().get("SyncFailed").is_some_and(|labels| labels["errno"] == "EIO")
    });

    faults.control("hang");
    wait_until("SyncStuck to fire", || prometheus.firing().contains_key("SyncStuck"));
    let oldest = prometheus.query("max(fsynctop_sync_oldest_in_flight_seconds)")[0].value;
    assert!(oldest >= 5.0, "{oldest}");
    faults.control("delay 20ms");
    faults.control("release");
    wait_until("SyncStuck to end", || !prometheus.firing().contains_key("SyncStuck"));
}
