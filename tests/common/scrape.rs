//! What an exporter exposes, as numbers that can be compared with a server's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::exact::INNODB;
use super::exporter::Exporter;
use super::wait_until;

/// A scrape: series → value.
#[derive(Clone, Debug, Default)]
pub struct Scrape(pub BTreeMap<String, f64>);

impl Scrape {
    pub fn parse(text: &str) -> Scrape {
        let mut samples = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let earlier =
                samples.insert(series.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")));
            assert_eq!(earlier, None, "{series} is there twice");
        }
        Scrape(samples)
    }

    /// One of a snapshot that was not taken before this was called: an answer is given again for up to a
    /// second, and says of when its figures are.
    pub fn of(exporter: &Exporter) -> Scrape {
        let called = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let mut scrape = Scrape::default();
        wait_until("figures of now", || {
            let text = exporter.get("/metrics");
            assert!(!text.is_empty(), "no answer: {}", exporter.log());
            scrape = Scrape::parse(&text);
            scrape.0["fsynctop_snapshot_timestamp_seconds"] >= called
        });
        scrape
    }

    pub fn of_family(&self, family: &str) -> impl Iterator<Item = (&String, f64)> {
        self.0
            .iter()
            .filter(move |(series, _)| series.split('{').next() == Some(family))
            .map(|(series, &value)| (series, value))
    }

    /// The sum of a family's samples with all of these labels.
    pub fn sum(&self, family: &str, labels: &[&str]) -> u64 {
        let has = |series: &str| labels.iter().all(|label| series.contains(label));
        self.of_family(family).filter(|(series, _)| has(series)).map(|(_, value)| value).sum::<f64>() as u64
    }

    /// By the histogram.
    pub fn syncs(&self, labels: &[&str]) -> u64 {
        self.sum("fsynctop_sync_duration_seconds_count", labels)
    }

    /// What Innodb_data_fsyncs is about. MariaDB's dictionary is the server's: .frm files and the log of its
    /// changes.
    pub fn innodb(&self) -> u64 {
        let roles = INNODB.iter().filter(|role| **role != "dictionary");
        let of_roles: u64 = roles.map(|role| self.syncs(&[&format!("role=\"{role}\"")])).sum();
        of_roles + self.sum("fsynctop_file_syncs_total", &["role=\"dictionary\"", ".ibd\""])
    }

    /// Every sync is in the histogram and under a path, and nothing is lost. A call that was in flight when
    /// tracing began counts as answered, and is not a loss.
    pub fn assert_whole(&self) {
        assert_eq!(self.syncs(&[]), self.sum("fsynctop_file_syncs_total", &[]), "{self:#?}");
        assert_eq!(self.syncs(&[]), self.sum("fsynctop_sync_duration_seconds_bucket", &["le=\"+Inf\""]));
        let answered = self.sum("fsynctop_lost_total", &["kind=\"answered\""]);
        assert_eq!(self.sum("fsynctop_lost_total", &[]), answered, "{self:#?}");
        assert_eq!(self.sum("fsynctop_sync_errors_total", &[]), 0);
        assert_eq!(self.sum("fsynctop_up", &[]), 1);
    }

    /// The labels by which servers go.
    pub fn servers(&self) -> BTreeSet<String> {
        self.of_family("fsynctop_server_up").map(|(series, _)| label(series, "server")).collect()
    }

    /// The only label of a process.
    pub fn label_of(&self, pid: u32) -> String {
        let labels = self.of_family("fsynctop_server_pid").filter(|&(_, value)| value == f64::from(pid));
        let [label] = &labels.map(|(series, _)| label(series, "server")).collect::<Vec<_>>()[..] else {
            panic!("not one label of {pid}: {self:#?}")
        };
        label.clone()
    }

    /// Those of servers whose data is there, as they see it: others may run beside a test's own.
    pub fn servers_in(&self, datadir: &Path) -> BTreeSet<String> {
        let datadir = format!("datadir=\"{}\"", datadir.display());
        let there = self.of_family("fsynctop_server_info").filter(|(series, _)| series.contains(&datadir));
        there.map(|(series, _)| label(series, "server")).collect()
    }

    pub fn paths(&self) -> BTreeSet<String> {
        self.of_family("fsynctop_file_syncs_total").map(|(series, _)| label(series, "path")).collect()
    }
}

pub fn label(series: &str, name: &str) -> String {
    let rest = series.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("no {name} in {series}")).1;
    rest.split_once('"').unwrap().0.to_owned()
}

/// Those of neighbours are not: they are of other tests' processes, and go with their devices.
fn is_counter(series: &str) -> bool {
    let name = series.split('{').next().unwrap();
    !name.starts_with("fsynctop_neighbour_")
        && ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
}

/// Scrapes again and again while something happens: no counter goes down or away.
pub struct Watched {
    pub most_samples: usize,
    pub scrapes: usize,
    pub last: Scrape,
}

pub fn watched<T>(exporter: &Exporter, what: impl FnOnce() -> T) -> (T, Watched) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut watched = Watched { most_samples: 0, scrapes: 0, last: Scrape::of(exporter) };
            while !ended.load(Ordering::Relaxed) {
                let now = Scrape::of(exporter);
                assert_no_counter_went_down(&watched.last, &now);
                watched.most_samples = watched.most_samples.max(now.0.len());
                watched.scrapes += 1;
                watched.last = now;
                std::thread::sleep(Duration::from_millis(50));
            }
            watched
        });
        // Also when it panics, the watcher has to end.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
        ended.store(true, Ordering::Relaxed);
        let watched = watcher.join();
        let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (result, watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

pub fn assert_no_counter_went_down(before: &Scrape, now: &Scrape) {
    for (series, value) in before.0.iter().filter(|(series, _)| is_counter(series)) {
        let later = now.0.get(series).unwrap_or_else(|| panic!("{series} has gone"));
        assert!(later >= value, "{series} went from {value} to {later}");
    }
}
