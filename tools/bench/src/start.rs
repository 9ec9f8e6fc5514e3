//! How long fsynctop takes from its start to the first row, and from the result to its end, in each mode.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::model::AttachMode;
use serde_json::{Value, json};

use crate::context::Context;
use crate::load::{Call, Files, Load, Round};
use crate::modes;
use crate::progress;
use crate::section::{Goal, Section, Table, Verdict};
use crate::stats::Estimate;
use crate::tracer::SCRIPT;

const MOST_MS: f64 = 150.0;
const PATIENCE: Duration = Duration::from_secs(30);

pub fn section(context: &Context) -> Result<Section> {
    let (own_times, script_times) = (context.or_quick(20, 5), context.or_quick(5, 2));
    let mut load = Load::start("mysqld", context.files.path())?;
    let mut table =
        Table::new("Milliseconds", &["", "start to first row", "longest", "result to end", "longest"]);
    let mut values = Vec::new();
    let mut goals = Vec::new();
    for mode in modes::all() {
        progress!("{own_times} starts and ends, {}", mode.name());
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..own_times {
            context.others.wait()?;
            load.begin(&ROUND)?;
            starts.push(start(context, mode, load.pid()).context("fsynctop")?);
            ends.push(end(context, mode).context("fsynctop")?);
            load.end()?;
        }
        let name = format!("fsynctop, {}", mode.name());
        table.row([name].into_iter().chain(cells(&starts)).chain(cells(&ends)));
        if mode == AttachMode::Tracepoint {
            let measured = Estimate::of(&starts);
            goals.push(Goal::new(
                "start to first complete row",
                format!("{MOST_MS:.0} ms"),
                format!("{} ms", measured.show(0)),
                Verdict::of(measured.median <= MOST_MS),
            ));
        }
        values.push(json!({ "mode": mode.name(), "start_ms": starts, "end_ms": ends }));
    }
    progress!("bpftrace");
    let mut script = Vec::new();
    for _ in 0..script_times {
        load.begin(&ROUND)?;
        script.push(of_script().context("bpftrace")?);
        load.end()?;
    }
    let nothing = ["", ""].map(str::to_owned);
    table.row(["bpftrace, sync-histogram.bt".to_owned()].into_iter().chain(cells(&script)).chain(nothing));
    Ok(Section {
        title: "Start and end".into(),
        about: vec![
            format!(
                "Start to first row: from the start of the program until it has printed a row with the file's path, its \
                 role, a count and a quantile, with `-i 0.01` while a process of the server's name makes 1,000 syncs a \
                 second; medians of {own_times} starts, and in brackets the interval that holds the median with 95 % \
                 confidence. For bpftrace: until the script, given a probe that prints every 10 ms, has printed a \
                 count; {script_times} starts."
            ),
            format!(
                "Result to end: of `once -d 0.01`, from the end of its standard output until the process has ended, which \
                 detaches the programs; {own_times} times. Nobody who reads the result waits for that."
            ),
        ],
        tables: vec![table],
        goals,
        values: json!({ "fsynctop": values, "bpftrace": script }),
        ..Section::default()
    })
}

const ROUND: Round = Round {
    call: Call::Fdatasync,
    threads: 1,
    cpus: 1,
    files: Files::Shared(1),
    duration: Duration::from_secs(3),
    rate: Some(1_000.0),
};

/// Median and greatest.
fn cells(times: &[f64]) -> [String; 2] {
    let longest = times.iter().copied().fold(0.0, f64::max);
    [Estimate::of(times).show(0), format!("{longest:.0}")]
}

fn once(context: &Context, mode: AttachMode, options: &[&str]) -> Command {
    let mut command = Command::new(&context.fsynctop);
    command.args(["once", "--attach", mode.name()]).args(options);
    command
}

fn start(context: &Context, mode: AttachMode, pid: u32) -> Result<f64> {
    let is_complete = |line: &str| {
        let interval: Value = serde_json::from_str(line).unwrap_or_default();
        interval["files"].as_array().is_some_and(|rows| {
            let is_ours = |row: &Value| {
                row["pid"] == pid
                    && row["count"].as_u64() > Some(0)
                    && row["path"].as_str().is_some_and(|path| path.starts_with('/'))
                    && row["role"].is_string()
                    && row["latency_seconds"]["p50"].is_number()
            };
            rows.iter().any(is_ours)
        })
    };
    time_to_row(once(context, mode, &["-i", "0.01", "-d", "10", "--output", "json"]), is_complete)
}

fn of_script() -> Result<f64> {
    let script = format!("{SCRIPT}\ninterval:ms:10 {{ print(@syncs); print(@microseconds); }}");
    let mut command = Command::new("bpftrace");
    command.args(["-B", "line", "-e", &script]);
    time_to_row(command, |line| line.starts_with("@syncs["))
}

/// Milliseconds from starting a program until it has printed a line that `is_row` accepts.
fn time_to_row(mut command: Command, is_row: impl Fn(&str) -> bool) -> Result<f64> {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let out = BufReader::new(child.stdout.take().context("its standard output")?);
    let mut elapsed = None;
    for line in out.lines() {
        if is_row(&line?) {
            elapsed = Some(began.elapsed());
            break;
        }
        ensure!(began.elapsed() < PATIENCE, "no row within {PATIENCE:?}");
    }
    let _ = child.kill(); // it may have ended
    child.wait()?;
    Ok(elapsed.context("it ended without a row")?.as_secs_f64() * 1e3)
}

/// Milliseconds from the end of the result to that of the process.
fn end(context: &Context, mode: AttachMode) -> Result<f64> {
    let mut command = once(context, mode, &["-d", "0.01"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut text = String::new();
    child.stdout.take().context("its standard output")?.read_to_string(&mut text)?;
    let read = Instant::now();
    ensure!(child.wait()?.success() && !text.is_empty(), "it has measured nothing: {text}");
    Ok(read.elapsed().as_secs_f64() * 1e3)
}
