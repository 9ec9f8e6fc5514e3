//! syncgen: sync calls with exactly known counts, per file, thread and operation, for tests to compare with
//! what was traced.

mod aio;
mod aio_abi;
mod call;
mod count;
mod fill;
mod ring;
mod ways;
mod work;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Parser;
use rustix::thread::{gettid, set_name};
use serde::Serialize;

use crate::call::Op;
use crate::count::{ByOp, Latency, add};
use crate::ways::{Done, Way};
use crate::work::{Mode, Outcome, Plan, Target};

/// Makes sync calls, and prints exactly how many, as one JSON object: in all, by thread and by file, each by
/// operation.
///
/// The files are DIRECTORY/sync-0, sync-1, …, or as --names says; each holds 4096 bytes, and they stay.
#[derive(Parser)]
#[command(version)]
struct Options {
    directory: PathBuf,
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Syncs that each thread makes.
    #[arg(long, default_value_t = 1000, conflicts_with = "seconds")]
    syncs: u64,
    /// As many syncs as possible for so long, instead.
    #[arg(long)]
    seconds: Option<f64>,
    /// One operation, or several that take turns.
    #[arg(long, value_delimiter = ',', default_value = "fdatasync")]
    op: Vec<Op>,
    /// Files that take turns, shared by all threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    files: u32,
    /// The files' names below DIRECTORY, instead of a number of files.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", conflicts_with_all = ["files", "unlink_after", "reopen", "bad_fd"])]
    names: Vec<String>,
    /// Bytes to write before each sync.
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    write: usize,
    /// The writes make the file grow, instead of overwriting its beginning.
    #[arg(long, requires = "write", conflicts_with_all = ["unlink_after", "reopen"])]
    append: bool,
    /// The files are opened with O_DSYNC: each write is durable when it returns, whatever sync follows.
    #[arg(long, requires = "write", conflicts_with_all = ["unlink_after", "reopen", "bad_fd"])]
    dsync: bool,
    /// A write that fails is counted, and the sync after it is made all the same.
    #[arg(long, requires = "write", conflicts_with_all = ["unlink_after", "reopen"])]
    keep_going: bool,
    /// Each sync is of a file of its own, created just before, unlinked and closed just after.
    #[arg(long, conflicts_with_all = ["files", "reopen", "bad_fd"])]
    unlink_after: bool,
    /// Two files take turns on one descriptor number: opened, synced, closed. One thread only.
    #[arg(long, conflicts_with_all = ["files", "bad_fd"])]
    reopen: bool,
    /// Writes instead of syncs: so many calls (--syncs) by each of these ways, on a file of its own,
    /// DIRECTORY/way-WAY, all by the main thread. Those that end in "full" fill the filesystem.
    #[arg(long, value_delimiter = ',', value_name = "WAY,…",
        conflicts_with_all = ["op", "threads", "files", "names", "write", "unlink_after", "reopen", "bad_fd", "seconds", "pause_after"])]
    ways: Vec<Way>,
    /// Every call is made on descriptor -1, and fails.
    #[arg(long, conflicts_with_all = ["files", "write"])]
    bad_fd: bool,
    /// Name of the process (its first thread); the threads that sync are called sync-0, sync-1, …
    #[arg(long)]
    comm: Option<String>,
    /// Also measure how long each call takes.
    #[arg(long)]
    latency: bool,
    /// Print "ready PID" when files and threads exist, and start when a line comes on standard input.
    #[arg(long)]
    wait: bool,
    /// Print "paused" when every thread has made so many of its syncs, and go on when a line comes on
    /// standard input.
    #[arg(long, value_name = "SYNCS", conflicts_with = "seconds")]
    pause_after: Option<u64>,
    /// Stay, with the files open, after printing the counts, until standard input ends.
    #[arg(long)]
    hold: bool,
}

#[derive(Serialize)]
struct Report {
    pid: i32,
    seconds: f64,
    calls: u64,
    ops: ByOp,
    threads: Vec<ThreadRow>,
    files: Vec<FileRow>,
    /// Files that lived only for one sync; they have no rows.
    files_created: u64,
    /// With `--keep-going`.
    failed_writes: u64,
    /// With `--dsync`: one to make each file, and those before the syncs.
    #[serde(skip_serializing_if = "Option::is_none")]
    durable_writes: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    latency_seconds: BTreeMap<Op, Latency>,
}

#[derive(Serialize)]
struct ThreadRow {
    tid: i32,
    name: String,
    ops: ByOp,
}

#[derive(Serialize)]
struct FileRow {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Without `sync`, which has no file.
    ops: ByOp,
}

fn main() -> ExitCode {
    match try_main(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("syncgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_main(options: &Options) -> Result<()> {
    if let Some(comm) = &options.comm {
        let name = CString::new(comm.as_str()).context("--comm holds a NUL byte")?;
        set_name(&name).context("cannot set the name of the process")?;
    }
    let text = if options.ways.is_empty() {
        serde_json::to_string(&run(&Arc::new(plan(options)?), options)?)
    } else {
        serde_json::to_string(&by_ways(options)?)
    };
    let text = text.context("cannot encode the counts")?;
    writeln!(std::io::stdout(), "{text}").context("cannot print the counts")?;
    if options.hold {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())
            .context("cannot read standard input")?;
    }
    Ok(())
}

#[derive(Serialize)]
struct WaysReport {
    pid: i32,
    /// By name.
    ways: BTreeMap<String, Done>,
}

fn by_ways(options: &Options) -> Result<WaysReport> {
    if options.wait {
        say_and_wait(&format!("ready {}", std::process::id()))?;
    }
    let run = |way: &Way| Ok((way.name(), ways::run(*way, &options.directory, options.syncs)?));
    let ways = options.ways.iter().map(run).collect::<Result<_>>()?;
    Ok(WaysReport { pid: std::process::id() as i32, ways })
}

fn plan(options: &Options) -> Result<Plan> {
    ensure!(
        options.pause_after.is_none_or(|after| after < options.syncs),
        "--pause-after must be less than --syncs: else nobody would come so far"
    );
    let mode = match options {
        Options { unlink_after: true, .. } => Mode::UnlinkAfter,
        Options { reopen: true, .. } => Mode::Reopen,
        Options { bad_fd: true, .. } => Mode::BadFd,
        _ => Mode::Shared,
    };
    let maps = options.op.contains(&Op::Msync);
    if mode == Mode::Reopen {
        ensure!(
            options.threads == 1,
            "--reopen works with one thread: another one could take the descriptor's number"
        );
        ensure!(!maps, "--reopen and msync do not go together: a mapping has no descriptor");
    }
    if mode == Mode::BadFd && (maps || options.op.contains(&Op::Sync)) {
        bail!("--bad-fd needs an operation on a descriptor, and msync and sync have none");
    }
    let files = match mode {
        Mode::Shared => options.files,
        Mode::Reopen => 2,
        Mode::UnlinkAfter | Mode::BadFd => 0,
    };
    let names = match options.names.as_slice() {
        [] => (0..files).map(|number| format!("sync-{number}")).collect(),
        names => names.to_vec(),
    };
    let targets = names.iter().map(|name| Target::create(options.directory.join(name), maps, options.dsync));
    Ok(Plan {
        mode,
        ops: options.op.clone(),
        directory: options.directory.clone(),
        targets: targets.collect::<Result<_>>()?,
        syncs: options.seconds.is_none().then_some(options.syncs),
        write_bytes: options.write,
        append: options.append,
        keep_going: options.keep_going,
        measure_latency: options.latency,
        stop: AtomicBool::new(false),
    })
}

fn run(plan: &Arc<Plan>, options: &Options) -> Result<Report> {
    let start = Arc::new(Barrier::new(options.threads as usize + 1));
    let mut workers = Vec::new();
    for number in 0..options.threads as usize {
        let (plan, start) = (Arc::clone(plan), Arc::clone(&start));
        let pause_after = options.pause_after;
        let worker = thread::Builder::new().name(format!("sync-{number}")).spawn(move || {
            start.wait();
            // Twice: once when all have come so far, once when they may go on.
            let pause = || {
                start.wait();
                start.wait();
            };
            plan.run(number, pause_after.map(|syncs| (syncs, &pause as &dyn Fn())))
                .map(|outcome| (gettid().as_raw_nonzero().get(), outcome))
        });
        workers.push(worker.context("cannot start a thread")?);
    }
    if options.wait {
        say_and_wait(&format!("ready {}", std::process::id()))?;
    }
    start.wait();
    let began = Instant::now();
    if options.pause_after.is_some() {
        start.wait();
        say_and_wait("paused")?;
        start.wait();
    }
    if let Some(seconds) = options.seconds {
        thread::sleep(Duration::try_from_secs_f64(seconds).context("--seconds")?);
        plan.stop.store(true, Ordering::Relaxed);
    }
    let results: Vec<_> = workers.into_iter().map(thread::JoinHandle::join).collect();
    let elapsed = began.elapsed();
    let outcomes = results.into_iter().map(|result| result.map_err(|_| anyhow!("a thread panicked"))?);
    let outcomes = outcomes.collect::<Result<Vec<_>>>()?;
    let mut report = report(plan, elapsed, &outcomes)?;
    let writes: u64 = outcomes.iter().map(|(_, outcome)| outcome.writes).sum();
    report.durable_writes = options.dsync.then_some(plan.targets.len() as u64 + writes);
    Ok(report)
}

/// Says something, and waits until a line comes.
fn say_and_wait(what: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{what}").context("cannot write to standard output")?;
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).context("cannot read standard input")?;
    ensure!(read > 0, "standard input ended before a line came to go on with");
    Ok(())
}

fn report(plan: &Plan, elapsed: Duration, outcomes: &[(i32, Outcome)]) -> Result<Report> {
    let mut report = Report {
        pid: std::process::id() as i32,
        seconds: elapsed.as_secs_f64(),
        calls: 0,
        ops: ByOp::new(),
        threads: Vec::new(),
        files: Vec::new(),
        files_created: 0,
        failed_writes: 0,
        durable_writes: None,
        latency_seconds: BTreeMap::new(),
    };
    let mut by_file = vec![ByOp::new(); plan.targets.len()];
    for (number, (tid, outcome)) in outcomes.iter().enumerate() {
        let mut ops = ByOp::new();
        for (row, counts) in outcome.counts.iter().enumerate() {
            for (op, count) in plan.ops.iter().zip(counts).filter(|(_, count)| count.calls > 0) {
                ops.entry(*op).or_default().add(count);
                if let Some(file) = by_file.get_mut(row).filter(|_| *op != Op::Sync) {
                    file.entry(*op).or_default().add(count);
                }
            }
        }
        add(&mut report.ops, &ops);
        report.threads.push(ThreadRow { tid: *tid, name: format!("sync-{number}"), ops });
        report.files_created += outcome.files_created;
        report.failed_writes += outcome.failed_writes;
    }
    report.calls = report.ops.values().map(|count| count.calls).sum();
    for (target, ops) in plan.targets.iter().zip(by_file) {
        let (device, inode) = (target.device, target.inode);
        report.files.push(FileRow { path: target.path.clone(), device, inode, ops });
    }
    for (index, op) in plan.ops.iter().enumerate().filter(|_| plan.measure_latency) {
        let mut latency = count::new_histogram();
        for (_, outcome) in outcomes {
            latency.add(&outcome.latency[index]).context("cannot add up latencies")?;
        }
        report.latency_seconds.insert(*op, Latency::of(&latency));
    }
    Ok(report)
}
