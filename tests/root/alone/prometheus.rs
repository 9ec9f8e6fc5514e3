//! Needs root, tracefs, real servers and Prometheus: what it knows of them through the exporter and the
//! examples.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::exact::until_quiet;
use crate::common::faults::{FaultFs, fsynctop, output, signal, stdout, tool};
use crate::common::prometheus::{Prometheus, Release};
use crate::common::server::{Database, Kind};
use crate::common::throwaway::free_port;
use crate::common::{Running, needs, wait_until};
use serde_json::Value;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

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
        let info = prometheus.query(&format!("fsynctop_server_pid == {}", database.pid));
        label = info.first().map(|info| info.labels["server"].clone());
        label.is_some()
    });
    label.unwrap()
}

const INNODB: &str = ",role=~\"redo|doublewrite|undo|system_tablespace|tablespace|dictionary|temporary\"";
/// Syncs at the edges of a measurement, of a file whose role was not known yet, or that InnoDB did not count.
const AT_AN_EDGE: u64 = 20;

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
    until_quiet(|| {
        let before: Vec<_> =
            servers.iter_mut().zip(&labels).map(|(server, label)| read(server, label)).collect();
        let loads: Vec<_> =
            servers.iter().map(|server| Running(server.load(16, 200).spawn().unwrap())).collect();
        for mut load in loads {
            assert!(load.0.wait().unwrap().success());
        }
        for ((server, label), (earlier, first)) in servers.iter_mut().zip(&labels).zip(before) {
            let (later, last) = read(server, label);
            let counted = later.since(&earlier);
            let innodb = last.0 - first.0;
            if innodb != counted.innodb {
                assert!(innodb.abs_diff(counted.innodb) <= AT_AN_EDGE, "{label}: {innodb}, {counted:?}");
                return None;
            }
            if let Some(redo) = counted.redo {
                assert_eq!(last.1 - first.1, redo, "{label}");
                assert!(redo > 100, "{redo}: no load");
            }
            assert!(
                last.2 - first.2 >= counted.binlog && counted.binlog > 100,
                "{label}: {last:?} {counted:?}"
            );
        }
        Some(())
    });
    assert_eq!(prometheus.query("sum(fsynctop_lost_total)")[0].value, 0.0);

    // The quantile of a window that both saw: fsynctop's own and Prometheus' lie in the same bucket, or in
    // the next one where it lies at its edge.
    let own = fsynctop()
        .args(["once", "--output", "json", "-d", "6", "--pid", &servers[0].pid.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = SystemTime::now();
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
    assert!((13..=23).contains(&edges.len()), "{edges:?}");
    let bucket = |value: f64| edges.iter().position(|&edge| value <= edge).unwrap();
    let apart = bucket(own).abs_diff(bucket(theirs));
    assert!(apart <= 1, "own p99 {own} s, Prometheus' {theirs} s, edges {edges:?}");

    dashboard_queries_return_data(&prometheus);
    let metrics =
        output(Command::new("curl").args(["-s", &format!("http://127.0.0.1:{}/metrics", exporter.port)]));
    let mut linter =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn().unwrap();
    linter.stdin.take().unwrap().write_all(stdout(&metrics).as_bytes()).unwrap();
    assert!(linter.wait().unwrap().success());

    // It ends in order, and says nothing of it to those who scrape.
    let mut exporter = exporter;
    signal(exporter.running.0.id(), "TERM");
    assert!(exporter.running.0.wait().unwrap().success());
}

const NATIVE_HEAT_MAP: &str = "Latency of its syncs, by native histograms";

fn dashboard() -> Value {
    let text = std::fs::read_to_string(Path::new(EXAMPLES).join("grafana/fsynctop.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A query of the dashboard, with what a user would have chosen.
fn as_chosen(expression: &str, role: &str) -> String {
    expression
        .replace("$top", "10")
        .replace("$job", "fsynctop")
        .replace("$instance", ".*")
        .replace("$server", ".*")
        .replace("$role", role)
        .replace("$__rate_interval", "30s")
}

/// Each panel of the dashboard, with what a user would have chosen. What is empty as long as all is well may
/// be empty.
fn dashboard_queries_return_data(prometheus: &Prometheus) {
    // The thresholds are recorded once a minute.
    wait_until("a threshold to be recorded", || !prometheus.query("fsynctop:slow_seconds").is_empty());
    let dashboard = dashboard();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let query = as_chosen(expression, "redo");
            let found = prometheus.query(&query);
            // Of these there are none here.
            if panel["title"] == NATIVE_HEAT_MAP {
                continue;
            }
            asked += 1;
            let only_when_broken = expression.ends_with("> 0")
                || expression.ends_with("> 0.1")
                || expression.contains("(ALERTS{");
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
    wait_until("FsynctopSyncFailed to fire", || {
        prometheus.firing().get("FsynctopSyncFailed").is_some_and(|labels| labels["errno"] == "EIO")
    });

    faults.control("hang");
    wait_until("FsynctopSyncStuck to fire", || prometheus.firing().contains_key("FsynctopSyncStuck"));
    let oldest = prometheus.query("max(fsynctop_sync_oldest_in_flight_seconds)")[0].value;
    assert!(oldest >= 5.0, "{oldest}");
    faults.control("delay 20ms");
    faults.control("release");
    wait_until("FsynctopSyncStuck to end", || !prometheus.firing().contains_key("FsynctopSyncStuck"));
}

/// A load of which every sync takes as long, in a role of its own.
struct Constant {
    role: &'static str,
    delay: f64,
    _mount: FaultFs,
    load: Running,
    printed: BufReader<ChildStdout>,
}

impl Constant {
    /// Makes the first sync: `rate()` sees nothing of a series before its first sample.
    fn start(role: &'static str, file: &str, milliseconds: u32, syncs: u32) -> Constant {
        let mount = FaultFs::mount(&format!("delay {milliseconds}ms"));
        // Neither who delays nor who is delayed waits long for a processor.
        mount.go_first();
        let mut load = Command::new("chrt");
        load.args(["-f", "1"]).arg(tool("syncgen")).arg(mount.path());
        load.args(["--comm", "mysqld", "--op", "fdatasync", "--latency", "--names", file]);
        // One thread: FUSE syncs one file one call at a time.
        load.args(["--threads", "1", "--syncs", &syncs.to_string(), "--pause-after", "1"]);
        let mut load = Running(load.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let mut printed = BufReader::new(load.0.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert_eq!(line, "paused\n");
        Constant { role, delay: f64::from(milliseconds) / 1e3, _mount: mount, load, printed }
    }

    /// Makes all the others.
    fn go_on(&mut self) {
        self.load.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// How many there were, and their p99 as the caller measured it.
    fn end(&mut self) -> (u64, f64) {
        let mut report = String::new();
        self.printed.read_to_string(&mut report).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let p99 = report["latency_seconds"]["fdatasync"]["p99"].as_f64().unwrap();
        (report["calls"].as_u64().unwrap(), p99)
    }
}

/// The series of a role.
fn latencies(role: &str, suffix: &str) -> String {
    format!("fsynctop_sync_duration_seconds{suffix}{{role=\"{role}\",op=\"fdatasync\",via=\"call\"}}")
}

#[test]
#[ignore = "needs root, a kernel with BTF, FUSE, and Prometheus 3.5, which tools/prometheus fetches"]
fn what_takes_40_and_150_ms_comes_out_of_each_prometheus_as_that() {
    needs(&["/dev/fuse"]);
    let exporter = &Exporter::start(&["--comm", "mysqld"]);
    let all: Vec<(Release, Prometheus)> = std::thread::scope(|scope| {
        let started = [Release::Installed, Release::Newer, Release::Native]
            .map(|release| scope.spawn(move || (release, Prometheus::of(release, exporter.port))));
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    // The fifth greatest of the one, and the second greatest of the other, is p99 with the first sync and
    // without it.
    let mut loads =
        [Constant::start("redo", "#ib_redo1", 40, 401), Constant::start("binlog", "binlog.000001", 150, 101)];
    for (load, (release, prometheus)) in loads.iter().flat_map(|load| all.iter().map(move |one| (load, one)))
    {
        wait_until(&format!("{release:?} to see the first sync"), || {
            !prometheus.query(&format!("{} == 1", latencies(load.role, "_count"))).is_empty()
        });
    }
    loads.iter_mut().for_each(Constant::go_on);
    for load in &mut loads {
        let (count, truth) = load.end();
        assert!(truth >= load.delay, "{truth}");
        let series = |suffix| latencies(load.role, suffix);
        for (release, prometheus) in &all {
            // An answer that another of them was given is given again for up to a second.
            let all_there = format!("{} == {count}", series("_count"));
            wait_until(&format!("{release:?} to see all syncs"), || !prometheus.query(&all_there).is_empty());
            let one = |query: &str| {
                let found = prometheus.query(query);
                assert_eq!(found.len(), 1, "{release:?}: {query}");
                found[0].value
            };
            // In its bucket, as far as classic ones know.
            let p99 = one(&format!("histogram_quantile(0.99, rate({}[5m]))", series("_bucket")));
            let mut edges: Vec<f64> = prometheus
                .query(&series("_bucket"))
                .iter()
                .map(|sample| sample.labels["le"].parse().unwrap())
                .collect();
            edges.sort_by(f64::total_cmp);
            let bucket = |value: f64| edges.iter().position(|&edge| value <= edge).unwrap();
            // On a busy host it may be next to a boundary.
            let buckets = bucket(truth / 1.02)..=bucket(truth * 1.02);
            assert!(buckets.contains(&bucket(p99)), "{release:?}: {p99} s, it was {truth} s");
            let native = prometheus.query(&format!("histogram_quantile(0.99, rate({}[5m]))", series("")));
            if *release == Release::Native {
                let [native] = &native[..] else { panic!("{native:?}") };
                let since_attaching = one(&format!("histogram_quantile(0.99, {})", series("")));
                eprintln!(
                    "{} ms: p99 {truth} s for the caller, {p99} s by classic buckets, {} s by native ones",
                    load.delay * 1e3,
                    native.value
                );
                // The bound for whatever latency, and the three digits of the caller.
                for found in [native.value, since_attaching] {
                    assert!((found / truth - 1.0).abs() <= 0.07, "{found} s, not {truth} s");
                }
                assert_eq!(one(&format!("histogram_count({})", series(""))), count as f64);
                let dashboard = dashboard();
                let mut panels = dashboard["panels"].as_array().unwrap().iter();
                let map = panels.find(|panel| panel["title"] == NATIVE_HEAT_MAP).unwrap();
                let drawn = as_chosen(map["targets"][0]["expr"].as_str().unwrap(), load.role);
                let drawn = drawn.replace("30s", "5m");
                assert!(one(&format!("histogram_count({drawn})")) > 1.0, "{drawn}");
                let sum = one(&series("_sum"));
                assert!((one(&format!("histogram_sum({})", series(""))) - sum).abs() < 1e-9, "{sum}");
            } else {
                assert_eq!(native, [], "{release:?} has no native histogram");
            }
        }
    }
    the_rules_find_what_they_need(&all, &loads.map(|load| load.role));
    // What each of them is answered with.
    let url = format!("http://127.0.0.1:{}/metrics", exporter.port);
    let message =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let openmetrics = "application/openmetrics-text";
    for (accept, kind) in
        [("*/*", "text/plain"), (openmetrics, openmetrics), (message, "application/vnd.google.protobuf")]
    {
        let mut client = Command::new("curl");
        client.args(["-s", "-o", "/dev/null", "-w", "%{content_type}, %{size_download} bytes"]);
        let answer = stdout(&output(client.args(["-H", &format!("Accept: {accept}"), &url])));
        eprintln!("{answer}");
        assert!(answer.starts_with(kind), "{answer}");
    }
}

/// Whatever else is stored, each Prometheus records the same.
fn the_rules_find_what_they_need(all: &[(Release, Prometheus)], roles: &[&str]) {
    // All that there is was scraped. Rules are evaluated each half minute.
    let scraped = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for role in roles {
        let mut recorded = Vec::new();
        for (release, prometheus) in all {
            let p99 = format!("fsynctop:sync_p99_seconds:5m{{role=\"{role}\"}}");
            let later = format!("timestamp({p99}) > {scraped}");
            wait_until(&format!("the rules of {release:?}"), || !prometheus.query(&later).is_empty());
            let one = |query: &str| {
                let found = prometheus.query(query);
                assert_eq!(found.len(), 1, "{release:?}: {query}");
                found[0].value
            };
            assert!(one(&format!("fsynctop:syncs:rate5m{{role=\"{role}\"}}")) > 0.0);
            assert_eq!(one(&format!("fsynctop:stalls:increase15m{{role=\"{role}\"}}")), 0.0);
            recorded.push(one(&p99));
        }
        // They have scraped at other moments.
        let (least, most) = recorded.iter().fold((f64::MAX, 0f64), |(a, b), &it| (a.min(it), b.max(it)));
        assert!(least > 0.0 && most / least < 1.05, "{role}: {recorded:?}");
    }
}
