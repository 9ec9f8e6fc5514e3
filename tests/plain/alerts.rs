//! The alerts of examples/ as whoever is woken by one sees it: which host, which server, what to do. Needs no
//! root and no Prometheus; tests/root/beside/alert_rules.rs has promtool's cases, `make alerts` the real
//! situations.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PREFIX: &str = "Fsynctop";
/// Which are of no server more than of another.
const OF_HOSTS: [&str; 1] = ["FsynctopNotRecording"];

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn alerts() -> Vec<Value> {
    let rules = yaml("examples/prometheus/fsynctop.rules.yml");
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    let alerts: Vec<Value> = rules.filter(|rule| rule["alert"].is_string()).collect();
    assert!(alerts.len() >= 12, "{}", alerts.len());
    alerts
}

fn name(alert: &Value) -> &str {
    alert["alert"].as_str().unwrap()
}

#[test]
fn each_alert_says_where_and_has_a_page_that_says_what_to_do() {
    for alert in alerts() {
        let name = name(&alert);
        assert!(name.starts_with(PREFIX), "{name}");
        let annotation = |which: &str| alert["annotations"][which].as_str().unwrap_or_default().to_owned();
        let summary = annotation("summary");
        assert!(summary.contains("{{ $labels.instance }}"), "{name} names no host: {summary}");
        let names_servers = summary.contains("{{ $labels.server }}") || summary.contains(".Labels.server");
        assert!(names_servers || OF_HOSTS.contains(&name), "{name} names no server: {summary}");
        assert!(annotation("runbook_url").ends_with(&format!("/{name}.md")), "{name}");
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["page", "warning"].contains(&severity), "{name}: {severity}");

        let page = text(&format!("docs/runbooks/{name}.md"));
        let headings: Vec<&str> = page.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(
            headings,
            [&format!("# {name}"), "## Symptom", "## One command", "## How to read it", "## What to do"],
        );
        assert!(page.contains("```sh\n"), "{name}: no command");
        assert!(text("docs/runbooks/README.md").contains(&format!("]({name}.md)")), "{name} is not listed");
    }
}

#[test]
fn every_page_has_its_alert() {
    let known: BTreeSet<String> = alerts().iter().map(|alert| format!("{}.md", name(alert))).collect();
    let pages = fs::read_dir(Path::new(ROOT).join("docs/runbooks")).unwrap();
    let mut pages: BTreeSet<String> =
        pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    pages.remove("README.md");
    assert_eq!(pages, known);
}

#[test]
fn each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() {
    let files = ["fsynctop.tests.yml", "fsynctop.week.tests.yml"];
    let files = files.map(|file| yaml(&format!("examples/prometheus/{file}")));
    let tests = files.iter().flat_map(|file| file["tests"].as_array().unwrap());
    let cases: Vec<&Value> =
        tests.flat_map(|test| test["alert_rule_test"].as_array().into_iter().flatten()).collect();
    for alert in alerts() {
        let of_alert = || cases.iter().filter(|case| case["alertname"] == name(&alert));
        let is_silent = |case: &&&Value| case["exp_alerts"].as_array().unwrap().is_empty();
        assert!(of_alert().any(|case| is_silent(&case)), "{} is never silent", name(&alert));
        assert!(of_alert().any(|case| !is_silent(&case)), "{} fires nowhere", name(&alert));
    }
}

/// p99, a mean, a share of the time: of three syncs they say nothing.
#[test]
fn alerts_about_latency_have_a_minimum_rate() {
    for alert in alerts() {
        let expression = alert["expr"].as_str().unwrap();
        let is_about_latency = expression.contains("p99_seconds:5m") || expression.contains("log_busy");
        // Of the slow logs, the recording has it.
        let has_rate = expression.contains("fsynctop:syncs:rate5m >") || expression.contains("slow_log_p99");
        assert!(!is_about_latency || has_rate, "{}", name(&alert));
    }
    let rules = text("examples/prometheus/fsynctop.rules.yml");
    let slow_log = rules.split("record: fsynctop:slow_log_p99_seconds:5m").nth(1).unwrap();
    assert!(slow_log.split("- record").next().unwrap().contains("and fsynctop:syncs:rate5m > 1"));
}
