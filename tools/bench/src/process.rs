//! The resources of fsynctop itself: time until it shows something, memory, processor time.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::model::AttachMode;
use serde_json::{Value, json};

use crate::context::Context;
use crate::load::{Call, Files, Load, Round};
use crate::modes;
use crate::proc::{self, Memory};
use crate::progress;
use crate::section::{Goal, Section, Table, Verdict};
use crate::stats::Estimate;
use crate::tracer::{Program, SCRIPT, bpftrace, fsynctop};

const MOST_START_MS: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(30);
const LIVE_FILES: usize = 5_000;

pub fn section(context: &Context) -> Result<Section> {
    let mode = modes::own()?;
    let mut section = Section {
        title: "fsynctop itself".into(),
        about: vec![format!(
            "Attached by {}, at an interval of a second unless it says otherwise.",
            mode.name()
        )],
        ..Section::default()
    };
    let mut load = Load::start("mysqld", context.files.path())?;
    progress!("start to first row");
    let start = start(context, &mut load, &mut section)?;
    progress!("memory");
    let memory = memory(context, &mut load, mode, &mut section)?;
    progress!("processor time");
    let cpu = cpu(context, &mut load, mode, &mut section)?;
    section.values = json!({ "start_ms": start, "memory": memory, "cpu": cpu });
    Ok(section)
}

fn round(files: usize, seconds: f64, rate: Option<f64>) -> Round {
    let duration = Duration::from_secs_f64(seconds);
    Round { call: Call::Fdatasync, threads: 1, cpus: 1, files: Files::Shared(files), duration, rate }
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

fn start(context: &Context, load: &mut Load, section: &mut Section) -> Result<Value> {
    let (own_times, script_times) = (context.or_quick(20, 5), context.or_quick(5, 2));
    let pid = load.pid();
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
    let script = format!("{SCRIPT}\ninterval:ms:10 {{ print(@syncs); print(@microseconds); }}");
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for i in 0..own_times {
        context.others.wait()?;
        load.begin(&round(1, 3.0, Some(1_000.0)))?;
        let mut command = Command::new(&context.fsynctop);
        command.args(["once", "-i", "0.01", "-d", "10", "--output", "json"]);
        own.push(time_to_row(command, is_complete).context("fsynctop")?);
        if i < script_times {
            let mut command = Command::new("bpftrace");
            command.args(["-B", "line", "-e", &script]);
            others.push(time_to_row(command, |line| line.starts_with("@syncs[")).context("bpftrace")?);
        }
        load.end()?;
    }
    let mut table = Table::new("Milliseconds from start to first row", &["", "median", "longest"]);
    let mut line = |name: &str, times: &[f64]| {
        let longest = times.iter().copied().fold(0.0, f64::max);
        table.row([name.to_owned(), Estimate::of(times).show(0), format!("{longest:.0}")]);
    };
    line("fsynctop", &own);
    line("bpftrace, sync-histogram.bt", &others);
    section.tables.push(table);
    section.about.push(format!(
        "Start to first row: from the start of the program until it has printed a row with the file's path, its role, a \
         count and a quantile, with `-i 0.01` while a process of the server's name makes 1,000 syncs a second; {own_times} \
         starts. For bpftrace: until the script, given a probe that prints every 10 ms, has printed a count; \
         {script_times} starts."
    ));
    let own_ms = Estimate::of(&own);
    section.goals.push(Goal::new(
        "start to first complete row",
        "100 ms",
        format!("{} ms", own_ms.show(0)),
        Verdict::of(own_ms.median <= MOST_START_MS),
    ));
    Ok(json!({ "fsynctop": own, "bpftrace": others }))
}

fn memory(context: &Context, load: &mut Load, mode: AttachMode, section: &mut Section) -> Result<Value> {
    let header = ["", "files", "private", "resident", "peak", "maps, kernel memory"];
    let mut table = Table::new("Memory in MB", &header);
    let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let mut values = Vec::new();
    let mut measure = |name: &str, files: usize, program: Program| -> Result<()> {
        for _ in 0..3 {
            load.run(&round(files, 0.5, None))?;
            sleep(Duration::from_secs(1));
        }
        let (memory, maps) = (proc::memory(program.pid())?, proc::map_bytes(program.pid()));
        program.stop()?;
        let Memory { private, resident, peak } = memory;
        let cells = [mb(private), mb(resident), mb(peak), mb(maps)];
        table.row([name.to_owned(), files.to_string()].into_iter().chain(cells));
        values.push(json!({ "tracer": name, "files": files, "memory": memory, "maps": maps }));
        Ok(())
    };
    for files in [10, 1_000, 10_000] {
        measure("fsynctop", files, fsynctop(context, mode, &[])?)?;
    }
    for files in [10, 10_000] {
        measure("bpftrace", files, bpftrace(SCRIPT)?)?;
    }
    section.tables.push(table);
    section.about.push(
        "Memory: private is what no other process shares and no file backs (anonymous and dirty pages), so that it \
         returns to the host when the process ends; resident has clean pages of the program's file in it, and the \
         pages of the kernel's maps that the process has mapped."
            .into(),
    );
    Ok(json!(values))
}

fn cpu(context: &Context, load: &mut Load, mode: AttachMode, section: &mut Section) -> Result<Value> {
    let seconds = context.or_quick(8.0, 4.0);
    let threads = context.cpus.min(2);
    let mut table =
        Table::new("Processor time of the process", &["syncs/s", "of one processor", "on so many files"]);
    let mut values = Vec::new();
    for rate in [Some(10.0), Some(10_000.0), Some(1_000_000.0), None] {
        let program = fsynctop(context, mode, &[])?;
        let mut round = round(10, seconds + 2.0, rate);
        if rate.is_none() {
            (round.threads, round.cpus) = (threads, threads);
        }
        load.begin(&round)?;
        sleep(Duration::from_secs(1)); // past the first interval, which learns names
        let (before, began) = (proc::cpu_time(program.pid())?, Instant::now());
        sleep(Duration::from_secs_f64(seconds));
        let spent = proc::cpu_time(program.pid())? - before;
        let share = spent.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
        let done = load.end()?;
        program.stop()?;
        let reached = done.calls as f64 / done.seconds;
        table.row([format!("{reached:.0}"), format!("{share:.3} %"), "10".into()]);
        values.push(json!({ "syncs_per_second": reached, "percent": share }));
    }
    progress!("the live view");
    let round = Round { rate: Some(50_000.0), ..round(LIVE_FILES, 2.0 + 3.0 * seconds, None) };
    load.begin(&round)?;
    let view = LiveView::start(context)?;
    sleep(Duration::from_secs_f64(2.0 * seconds)); // until all names are known
    let (before, began) = (proc::cpu_time(view.pid)?, Instant::now());
    sleep(Duration::from_secs_f64(seconds));
    let share = (proc::cpu_time(view.pid)? - before).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    drop(view);
    load.end()?;
    table.row(["50000, in the live view".into(), format!("{share:.3} %"), LIVE_FILES.to_string()]);
    values.push(json!({ "live_view_percent": share }));
    section.tables.push(table);
    section.about.push(format!(
        "Processor time: of the process, in {seconds} s from the second interval on. The highest rate is what {threads} threads \
         reach on tmpfs with the tracing attached: they leave no processor and no cache to anybody else, and any \
         program's work takes longer then."
    ));
    Ok(json!(values))
}

/// The live view in a terminal that nobody sees.
struct LiveView {
    pid: u32,
}

const TERMINAL: [&str; 4] = ["-L", "fsynctop-bench", "-f", "/dev/null"];

impl LiveView {
    fn start(context: &Context) -> Result<LiveView> {
        let tmux = |arguments: &[&str]| Command::new("tmux").args(TERMINAL).args(arguments).output();
        let command = format!("exec '{}' --max-cpu off", context.fsynctop.display());
        let started = tmux(&["new-session", "-d", "-x", "120", "-y", "40", &command])
            .context("cannot run tmux; `make deps` installs it")?;
        ensure!(started.status.success(), "tmux: {}", String::from_utf8_lossy(&started.stderr));
        let panes = tmux(&["list-panes", "-F", "#{pane_pid}"])?;
        let pid = String::from_utf8_lossy(&panes.stdout).trim().parse().context("the live view ended")?;
        Ok(LiveView { pid })
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(TERMINAL).arg("kill-server").output(); // it may have ended
    }
}
