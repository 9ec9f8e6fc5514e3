//! --max-cpu, exceeded on purpose: intervals get longer, and where that is not enough, tracing pauses.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::context::Context;
use crate::load::{Call, Files, Load, Round};
use crate::proc;
use crate::section::{Section, Table};

/// So many that reading them a hundred times a second takes more than the limits below.
const FILES: usize = 1_000;
const STEP: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(90);

struct Run {
    /// At each step: seconds since the start, and the processor time used so far.
    used: Vec<(f64, f64)>,
    /// The lengths of the intervals, and what the last of them says.
    intervals: Vec<f64>,
    note: String,
}

impl Run {
    /// Percent of one processor, between two moments.
    fn share(&self, from: f64, to: f64) -> f64 {
        let at =
            |time: f64| self.used.iter().min_by(|a, b| (a.0 - time).abs().total_cmp(&(b.0 - time).abs()));
        match (at(from), at(to)) {
            (Some(a), Some(b)) if b.0 > a.0 => (b.1 - a.1) / (b.0 - a.0) * 100.0,
            _ => f64::NAN,
        }
    }
}

pub fn section(context: &Context) -> Result<Section> {
    let mut load = Load::start("mysqld", context.files.path())?;
    let longer = run(context, &mut load, "3%/6s", Duration::from_secs(25))?;
    let paused = run(context, &mut load, "0.01%/2s", Duration::from_secs(40))?;
    let mut section = Section {
        title: "--max-cpu".into(),
        about: vec![format!(
            "The processor time that fsynctop itself may use is limited to 1 % of one processor, averaged over a minute. \
             Here it is made to exceed lower limits, averaged over seconds: an interval of 10 ms, while {FILES} files are \
             synced 10,000 times a second in all."
        )],
        ..Section::default()
    };
    let header = [
        "--max-cpu",
        "used at first",
        "intervals at first",
        "used at the end",
        "intervals at the end",
        "what it said",
    ];
    let mut table = Table::new("", &header);
    for (limit, run) in [("3%/6s", &longer), ("0.01%/2s", &paused)] {
        let end = run.used.last().map_or(0.0, |last| last.0);
        let mean = |intervals: &[f64]| intervals.iter().sum::<f64>() / intervals.len().max(1) as f64;
        let some = run.intervals.len().min(5);
        table.row([
            format!("`{limit}`"),
            format!("{:.1} %", run.share(0.5, 2.0)),
            format!("{:.3} s", mean(&run.intervals[..some])),
            format!("{:.2} %", run.share(end - 6.0, end)),
            // The last of all is cut short by the end.
            format!("{:.3} s", mean(&run.intervals[run.intervals.len().saturating_sub(some)..])),
            run.note.clone(),
        ]);
    }
    section.tables.push(table);
    section.values = json!({
        "longer": { "used": longer.used, "intervals": longer.intervals },
        "paused": { "used": paused.used, "intervals": paused.intervals },
    });
    Ok(section)
}

fn run(context: &Context, load: &mut Load, limit: &str, duration: Duration) -> Result<Run> {
    let seconds = duration.as_secs_f64();
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new(&context.fsynctop);
    command.args(["once", "-i", "0.01", "-d", &seconds.to_string(), "--output", "json", "--max-cpu", limit]);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut child = Ended(command.spawn().context("cannot run fsynctop")?);
    let mut used = Vec::new();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        ensure!(began.elapsed() < PATIENCE * 2, "fsynctop does not end");
        let round = Round {
            call: Call::Fdatasync,
            threads: 1,
            cpus: 1,
            files: Files::Shared(FILES),
            duration: STEP,
            rate: Some(10_000.0),
        };
        load.run(&round)?;
        if let Ok(time) = proc::cpu_time(child.0.id()) {
            used.push((began.elapsed().as_secs_f64(), time.as_secs_f64()));
        }
    };
    let (out, said) = (text(&mut out)?, text(&mut err)?);
    ensure!(status.success(), "fsynctop ended with {status}: {said}");
    let measured: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = measured.last().with_context(|| format!("fsynctop measured nothing: {said}"))?;
    let note = last["note"].as_str().unwrap_or_default().to_owned();
    let intervals = measured.iter().filter_map(|interval| interval["duration_seconds"].as_f64()).collect();
    Ok(Run { used, intervals, note })
}

/// Ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}
