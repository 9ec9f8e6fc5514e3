//! What can be asked for on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, CommandFactory, Parser, Subcommand, ValueEnum};

use super::calibrate::Calibrate;
use super::explain::{self, Explain};
use super::exporter::{self, Exporter};
use super::history::History;
use super::top::Top;
use super::verify::Verify;
use crate::history::remote;
use crate::live::budget::Limit;
use crate::model::{AttachMode, Op};
use crate::render::{By, Output, Sort, Style};

/// Traces the sync calls of MySQL and MariaDB servers: which files, how often, how long, what failed, what is stuck.
///
/// Without an action, shows them live, as `top` does for processes; `fsynctop once` measures for a while and prints.
/// Attaches to the servers that run, changes nothing in them, and detaches when it ends. Needs root, or the
/// capabilities that `fsynctop check` names.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "ACTION",
    subcommand_help_heading = "Actions",
    after_help = EXAMPLES
)]
pub struct Arguments {
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub plain: Plain,
}

const EXAMPLES: &str = "\
Examples:
  fsynctop                                 the live view of all servers on this host; ? shows its keys
  fsynctop once                            ten seconds of all servers on this host, by role
  fsynctop once -d 1m --by file            a minute, by file
  fsynctop once -i 1 -n 60 --output csv    sixty seconds, one line per role and second
  fsynctop once --pid 4711 --histogram     one server, with its latencies drawn
  fsynctop once -- ./load.sh               a command and all it starts, from its first call to its last
  fsynctop history --last 10m              what an exporter on this host saw in the last ten minutes
  fsynctop explain -d 10                   what the syncs of ten seconds waited for, on two levels
  fsynctop stuck                           syncs that hang right now, without any tracing
  fsynctop exporter                        run for good, for Prometheus to scrape 127.0.0.1:9871
  fsynctop verify -d 30                    is what it traces what the server itself counts?
  fsynctop calibrate /srv/scratch          what does one sync cost on that filesystem?
  fsynctop check                           would tracing work here, and if not, why

Exit status: 0 done, 1 failed, 2 bad options or configuration, 3 nothing to trace,
5 not everything could be looked at (stuck); with a command, the command's own.";

const STUCK_STATUS: &str = "\
Exit status: 0 everything was examined, whether or not a sync hangs; 1 failed, 2 bad options or
configuration, 3 no such process; 5 not everything could be examined: the output begins with what
could not, and a sync may hang there.";

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Measure for a while, for as long as a command runs, or in a series, and print
    Once(Once),
    /// Show the last minutes, as an exporter on this host remembers them; traces nothing
    History(History),
    /// Say what works on this host: kernel, rights, probes, memory, servers and their files
    Check(Check),
    /// Say why commits take as long as they do: what the syncs wait for, and what the filesystem does meanwhile
    #[command(after_help = explain::AFTER_HELP)]
    Explain(Explain),
    /// Trace for good and answer Prometheus: the daemon for every host
    #[command(after_help = exporter::AFTER_HELP)]
    Exporter(Exporter),
    /// Show live what is synced; the same as without an action, with some options more
    Top(Top),
    /// List the threads that are inside a sync call right now; needs no BPF and works where nothing else does
    #[command(after_help = STUCK_STATUS)]
    Stuck(Stuck),
    /// Measure what one sync costs in a directory, in every way that databases do it, alone and by many threads
    Calibrate(Calibrate),
    /// Compare what is traced with what the server itself counts; fails if they differ
    Verify(Verify),
    /// The child's side of `-- COMMAND`: waits until it is traced
    #[command(hide = true)]
    ExecWhenTold { pipe: PathBuf, command: Vec<OsString> },
}

/// Which processes.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "targets", multiple = true)]
#[command(next_help_heading = "Which processes")]
pub struct TargetArgs {
    /// Trace these processes [default: every mysqld and mariadbd; for
    /// `stuck`, every process]
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Trace the processes whose main thread has this name
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub comm: Vec<String>,
    /// Trace the processes of this cgroup (version 2) and of those below it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Trace every process on the host
    #[arg(long)]
    pub all: bool,
}

impl TargetArgs {
    pub fn is_given(&self) -> bool {
        self.all || self.cgroup.is_some() || !self.pid.is_empty() || !self.comm.is_empty()
    }
}

/// Where the options of [`TraceArgs`] stand in the help.
const TRACING: &str = "How to trace";

/// How to trace.
#[derive(Args, Clone, Debug)]
pub struct TraceArgs {
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Calls to trace. fentry cannot watch `sync`: asking for it moves all of the tracing to another mode
    #[arg(long, value_delimiter = ',', value_name = "CALL,…", default_value = "fsync,fdatasync", help_heading = TRACING)]
    pub ops: Vec<OpArg>,
    /// How to attach: auto tries, tests and falls back
    #[arg(long, value_enum, default_value_t = AttachArg::Auto, value_name = "MODE", help_heading = TRACING)]
    pub attach: AttachArg,
    /// Also print what libbpf and the kernel's verifier said while attaching
    #[arg(short, long, help_heading = TRACING)]
    pub verbose: bool,
    /// Rules of your own for the roles of files, looked at before the built-in ones (docs/roles.md)
    #[arg(long, value_name = "FILE", help_heading = TRACING)]
    pub roles: Option<PathBuf>,
    /// Files that are kept apart at a time; more are counted in their role
    #[arg(long, default_value_t = 65_536, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=4_000_000), help_heading = TRACING)]
    pub max_files: u32,
    /// Files that have a latency histogram of their own at a time; others share their role's
    #[arg(long, default_value_t = 4_096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = TRACING)]
    pub max_histograms: u32,
}

/// For what runs for long: a series of intervals, the live view, the exporter.
#[derive(Args, Clone, Debug)]
pub struct LongRunArgs {
    /// Processor time that fsynctop itself may use: percent of one processor, averaged over a minute or over /TIME
    /// (2%/5m), or off. Above it, intervals get longer; if that is not enough, tracing pauses until there is room
    /// again. Said on standard error and in the figures. What the exporter's clients cost, and describing servers and
    /// naming files, is limited apart and not counted here
    #[arg(long, value_name = "PERCENT", default_value_t = MaxCpu(Some(Limit::default())), help_heading = TRACING)]
    pub max_cpu: MaxCpu,
}

/// None: off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxCpu(pub Option<Limit>);

impl std::str::FromStr for MaxCpu {
    type Err = String;

    fn from_str(text: &str) -> Result<MaxCpu, String> {
        if text == "off" { Ok(MaxCpu(None)) } else { text.parse().map(|limit| MaxCpu(Some(limit))) }
    }
}

impl std::fmt::Display for MaxCpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(limit) => limit.fmt(f),
        }
    }
}

#[derive(Args, Debug)]
#[command(next_help_heading = "What to measure and print")]
pub struct Once {
    /// How long to measure: 10, 90s, 5m; with -i, the whole series [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Measure a series, and print each interval of this length
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub interval: Option<Duration>,
    /// How many intervals [default: until Ctrl-C, which prints the last one]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "interval", conflicts_with = "duration")]
    pub count: Option<u64>,
    /// Wait for a server if none runs yet; it is traced from its first sync
    #[arg(long)]
    pub wait: bool,
    /// What a row of the table stands for
    #[arg(long, value_enum, default_value_t)]
    pub by: By,
    /// The column to sort by
    #[arg(long, value_enum)]
    pub sort: Option<Sort>,
    /// Draw the latencies of each role and call
    #[arg(long)]
    pub histogram: bool,
    /// A table for people; for programs JSON, one object on one line for each interval (docs/json.md), or CSV
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Write there instead of to the terminal; replaced only when the measurement is complete, appended in a series
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// Colours [NO_COLOR is honoured]
    #[arg(long, value_enum, default_value_t = ColorArg::Auto, value_name = "WHEN")]
    pub color: ColorArg,
    /// Draw with ASCII only
    #[arg(long)]
    pub no_unicode: bool,
    /// A sync in flight for this long is shown as stuck
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub stuck_after: Duration,
    /// Trace this command and all that it starts, until it ends; with --pid, --comm, --cgroup or --all, trace those
    /// for as long as it runs
    #[arg(last = true, help_heading = None, value_name = "COMMAND", conflicts_with_all = ["duration", "count"])]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub long_run: LongRunArgs,
}

/// Without an action: the live view. Also takes what `once` and `history` take, as they were options of it once.
#[derive(Args, Debug)]
pub struct Plain {
    /// The old form of `fsynctop once`
    #[arg(long)]
    pub once: bool,
    /// The old form of `fsynctop history --last`
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = [
        "duration", "count", "wait", "by", "sort", "histogram", "command", "comm", "cgroup", "all", "ops", "attach",
        "verbose", "roles", "max_files", "max_histograms", "max_cpu"
    ])]
    pub last: Option<Duration>,
    /// Where an exporter on this host, if there is one, is asked for the last ten minutes
    #[arg(long, value_name = "PATH", default_value = remote::SOCKET, help_heading = "What to show")]
    pub socket: PathBuf,
    #[command(flatten)]
    pub measure: Once,
}

/// Options of [`Plain`] that the live view does not take: they only keep the old forms working.
const OLD_FORMS: [&str; 10] =
    ["once", "last", "duration", "count", "wait", "sort", "histogram", "output", "output_file", "command"];

/// The command line as its help shows it.
pub fn command() -> Command {
    let command =
        OLD_FORMS.iter().fold(Arguments::command(), |command, id| command.mut_arg(id, |arg| arg.hide(true)));
    command
        .mut_arg("interval", |arg| {
            arg.help("From one snapshot to the next; + and - change it").help_heading("What to show")
        })
        .mut_args(|arg| match arg.get_id().as_str() {
            "by" | "stuck_after" | "color" | "no_unicode" => arg.help_heading("What to show"),
            _ => arg,
        })
}

impl Plain {
    /// What is asked for is no live view.
    pub fn asks_for_one_measurement(&self) -> bool {
        let measure = &self.measure;
        self.once
            || measure.duration.is_some()
            || measure.count.is_some()
            || measure.sort.is_some()
            || measure.histogram
            || measure.output != Output::Table
            || measure.output_file.is_some()
            || !measure.command.is_empty()
    }
}

/// For what prints no series and so has no CSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A table, for people
    #[default]
    Table,
    /// One JSON object, for programs
    Json,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "What to print")]
pub struct FormArgs {
    /// A table for people, JSON for programs
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Form,
    /// The old form of --output json
    #[arg(long, hide = true, conflicts_with = "output")]
    json: bool,
}

impl FormArgs {
    pub fn is_json(&self) -> bool {
        self.json || self.output == Form::Json
    }
}

#[derive(Args, Debug)]
pub struct Check {
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub form: FormArgs,
    /// Colours [NO_COLOR is honoured]
    #[arg(long, value_enum, default_value_t = ColorArg::Auto, value_name = "WHEN")]
    pub color: ColorArg,
}

#[derive(Args, Debug)]
pub struct Stuck {
    #[command(flatten)]
    pub targets: TargetArgs,
    #[command(flatten)]
    pub form: FormArgs,
    /// How long to watch: a call that stands still all the while is at least that old
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    pub watch: Duration,
    /// Rules of your own for the roles of files
    #[arg(long, value_name = "FILE")]
    pub roles: Option<PathBuf>,
    /// Colours [NO_COLOR is honoured]
    #[arg(long, value_enum, default_value_t = ColorArg::Auto, value_name = "WHEN")]
    pub color: ColorArg,
    /// ASCII only
    #[arg(long)]
    pub no_unicode: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    Auto,
    Always,
    Never,
}

impl ColorArg {
    pub fn apply(self, style: &mut Style) {
        match self {
            ColorArg::Auto => {}
            ColorArg::Always => style.color = true,
            ColorArg::Never => style.color = false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttachArg {
    Auto,
    /// Costs only the calls that are traced
    Fentry,
    /// Costs only the calls that are traced, more than fentry does; loses none where the kernel preempts (Linux 6.14)
    Kprobe,
    /// Costs every system call a little; works where fentry does not
    Tracepoint,
}

impl AttachArg {
    pub fn mode(self) -> Option<AttachMode> {
        match self {
            AttachArg::Auto => None,
            AttachArg::Fentry => Some(AttachMode::Fentry),
            AttachArg::Kprobe => Some(AttachMode::Kprobe),
            AttachArg::Tracepoint => Some(AttachMode::Tracepoint),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum OpArg {
    Fsync,
    Fdatasync,
    SyncFileRange,
    Msync,
    Syncfs,
    Sync,
}

impl OpArg {
    pub fn op(self) -> Op {
        match self {
            OpArg::Fsync => Op::Fsync,
            OpArg::Fdatasync => Op::Fdatasync,
            OpArg::SyncFileRange => Op::SyncFileRange,
            OpArg::Msync => Op::Msync,
            OpArg::Syncfs => Op::Syncfs,
            OpArg::Sync => Op::Sync,
        }
    }
}

impl std::fmt::Display for OpArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.op().name())
    }
}

/// Some clocks end after some centuries.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// "10" (seconds), "0.5", "90s", "5m", "1m 30s".
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if parsed < Duration::from_millis(1) {
        return Err("at least a millisecond".into());
    }
    if parsed > LONGEST {
        return Err("at most ten years".into());
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn nothing_is_left_without_a_word_of_explanation() {
        let command = Arguments::command();
        for command in std::iter::once(&command).chain(command.get_subcommands().filter(|c| !c.is_hide_set()))
        {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} of {}", argument.get_id(), command.get_name());
            }
        }
    }

    #[test]
    fn times_are_seconds_or_carry_their_unit() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(duration("0").is_err());
        assert!(duration("-1").is_err());
        assert!(duration("soon").is_err());
        assert_eq!(duration("1e19"), Err("at most ten years".into()));
    }

    #[test]
    fn processor_time_has_a_limit_unless_it_is_switched_off() {
        let limit = |arguments: &[&str]| {
            let all = ["fsynctop", "-i", "1"].iter().chain(arguments);
            Arguments::try_parse_from(all).map(|parsed| parsed.plain.measure.long_run.max_cpu.0)
        };
        assert_eq!(limit(&[]).unwrap(), Some(Limit::default()));
        assert_eq!(limit(&["--max-cpu", "off"]).unwrap(), None);
        assert_eq!(limit(&["--max-cpu", "0.5%/30s"]).unwrap().unwrap().share, 0.005);
        assert!(limit(&["--max-cpu", "none"]).is_err());
    }

    #[test]
    fn contradictions_are_refused() {
        for bad in [
            &["fsynctop", "once", "-n", "3"][..],
            &["fsynctop", "once", "-i", "1", "-n", "0"],
            &["fsynctop", "once", "-d", "5", "--", "true"],
            &["fsynctop", "--ops", "write"],
        ] {
            assert!(Arguments::try_parse_from(bad).is_err(), "{bad:?}");
        }
        let good = ["fsynctop", "once", "--pid", "1,2", "--", "sleep", "--version"];
        let parsed = Arguments::try_parse_from(good).unwrap();
        let Some(Action::Once(once)) = parsed.action else { panic!("{parsed:?}") };
        assert_eq!(once.trace.targets.pid, [1, 2]);
        assert_eq!(once.command, ["sleep", "--version"]);
    }
}
