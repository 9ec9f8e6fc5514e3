//! What a recording takes: a day of it, the process that records, and whether a server's syncs get slower by
//! a recorder that writes to the same filesystem.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fsynctop::model::Interval;
use fsynctop::recording::reader::{Recording, Window};
use fsynctop::recording::writer::Writer;
use nix::time::{ClockId, clock_gettime};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::context::Context;
use crate::database::{Database, Kind, RunningLoad, Workload};
use crate::proc;
use crate::progress;
use crate::section::{Goal, Section, Table, Verdict};
use crate::stats::Estimate;

const MEGABYTE: f64 = 1e6;
const DAY: usize = 86_400;
/// Of a day of intervals of a second, with default options and with all writes.
const DAY_MEGABYTES: [f64; 2] = [50.0, 80.0];
const PROCESSOR_PERCENT: f64 = 0.2;
const RESIDENT_MEGABYTES: f64 = 8.0;
/// As long as an exporter takes to begin, and a server to be described.
const SETTLE: Duration = Duration::from_secs(3);

/// An exporter that records; killed when it goes.
struct Exporter(Child);

impl Exporter {
    fn start(context: &Context, folder: &Path, more: &[&str]) -> Result<Exporter> {
        let mut exporter = Command::new(&context.fsynctop);
        exporter.args(["exporter", "--listen", "127.0.0.1:0", "--no-socket", "--max-cpu", "off", "--record"]);
        exporter.arg(folder).args(more).env("FSYNCTOP_NO_CONFIG", "true");
        let exporter = Exporter(exporter.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        sleep(SETTLE);
        Ok(exporter)
    }

    /// The number of the process that records.
    fn recorder(&self) -> Result<u32> {
        let pid = self.0.id();
        for child in fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?.split_whitespace() {
            if fs::read_to_string(format!("/proc/{child}/comm"))?.trim() == "fsynctop-record" {
                return Ok(child.parse()?);
            }
        }
        bail!("the exporter has no process that records")
    }

    /// As by Ctrl-C: what it has is written.
    fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the exporter ended with {status}");
        Ok(())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Of the process that records, and of a day of what it recorded.
struct Day {
    /// Of one processor.
    percent: f64,
    memory: proc::Memory,
    written_per_second: f64,
    /// Bytes by detail: as taken, ten seconds, a minute.
    bytes: [u64; 3],
    /// Processor time to write a day at once.
    spent: Duration,
}

impl Day {
    fn total(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / MEGABYTE
    }
}

pub fn section(context: &Context) -> Result<Section> {
    let mut database = Database::start(Kind::MariaDb, None)?;
    let programs = context.fsynctop.parent().context("fsynctop's directory")?;
    let mut load = database.load(Workload::Insert, programs, context.files.path())?;
    let folders = tempfile::tempdir_in("/var/tmp")?;
    let seconds = context.or_quick(120, 20);
    let mut days = Vec::new();
    for (name, more) in [("plain", &[][..]), ("writes", &["--writes", "all"][..])] {
        progress!("recording {seconds} s of MariaDB under insert-load {}", more.join(" "));
        days.push(day(context, &folders.path().join(name), more, seconds)?);
    }
    let blocks = context.or_quick(15, 3);
    progress!("{blocks} times with and without a recorder on the server's filesystem");
    let window = Duration::from_secs(context.or_quick(6, 2));
    let slower = slower(context, &folders.path().join("beside"), &mut database, &mut load, blocks, window)?;
    drop(load);
    Ok(section_of(&days, slower, seconds, blocks, window, &database.version))
}

fn day(context: &Context, folder: &Path, more: &[&str], seconds: u64) -> Result<Day> {
    let exporter = Exporter::start(context, folder, more)?;
    let recorder = exporter.recorder()?;
    let (before, began) = (proc::cpu_time(recorder)?, Instant::now());
    let written = || -> Result<u64> {
        let io = fs::read_to_string(format!("/proc/{recorder}/io"))?;
        let field = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        Ok(field.context("wchar of /proc/PID/io")?.parse()?)
    };
    let written_before = written()?;
    sleep(Duration::from_secs(seconds));
    let took = began.elapsed().as_secs_f64();
    let percent = (proc::cpu_time(recorder)? - before).as_secs_f64() / took * 100.0;
    let written_per_second = (written()? - written_before) as f64 / took;
    let memory = proc::memory(recorder)?;
    exporter.stop()?;
    let (history, is_all) = Recording::open(folder)?.history(Window::Span { from: None, to: None })?;
    ensure!(is_all, "the recording is too large to be read at once");
    let intervals: Vec<Interval> = history.moments().collect();
    let (bytes, spent) = write_day(&intervals)?;
    Ok(Day { percent, memory, written_per_second, bytes, spent })
}

/// Real intervals again and again, until they are a day: what it takes by detail, and in processor time.
fn write_day(intervals: &[Interval]) -> Result<([u64; 3], Duration)> {
    let first = intervals.first().context("nothing was recorded")?.clone();
    let directory = tempfile::tempdir_in("/var/tmp")?;
    let folder = directory.path().join("day");
    let mut writer = Writer::open(&folder, 8 << 30)?;
    let clock = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let before = clock()?;
    let (mut end, mut monotonic) = (first.span.start, first.span.monotonic - first.span.duration);
    for (sequence, interval) in (0u64..).zip(intervals.iter().cycle().take(DAY)) {
        let mut interval = interval.clone();
        interval.span.start = end;
        end += interval.span.duration;
        monotonic += interval.span.duration;
        interval.span = fsynctop::model::Span { end, monotonic, sequence, ..interval.span };
        writer.push(&interval)?;
    }
    writer.finish()?;
    let spent = clock()? - before;
    let mut bytes = [0; 3];
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "lock" {
            continue;
        }
        let tier = ["all-", "10s-", "1m-"].iter().position(|tier| name.to_string_lossy().starts_with(tier));
        bytes[tier.context("a file of another name")?] += entry.metadata()?.len();
    }
    Ok((bytes, spent))
}

/// Transactions per second while the recorder writes, relative to while it is stopped, in percent less. The
/// probes are attached all the time.
fn slower(
    context: &Context,
    folder: &Path,
    database: &mut Database,
    load: &mut RunningLoad,
    blocks: usize,
    window: Duration,
) -> Result<Estimate> {
    // Short intervals: more writes by the recorder in each window than it ever makes.
    let exporter = Exporter::start(context, folder, &["-i", "100ms"])?;
    let pid = i32::try_from(exporter.recorder()?).ok().and_then(Pid::from_raw).context("its number")?;
    let mut rate = |signal| -> Result<f64> {
        kill_process(pid, signal)?;
        sleep(window / 10);
        let (before, began) = database.transactions(load)?;
        sleep(window);
        let (after, ended) = database.transactions(load)?;
        load.check()?;
        Ok((after - before) as f64 / (ended - began).as_secs_f64())
    };
    let mut losses = Vec::new();
    for _ in 0..blocks {
        // A B B A
        let (without, with) = (rate(Signal::STOP)?, rate(Signal::CONT)?);
        let (with_again, without_again) = (rate(Signal::CONT)?, rate(Signal::STOP)?);
        losses.push(((without / with).ln() + (without_again / with_again).ln()) / 2.0);
    }
    kill_process(pid, Signal::CONT)?;
    exporter.stop()?;
    Ok(Estimate::trimmed_mean(&losses).map(|log| (1.0 - (-log).exp()) * 100.0))
}

fn section_of(
    days: &[Day],
    slower: Estimate,
    seconds: u64,
    blocks: usize,
    window: Duration,
    version: &str,
) -> Section {
    let mut table = Table::new(
        "A recording of intervals of a second",
        &["watched", "a day", "of it as taken, 10 s, 1 min", "processor", "resident (own)", "written"],
    );
    let mut goals = Vec::new();
    for ((day, limit), watched) in days.iter().zip(DAY_MEGABYTES).zip(["syncs", "all writes"]) {
        let [all, tens, minutes] = day.bytes.map(|bytes| bytes as f64 / MEGABYTE);
        let (resident, private) =
            (day.memory.resident as f64 / MEGABYTE, day.memory.private as f64 / MEGABYTE);
        table.row([
            watched.to_owned(),
            format!("{:.1} MB", day.total()),
            format!("{all:.1}, {tens:.1}, {minutes:.1} MB"),
            format!("{:.3} %", day.percent),
            format!("{resident:.1} ({private:.1}) MB"),
            format!("{:.1} kB/s", day.written_per_second / 1e3),
        ]);
        goals.push(Goal::new(
            format!("a day of a recording, {watched} watched"),
            format!("{limit} MB"),
            format!("{:.1} MB", day.total()),
            Verdict::of(day.total() <= limit),
        ));
    }
    let most = |of: &dyn Fn(&Day) -> f64| days.iter().map(of).fold(0.0, f64::max);
    let (percent, resident) = (most(&|day| day.percent), most(&|day| day.memory.resident as f64 / MEGABYTE));
    goals.push(Goal::new(
        "the process that records, of one processor",
        format!("{PROCESSOR_PERCENT} %"),
        format!("{percent:.3} %"),
        Verdict::of(percent <= PROCESSOR_PERCENT),
    ));
    goals.push(Goal::new(
        "the process that records, resident",
        format!("{RESIDENT_MEGABYTES} MB"),
        format!("{resident:.1} MB"),
        Verdict::of(resident <= RESIDENT_MEGABYTES),
    ));
    let is_nothing = slower.low <= 0.0;
    goals.push(Goal::new(
        "transactions lost beside a recorder on the same filesystem",
        "none beyond noise",
        format!("{:.2} ({:.2} to {:.2}) %", slower.median, slower.low, slower.high),
        Verdict::of(is_nothing),
    ));
    let spent: Vec<f64> = days.iter().map(|day| day.spent.as_secs_f64()).collect();
    Section {
        title: "Recording".into(),
        about: vec![format!(
            "An exporter records {seconds} s of MariaDB {version} under insert-load with 16 connections, beside the process that is \
             measured. A day is these intervals again and again until there are {DAY}, written with their own figures and \
             later times; to write one at once took {:.0} and {:.0} s of processor time. The throughput was measured in {blocks} \
             blocks of four windows of {:.0} s, in which the recorder was stopped (SIGSTOP), ran, ran and was stopped, at ten \
             intervals a second; the recording lies on the server's own ext4.",
            spent[0],
            spent[1],
            window.as_secs_f64()
        )],
        tables: vec![table],
        goals,
        notes: vec![
            "Of the process's resident memory, what is not its own are pages of the program's file, which all of the exporter's \
             processes share."
                .into(),
        ],
        values: json!({
            "bytes": days.iter().map(|day| day.bytes).collect::<Vec<_>>(),
            "percent": days.iter().map(|day| day.percent).collect::<Vec<_>>(),
            "memory": days.iter().map(|day| day.memory).collect::<Vec<_>>(),
            "written_per_second": days.iter().map(|day| day.written_per_second).collect::<Vec<_>>(),
            "seconds_for_a_day": spent,
            "transactions_lost_percent": slower,
        }),
        ..Section::default()
    }
}
