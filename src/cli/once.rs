//! `fsynctop once`: attaches, measures for a while or for as long as a command runs, prints.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::{Args, Command, FromArgMatches};

use super::command::{Traced, passed_on};
use super::exit::{CONDITION, Exit, FAILED, NOTHING_TO_TRACE};
use super::fail_on::{self, Condition};
use super::options::{LongRunArgs, NameArgs, RowLimit, StyleArgs, TraceArgs, Writes, duration, typed};
use super::output::{self, print};
use super::output_file::OutputFile;
use super::progress::{self, Progress};
use super::replay::{self, ReplayArgs};
use super::session::{self, Session};
use super::shell;
use super::signals::End;
use super::standing::{self, Standing};
use crate::engine::engines::Engines;
use crate::live::{Change, CpuWatch};
use crate::model::{Interval, Op, Snapshot};
use crate::once::{self, render};
use crate::recording::{History, Troubles, remote};
use crate::render::{By, Options, Output, Shown, Sort, Style, stdout_size};
use crate::sampler::Sampler;
use crate::server::who::finder::Finder;
use crate::server::who::selection::Selection;
use crate::text::causes;
use crate::verdict::{OfServer, State, Verdicts, of_window};

const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// How long the first snapshot waits for the processes that are selected to be found.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// How long a wait for events lasts at most: then the command, the servers and Ctrl-C are looked at.
const SLICE: Duration = Duration::from_millis(100);
/// How long a command may go on after Ctrl-C.
const GRACE: Duration = Duration::from_secs(2);
/// Rows of files or threads that a table has where no terminal limits them.
const ROWS: usize = 100;
/// Lines that a table needs beside its rows.
const AROUND_ROWS: usize = 10;
const LEAST_ROWS: usize = 5;
/// How long a first table waits for what is known of the servers.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
#[command(next_help_heading = "What to measure and print")]
pub struct Once {
    /// How long to measure: 10, 90s, 5m [default: 10s]
    ///
    /// With -i, how long the whole series is.
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, conflicts_with = "replay")]
    pub duration: Option<Duration>,
    /// Print a series of intervals of this length
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub interval: Option<Duration>,
    /// How many intervals [default: until Ctrl-C]
    ///
    /// Ctrl-C prints the last one, as far as it went.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "interval", conflicts_with_all = ["duration", "replay"])]
    pub count: Option<u64>,
    /// Wait for a server if none runs yet
    ///
    /// It is traced from its first sync.
    #[arg(long, conflicts_with = "replay")]
    pub wait: bool,
    /// What a row is
    #[arg(long, value_enum, default_value_t)]
    pub by: By,
    /// Sort by
    #[arg(long, value_enum)]
    pub sort: Option<Sort>,
    /// Print so many rows at most, or all
    ///
    /// A last line says what is left out. In JSON it is a limit on files, on writes and on threads. Without
    /// it, all are printed; in a table by file or by thread what fits the terminal, or 100.
    #[arg(long, value_name = "N")]
    pub limit: Option<RowLimit>,
    /// The columns, in this order
    ///
    /// Those of the table. The first one, which says what a row is, is always there. Without this, all are
    /// shown as far as there is room. JSON and CSV have them all.
    #[arg(long, value_enum, value_name = "COLUMN,…", value_delimiter = ',')]
    pub columns: Vec<Shown>,
    /// Draw the latencies of each role and call
    #[arg(long)]
    pub histogram: bool,
    /// A table for people, JSON or CSV for programs
    ///
    /// JSON is one object on one line for each interval; docs/json.md has its fields.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Write there instead of to the terminal
    ///
    /// The file is replaced only when the measurement is complete; a series is appended to it.
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    #[command(flatten)]
    pub style: StyleArgs,
    #[command(flatten)]
    pub names: NameArgs,
    /// A sync in flight for this long is shown as stuck
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Options::default().stuck_after))]
    pub stuck_after: Duration,
    /// End with status 4 if this holds: stalled, failing, slow, unknown
    ///
    /// Of any server, in any interval: stalled=5s, an operation of a log that commits wait for (redo, binlog,
    /// wal, aof) that takes so long; slow=100ms, a 99th percentile of such a log's syncs above that, so that
    /// one in a hundred takes longer; failing, a sync, a write, a fallocate or writeback that fails; unknown,
    /// a process that could not be described. Several with commas between them; times are optional. The
    /// verdicts are printed. With -- COMMAND, 4 comes before the command's own status.
    #[arg(long, value_name = "STATE,…", value_delimiter = ',')]
    pub fail_on: Vec<Condition>,
    /// The exporter's socket, for what it remembers
    ///
    /// A failure from before that is not over is told as well, and counts for --fail-on.
    #[arg(long, value_name = "PATH", default_value = remote::SOCKET)]
    pub socket: PathBuf,
    /// Trace this command and all that it starts, until it ends
    ///
    /// With --pid, --comm, --cgroup or --all, those are traced for as long as it runs.
    #[arg(index = 2, last = true, help_heading = None, value_name = "COMMAND", conflicts_with_all = ["duration", "count", "replay"])]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub replay: ReplayArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub long_run: LongRunArgs,
}

impl Once {
    /// As `fsynctop once` without options.
    pub(crate) fn by_default() -> Once {
        let matches = Once::augment_args(Command::new("once")).get_matches_from(["once"]);
        Once::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

pub fn run(arguments: &Once, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    if let Some(history) = arguments.replay.history(&arguments.trace.targets)? {
        return print_recorded(arguments, &history);
    }
    let stop = End::watch()?;
    let rules = session::rules(engines, arguments.trace.roles.as_deref())?;
    let engines = rules.engines();
    session::require_host_pids()?;
    let mut sink = Sink::open(arguments)?;

    let mut command = match &arguments.command[..] {
        [] => None,
        command => Some(Traced::start(command)?),
    };
    let (selection, own) = session::with_command(&arguments.trace.targets, engines, command.as_ref())?;
    if command.is_none() && !arguments.wait && selection.processes().is_empty() {
        return Err(session::nothing_selected(
            "trace",
            &selection,
            " With --wait it is traced from its first sync;",
        ));
    }
    let mut session = Session::with(&arguments.trace, rules, selection)?;
    session.config.by_thread = arguments.by == By::Thread;
    if arguments.by == By::Writes {
        session.config.watch(Writes::All.ops());
    }
    let mut sampler = session.start()?;
    sampler.set_given_names(arguments.names.server_name.clone());
    let mut run = Run { sampler: &mut sampler, selection: session.selection, stop: &stop, finder: None };
    let said = |run: &Run| format!("Measuring {}", progress::names(&run.selection.processes()));
    if command.is_none() || own {
        run.look_for_servers(FIRST_LOOK);
    }
    run.sampler.learn_parts(PATIENCE);
    let mut first = run.sampler.snapshot()?;
    if arguments.wait && command.is_none() {
        if !run.wait_for_server()? {
            return Ok(ExitCode::SUCCESS);
        }
        // The server's first syncs are counted, but the time that it was waited for is not.
        (first.taken, first.taken_wall) = (Instant::now(), SystemTime::now());
    }
    if let Some(command) = &mut command {
        let typed = shell::words(arguments.command.iter().cloned());
        progress::say(&match own {
            true => format!("{} until `{typed}` ends", said(&run)),
            false => format!("Tracing `{typed}` and all that it starts, until it ends"),
        });
        command.go()?;
    }

    let status = match arguments.interval {
        Some(interval) => {
            if command.is_none() {
                let every = progress::in_words(interval);
                progress::say(&format!("{}, a result every {every} (Ctrl-C ends it)", said(&run)));
            }
            run.series(arguments, interval, first, command.as_mut(), &mut sink)?
        }
        None => {
            let status = match &mut command {
                Some(command) => run.until_ended(command)?,
                None => {
                    let length = arguments.duration.unwrap_or(DEFAULT_DURATION);
                    let end = Instant::now() + length;
                    run.until(end, &Progress::begin(&said(&run), length))?;
                    None
                }
            };
            let last = run.sampler.finish()?;
            sink.write(&Interval::between(&first, &last))?;
            status
        }
    };
    session::tell_unmatched(&run.sampler.servers(), &arguments.names);
    output::end();
    if sink.condition {
        return Ok(ExitCode::from(CONDITION));
    }
    Ok(ExitCode::from(match (status, &command) {
        (Some(status), _) => passed_on(status),
        // It outlived Ctrl-C, so it has no status yet.
        (None, Some(_)) => stop.status(),
        (None, None) => 0,
    }))
}

/// Prints what was recorded as if it had just been measured.
fn print_recorded(arguments: &Once, history: &History) -> anyhow::Result<ExitCode> {
    let all = history.last(Duration::MAX).context("its intervals cannot be read")?;
    let is_missing = match arguments.by {
        By::Thread => Some("threads are not recorded"),
        By::Writes if !all.setup.ops.contains(&Op::Write) => {
            Some("writes were not watched when it was recorded")
        }
        _ => None,
    };
    if let Some(why) = is_missing {
        return Err(
            Exit { status: NOTHING_TO_TRACE, message: format!("there is nothing to show: {why}") }.into()
        );
    }
    let is_meant = replay::only(&arguments.trace.targets, &all.servers)?;
    let mut sink = Sink::open(arguments)?;
    let mut last = None;
    let mut print = |mut part: Interval| {
        part.retain_servers(&is_meant);
        sink.write(&part)?;
        last = Some(part);
        Ok::<(), anyhow::Error>(())
    };
    match arguments.interval {
        Some(step) => history.steps(step).try_for_each(&mut print)?,
        None => print(all)?,
    }
    last.map_or(Ok(()), |last| sink.finish(&last))?;
    output::end();
    Ok(ExitCode::from(if sink.condition { CONDITION } else { 0 }))
}

struct Run<'a> {
    sampler: &'a mut Sampler,
    selection: Selection,
    stop: &'a End,
    /// Begins with the first look: before that, a command is not itself yet.
    finder: Option<Finder>,
}

impl Run<'_> {
    fn stopped(&self) -> bool {
        self.stop.is_requested()
    }

    /// Servers that sync nothing are shown too, and those that hung before tracing began are found by this.
    fn look_for_servers(&mut self, patience: Duration) {
        let finder = self.finder.get_or_insert_with(|| {
            self.sampler.set_selection(&self.selection);
            Finder::start(&self.selection)
        });
        for server in finder.take(patience) {
            self.sampler.expect_server(server);
        }
    }

    fn slice(&mut self, end: Option<Instant>) -> anyhow::Result<()> {
        let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()).min(SLICE));
        self.sampler.wait(left).context("reading events")?;
        self.look_for_servers(Duration::ZERO);
        Ok(())
    }

    /// True when there is a server, false when the user gave up.
    fn wait_for_server(&mut self) -> anyhow::Result<bool> {
        if !self.sampler.servers().is_empty() {
            return Ok(true);
        }
        eprintln!("fsynctop: waiting for {} (Ctrl-C ends)", self.selection.describe());
        while self.sampler.servers().is_empty() {
            if self.stopped() {
                return Ok(false);
            }
            self.slice(None)?;
        }
        Ok(true)
    }

    /// Traces until a time or Ctrl-C.
    fn until(&mut self, end: Instant, progress: &Progress) -> anyhow::Result<()> {
        while !self.stopped() && Instant::now() < end {
            self.slice(Some(end))?;
            progress.tick();
        }
        Ok(())
    }

    /// Traces until the command ends. Ctrl-C reaches the command as well, which has a moment to end by it;
    /// one that hangs does not make this hang (None).
    fn until_ended(&mut self, command: &mut Traced) -> anyhow::Result<Option<ExitStatus>> {
        let mut stopped = None;
        loop {
            if let Some(status) = command.ended()? {
                return Ok(Some(status));
            }
            if self.stopped() && stopped.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                eprintln!(
                    "fsynctop: the command still runs (process {}); it is traced no longer",
                    command.pid()
                );
                return Ok(None);
            }
            let soon = Instant::now() + Duration::from_millis(20);
            self.slice(Some(soon))?;
        }
    }

    fn series(
        &mut self,
        arguments: &Once,
        interval: Duration,
        first: Snapshot,
        mut command: Option<&mut Traced>,
        sink: &mut Sink,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let begin = Instant::now();
        let last_end = arguments.duration.map(|duration| begin + duration);
        let mut watch = CpuWatch::new(arguments.long_run.max_cpu.0, interval);
        let mut earlier = first;
        let mut start = begin;
        let mut number: u32 = 0;
        loop {
            number += 1;
            let end_of = |watch: &CpuWatch| {
                let end = start + watch.interval();
                last_end.map_or(end, |last| end.min(last))
            };
            let mut status = None;
            while !self.stopped() {
                self.slice(Some(end_of(&watch)))?;
                if let Some(command) = command.as_deref_mut() {
                    status = command.ended()?;
                }
                self.look_at_cpu(&mut watch);
                if status.is_some() || Instant::now() >= end_of(&watch) {
                    break;
                }
            }
            let end = end_of(&watch);
            if self.stopped()
                && status.is_none()
                && let Some(command) = command.as_deref_mut()
            {
                status = self.until_ended(command)?;
            }
            let is_last = self.stopped()
                || status.is_some()
                || arguments.count.is_some_and(|count| u64::from(number) >= count)
                || last_end.is_some_and(|last| end >= last);
            let later = if is_last {
                self.sampler.finish()?
            } else {
                if number == 1 {
                    self.sampler.settle(PATIENCE)?;
                }
                self.sampler.snapshot()?
            };
            let measurement = Interval::between(&earlier, &later);
            sink.write(&measurement)?;
            if is_last {
                sink.finish(&measurement)?;
                return Ok(status);
            }
            earlier = later;
            start = on_time(end, watch.interval());
        }
    }

    /// Intervals get longer, and tracing pauses, where it takes more processor time than it may.
    fn look_at_cpu(&mut self, watch: &mut CpuWatch) {
        let finding = self.finder.as_ref().map_or(Duration::ZERO, Finder::spent);
        let Some(change) = watch.sample(self.sampler.spent_apart() + finding) else { return };
        eprintln!("fsynctop: {change}");
        match change {
            Change::Every { degraded, why, .. } => self.sampler.set_note(degraded.then_some(why)),
            Change::Pause { why } => {
                self.sampler.pause();
                self.sampler.set_note(Some(why));
            }
            Change::GoOn { why, .. } => {
                self.sampler.go_on();
                self.sampler.set_note(Some(why));
            }
        }
    }
}

/// `height`: of the terminal that is printed to.
fn row_limit(arguments: &Once, height: Option<usize>) -> Option<usize> {
    let is_long = matches!(arguments.by, By::File | By::Thread) && arguments.output == Output::Table;
    match arguments.limit {
        Some(RowLimit(limit)) => limit,
        None if !is_long => None,
        None => Some(height.map_or(ROWS, |height| height.saturating_sub(AROUND_ROWS).max(LEAST_ROWS))),
    }
}

/// When the next interval begins: intervals for which it is too late already are left out.
fn on_time(end: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    if end + interval > now { end } else { now }
}

/// Where measurements go.
struct Sink {
    options: Options,
    fail_on: Vec<Condition>,
    /// What is remembered of the servers from before.
    standing: Standing,
    /// One of them has held.
    condition: bool,
    file: Option<OutputFile>,
    series: bool,
    written: usize,
    /// What went wrong in all that was written.
    session: Troubles,
}

impl Sink {
    fn open(arguments: &Once) -> anyhow::Result<Sink> {
        let style = arguments.style.apply(match arguments.output_file {
            Some(_) => Style::default(),
            None => Style::for_stdout(),
        });
        let series = arguments.interval.is_some();
        let file = arguments.output_file.as_deref().map(|path| OutputFile::open(path, series)).transpose()?;
        let height = stdout_size().map(|(_, height)| height).filter(|_| file.is_none());
        let options = Options {
            by: arguments.by,
            sort: arguments.sort,
            columns: arguments.columns.clone(),
            output: arguments.output,
            histogram: arguments.histogram,
            style,
            limit: row_limit(arguments, height),
            stuck_after: arguments.stuck_after,
            interval: None,
            session: None,
            longest_path: None,
            failing: Vec::new(),
            verdicts: None,
        };
        let fail_on = arguments.fail_on.clone();
        // What the exporter of this host remembers says nothing of what was recorded elsewhere.
        let standing = match arguments.replay.replay {
            Some(_) => Standing::default(),
            None => Standing::ask(&arguments.socket),
        };
        let session = Troubles::new(arguments.stuck_after);
        Ok(Sink { options, fail_on, standing, condition: false, file, series, written: 0, session })
    }

    /// Which conditions hold, in the form that goes behind a table; in JSON and beside a CSV it has another.
    fn judge(&mut self, measurement: &Interval) -> String {
        let style = &self.options.style;
        let before: Vec<&OfServer> = self.standing.failing(&measurement.servers).collect();
        if self.fail_on.is_empty() {
            return match self.options.output {
                Output::Table => self.standing.text(&measurement.servers, style),
                Output::Json | Output::Csv => String::new(),
            };
        }
        let thresholds = fail_on::thresholds(&self.fail_on);
        let verdicts = |of: &[State]| of_window(measurement, &thresholds, of, Instant::now());
        let names = fail_on::names(&measurement.servers);
        let wanted = fail_on::states(&self.fail_on);
        let asked: Verdicts = verdicts(&wanted);
        let mut lines =
            fail_on::lines(&asked, &wanted, |server| names.get(&server).cloned().unwrap_or_default());
        if wanted.contains(&State::Failing) {
            let is_told = |of: &OfServer| {
                let now = asked.servers.iter().find(|verdict| verdict.server.pid == of.pid);
                now.is_some_and(|verdict| verdict.state == State::Failing)
            };
            lines.extend(before.iter().filter(|of| !is_told(of)).map(|of| standing::sentence(of)));
        }
        self.condition |= !lines.is_empty();
        match self.options.output {
            Output::Table => {
                let lines = lines.iter().flat_map(|line| style.wrap(line, 2));
                lines.map(|line| style.finish(format!("{line}\n"))).collect()
            }
            Output::Json => {
                let report = verdicts(&State::ALL).report(Instant::now(), |id| names.get(&id).cloned());
                let of_before = |now: OfServer| match before.iter().find(|of| of.pid == now.pid) {
                    Some(&of) => OfServer { server: now.server, ..of.clone() },
                    None => now,
                };
                self.options.verdicts = Some(report.servers.into_iter().map(of_before).collect());
                String::new()
            }
            Output::Csv => {
                lines.iter().for_each(|line| eprintln!("fsynctop: {line}"));
                String::new()
            }
        }
    }

    /// What cannot be written to the file is printed instead: it cannot be measured again.
    fn write(&mut self, measurement: &Interval) -> anyhow::Result<()> {
        self.options.interval = self.series.then_some(self.written);
        self.written += 1;
        self.options.failing = self.standing.failing(&measurement.servers).map(|of| of.pid).collect();
        let said = self.judge(measurement);
        let mut text = Vec::new();
        render(measurement, &self.options, &mut text).context("cannot render")?;
        text.extend_from_slice(said.as_bytes());
        self.session.record(measurement);
        self.put(&text)
    }

    /// What is to be said of a series as a whole. `last`: its last measurement.
    fn finish(&mut self, last: &Interval) -> anyhow::Result<()> {
        if self.written < 2 || self.options.output != Output::Table {
            return Ok(());
        }
        self.put(once::series(&self.session, last, &self.options).as_bytes())
    }

    fn put(&mut self, text: &[u8]) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            let Err(error) = file.write(text) else { return Ok(()) };
            print(text)?;
            let message = format!("{}; the measurement is printed instead", causes(error.chain()));
            return Err(Exit { status: FAILED, message }.into());
        }
        print(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(arguments: &[&str], height: Option<usize>) -> Option<usize> {
        let words = ["once"].iter().chain(arguments);
        let matches = Once::augment_args(Command::new("once")).get_matches_from(words);
        row_limit(&Once::from_arg_matches(&matches).unwrap(), height)
    }

    #[test]
    fn long_tables_have_a_limit_and_what_is_for_programs_has_one_only_if_asked_for() {
        assert_eq!(limit(&[], Some(30)), None);
        assert_eq!(limit(&["--by", "file"], Some(30)), Some(20));
        assert_eq!(limit(&["--by", "thread"], Some(3)), Some(5));
        assert_eq!(limit(&["--by", "file"], None), Some(100));
        for form in ["json", "csv"] {
            assert_eq!(limit(&["--by", "file", "--output", form], Some(30)), None);
            assert_eq!(limit(&["--output", form, "--limit", "7"], None), Some(7));
        }
        assert_eq!(limit(&["--by", "file", "--limit", "all"], Some(30)), None);
        assert_eq!(limit(&["--limit", "2"], None), Some(2));
    }
}
