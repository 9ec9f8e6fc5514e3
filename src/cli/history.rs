//! `fsynctop history`: what an exporter on this host remembers, or a recording, as a time line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::exit::{Exit, FAILED, NOTHING_TO_TRACE};
use super::once::Once;
use super::options::{StyleArgs, TargetArgs, duration, pid, typed};
use super::output::print;
use super::output_file::OutputFile;
use super::replay::ReplayArgs;
use super::standing::Standing;
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::model::{Server, ServerId};
use crate::once::timeline;
use crate::recording::reader::{Recording, Window};
use crate::recording::{self, remote};
use crate::render::{Options, Output, Style};
use crate::server::who::instances::Instances;
use crate::text::escape_sentence;

/// Servers that are named where none of those that were asked for is there.
const MOST_NAMED: usize = 20;
const TOO_LATE: &str = "it takes longer than 10 s. Does its disk hang? `--replay` waits for it";
/// How long reading the exporter's recording may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub struct History {
    /// How far to look back: 90s, 10m, 2h
    ///
    /// What is older than the exporter's memory is read from its recording, if it records (--record).
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(recording::Options::default().length), conflicts_with = "replay")]
    last: Duration,
    /// How long a row of the time line is [default: 10 seconds or more, by --last]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    interval: Option<Duration>,
    /// Show these processes only [default: every server that the exporter traces]
    #[arg(long, value_name = "PID", value_parser = pid, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Show the servers of these names only: 3306, orders
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "pid")]
    server: Vec<String>,
    /// A table for people, JSON or CSV for programs (docs/json.md)
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Write there instead of to the terminal
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    #[command(flatten)]
    style: StyleArgs,
    /// A sync in flight for this long is shown as stuck
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Options::default().stuck_after))]
    stuck_after: Duration,
    /// The exporter's socket
    #[arg(long, value_name = "PATH", default_value = remote::SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    replay: ReplayArgs,
}

impl History {
    /// `fsynctop --last TIME`.
    pub(crate) fn of_measurement(measure: Once, last: Duration) -> History {
        History {
            last,
            interval: measure.interval,
            pid: measure.trace.targets.pid,
            server: measure.trace.targets.server,
            output: measure.output,
            output_file: measure.output_file,
            style: measure.style,
            stuck_after: measure.stuck_after,
            socket: measure.socket,
            replay: measure.replay,
        }
    }
}

pub fn run(arguments: &History) -> anyhow::Result<ExitCode> {
    let named =
        TargetArgs { pid: arguments.pid.clone(), server: arguments.server.clone(), ..TargetArgs::default() };
    let recorded = arguments.replay.history(&named)?;
    let is_live = recorded.is_none();
    let history = recorded
        .map_or_else(|| remote::fetch(&arguments.socket), Ok)
        .map_err(|error| Exit { status: FAILED, message: error.to_string() })?;
    let history = if is_live { with_recording(history, arguments.last) } else { history };
    let length = if is_live { arguments.last } else { history.length() };
    let step = arguments.interval.unwrap_or_else(|| timeline::step(length));
    let Some(mut all) = history.last(length) else {
        let message = match is_live {
            true => "the exporter remembers nothing yet: it has only just begun",
            false => "the intervals of the recording cannot be read: they may be of another version",
        };
        let message = message.to_owned();
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    };
    let mut parts = history.series(length, step);
    // Of a server of several processes any may be named, while they live.
    let engines = Engines::builtin();
    let mut instances = Instances::new(Path::new(PROC), &engines);
    let mut first_of = |pid| if is_live { instances.first_of(pid) } else { pid };
    let pids: Vec<u32> = arguments.pid.iter().copied().map(&mut first_of).collect();
    let of_name = |server: &&Arc<Server>| arguments.server.iter().any(|name| **name == *server.name);
    let named: Vec<ServerId> = all.servers.iter().filter(of_name).map(|server| server.id).collect();
    let are_all_meant = arguments.pid.is_empty() && arguments.server.is_empty();
    let is_meant = |id: ServerId| are_all_meant || pids.contains(&id.pid) || named.contains(&id);
    let there: Vec<String> =
        all.servers.iter().map(|server| escape_sentence(&server.name)).take(MOST_NAMED).collect();
    all.retain_servers(is_meant);
    for part in &mut parts {
        part.interval.retain_servers(is_meant);
        part.servers.retain(|server, _| is_meant(*server));
    }
    if !are_all_meant && all.servers.is_empty() {
        let asked: Vec<String> = arguments.pid.iter().map(u32::to_string).collect();
        let asked = escape_sentence(&[asked, arguments.server.clone()].concat().join(" or "));
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        let message = match is_live {
            true => format!("the exporter remembers no server {asked}: it remembers {there}"),
            false => format!("the recording has no server {asked}: it has {there}"),
        };
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    }
    let troubles = history.troubles(length, arguments.stuck_after, is_meant);
    if is_live {
        say_what_is_missing(&history, length, all.span.duration);
    }

    let style = if arguments.output_file.is_some() { Style::default() } else { Style::for_stdout() };
    let style = arguments.style.apply(style);
    let standing = match arguments.output {
        Output::Table if is_live => Standing::ask(&arguments.socket).text(&all.servers, &style),
        Output::Table | Output::Json | Output::Csv => String::new(),
    };
    let options =
        Options { output: arguments.output, style, stuck_after: arguments.stuck_after, ..Options::default() };
    let mut text = Vec::new();
    timeline::write(&parts, &all, &troubles, &options, &mut text).context("cannot render")?;
    text.extend_from_slice(standing.as_bytes());
    match &arguments.output_file {
        Some(path) => {
            OutputFile::open(path, false)?.write(&text)?;
        }
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// With what was recorded, where more is asked for than the exporter remembers.
fn with_recording(remembered: recording::History, wanted: Duration) -> recording::History {
    let Some(path) = remembered.recorded_in.clone() else { return remembered };
    // What it has had no time yet to remember is no reason to wait for a disk.
    let is_beyond = wanted > remembered.options().length || remembered.is_short_of_memory();
    let Some(to) = remembered.since().filter(|_| is_beyond) else { return remembered };
    let from = to.checked_sub(wanted.saturating_sub(remembered.length()));
    let (done, outcome) = channel();
    let folder = path.clone();
    let task = move || {
        let read = || Recording::open(&folder)?.history(Window::Span { from, to: Some(to) });
        let _ = done.send(read().map_err(|error| error.to_string()));
    };
    // For a disk that hangs this thread waits in vain; a read is ended by the end of the process.
    let started = std::thread::Builder::new().name("recording".into()).spawn(task);
    let read = match started {
        Ok(_) => outcome.recv_timeout(READ_TIMEOUT).unwrap_or_else(|_| Err(TOO_LATE.into())),
        Err(error) => Err(error.to_string()),
    };
    match read {
        Ok((recorded, is_all)) => {
            if !is_all {
                eprintln!("fsynctop: only the latest of the recording is read, as there is too much.");
            }
            recorded.followed_by(&remembered)
        }
        Err(why) => {
            let path = escape_sentence(&path.to_string_lossy());
            eprintln!("fsynctop: the recording in {path} cannot be read: {}.", escape_sentence(&why));
            remembered
        }
    }
}

/// On standard error, so that it is in no one's way.
fn say_what_is_missing(history: &recording::History, wanted: Duration, got: Duration) {
    // A moment more or less is no gap.
    if got + Duration::from_secs(2) < wanted {
        let why = match history.is_short_of_memory() {
            true => "there was more to remember than it has memory for",
            false => "it began then, or keeps no more (--history, --record)",
        };
        eprintln!(
            "fsynctop: the exporter remembers {} of the {} that were asked for: {why}.",
            crate::text::interval(got),
            crate::text::interval(wanted)
        );
    }
}
