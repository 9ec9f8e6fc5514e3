//! kernels: boots guests with the kernels of several Debian releases, lets the toolkit trace exactly known loads in each, compares what
//! it says with what happened, and writes docs/kernels.md.

mod diff;
mod expect;
mod faults;
mod guests;
mod measured;
mod outcome;
mod page;
mod preemption;
mod shape;
mod users;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use crate::guests::{GUESTS, Guest};
use crate::outcome::{Findings, Outcome};

/// Runs the toolkit under the kernels of several Debian releases in QEMU, and compares what it says with what happened.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The static programs, fsynctop and syncgen, in a directory for each architecture: amd64 and arm64.
    #[arg(long, value_name = "DIRECTORY")]
    programs: PathBuf,
    /// Only guests whose names contain this; writes no page.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Where the page goes.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Keep what the guests wrote.
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// Compare what `--keep` kept, and boot nothing.
    #[arg(long, requires = "keep")]
    again: bool,
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
    let wanted: Vec<&Guest> = GUESTS
        .iter()
        .filter(|guest| options.only.as_ref().is_none_or(|text| guest.name.contains(text)))
        .collect();
    ensure!(!wanted.is_empty(), "no guest has such a name");
    let mut failures = 0;
    let mut seen = Vec::new();
    for guest in wanted {
        let began = Instant::now();
        let to = directory.join(guest.name);
        let booted = if options.again { Ok(()) } else { boot(guest, &options.programs, &to) };
        let outcome = Outcome::new(to);
        let mut findings = Findings::default();
        match booted {
            Ok(()) => expect::outcome(guest, &outcome, &mut findings),
            Err(error) => findings.fail(format!("{error:#}")),
        }
        let verdict = if findings.failures.is_empty() { "ok" } else { "FAILED" };
        println!("{verdict:6} {:28} {:3.0} s  {}", guest.name, began.elapsed().as_secs_f64(), guest.about);
        findings.notes.iter().for_each(|note| println!("         {note}"));
        findings.failures.iter().for_each(|failure| println!("       - {failure}"));
        failures += findings.failures.len();
        seen.push((guest, outcome));
    }
    if let Some(page) = options.page.as_ref().filter(|_| failures == 0 && options.only.is_none()) {
        let text = page::render(&seen).context("docs/kernels.md")?;
        std::fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))?;
    }
    Ok(failures)
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
        .output()
        .context("cannot run tools/kernels/boot")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
