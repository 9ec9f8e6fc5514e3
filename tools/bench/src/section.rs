//! What a part of the bench hands over: tables and bars, kept as JSON until docs/overhead.md is put together.

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
    /// Paragraphs in front of the tables: what was measured, and how.
    pub about: Vec<String>,
    pub tables: Vec<Table>,
    pub bars: Vec<Bar>,
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

/// What was promised, and what came of it. A bar decides no test: a speed on one day on one machine is no defect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bar {
    pub what: String,
    pub limit: String,
    pub measured: String,
    pub met: bool,
}

impl Bar {
    pub fn new(
        what: impl Into<String>,
        limit: impl Into<String>,
        measured: impl Into<String>,
        met: bool,
    ) -> Bar {
        Bar { what: what.into(), limit: limit.into(), measured: measured.into(), met }
    }

    /// From a line of the table that [`bars`] makes.
    pub fn read(line: &str) -> Option<Bar> {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let [what, limit, measured, verdict] = cells.split(" | ").collect::<Vec<_>>()[..] else {
            return None;
        };
        let met = match verdict {
            "met" => true,
            "**missed**" => false,
            _ => return None,
        };
        Some(Bar::new(what, limit, measured, met))
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

/// The bars as a table, those that are missed in bold.
pub fn bars(bars: &[Bar]) -> String {
    let mut table = Table::new("", &["bar", "limit", "measured", ""]);
    for Bar { what, limit, measured, met } in bars {
        let verdict = if *met { "met" } else { "**missed**" };
        table.row([what.clone(), limit.clone(), measured.clone(), verdict.to_owned()]);
    }
    table.markdown()
}

impl Section {
    pub fn markdown(&self) -> String {
        let mut parts = vec![format!("## {}\n", self.title)];
        parts.extend(self.about.iter().map(|text| format!("{text}\n")));
        parts.extend(self.tables.iter().map(Table::markdown));
        if !self.bars.is_empty() {
            parts.push(bars(&self.bars));
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
