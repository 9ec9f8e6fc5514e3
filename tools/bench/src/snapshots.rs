//! The time that one snapshot takes, of the library itself: many files, and a sync in flight among many
//! threads.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fsynctop::engine::rules::Rules;
use fsynctop::model::AttachMode;
use fsynctop::sampler::Sampler;
use rustix::process::{Pid, Signal, kill_process};

use crate::context::Context;
use crate::load::{Call, Files, Load, Round};
use crate::modes;

const SNAPSHOTS: usize = 20;

fn sampler(mode: AttachMode, pid: u32) -> Result<Sampler> {
    let config = modes::config(Some(mode), vec![pid]);
    Ok(Sampler::start(&config, Rules::builtin(), "bench".into())?)
}

/// Takes in what the programs send.
fn attend(sampler: &mut Sampler, duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        sampler.wait(Duration::from_millis(20))?;
    }
    Ok(())
}

fn timed(sampler: &mut Sampler) -> Result<(f64, fsynctop::model::Snapshot)> {
    let began = Instant::now();
    let snapshot = sampler.snapshot()?;
    Ok((began.elapsed().as_secs_f64() * 1e3, snapshot))
}

/// Milliseconds.
pub struct OfFiles {
    /// Each file was synced since the last snapshot.
    pub all_changed: Vec<f64>,
    pub none_changed: Vec<f64>,
}

pub fn of_files(context: &Context, mode: AttachMode, files: usize) -> Result<OfFiles> {
    let mut load = Load::start("mysqld", context.files.path())?;
    let mut sampler = sampler(mode, load.pid())?;
    let duration = Duration::from_millis(300);
    let round = Round {
        call: Call::Fdatasync,
        threads: 1,
        cpus: 1,
        files: Files::Shared(files),
        duration,
        rate: None,
    };
    for _ in 0..3 {
        load.run(&round)?;
        attend(&mut sampler, Duration::from_millis(500))?;
        sampler.snapshot()?;
    }
    let mut times = OfFiles { all_changed: Vec::new(), none_changed: Vec::new() };
    for _ in 0..SNAPSHOTS {
        let before = sampler.snapshot()?;
        let done = load.run(&round)?;
        ensure!(done.calls >= 2 * files as u64, "{} syncs do not reach {files} files", done.calls);
        let (ms, after) = timed(&mut sampler)?;
        let changed = after.files.iter().filter(|row| {
            let same = before.files.iter().find(|other| other.target == row.target && other.op == row.op);
            same.is_none_or(|other| other.stats.count < row.stats.count)
        });
        // Looking each of them up in the other is slow: a sample says whether the rows moved.
        ensure!(changed.take(100).count() == 100.min(files), "the snapshot does not show the syncs");
        times.all_changed.push(ms);
        times.none_changed.push(timed(&mut sampler)?.0);
    }
    Ok(times)
}

/// A filesystem on which a sync hangs until it is told otherwise; unmounted when dropped.
struct Hanging {
    process: Child,
    directory: tempfile::TempDir,
}

impl Hanging {
    fn mount(context: &Context) -> Result<Hanging> {
        let directory = tempfile::tempdir()?;
        let program = context.fsynctop.with_file_name("faultfs");
        let mut process = Command::new(&program)
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let out = process.stdout.take();
        let mounted = Hanging { process, directory };
        let mut line = String::new();
        BufReader::new(out.context("its standard output")?).read_line(&mut line)?;
        ensure!(line.starts_with("ready"), "faultfs could not be mounted");
        Ok(mounted)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn control(&self, command: &str) -> Result<()> {
        fs::write(self.path().join(".control"), command).with_context(|| format!("faultfs: {command}"))
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // By its own hand: killed, it would leave the mount behind.
        if let Some(pid) = Pid::from_raw(self.process.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

/// A process with one sync that hangs, under the eyes of a sampler.
pub struct InFlight {
    sampler: Sampler,
    mount: Hanging, // unmounted before the load is waited for, which may hang in it
    load: Load,
}

impl InFlight {
    pub fn begin(context: &Context, mode: AttachMode) -> Result<InFlight> {
        let mount = Hanging::mount(context)?;
        let mut load = Load::start("mysqld", mount.path())?;
        let mut sampler = sampler(mode, load.pid())?;
        let duration = Duration::from_millis(1);
        let round = Round { call: Call::Fsync, threads: 1, cpus: 1, files: Files::Own, duration, rate: None };
        load.run(&round)?; // makes the file
        mount.control("hang")?;
        load.begin(&round)?;
        attend(&mut sampler, Duration::from_millis(300))?;
        Ok(InFlight { sampler, mount, load })
    }

    /// Milliseconds for a snapshot that shows the sync.
    pub fn snapshots(&mut self) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..SNAPSHOTS {
            let (ms, snapshot) = timed(&mut self.sampler)?;
            ensure!(snapshot.in_flight.len() == 1, "{} syncs in flight, not 1", snapshot.in_flight.len());
            times.push(ms);
        }
        Ok(times)
    }

    pub fn end(mut self) -> Result<()> {
        self.mount.control("release")?;
        self.load.end()?;
        Ok(())
    }
}
