//! kernels: boots guests with the kernels of several Debian releases, lets the toolkit trace exactly known
//! loads in each, compares what it says with what happened, and writes docs/kernels.md.

mod diff;
mod durable;
mod expect;
mod faults;
mod filesystems;
mod guests;
mod measured;
mod outcome;
mod page;
mod preemption;
mod shape;
mod unsynced;
mod users;
mod waits;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use crate::guests::{Architecture, Guest};
use crate::outcome::{Findings, Outcome};

/// Runs the toolkit under the kernels of several Debian releases in QEMU, and compares what it says with what
/// happened.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The static programs, fsynctop and syncgen, in a directory for each architecture: amd64 and arm64.
    #[arg(long, value_name = "DIRECTORY")]
    programs: PathBuf,
    /// Only guests whose names contain this; writes no page.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The check of every commit: exact counts in each mode on a few guests; writes no page.
    #[arg(long, conflicts_with = "page")]
    quick: bool,
    /// Only guests of this architecture; writes no page.
    #[arg(long, conflicts_with = "page")]
    architecture: Option<Architecture>,
    /// Where the page goes.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Keep what the guests wrote.
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// Compare what `--keep` kept, and boot nothing.
    #[arg(long, requires = "keep")]
    again: bool,
    /// Guests that run at a time, each with one processor of this machine [default: as many as it has, at
    /// most 4].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

impl Options {
    fn jobs(&self) -> Result<NonZero<usize>> {
        let processors = || thread::available_parallelism().context("cannot count the processors");
        self.jobs.map_or_else(|| Ok(processors()?.min(const { NonZero::new(4).unwrap() })), Ok)
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("kernels: {failures} differences");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("kernels: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<usize> {
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let directory = options.keep.as_deref().unwrap_or(temporary.path());
    let wanted = guests::wanted(options.quick, options.only.as_deref(), options.architecture);
    ensure!(!wanted.is_empty(), "no guest has such a name");
    let mut failures = 0;
    let mut seen = Vec::new();
    in_parallel(
        &wanted,
        options.jobs()?,
        |guest| one(guest, options, directory),
        |guest, done| {
            let verdict = if done.findings.failures.is_empty() { "ok" } else { "FAILED" };
            println!("{verdict:6} {:28} {:3.0} s  {}", guest.name, done.took.as_secs_f64(), guest.about);
            done.findings.notes.iter().for_each(|note| println!("         {note}"));
            done.findings.failures.iter().for_each(|failure| println!("       - {failure}"));
            failures += done.findings.failures.len();
            seen.push((*guest, done.outcome));
        },
    );
    if let Some(page) = options.page.as_ref().filter(|_| failures == 0 && options.only.is_none()) {
        let text = page::render(&seen).context("docs/kernels.md")?;
        std::fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))?;
    }
    Ok(failures)
}

struct Done {
    outcome: Outcome,
    findings: Findings,
    took: Duration,
}

/// Boots a guest and looks at what it wrote.
fn one(guest: &Guest, options: &Options, directory: &Path) -> Done {
    let began = Instant::now();
    let to = directory.join(guest.name);
    let booted = if options.again { Ok(()) } else { boot(guest, &options.programs, &to) };
    let outcome = Outcome::new(to);
    let mut findings = Findings::default();
    match booted {
        Ok(()) => expect::outcome(guest, &outcome, &mut findings),
        Err(error) => findings.fail(format!("{error:#}")),
    }
    Done { outcome, findings, took: began.elapsed() }
}

/// Does the work for some items at a time, and hands each result over in the items' order, as soon as it can.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    jobs: NonZero<usize>,
    work: impl Fn(&T) -> R + Sync,
    mut finish: impl FnMut(&T, R),
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len()) {
            let (sender, work, next) = (sender.clone(), &work, &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { break };
                    // The receiver lives as long as this scope.
                    let _ = sender.send((number, work(item)));
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (number, result) in results {
            early.insert(number, result);
            while let Some(result) = early.remove(&expected) {
                finish(&items[expected], result);
                expected += 1;
            }
        }
    });
}

/// Fetches the kernel if need be, boots it, and leaves what the guest wrote in `to`.
fn boot(guest: &Guest, programs: &Path, to: &Path) -> Result<()> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fetched = Command::new(tools.join("fetch"))
        .args([guest.kernel, guest.architecture.name()])
        .output()
        .context("cannot run tools/kernels/fetch")?;
    if !fetched.status.success() {
        bail!("{}", String::from_utf8_lossy(&fetched.stderr).trim());
    }
    let kernel = String::from_utf8(fetched.stdout).context("the cache's path")?;
    if to.exists() {
        std::fs::remove_dir_all(to).with_context(|| format!("cannot empty {}", to.display()))?;
    }
    let output = Command::new(tools.join("boot"))
        .arg(kernel.trim_end())
        .arg(to)
        .arg(guest.scenario.name())
        .args(["fsynctop", "syncgen"].map(|program| programs.join(guest.architecture.name()).join(program)))
        .env("ARCHITECTURE", guest.architecture.name())
        .env("CPU", guest.cpu)
        .env("CPUS", guest.cpus.to_string())
        .env("APPEND", guest.command_line())
        .env("FILESYSTEMS", guest.further_filesystems())
        .output()
        .context("cannot run tools/kernels/boot")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_is_done_first() {
        let items: Vec<u64> = (0..20).collect();
        let mut seen = Vec::new();
        let work = |&item: &u64| {
            thread::sleep(Duration::from_millis((20 - item) % 7));
            item * 2
        };
        in_parallel(&items, NonZero::new(3).expect("three"), work, |item, result| seen.push((*item, result)));
        assert_eq!(seen, items.iter().map(|item| (*item, item * 2)).collect::<Vec<_>>());
    }
}
