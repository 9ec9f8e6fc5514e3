//! A real Prometheus that scrapes an exporter each second, with the rules of examples/.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

use super::throwaway::{Throwaway, free_port};
use super::wait_until;

pub const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/prometheus/fsynctop.rules.yml");

/// Which Prometheus, and what it makes of histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// This distribution's.
    Installed,
    /// 3.5 (tools/prometheus), as it is by default.
    Newer,
    /// The same, and it stores native histograms beside the classic ones.
    Native,
}

pub struct Prometheus {
    port: u16,
    server: Throwaway,
    _directory: TempDir,
}

/// One series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Prometheus {
    pub fn start(exporter: u16) -> Prometheus {
        Prometheus::of(Release::Installed, exporter)
    }

    pub fn of(release: Release, exporter: u16) -> Prometheus {
        let is_native = release == Release::Native;
        let option = if is_native { "    always_scrape_classic_histograms: true\n" } else { "" };
        let directory = TempDir::with_prefix_in("prometheus-", "/var/tmp").unwrap();
        let port = free_port();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: ['{RULES}']\n\
             scrape_configs:\n  - job_name: fsynctop\n    static_configs: [{{ targets: ['127.0.0.1:{exporter}'] }}]\n{option}"
        );
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(match release {
            Release::Installed => "prometheus".into(),
            Release::Newer | Release::Native => newer(),
        });
        if is_native {
            command.arg("--enable-feature=native-histograms");
        }
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let server = Throwaway::start(command, directory.path().join("log"));
        let prometheus = Prometheus { port, server, _directory: directory };
        prometheus.server.wait_until("Prometheus to scrape", || {
            prometheus.try_query("up == 1").is_some_and(|up| up.len() == 1)
        });
        prometheus
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn get(&self, path: &str, arguments: &[String]) -> Option<Value> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "20", "--get"])
            .args(arguments)
            .arg(self.url(path))
            .stderr(Stdio::null())
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn try_query(&self, expression: &str) -> Option<Vec<Sample>> {
        let arguments = ["--data-urlencode".to_owned(), format!("query={expression}")];
        let answer = self.get("/api/v1/query", &arguments)?;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let result = answer["data"]["result"].as_array()?;
        let sample = |series: &Value| {
            let labels = series["metric"].as_object().unwrap();
            let labels =
                labels.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
            Sample { labels: labels.collect(), value: series["value"][1].as_str().unwrap().parse().unwrap() }
        };
        Some(result.iter().map(sample).collect())
    }

    pub fn query(&self, expression: &str) -> Vec<Sample> {
        self.try_query(expression).unwrap_or_else(|| panic!("Prometheus does not answer {expression}"))
    }

    /// Waits until what it knows was scraped after this moment.
    pub fn catch_up(&self) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        wait_until("a scrape", || self.query("timestamp(up == 1)").iter().any(|up| up.value > now));
    }

    /// The alerts that fire now, by name, with the labels of the first.
    pub fn firing(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let alerts = self.query("ALERTS{alertstate=\"firing\"}");
        alerts.into_iter().map(|alert| (alert.labels["alertname"].clone(), alert.labels)).collect()
    }
}

/// The program, fetched if it is not there yet.
fn newer() -> PathBuf {
    static FETCHED: LazyLock<PathBuf> = LazyLock::new(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/prometheus");
        let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{script} fails");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end()).join("usr/bin/prometheus")
    });
    FETCHED.clone()
}

pub fn promtool(arguments: &[&str], directory: &Path) -> String {
    let output = Command::new("promtool").args(arguments).current_dir(directory).output();
    let output = output.expect("promtool is installed");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {text}");
    text
}
