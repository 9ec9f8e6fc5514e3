//! `fsynctop record`: everything that is measured, into a folder, until Ctrl-C or for as long as a command
//! runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::Args;

use super::command::{Traced, passed_on};
use super::connection::ConnectionArgs;
use super::exit::{BAD_USAGE, Exit, FAILED};
use super::options::{LongRunArgs, NameArgs, TraceArgs, Writes, duration, size, typed};
use super::output::print;
use super::own_counters::{self, Asking};
use super::progress::{self, Going};
use super::session::{self, Session};
use super::shell;
use super::signals::{End, end_at_the_second};
use super::wait_probes::Reader;
use crate::engine::engines::Engines;
use crate::live::{self, Live, Stream};
use crate::recording::beside_a_log;
use crate::recording::recorder::Recorder;
use crate::recording::writer::{LEAST_LIMIT, LIMIT, Writer};
use crate::server::asking::Scope;
use crate::text::{bytes, counted, interval, rfc3339};

/// How long a wait for the next interval lasts at most: then the command and Ctrl-C are looked at.
const SLICE: Duration = Duration::from_millis(100);
/// How long the end of the first interval is waited for before a command begins.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);
/// From one reading of the server's counters to the next, at the end.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a command may go on after Ctrl-C.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(next_help_heading = "What to record")]
pub struct Record {
    /// The folder of the recording [default: a new one here, named after the time]
    ///
    /// It is made if need be. A recording that is there goes on.
    #[arg(short, long, value_name = "DIR")]
    pub output_directory: Option<PathBuf>,
    /// What the recording takes at most, at any time: 64M, 1G
    ///
    /// Its oldest detail gives way first: of older times ten seconds, and then minutes, are kept as one.
    #[arg(long, value_name = "SIZE", value_parser = limit, default_value = "256M")]
    pub limit: u64,
    /// How long to record [default: until Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub duration: Option<Duration>,
    /// How long an interval is
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(live::Options::default().interval))]
    pub interval: Duration,
    /// Also record what the server counts itself, over a connection
    ///
    /// Of one server: `fsynctop verify --replay` compares it with what was traced. Its settings are recorded
    /// as well.
    #[arg(long)]
    pub counters: bool,
    /// Record what each sync waits for, by kernel stacks: costs each sync a little more
    ///
    /// `fsynctop explain --replay` shows it.
    #[arg(long)]
    pub waits: bool,
    #[command(flatten)]
    pub names: NameArgs,
    /// Trace this command and all that it starts, and record until it ends
    ///
    /// With --pid, --comm, --cgroup or --all, those are traced for as long as it runs.
    #[arg(index = 2, last = true, help_heading = None, value_name = "COMMAND", conflicts_with = "duration")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub long_run: LongRunArgs,
}

pub(super) fn limit(text: &str) -> Result<u64, String> {
    let limit = size(text)?;
    if limit < LEAST_LIMIT { Err(format!("at least {} MB", LEAST_LIMIT >> 20)) } else { Ok(limit) }
}

pub fn run(arguments: &Record, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    let stop = End::watch_without_limit()?;
    end_at_the_second()?;
    let rules = session::rules(engines, arguments.trace.roles.as_deref())?;
    let engines = rules.engines();
    session::require_host_pids()?;
    let mut command = match &arguments.command[..] {
        [] => None,
        command => Some(Traced::start(command)?),
    };
    let (selection, own) = session::with_command(&arguments.trace.targets, engines, command.as_ref())?;
    if arguments.counters && command.is_some() && !own {
        let message = "--counters is of a server beside the command: --pid, --comm or --server says which";
        return Err(Exit { status: BAD_USAGE, message: message.into() }.into());
    }
    let counters_rules = rules.clone();
    let mut session = Session::with(&arguments.trace, rules, selection.clone())?;
    session.config.watch_waits = arguments.waits;
    session::require_root()?;
    let counters = match arguments.counters {
        true => Some(own_counters::begin(
            &arguments.trace,
            &arguments.connection,
            &counters_rules,
            scope(arguments),
        )?),
        false => None,
    };
    let folder = arguments.output_directory.clone().unwrap_or_else(|| named_after(SystemTime::now()));
    let writer = Writer::open(&folder, arguments.limit)
        .with_context(|| format!("cannot record into {}", folder.display()))?;
    let device = writer.device();
    let recorder = Recorder::start(writer)?;

    let options = live::Options {
        interval: arguments.interval,
        max_cpu: arguments.long_run.max_cpu.0,
        ..live::Options::default()
    };
    let names = arguments.names.server_name.clone();
    let watches_waits = arguments.waits;
    let make = move || -> anyhow::Result<_> {
        let reader = watches_waits.then(Reader::load).transpose()?;
        let mut sampler = session.start()?;
        sampler.set_given_names(names);
        for missing in
            reader.map(|reader| reader.keep(&session, &mut sampler)).transpose()?.unwrap_or_default()
        {
            eprintln!("fsynctop: not recorded: {missing}");
        }
        Ok(sampler)
    };
    let live = Live::start(make, selection.clone(), options)?;
    let whom = match &command {
        Some(_) if !own => format!("`{}`", shell::words(arguments.command.iter().cloned())),
        _ => match progress::names(&selection.processes()) {
            none if none.is_empty() => selection.describe(),
            names => names,
        },
    };
    let mut recording = Recording {
        recorder,
        stream: live.stream(),
        syncs: 0,
        begun: Instant::now(),
        progress: Going::begin(&format!("Recording {whom} to {}", folder.display())),
        error: None,
        device,
        counters,
        unanswered: None,
        newest: 0,
    };
    recording.count_at_begin(&stop);
    if let Some(command) = &mut command {
        command.go()?;
    }
    let status = recording.until(&stop, &live, arguments.duration, command.as_mut());
    recording.ask();
    let stopped = live.stop();
    if let Ok(last) = &stopped {
        recording.newest = last.number;
    }
    recording.ask();
    // What a thread of the server is just counting is counted then.
    std::thread::sleep(if recording.counters.is_some() { PAUSE } else { Duration::ZERO });
    recording.ask();
    // However the tracing ended, what there is of it is recorded.
    recording.take_all();
    recording.end(&folder)?;
    let status = status?;
    stopped?;
    Ok(ExitCode::from(match (status, &command) {
        (Some(status), _) => passed_on(status),
        (None, Some(_)) => stop.status(),
        (None, None) => 0,
    }))
}

fn scope(arguments: &Record) -> Scope {
    if arguments.trace.writes == Writes::All { Scope::Writes } else { Scope::Syncs }
}

/// "fsynctop-2026-11-29T144600Z"
fn named_after(time: SystemTime) -> PathBuf {
    let second = rfc3339(time).get(..19).unwrap_or_default().replace(':', "");
    format!("fsynctop-{second}Z").into()
}

struct Recording {
    recorder: Recorder,
    stream: Stream,
    syncs: u64,
    begun: Instant,
    progress: Going,
    /// What was said of the recorder last.
    error: Option<String>,
    /// Of the recording's filesystem, until it was warned of.
    device: Option<u32>,
    counters: Option<Asking>,
    /// What was said of these last.
    unanswered: Option<String>,
    /// The number of the last snapshot that is known.
    newest: u64,
}

impl Recording {
    fn until(
        &mut self,
        stop: &End,
        live: &Live,
        length: Option<Duration>,
        mut command: Option<&mut Traced>,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let mut stopped = None;
        loop {
            if let Some(published) = self.stream.next(SLICE) {
                self.take(&published.interval);
                let newest = self.newest;
                self.counters.iter_mut().for_each(|counters| counters.ask(newest));
            }
            if let live::State::Failed { why } = live.state() {
                anyhow::bail!("{why}");
            }
            self.tell();
            let is_stopped = stop.is_requested();
            match &mut command {
                Some(command) => {
                    if let Some(status) = command.ended()? {
                        return Ok(Some(status));
                    }
                    if is_stopped && stopped.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                        eprintln!(
                            "fsynctop: the command still runs (process {}); it is traced no longer",
                            command.pid()
                        );
                        return Ok(None);
                    }
                }
                None if is_stopped || length.is_some_and(|length| self.begun.elapsed() >= length) => {
                    return Ok(None);
                }
                None => {}
            }
        }
    }

    /// Before a command begins, so that nothing of its work is before the first interval at whose end the
    /// server's counters are known.
    fn count_at_begin(&mut self, stop: &End) {
        // What was counted while the probes were being attached is no part of what follows.
        self.take_all();
        self.ask();
        let end = Instant::now() + FIRST_INTERVAL;
        while self.counters.is_some() && self.newest == 0 && Instant::now() < end && !stop.is_requested() {
            if let Some(published) = self.stream.next(SLICE) {
                self.take(&published.interval);
            }
        }
        self.ask();
    }

    fn take(&mut self, interval: &crate::model::Interval) {
        // What was counted while the probes were being attached has no time of its own.
        if !interval.span.duration.is_zero() {
            self.newest = interval.span.sequence;
            self.syncs += interval.total().count;
            match &mut self.counters {
                Some(counters) => self.recorder.push(&counters.beside(interval)),
                None => self.recorder.push(interval),
            }
            if let Some(why) = self.device.and_then(|device| beside_a_log(interval, device)) {
                self.device = None;
                self.progress.say(&format!("fsynctop: {why}"));
            }
        }
    }

    fn take_all(&mut self) {
        while let Some(published) = self.stream.newest() {
            self.take(&published.interval);
        }
    }

    /// What the server counts at an end: a server that hangs is waited for no longer than for one answer.
    fn ask(&mut self) {
        let newest = self.newest;
        self.counters.iter_mut().for_each(|counters| counters.ask_and_wait(newest));
    }

    fn tell(&mut self) {
        let unanswered = self.counters.as_ref().and_then(Asking::error);
        if unanswered != self.unanswered.as_ref() {
            self.unanswered = unanswered.cloned();
            if let Some(error) = &self.unanswered {
                self.progress.say(&format!("fsynctop: the server's own counters are not recorded: {error}"));
            }
        }
        let status = self.recorder.status();
        if status.error != self.error {
            if let Some(error) = &status.error {
                self.progress.say(&format!("fsynctop: not recorded: {error}"));
            }
            self.error = status.error;
        }
        let waiting = match status.waiting {
            0 | 1 => String::new(),
            many => format!(", {many} intervals wait to be written"),
        };
        self.progress.tick(&format!(
            "{}, {}, {}{waiting} (Ctrl-C ends it)",
            interval(self.begun.elapsed()),
            counted(self.syncs, "sync", "syncs"),
            bytes(status.written.size),
        ));
    }

    /// The second Ctrl-C ends the process, whatever the recording's disk does.
    fn end(self, folder: &Path) -> anyhow::Result<()> {
        self.recorder.end();
        while !self.recorder.wait_for_end(SLICE) {
            self.progress.tick("writing the rest (Ctrl-C gives that up)");
        }
        let status = self.recorder.status();
        drop(self.progress);
        let shown = shell::words([folder.as_os_str().to_owned()].into_iter());
        print(
            format!(
                "Recorded {} with {}: {} in {}.\n`fsynctop history --replay {shown}` shows them.\n",
                counted(status.written.intervals - status.written.lost, "interval", "intervals"),
                counted(self.syncs, "sync", "syncs"),
                bytes(status.written.size),
                folder.display(),
            )
            .as_bytes(),
        )?;
        let error = status.last_error.unwrap_or_default();
        match status.written.lost > 0 {
            true => {
                let lost = counted(status.written.lost, "interval was", "intervals were");
                Err(Exit { status: FAILED, message: format!("{lost} not recorded: {error}") }.into())
            }
            false => Ok(()),
        }
    }
}

const _: () = assert!(LIMIT == 256 << 20, "the help says so");
