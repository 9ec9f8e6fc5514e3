//! Needs root: fsynctop keeps to the processor time that it may use, and says so. The limits are far below the usual
//! one, and averaged over seconds, so that they are exceeded for real in a short time.

mod common;

use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::disk::Mounted;
use common::measured::{Measured, number};
use common::rows;
use common::{Running, built, can_run};
use fsynctop::files::rules::Rules;
use fsynctop::live::{Live, Options, State};
use fsynctop::probe::ProbeConfig;
use fsynctop::sampler::Sampler;
use fsynctop::snapshot::Op;
use fsynctop::target::filter::TargetFilter;
use fsynctop::target::selection::Selection;
use serde_json::Value;

/// More than the tool can read every hundredth of a second within the limits below, also where other work leaves it
/// little time; at long intervals they are nothing.
const FILES: &str = "300";

fn syncgen(directory: &Path, seconds: &str) -> Command {
    let mut command = Command::new(built("syncgen"));
    command.arg(directory).args(["--files", FILES, "--seconds", seconds]);
    command
}

fn fsynctop(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynctop"));
    command.args(["--once", "--output", "json", "-i", "0.01"]).args(options);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn measured(output: &Output) -> Vec<Measured> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.starts_with("{\"schema\"")).map(Measured::parse).collect()
}

fn note(measured: &Measured) -> &str {
    measured.0["note"].as_str().unwrap_or_default()
}

#[test]
fn root_max_cpu_intervals_get_longer_until_it_fits_and_no_sync_is_missed() {
    if !can_run("root_max_cpu_intervals_get_longer_until_it_fits_and_no_sync_is_missed", &[]) {
        return;
    }
    let memory = Mounted::tmpfs();
    let load = syncgen(memory.path(), "25");
    let mut command = fsynctop(&["--max-cpu", "5%/6s", "--"]);
    let output = command.arg(load.get_program()).args(load.get_args()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("instead of 0.01 s: with shorter ones, fsynctop used "), "{said}");
    assert!(said.contains(" of a processor, and it may use 5 % (--max-cpu)"), "{said}");
    assert!(!said.contains("tracing has ended"), "{said}");

    let intervals = measured(&output);
    assert_eq!(note(&intervals[0]), "");
    let last = intervals.last().unwrap();
    assert!(note(last).starts_with("intervals are "), "{}", last.0["note"]);
    // All of them together are what was done, however they were cut.
    let text = String::from_utf8_lossy(&output.stdout);
    let truth = text.lines().find(|line| line.starts_with("{\"pid\"")).expect("what syncgen says");
    let truth: Value = serde_json::from_str(truth).unwrap();
    assert_eq!(intervals.iter().map(Measured::total).sum::<u64>(), number(&truth, "calls"));
    intervals.iter().for_each(Measured::assert_nothing_lost);
}

#[test]
fn root_max_cpu_what_does_not_fit_ends_the_tracing_and_says_so() {
    if !can_run("root_max_cpu_what_does_not_fit_ends_the_tracing_and_says_so", &[]) {
        return;
    }
    let memory = Mounted::tmpfs();
    let mut load = Running(syncgen(memory.path(), "60").stdout(Stdio::null()).spawn().unwrap());
    let pid = load.0.id().to_string();
    let output = fsynctop(&["--max-cpu", "0.01%/2s", "--pid", &pid]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stderr(&output);
    let last_line = said.lines().last().unwrap();
    assert!(last_line.starts_with("fsynctop: tracing has ended: even with intervals of 1.00 s"), "{said}");
    assert!(last_line.ends_with("and it may use 0.01 % (--max-cpu)"), "{said}");
    let intervals = measured(&output);
    let last = intervals.last().expect("what was measured until then");
    assert_eq!(format!("fsynctop: {}", note(last)), last_line);
    assert!(intervals.iter().map(Measured::total).sum::<u64>() > 0);
    assert!(load.0.try_wait().unwrap().is_none(), "the load had nothing to do with it");
}

#[test]
fn root_max_cpu_a_command_goes_on_without_tracing() {
    if !can_run("root_max_cpu_a_command_goes_on_without_tracing", &[]) {
        return;
    }
    let memory = Mounted::tmpfs();
    let load = syncgen(memory.path(), "15");
    let mut command = fsynctop(&["--max-cpu", "0.01%/1s", "--", "sh", "-c", "\"$@\"; exit 7", "sh"]);
    let began = Instant::now();
    let output = command.arg(load.get_program()).args(load.get_args()).output().unwrap();
    assert!(began.elapsed() >= Duration::from_secs(15), "the command ran to its end");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(stderr(&output).trim_end().ends_with("the command goes on"), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let truth = text.lines().find(|line| line.starts_with("{\"pid\"")).expect("what syncgen says");
    let truth: Value = serde_json::from_str(truth).unwrap();
    let total = measured(&output).iter().map(Measured::total).sum::<u64>();
    assert!(total > 0 && total < number(&truth, "calls"), "{total} of {truth}");
}

#[test]
fn root_max_cpu_a_view_sees_that_it_is_degraded_and_then_detached() {
    if !can_run("root_max_cpu_a_view_sees_that_it_is_degraded_and_then_detached", &[]) {
        return;
    }
    let memory = Mounted::tmpfs();
    let load = Running(syncgen(memory.path(), "60").stdout(Stdio::null()).spawn().unwrap());
    let pid = load.0.id();
    let config = ProbeConfig { ops: vec![Op::Fdatasync], ..rows::of_pid(pid) };
    let make =
        move || Sampler::start(&config, Rules::builtin(), "test".into()).map_err(std::io::Error::other);
    let options = Options {
        interval: Duration::from_millis(10),
        max_cpu: Some("0.01%/1s".parse().unwrap()),
        ..Options::default()
    };
    let selection = Selection::new(vec![TargetFilter::Pids(vec![pid])]);
    let live = Live::start(make, selection, options).unwrap();
    assert_eq!(live.state(), State::Running);

    let mut degraded = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    let why = loop {
        match live.state() {
            State::Running => {}
            State::Degraded { interval } => degraded.push(interval),
            State::Detached { why } => break why,
            other => panic!("{other:?}"),
        }
        assert!(Instant::now() < end, "it goes on and on: {degraded:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    degraded.dedup();
    assert!(degraded.len() >= 2 && degraded.is_sorted(), "{degraded:?}");
    assert_eq!(degraded.last(), Some(&Duration::from_millis(500)));
    assert!(why.starts_with("tracing has ended: "), "{why}");
    let last = live.latest();
    assert_eq!(last.setup.note.as_deref(), Some(&*why));
    assert!(last.files.iter().map(|row| row.stats.count).sum::<u64>() > 0);
    assert!(live.fresh(Duration::ZERO, Duration::from_secs(60)).is_none());
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let bpf = descriptors
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("bpf")));
    assert_eq!(bpf.count(), 0, "nothing is attached any more");
}

#[test]
fn root_max_cpu_attaching_does_not_count() {
    if !can_run("root_max_cpu_attaching_does_not_count", &[]) {
        return;
    }
    let sleeper = Running(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = sleeper.0.id().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        // The first interval is over a second before the two end that do not count, for a busy machine may be late: at
        // its end the process is described, and to see what it listens on is to have the kernel walk the table of all
        // connections. After them, four intervals may use what ten times as many of them take.
        .args(["--once", "--output", "json", "-i", "1", "-n", "6"])
        .args(["--max-cpu", "0.25%/12s", "--pid", &pid])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Processor time when the first interval is over: nearly all of it is attaching.
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let ticks =
        |field: usize| stat.rsplit(") ").next().unwrap().split(' ').nth(field - 3).unwrap().parse::<u64>();
    let used = (ticks(14).unwrap() + ticks(15).unwrap()) * 1_000 / procfs_ticks();
    println!("attaching and the first interval: {used} ms of processor time; the limit allows 30 ms in 12 s");
    assert!(used > 30, "it costs so little ({used} ms) that this shows nothing");
    let lines = output.lines().map(Result::unwrap).collect::<Vec<_>>();
    assert!(child.wait().unwrap().success());
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().all(|line| note(&Measured::parse(line)).is_empty()), "{lines:?}");
}

fn procfs_ticks() -> u64 {
    procfs::ticks_per_second()
}
