//! What the probes of `explain` cost beside those of the syncs themselves: a sync, and every switch between
//! threads on the host, for the scheduler's hooks run at each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fsynctop::explain::waits::rules::Rules;
use fsynctop::explain::waits::{disks, symbols::Symbols};
use fsynctop::linux::mountinfo;
use fsynctop::probe::{Probe, ProbeConfig, TimerProbe, WaitPlan, WaitProbe};
use libbpf_rs::query::ProgInfoIter;
use serde::Serialize;
use serde_json::json;

use crate::context::Context;
use crate::load::{Call, Files, Load, Round};
use crate::modes;
use crate::others;
use crate::proc;
use crate::progress;
use crate::section::{Section, Table};
use crate::stats::Estimate;

const PROC: &str = "/proc";
/// While it is 1, the kernel measures each run of a program.
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// What is attached, beside nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attached {
    Syncs,
    Waits,
}

impl Attached {
    const ALL: [Attached; 2] = [Attached::Syncs, Attached::Waits];

    fn name(self) -> &'static str {
        match self {
            Attached::Syncs => "the syncs' programs, as `once` has them",
            Attached::Waits => "the same as `explain` has them, and the wait probes",
        }
    }
}

/// In the order of the loads' columns.
const LOADS: [&str; 3] = [
    "fsync on tmpfs",
    "4 KB appended and fdatasync, on ext4 on a loop device",
    "switch to another thread, of a process that is not traced",
];

/// Nanoseconds for each call, by load.
type Times = [f64; LOADS.len()];

/// By load, then by what is attached, a value for each cycle.
#[derive(Debug, Default, Serialize)]
struct Column {
    nothing: Vec<f64>,
    /// Added to the mean of the blocks with nothing before and after.
    added: [Vec<f64>; Attached::ALL.len()],
    /// The quotient of the two.
    ratio: [Vec<f64>; Attached::ALL.len()],
}

/// What one program did in one load.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Runs {
    nanoseconds: u64,
    runs: u64,
}

pub fn section(context: &Context) -> Result<Section> {
    let disk = Disk::new()?;
    let mut bench = Bench {
        context,
        memory: Load::start("mysqld", context.files.path())?,
        disk: Load::start("mysqld", &disk.point)?,
        untraced: Load::start("backup", context.files.path())?,
    };
    let cycles = context.or_quick(10, 3);
    let columns = bench.columns(cycles)?;
    let programs = bench.programs()?;
    drop(bench);
    Ok(report(cycles, &columns, &programs))
}

struct Bench<'a> {
    context: &'a Context,
    memory: Load,
    disk: Load,
    untraced: Load,
}

/// Detached when dropped, the wait probes first.
struct Probes {
    _timer: Option<TimerProbe>,
    _waits: Option<WaitProbe>,
    _syncs: Probe,
}

impl Bench<'_> {
    /// Each load once, with the calls that it made.
    fn load(&mut self, load: usize) -> Result<(f64, u64)> {
        let short = self.context.or_quick(150, 60);
        let round = |call, milliseconds| {
            let duration = Duration::from_millis(milliseconds);
            Round { call, threads: 1, cpus: 1, files: Files::Own, duration, rate: None }
        };
        let done = match load {
            0 => self.memory.run(&round(Call::Fsync, short)),
            1 => self.disk.run(&round(Call::Append, 8 * short)),
            _ => self.untraced.run(&round(Call::Switch, short)),
        }?;
        Ok((done.ns_per_call, done.calls))
    }

    fn block(&mut self) -> Result<Times> {
        let mut times = Times::default();
        for (load, time) in times.iter_mut().enumerate() {
            *time = self.load(load)?.0;
        }
        Ok(times)
    }

    /// While nobody else traces either.
    fn nothing(&mut self) -> Result<Times> {
        loop {
            self.context.others.wait()?;
            let times = self.block()?;
            if self.context.others.are_gone() {
                return Ok(times);
            }
        }
    }

    /// None if others began or ended tracing meanwhile.
    fn with(&mut self, attached: Attached) -> Result<Option<Times>> {
        let probes = self.attach(attached)?;
        let programs = others::programs();
        let times = self.block()?;
        let alone = others::programs() == programs;
        drop(probes);
        Ok(alone.then_some(times))
    }

    fn attach(&self, attached: Attached) -> Result<Probes> {
        let pids = vec![self.memory.pid(), self.disk.pid()];
        let watch_waits = attached == Attached::Waits;
        let config = ProbeConfig { watch_waits, ..modes::config(None, pids) };
        let syncs = Probe::attach(&config).context("fsynctop cannot be attached here")?;
        if !watch_waits {
            return Ok(Probes { _timer: None, _waits: None, _syncs: syncs });
        }
        let (symbols, rules) = (Symbols::load(&Path::new(PROC).join("kallsyms"))?, Rules::builtin());
        let mounts = mountinfo::of_process(Path::new(PROC), std::process::id());
        let plan = WaitPlan {
            filesystems: disks::watched(Path::new("/sys"), mounts.into_iter()),
            committer_functions: symbols.ranges(|name| rules.committer_in(name).map(|state| state as usize)),
        };
        let mut waits = syncs.watch_waits(&plan).context("the wait probes")?;
        waits.begin()?;
        let timer = syncs.watch_logs().context("the timer")?;
        Ok(Probes { _timer: Some(timer), _waits: Some(waits), _syncs: syncs })
    }

    /// Nothing, the one, nothing, the other, and so on, each cycle the other way round.
    fn columns(&mut self, cycles: usize) -> Result<[Column; LOADS.len()]> {
        let mut columns: [Column; LOADS.len()] = Default::default();
        self.block()?; // what is slow only once
        let mut before = self.nothing()?;
        for cycle in 0..cycles {
            progress!("cycle {} of {cycles}", cycle + 1);
            for i in 0..Attached::ALL.len() {
                let i = (i + cycle) % Attached::ALL.len();
                let (with, after) = loop {
                    let with = self.with(Attached::ALL[i])?;
                    let after = self.nothing()?;
                    match with {
                        Some(with) => break (with, after),
                        None => before = after,
                    }
                };
                for (load, column) in columns.iter_mut().enumerate() {
                    let nothing = (before[load] + after[load]) / 2.0;
                    column.added[i].push(with[load] - nothing);
                    column.ratio[i].push(with[load] / nothing);
                    column.nothing.push(after[load]);
                }
                before = after;
            }
        }
        Ok(columns)
    }

    /// What each program does, by its name, in each load: apart from the rest, because measuring it costs,
    /// too.
    fn programs(&mut self) -> Result<BTreeMap<String, [(Runs, u64); LOADS.len()]>> {
        self.context.others.wait()?;
        let _probes = self.attach(Attached::Waits)?;
        let _stats = Stats::on()?;
        let mut programs: BTreeMap<String, [(Runs, u64); LOADS.len()]> = BTreeMap::new();
        for load in 0..LOADS.len() {
            let before = runs();
            let calls = self.load(load)?.1;
            for (name, after) in runs() {
                let before = before.get(&name).copied().unwrap_or_default();
                let runs = Runs {
                    nanoseconds: after.nanoseconds.saturating_sub(before.nanoseconds),
                    runs: after.runs.saturating_sub(before.runs),
                };
                programs.entry(name).or_default()[load] = (runs, calls);
            }
        }
        Ok(programs)
    }
}

/// Of the programs that this process has loaded.
fn runs() -> BTreeMap<String, Runs> {
    let ids = proc::bpf_ids(std::process::id(), "prog_id");
    let ours = ProgInfoIter::default().filter(|program| ids.contains_key(&program.id));
    ours.map(|program| {
        let name = program.name.to_string_lossy().into_owned();
        (name, Runs { nanoseconds: program.run_time_ns, runs: program.run_cnt })
    })
    .collect()
}

struct Stats(String);

impl Stats {
    fn on() -> Result<Stats> {
        let before = std::fs::read_to_string(STATS).context(STATS)?;
        std::fs::write(STATS, "1").context(STATS)?;
        Ok(Stats(before))
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        let _ = std::fs::write(STATS, &self.0);
    }
}

/// ext4 with a journal on a loop device.
struct Disk {
    point: PathBuf,
    _directory: tempfile::TempDir,
}

impl Disk {
    fn new() -> Result<Disk> {
        // Not in /tmp, which is memory on many systems.
        let directory = tempfile::TempDir::with_prefix_in("fsynctop-", "/var/tmp")?;
        let (image, point) = (directory.path().join("image"), directory.path().join("mounted"));
        std::fs::File::create(&image)?.set_len(256 << 20)?;
        std::fs::create_dir(&point)?;
        let run = |program: &str, arguments: &[&Path]| -> Result<()> {
            let output = Command::new(program).args(arguments).output();
            let output = output.with_context(|| format!("cannot run {program}"))?;
            ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
            Ok(())
        };
        run("mkfs.ext4", &[Path::new("-q"), &image])?;
        run("mount", &[Path::new("-o"), Path::new("loop"), &image, &point])?;
        Ok(Disk { point, _directory: directory })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily if need be: what was measured is not lost by it.
        let unmount = |options: &[&str]| {
            let status = Command::new("umount").args(options).arg(&self.point).status();
            status.is_ok_and(|status| status.success())
        };
        if !unmount(&[]) && !unmount(&["-l"]) {
            progress!("cannot unmount {}", self.point.display());
        }
    }
}

fn report(
    cycles: usize,
    columns: &[Column; LOADS.len()],
    programs: &BTreeMap<String, [(Runs, u64); LOADS.len()]>,
) -> Section {
    let mut header = vec!["attached"];
    header.extend(LOADS);
    let mut added =
        Table::new("Nanoseconds for each, and how much that is of the time with nothing attached", &header);
    let nothing = columns.iter().map(|column| format!("{:.0} in all", Estimate::of(&column.nothing).median));
    added.row(std::iter::once("nothing".to_owned()).chain(nothing));
    for (i, attached) in Attached::ALL.into_iter().enumerate() {
        let cells = columns.iter().map(|column| {
            let (added, ratio) = (Estimate::of(&column.added[i]), Estimate::of(&column.ratio[i]));
            format!("+{}; {} x", added.show(0), ratio.show(2)).replace("+-", "-")
        });
        added.row(std::iter::once(attached.name().to_owned()).chain(cells));
    }
    let mut header = vec!["program"];
    header.extend(LOADS);
    let mut each = Table::new(
        "Nanoseconds for each run of a program, and in brackets its runs for one sync or switch",
        &header,
    );
    for (name, loads) in programs.iter().filter(|(_, loads)| loads.iter().any(|(runs, _)| runs.runs > 0)) {
        let cells = loads.iter().map(|(Runs { nanoseconds, runs }, calls)| match runs {
            0 => "–".to_owned(),
            runs => {
                let each = *nanoseconds as f64 / *runs as f64;
                format!("{each:.0} ({:.2})", *runs as f64 / (*calls).max(1) as f64)
            }
        });
        each.row(std::iter::once(name.clone()).chain(cells));
    }
    Section {
        title: "The wait probes".into(),
        about: vec![format!(
            "`fsynctop explain` attaches more than any other action, for as long as it was asked to watch: hooks on every \
             switch of the scheduler, on the block devices' requests and on ext4's journal, and a timer. Medians of \
             {cycles} blocks, each held against the blocks with nothing attached right before and after it; in brackets \
             the interval that holds the median with 95 % confidence. A sync on tmpfs waits for nothing; one on ext4 \
             waits for the journal's commit, so that the time of the device hides what the probes cost, or drowns it; \
             the last column is what everybody on the host pays."
        )],
        tables: vec![added, each],
        notes: vec![
            "The second table was measured apart, with the kernel's own clock around each run (`kernel.bpf_stats_enabled`), \
             which is a part of its nanoseconds; what other processes of the host did meanwhile is in the runs. The timer's \
             program, `take_sample`, runs about a thousand times a second on one processor. Names are cut at 15 bytes, as \
             the kernel keeps them."
                .into(),
        ],
        values: json!({ "loads": LOADS, "columns": columns, "programs": programs }),
        ..Section::default()
    }
}
