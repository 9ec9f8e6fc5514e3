//! What a part of the bench hands over: tables and goals, kept as JSON until docs/overhead.md is put
//! together.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::context::Machine;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Section {
    pub title: String,
    /// From a quick run, or a build that is not optimised.
    pub rough: bool,
    /// As it was when the run began that this part was measured in. None in files of before it was kept.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// The hash of the BPF objects that it was measured with, as `fsynctop --version` shows it. None in files
    /// of before it was kept.
    #[serde(default)]
    pub objects: Option<String>,
    /// Paragraphs in front of the tables: what was measured, and how.
    pub about: Vec<String>,
    pub tables: Vec<Table>,
    pub goals: Vec<Goal>,
    /// Paragraphs after the tables.
    pub notes: Vec<String>,
    /// Everything that was measured, for whoever wants to look closer.
    pub values: serde_json::Value,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    pub caption: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// What is aimed at, and what was measured. No test depends on a goal: a speed on one day on one machine is
/// no defect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    pub what: String,
    pub limit: String,
    pub measured: String,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Met,
    Missed,
    /// The measurement's interval is too wide to say.
    Unresolved,
}

impl Verdict {
    const ALL: [Verdict; 3] = [Verdict::Met, Verdict::Missed, Verdict::Unresolved];

    pub fn of(met: bool) -> Verdict {
        if met { Verdict::Met } else { Verdict::Missed }
    }

    fn cell(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "**missed**",
            Verdict::Unresolved => "unresolved",
        }
    }
}

impl Goal {
    pub fn new(
        what: impl Into<String>,
        limit: impl Into<String>,
        measured: impl Into<String>,
        verdict: Verdict,
    ) -> Goal {
        Goal { what: what.into(), limit: limit.into(), measured: measured.into(), verdict }
    }

    /// From a line of the table that [`goals`] makes.
    pub fn read(line: &str) -> Option<Goal> {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let [what, limit, measured, verdict] = cells.split(" | ").collect::<Vec<_>>()[..] else {
            return None;
        };
        let verdict = Verdict::ALL.into_iter().find(|known| known.cell() == verdict)?;
        Some(Goal::new(what, limit, measured, verdict))
    }
}

impl Table {
    pub fn new(caption: impl Into<String>, header: &[&str]) -> Table {
        let header = header.iter().map(|&cell| cell.to_owned()).collect();
        Table { caption: caption.into(), header, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = if self.caption.is_empty() { String::new() } else { format!("{}:\n\n", self.caption) };
        text.push_str(&line(&self.header));
        text.push_str(&format!("|{}\n", "---|".repeat(self.header.len())));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }
}

/// The goals as a table; those that were missed stand out in bold.
pub fn goals(goals: &[Goal]) -> String {
    let mut table = Table::new("", &["what is compared", "goal", "measured", ""]);
    for Goal { what, limit, measured, verdict } in goals {
        table.row([what.clone(), limit.clone(), measured.clone(), verdict.cell().to_owned()]);
    }
    table.markdown()
}

impl Section {
    pub fn markdown(&self) -> String {
        let mut parts = vec![format!("## {}\n", self.title)];
        parts.extend(self.about.iter().map(|text| format!("{text}\n")));
        parts.extend(self.tables.iter().map(Table::markdown));
        if !self.goals.is_empty() {
            parts.push(goals(&self.goals));
        }
        parts.extend(self.notes.iter().chain(&self.measured_on()).map(|text| format!("{text}\n")));
        parts.join("\n")
    }

    /// Where, and how much that is worth.
    fn measured_on(&self) -> Option<String> {
        let rough =
            "**These figures are rough: they are from a quick run or a build that is not optimised.**";
        let Some(machine) = &self.machine else { return self.rough.then(|| rough.to_owned()) };
        let Machine { kernel, processor, cpus, load_average, others } = machine;
        let mut text = format!(
            "Measured on {processor}, {cpus} CPUs, Linux {kernel}, load average {load_average} when the run began."
        );
        if let Some(objects) = &self.objects {
            // tools/stale-sections looks for it.
            text += &format!(" BPF objects: sha256 {objects}.");
        }
        if !others.is_empty() {
            text += &format!(" Somebody else's programs were attached all the time: {}.", others.join(", "));
        }
        if self.rough {
            text += &format!(" {rough}");
        }
        Some(text)
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    pub fn read(path: &Path) -> Result<Section> {
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is not a section", path.display()))
    }
}
