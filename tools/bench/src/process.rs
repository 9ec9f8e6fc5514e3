//! The resources of fsynctop itself: memory, processor time.

use std::process::Command;
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
use crate::section::{Section, Table};
use crate::tracer::{Program, SCRIPT, bpftrace, fsynctop};

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
    progress!("memory");
    let memory = memory(context, &mut load, mode, &mut section)?;
    progress!("processor time");
    let cpu = cpu(context, &mut load, mode, &mut section)?;
    section.values = json!({ "memory": memory, "cpu": cpu });
    Ok(section)
}

fn round(files: usize, seconds: f64, rate: Option<f64>) -> Round {
    let duration = Duration::from_secs_f64(seconds);
    Round { call: Call::Fdatasync, threads: 1, cpus: 1, files: Files::Shared(files), duration, rate }
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
