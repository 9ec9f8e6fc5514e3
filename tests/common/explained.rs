//! What `fsynctop explain --output json` says of a load, read back.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Running, built};

/// Level one, and the wait that it is a part of for level two: ("journal_commit", None), ("device_flush",
/// Some("journal_commit")).
pub type Cell = (String, Option<String>);

pub fn cell(phase: &str, under: Option<&str>) -> Cell {
    (phase.to_owned(), under.map(str::to_owned))
}

pub struct Explained(pub Value);

/// syncgen in the background, for as long as it is held.
pub fn load(directory: &Path, comm: &str, arguments: &[&str]) -> Running {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(["--comm", comm, "--seconds", "120"]).args(arguments);
    let running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    // Its files are made and its threads run.
    std::thread::sleep(Duration::from_millis(500));
    running
}

impl Explained {
    /// Watches a process for so many seconds; more options may be given.
    pub fn of(pid: u32, seconds: u32, options: &[&str]) -> Explained {
        let output = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
            .args(["explain", "--output", "json", "-d", &seconds.to_string(), "--pid", &pid.to_string()])
            .args(options)
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{err}");
        Explained(serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}")))
    }

    pub fn phases(&self) -> &[Value] {
        self.0["phases"].as_array().unwrap()
    }

    /// Seconds of a cell, over all roles and operations.
    pub fn seconds(&self, phase: &str, under: Option<&str>) -> f64 {
        let wanted = |row: &&Value| row["phase"] == phase && row["under"].as_str() == under;
        self.phases().iter().filter(wanted).map(|row| row["seconds"].as_f64().unwrap()).sum()
    }

    /// Of level one.
    pub fn total(&self) -> f64 {
        let rows = self.phases().iter().filter(|row| row["under"].is_null());
        rows.map(|row| row["seconds"].as_f64().unwrap()).sum()
    }

    pub fn share(&self, phase: &str, under: Option<&str>) -> f64 {
        self.seconds(phase, under) / self.total()
    }

    /// The same, of the time in which the syncs neither ran nor waited for a processor: on a busy machine,
    /// what others do there says nothing about the filesystem.
    pub fn share_of_waits(&self, phase: &str) -> f64 {
        let waits = self.total() - self.seconds("run_queue", None) - self.seconds("on_cpu", None);
        self.seconds(phase, None) / waits
    }

    /// Where the time is, as finely as it is known: waits with a second level are shown by it. Seconds for
    /// each sync.
    pub fn cells(&self) -> BTreeMap<Cell, f64> {
        let mut cells: BTreeMap<Cell, f64> = BTreeMap::new();
        let has_second = |phase: &Value| self.phases().iter().any(|row| row["under"] == *phase);
        for row in self.phases() {
            if row["under"].is_null() && has_second(&row["phase"]) {
                continue;
            }
            let key = cell(row["phase"].as_str().unwrap(), row["under"].as_str());
            let syncs = self.0["syncs"].as_f64().unwrap().max(1.0);
            *cells.entry(key).or_default() += row["seconds"].as_f64().unwrap() / syncs;
        }
        cells
    }

    /// Milliseconds for each sync by cell, the greatest first, for a person to read.
    pub fn shown(&self) -> String {
        let mut cells: Vec<_> = self.cells().into_iter().collect();
        cells.sort_by(|a, b| b.1.total_cmp(&a.1));
        let line = |((phase, under), seconds): &(Cell, f64)| {
            format!("{:10.3} {phase} {}", seconds * 1e3, under.as_deref().unwrap_or_default())
        };
        format!("{} syncs\n{}\n", self.0["syncs"], cells.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    /// The cell on which a sync spends most more than at an earlier look.
    pub fn most_moved_since(&self, earlier: &Explained) -> Cell {
        self.most_moved(earlier, |_| true)
    }

    /// The same, of the cells in which nobody waits for a processor.
    pub fn most_moved_of_waits_since(&self, earlier: &Explained) -> Cell {
        self.most_moved(earlier, |phase| !["run_queue", "committer_run_queue"].contains(&phase))
    }

    fn most_moved(&self, earlier: &Explained, compared: impl Fn(&str) -> bool) -> Cell {
        let before = earlier.cells();
        let grown =
            self.cells().into_iter().filter(|((phase, _), _)| compared(phase)).map(|(cell, seconds)| {
                let grown = seconds - before.get(&cell).copied().unwrap_or(0.0);
                (cell, grown)
            });
        grown.max_by(|a, b| a.1.total_cmp(&b.1)).expect("there were syncs").0
    }

    /// The parts add up to the measured time within 2 %, level two to its wait, and hardly anything is not
    /// known.
    pub fn assert_adds_up(&self) {
        assert!(self.0["host"].as_str().is_some_and(|host| !host.is_empty()), "{:#}", self.0);
        let accounted = self.0["accounted_share"].as_f64().unwrap();
        assert!((accounted - 1.0).abs() < 0.02, "{accounted}: {}", self.0);
        let measured = self.0["measured_seconds"].as_f64().unwrap();
        assert!((self.total() / measured - accounted).abs() < 1e-6);
        assert!(self.share("other", None) < 0.05, "{:#}", self.0);
        for wait in ["journal_commit", "log_force", "metadata_buffer"] {
            let under: f64 = self
                .phases()
                .iter()
                .filter(|row| row["under"] == wait)
                .map(|row| row["seconds"].as_f64().unwrap())
                .sum();
            let of = self.seconds(wait, None);
            assert!(under == 0.0 || (under / of - 1.0).abs() < 0.02, "{wait}: {under} of {of}");
            assert!(self.seconds("other", Some(wait)) <= 0.05 * of.max(0.01), "{:#}", self.0);
        }
        let lost = self.0["lost"].as_object().unwrap();
        assert!(lost.values().all(|n| n.as_f64() == Some(0.0)), "{lost:?}");
    }

    /// Of the one filesystem that was synced.
    pub fn journal(&self) -> &Value {
        let journals = self.0["journal"].as_array().unwrap();
        assert_eq!(journals.len(), 1, "{journals:?}");
        &journals[0]
    }
}
