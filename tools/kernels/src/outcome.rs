//! What a guest left behind, and what was found in it.

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

/// NAME.out, NAME.err and NAME.status of each step, and what the guest says of itself.
pub struct Outcome {
    directory: PathBuf,
}

impl Outcome {
    pub fn new(directory: PathBuf) -> Self {
        Outcome { directory }
    }

    /// Bytes that are not UTF-8 (a kernel log may hold some) are replaced.
    pub fn text(&self, file: &str) -> Result<String> {
        let bytes =
            std::fs::read(self.directory.join(file)).with_context(|| format!("the guest left no {file}"))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// A step's exit status.
    pub fn status(&self, step: &str) -> Result<i32> {
        let file = format!("{step}.status");
        self.text(&file)?.parse().with_context(|| file)
    }

    pub fn json(&self, file: &str) -> Result<Value> {
        serde_json::from_str(&self.text(file)?).with_context(|| format!("{file} is not JSON"))
    }

    /// One object for each line.
    pub fn json_lines(&self, file: &str) -> Result<Vec<Value>> {
        self.text(file)?
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("{file} is not JSON")))
            .collect()
    }

    /// The report of a syncgen, which may have said that it is ready before.
    pub fn load(&self, name: &str) -> Result<Value> {
        let text = self.text(&format!("{name}.load"))?;
        let line = text.lines().last().unwrap_or_default();
        serde_json::from_str(line).with_context(|| format!("{name}.load is not a report: {text:?}"))
    }

    /// What `check --output json` says of one thing.
    pub fn verdict(&self, step: &str, name: &str) -> Result<Verdict> {
        let checks = self.json(&format!("{step}.out"))?;
        let of = |field: &str| {
            let row = checks["checks"].as_array()?.iter().find(|row| row["name"] == name)?;
            row[field].as_str().map(str::to_owned)
        };
        let status = of("status").with_context(|| format!("{step} says nothing of {name}"))?;
        Ok(Verdict { status, detail: of("detail").unwrap_or_default(), cure: of("cure").unwrap_or_default() })
    }
}

pub struct Verdict {
    pub status: String,
    pub detail: String,
    pub cure: String,
}

#[derive(Default)]
pub struct Findings {
    pub failures: Vec<String>,
    /// What was measured, beside right and wrong.
    pub notes: Vec<String>,
}

impl Findings {
    pub fn fail(&mut self, what: impl Display) {
        self.failures.push(what.to_string());
    }

    pub fn check(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(otherwise());
        }
    }

    /// Whatever could not be read is a failure of its own.
    pub fn run(&mut self, step: &str, check: impl FnOnce(&mut Self) -> Result<()>) {
        let before = self.failures.len();
        if let Err(error) = check(self) {
            self.fail(format!("{error:#}"));
        }
        self.failures[before..].iter_mut().for_each(|failure| *failure = format!("{step}: {failure}"));
    }
}
