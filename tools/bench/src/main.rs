//! bench: what tracing costs, measured side by side with nothing attached, with empty programs and with other
//! tracers; writes docs/overhead.md.

mod aio;
#[path = "../../syncgen/src/aio_abi.rs"]
mod aio_abi;
mod by_kernel;
mod calls;
mod context;
mod cost;
mod counted;
mod database;
mod docs;
mod floor;
mod getppid;
mod growth;
mod guest;
mod idle;
mod idle_processes;
mod instructions;
mod load;
mod load_child;
mod many;
mod max_cpu;
mod modes;
mod net;
mod others;
mod pairs;
mod proc;
mod process;
mod recording;
mod section;
mod server;
mod snapshots;
mod start;
mod stats;
mod sync;
mod throughput;
mod tracer;
mod waits;
mod writes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};

use crate::calls::Effort;
use crate::context::Context;
use crate::load::Call;
use crate::section::Section;

const PAGE: &str = "docs/overhead.md";

/// Measures what tracing costs. Each part prints its tables and leaves them as JSON; `docs` makes the page of
/// them.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// What to measure [default: everything, and then the page]
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Fewer and shorter rounds: some minutes in all, and figures that are rougher
    #[arg(long)]
    quick: bool,
    /// The program to measure [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    fsynctop: Option<PathBuf>,
    /// Where the load's files are made, on tmpfs
    #[arg(long, value_name = "DIRECTORY", default_value = "/dev/shm")]
    directory: PathBuf,
    /// Where the parts leave their figures
    #[arg(long, value_name = "DIRECTORY", default_value = "target/bench")]
    out: PathBuf,
    /// Write tools/bench/instructions.txt anew, and measure nothing
    #[arg(long)]
    update: bool,
    /// This is a guest: no other tracers
    #[arg(long, hide = true)]
    guest: bool,
    /// Be so many threads that do nothing
    #[arg(long, hide = true, value_name = "N")]
    idle: Option<usize>,
    /// Be the load, under this name
    #[arg(long, hide = true, value_name = "NAME")]
    load: Option<String>,
    /// The load's second directory
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    disk: Option<PathBuf>,
    #[arg(long, hide = true)]
    split: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Part {
    /// Added to each fsync
    Sync,
    /// Added to each system call that is no sync
    Getppid,
    /// Added to each write, and to each request of io_uring and libaio
    Writes,
    /// Added to each fsync by the net below the watched calls
    Net,
    /// Added to each fsync of a server of many processes
    Many,
    /// What it costs a real server under load
    Server,
    /// Memory and processor time of fsynctop itself
    Process,
    /// What a recording takes, of a disk and of a processor
    Recording,
    /// What an exporter costs beside processes that are called like servers and do nothing
    Idle,
    /// From its start to the first row, and from the result to its end
    Start,
    /// What more files and more threads do to it
    Growth,
    /// What happens above --max-cpu
    MaxCpu,
    /// The first two on other kernels, in guests
    Guest,
    /// The size of each BPF program
    Instructions,
    /// What the probes of `explain` cost
    Waits,
    /// docs/overhead.md, of what the parts have left
    Docs,
}

impl Part {
    fn file(self, out: &Path) -> PathBuf {
        let name = self.to_possible_value().map(|value| value.get_name().to_owned());
        out.join(name.unwrap_or_default()).with_extension("json")
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.load {
        Some(name) => {
            load_child::serve(name, &options.directory, options.disk.as_deref(), options.split).map(|()| true)
        }
        None => match options.idle {
            Some(threads) => idle::be(threads).map(|()| true),
            None => run(&options),
        },
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// False if some part could not be measured. A goal that is missed is no failure.
fn run(options: &Options) -> Result<bool> {
    libbpf_rs::set_print(None); // what fails is said in our own words
    if options.update {
        instructions::update()?;
        progress!("{} is written", instructions::TABLE);
        return Ok(true);
    }
    let mut parts = options.parts.clone();
    if parts.is_empty() {
        parts = Part::value_variants().to_vec();
    }
    parts.sort();
    parts.dedup();
    if parts == [Part::Docs] {
        return write_page(&options.out).map(|()| true);
    }
    let context = Context::new(options.quick, options.guest, options.fsynctop.clone(), &options.directory)?;
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("cannot make {}", options.out.display()))?;

    let mut all_measured = true;
    // Before the first part: growth alone, with its threads, raises the load average to hundreds.
    let machine = context.machine();
    while !parts.is_empty() {
        // The two share their blocks: attaching takes longer than measuring.
        let together = if parts.starts_with(&[Part::Sync, Part::Getppid]) { 2 } else { 1 };
        let now: Vec<_> = parts.drain(..together).collect();
        if now == [Part::Docs] {
            if all_measured {
                write_page(&options.out)?;
            }
            continue;
        }
        let began = Instant::now();
        match measure(&context, &options.out, &now) {
            Ok(sections) => {
                for (part, mut section) in now.iter().zip(sections) {
                    section.rough = context.is_rough();
                    section.machine = Some(machine.clone());
                    section.objects = Some(fsynctop::probe::build_info().objects.to_owned());
                    section.write(&part.file(&options.out))?;
                    println!("{}", section.markdown());
                }
            }
            Err(error) => {
                all_measured = false;
                eprintln!("bench: {now:?} could not be measured: {error:#}");
            }
        }
        progress!("{now:?} took {:.0} s", began.elapsed().as_secs_f64());
    }
    Ok(all_measured)
}

fn write_page(out: &Path) -> Result<()> {
    let parts = Part::value_variants().iter().filter(|&&part| part != Part::Docs);
    let files: Vec<_> = parts.map(|part| part.file(out)).collect();
    let goals = docs::write(&files, Path::new(PAGE))?;
    println!("{goals}");
    progress!("{PAGE} is written");
    Ok(())
}

/// A section for each part.
fn measure(context: &Context, out: &Path, parts: &[Part]) -> Result<Vec<Section>> {
    match parts {
        [Part::Sync] | [Part::Getppid] | [Part::Sync, Part::Getppid] => {
            let call = |part: &Part| if *part == Part::Sync { Call::Fsync } else { Call::Getppid };
            let shapes = parts.iter().flat_map(|part| calls::shapes(context, call(part))).collect();
            // A virtual machine runs at one speed for seconds and then at another: only many blocks tell the
            // two apart.
            let cycles = context.or_quick(if context.guest { 5 } else { 24 }, 4);
            let effort = Effort { cycles, rounds: 3, warm_up: None };
            let measured = calls::measure(context, None, calls::tracers(context), shapes, effort)?;
            Ok(parts
                .iter()
                .map(|part| match part {
                    Part::Sync => sync::section(&measured),
                    _ => getppid::section(&measured),
                })
                .collect())
        }
        [Part::Writes] => Ok(vec![writes::section(context)?]),
        [Part::Net] => Ok(vec![net::section(context)?]),
        [Part::Many] => Ok(vec![many::section(context)?]),
        [Part::Server] => Ok(vec![server::section(context, out)?]),
        [Part::Process] => Ok(vec![process::section(context)?]),
        [Part::Recording] => Ok(vec![recording::section(context)?]),
        [Part::Idle] => Ok(vec![idle_processes::section(context)?]),
        [Part::Start] => Ok(vec![start::section(context)?]),
        [Part::Growth] => Ok(vec![growth::section(context)?]),
        [Part::Guest] => Ok(vec![guest::section(context, out)?]),
        [Part::MaxCpu] => Ok(vec![max_cpu::section(context)?]),
        [Part::Instructions] => Ok(vec![instructions::section(context)?]),
        [Part::Waits] => Ok(vec![waits::section(context)?]),
        _ => unreachable!("parts are measured one by one"),
    }
}
