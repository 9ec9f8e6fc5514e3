//! `fsynctop exporter`: from arguments to a daemon.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Command};
use rustix::fs::Mode;

use super::exit::{BAD_USAGE, Exit, FAILED};
use super::options::{LongRunArgs, NameArgs, TraceArgs, duration, typed};
use super::session::Session;
use super::settings::exporter::unknown_variables;
use super::{check, record, signals};
use crate::engine::engines::Engines;
use crate::exporter::collect::{self, About, Buckets, Collector};
use crate::exporter::confine::User;
use crate::exporter::daemon::{self, Others};
use crate::exporter::failures_file::FailuresFile;
use crate::exporter::history_socket;
use crate::exporter::local_socket::{self, Kind};
use crate::exporter::recent_file::RecentFile;
use crate::exporter::recording::{Options as RecordingOptions, Recording};
use crate::exporter::status::AtStart;
use crate::exporter::web::StartError;
use crate::exporter::web::address::{ListenAddress, LoopbackAddress};
use crate::exporter::{log, privileges, recorder_process, web_process};
use crate::host;
use crate::live::Options;
use crate::recording::{self, History, remote};
use crate::text::causes;
use crate::verdict::Thresholds;
use crate::verdict::remembered::Remembered;

/// Where the options of the figures stand in the help.
const METRICS: &str = "What to tell";
const VERDICTS: &str = "Verdicts";
const RECORDING: &str = "Recording";

/// systemd.exec(5); several have colons between them.
const STATE_DIRECTORY: &str = "STATE_DIRECTORY";

#[derive(Args, Debug)]
#[command(next_help_heading = "Serving")]
pub struct Exporter {
    /// Where to listen [default: 127.0.0.1:9871]
    ///
    /// May be given several times: 127.0.0.1:9871, [::1]:9871, :9871 for all addresses. The sockets that
    /// systemd has opened come before the default.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<ListenAddress>,
    /// TLS, client certificates and users
    ///
    /// In the format that Prometheus' exporters share; read anew when it changes.
    #[arg(long, value_name = "FILE")]
    pub web_config_file: Option<PathBuf>,
    /// The user that it becomes: UID or UID:GID
    ///
    /// Once it has attached, if it was started as root. By default it becomes the user called fsynctop, which
    /// the packages make, or 65534 where that user is missing. Other programs may run as 65534, too.
    #[arg(long, value_name = "USER")]
    pub user: Option<User>,
    /// Options in TOML, by their names here
    ///
    /// Other than fsynctop.toml, it may have every option of the exporter.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Interval of the snapshots
    ///
    /// Each scrape takes a fresh one.
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Options::default().interval))]
    pub interval: Duration,
    #[command(flatten, next_help_heading = METRICS)]
    pub names: NameArgs,
    /// Upper bounds of the latency histogram in seconds
    ///
    /// Each is moved to the nearest step of the kernel's histogram. Without it, there are 22 from 25 µs to
    /// 60 s.
    #[arg(long, value_name = "SECONDS,…", value_delimiter = ',', help_heading = METRICS)]
    pub buckets: Vec<f64>,
    /// Files of each server that have metrics of their own
    ///
    /// The busiest, by the time spent in syncs; the others are summed up as path="other".
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=100_000), help_heading = METRICS)]
    pub file_limit: u32,
    /// No metrics by file
    #[arg(long, help_heading = METRICS)]
    pub no_file_metrics: bool,
    /// How much of the past `fsynctop history` can ask for
    ///
    /// It takes 4 MB of memory at most; where that is not enough, less is remembered.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(recording::Options::default().length), help_heading = METRICS)]
    pub history: Duration,
    /// The local socket on which it asks
    ///
    /// Root and its group may open it. Without this, /run/fsynctop/exporter.sock, or none where that cannot
    /// be had.
    #[arg(long, value_name = "PATH", help_heading = METRICS)]
    pub socket: Option<PathBuf>,
    /// No such socket
    #[arg(long, help_heading = METRICS)]
    pub no_socket: bool,
    /// Record everything that is measured into this folder
    ///
    /// Without this, the state directory that systemd gives it (StateDirectory=), if it gives one. A process
    /// of its own writes there, without syncing; `fsynctop history` goes on into it, and every view reads it
    /// with --replay DIR. A disk other than the databases' is better.
    #[arg(long, value_name = "DIR", help_heading = RECORDING)]
    pub record: Option<PathBuf>,
    /// What the recording takes at most, at any time: 64M, 1G
    ///
    /// Its oldest detail gives way first: of older times ten seconds, and then minutes, are kept as one.
    #[arg(long, value_name = "SIZE", value_parser = record::limit, default_value = "256M", help_heading = RECORDING)]
    pub record_limit: u64,
    /// No recording
    #[arg(long, help_heading = RECORDING)]
    pub no_record: bool,
    /// A local socket that tells verdicts, and nothing else, to every user of this host
    ///
    /// `curl --unix-socket PATH http://localhost/api/v1/verdict`. Root can also acknowledge failures there,
    /// and so can the user that this runs as if that is a user of its own (--user).
    #[arg(long, value_name = "PATH", help_heading = VERDICTS)]
    pub verdict_socket: Option<PathBuf>,
    /// A loopback address that does the same, for those that know no local sockets
    ///
    /// May be given several times; 127.0.0.1:9872 or [::1]:9872. Other addresses are refused.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = VERDICTS)]
    pub verdict_listen: Vec<LoopbackAddress>,
    /// How long a log's operation may be in flight before its server is stalled
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Thresholds::default().stalled), help_heading = VERDICTS)]
    pub verdict_stalled: Duration,
    /// The 99th percentile of a log's syncs above which its server is slow
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Thresholds::default().slow), help_heading = VERDICTS)]
    pub verdict_slow: Duration,
    /// How long it has to be above that
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Thresholds::default().slow_for), help_heading = VERDICTS)]
    pub verdict_slow_for: Duration,
    #[command(flatten)]
    pub long_run: LongRunArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
}

pub fn run(arguments: Exporter, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    for name in unknown_variables(&Exporter::augment_args(Command::new("exporter"))) {
        log::warning(format_args!("the environment variable {name} is no option of the exporter"));
    }
    let session = Session::of(&arguments.trace, engines)?;
    let map_bytes = session.config.map_bytes();
    let mut verdicts = host::checks(map_bytes);
    verdicts.push(check::budget(&session.config));

    let history = if arguments.no_socket { None } else { open_socket(arguments.socket.as_deref())? };
    let socket = arguments.socket.as_deref().unwrap_or(Path::new(remote::SOCKET));
    let has_socket = history.is_some();
    let failures = history.as_ref().and_then(|_| open_failures(socket));
    let verdict_socket = arguments.verdict_socket.as_deref().map(open_verdict_socket).transpose()?;
    let user = arguments.user.or_else(User::own).unwrap_or_default();
    let recording = recording_options(&arguments);
    let recording = recording.map(|options| Arc::new(Recording::new(options, user)));
    signals::end_at_the_second()?;
    let names = arguments.names.server_name;
    let options = daemon::Options {
        listen: arguments.listen,
        web_config_file: arguments.web_config_file,
        history,
        failures,
        verdict_socket,
        verdict_listen: arguments.verdict_listen.into_iter().map(ListenAddress::from).collect(),
        recording: recording.clone(),
        thresholds: Thresholds {
            stalled: arguments.verdict_stalled,
            slow: arguments.verdict_slow,
            slow_for: arguments.verdict_slow_for,
            ..Thresholds::default()
        },
        user,
        at_start: AtStart { verdicts, map_bytes },
        interval: arguments.interval,
        names: names.clone(),
        engines: session.engines().clone(),
    };
    let shown = collect::Options {
        buckets: match &arguments.buckets[..] {
            [] => Buckets::default(),
            bounds => Buckets::new(bounds).map_err(|error| bad_usage(format!("--buckets: {error}")))?,
        },
        paths: (!arguments.no_file_metrics).then_some(arguments.file_limit as usize),
        names: names.clone(),
    };
    let remembered = recording::Options { length: arguments.history, ..recording::Options::default() };
    let remembered = open_recent(has_socket.then_some(socket), remembered);
    let long_run =
        Options { interval: arguments.interval, max_cpu: arguments.long_run.max_cpu.0, ..Options::default() };
    let attach = move |others: Others| {
        let selection = session.selection.clone();
        let make = move || -> anyhow::Result<_> {
            let probe = session.attach()?;
            privileges::keep_needed(user)?;
            let mut sampler = session.sampler(probe);
            sampler.set_given_names(names);
            Ok(sampler)
        };
        let about = About { map_bytes, web_pid: Some(others.web), recorder_pid: others.recorder };
        let collector = Collector::start(make, selection, long_run, shown, remembered, recording, about)?;
        privileges::keep_needed(user)?;
        Ok(collector)
    };
    match daemon::run(options, attach) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            causes(error.chain()).lines().for_each(log::error);
            Ok(ExitCode::from(status(&error)))
        }
    }
}

/// The hidden action: the process that serves, started by the one that traces.
pub fn run_web() -> ExitCode {
    logged(web_process::run())
}

/// The hidden action: the process that records, started by the one that traces.
pub fn run_recorder() -> ExitCode {
    logged(recorder_process::run())
}

fn logged(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    causes(error.chain()).lines().for_each(log::error);
    ExitCode::from(FAILED)
}

fn recording_options(arguments: &Exporter) -> Option<RecordingOptions> {
    if arguments.no_record {
        return None;
    }
    let by_systemd = || {
        let directories = std::env::var_os(STATE_DIRECTORY)?;
        std::env::split_paths(&directories).next().filter(|first| first.is_absolute())
    };
    let folder = arguments.record.clone().or_else(by_systemd)?;
    Some(RecordingOptions {
        folder: std::path::absolute(&folder).unwrap_or(folder),
        limit: arguments.record_limit,
        is_mandatory: arguments.record.is_some(),
    })
}

/// A wrong web configuration is wrong usage like any other.
fn status(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(StartError::Configuration(_)) => BAD_USAGE,
        _ => FAILED,
    }
}

/// An explicitly requested socket is mandatory; the default one is best effort.
fn open_socket(asked: Option<&Path>) -> anyhow::Result<Option<UnixListener>> {
    let default = Path::new(remote::SOCKET);
    match (history_socket::open(asked.unwrap_or(default)), asked) {
        (Ok(socket), _) => Ok(Some(socket)),
        (Err(error), Some(_)) => Err(error.into()),
        (Err(error), None) => {
            log::warning(format_args!("nobody can ask for the last minutes here: {error}"));
            Ok(None)
        }
    }
}

/// What the exporter before has left. That it cannot be had costs what is remembered, and nothing else.
fn open_failures(socket: &Path) -> Option<(FailuresFile, Remembered)> {
    let opened = FailuresFile::open(socket);
    opened
        .inspect_err(|why| log::warning(format_args!("failures will be forgotten with this process: {why}")))
        .ok()
}

/// The last minutes of the exporter before, if it was killed a moment ago.
fn open_recent(socket: Option<&Path>, options: recording::Options) -> collect::Remembered {
    let mut history = History::new(options);
    let opened = socket.map(|socket| RecentFile::open(socket, &mut history)).transpose();
    let file = opened.unwrap_or_else(|why| {
        log::warning(format_args!("the last minutes will be forgotten with this process: {why}"));
        None
    });
    collect::Remembered { history, file: file.flatten() }
}

/// As many as the kernel has room for by default (net.core.somaxconn): where its queue is full, a client that
/// does not wait fails at once.
const WAITING: i32 = 4_096;

/// Everybody may connect: what is told there is no secret on this host, and what is not for everybody is for
/// whom the kernel says is root.
fn open_verdict_socket(path: &Path) -> anyhow::Result<UnixListener> {
    let kind = Kind {
        option: "--verdict-socket",
        without: "start it without that option",
        mode: Mode::from_raw_mode(0o666),
        waiting: WAITING,
    };
    Ok(local_socket::open(path, kind)?)
}

fn bad_usage(message: String) -> Exit {
    Exit { status: BAD_USAGE, message }
}
