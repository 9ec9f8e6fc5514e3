//! `fsynctop` and `fsynctop top`: the live view. Without a terminal, one measurement.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::exit;
use super::once::{self, Once};
use super::options::{LongRunArgs, NameArgs, StyleArgs, TraceArgs, Writes, duration, typed};
use super::output::print;
use super::replay::{self, ReplayArgs};
use super::session::{self, Session};
use super::standing::Standing;
use crate::engine::engines::Engines;
use crate::host;
use crate::live::{self, Live};
use crate::model::Interval;
use crate::once::render;
use crate::recording::remote;
use crate::render::{Options as Printed, Style};
use crate::server::who::selection::Selection;
use crate::text::causes;
use crate::top::terminal::{self, Feed, Screen};
use crate::top::{Colors, Earlier, Extras, Options, Start, StartError, View};

/// The log of the live view has syncs from this on; what is shorter is in the figures.
const SLOW_FROM: Duration = Duration::from_millis(10);

#[derive(Args, Debug)]
#[command(next_help_heading = "What to show")]
pub(crate) struct Top {
    /// Refresh interval; + and - change it
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(INTERVAL))]
    pub interval: Duration,
    /// What a row of the table stands for
    ///
    /// By thread, the server pays a little more for each sync, and by writes for each write.
    #[arg(long, value_enum, default_value_t)]
    pub by: View,
    /// A sync in flight for this long is shown as stuck
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = typed(Printed::default().stuck_after))]
    pub stuck_after: Duration,
    #[command(flatten)]
    pub style: StyleArgs,
    #[command(flatten)]
    pub names: NameArgs,
    /// Leave the mouse to the terminal
    ///
    /// The terminal then selects and copies text with it.
    #[arg(long)]
    pub no_mouse: bool,
    /// The exporter's socket, for the last ten minutes
    ///
    /// If there is no exporter, the past begins when tracing does.
    #[arg(long, value_name = "PATH", default_value = remote::SOCKET)]
    pub socket: PathBuf,
    #[command(flatten)]
    pub replay: ReplayArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub long_run: LongRunArgs,
}

pub const INTERVAL: Duration = Duration::from_secs(1);

pub fn run(top: Top, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    if let Some(screen) = Screen::open() {
        return show(top, engines, screen);
    }
    if !host::lacks_root() {
        eprintln!("fsynctop: there is no terminal for the live view: doing what `fsynctop once` does");
    }
    let once = Once {
        by: top.by.by().unwrap_or_default(),
        stuck_after: top.stuck_after,
        style: top.style,
        trace: top.trace,
        names: top.names,
        replay: top.replay,
        long_run: top.long_run,
        ..Once::by_default()
    };
    once::run(&once, engines)
}

fn show(top: Top, engines: Arc<Engines>, screen: Screen) -> anyhow::Result<ExitCode> {
    let recorded = top.replay.history_and_moment(&top.trace.targets)?;
    let style = top.style.apply(Style::for_stdout());
    let colors = match Colors::from_environment(|name| std::env::var_os(name)) {
        _ if !style.color => Colors::None,
        Colors::None => Colors::Sixteen,
        some => some,
    };
    let options = |waits_for| Options {
        unicode: style.unicode,
        colors,
        stuck_after: top.stuck_after,
        slow_from: SLOW_FROM,
        waits_for,
        interval: top.interval,
        view: top.by,
        mouse: !top.no_mouse,
    };
    let (names, stuck_after) = (top.names.clone(), top.stuck_after);
    let ended = match recorded {
        Some((recording, at)) => {
            let targets = &top.trace.targets;
            let servers = recording.servers();
            let is_meant = replay::only(targets, &servers)?;
            let is_narrowed = servers.iter().any(|server| !is_meant(server.id));
            let recording = Box::new(if is_narrowed { recording.of_servers(is_meant) } else { recording });
            terminal::run(screen, options(String::new()), Feed::Recording(recording, at))?
        }
        None => {
            // The view says whether all writes are traced, now and when it attaches again.
            let all_writes = top.by == View::Write || top.trace.writes == Writes::All;
            let writes = if top.trace.writes == Writes::All { Writes::Durable } else { top.trace.writes };
            let session = Session::of(&TraceArgs { writes, ..top.trace }, engines)?;
            session::require_root()?;
            let options = options(session.selection.describe());
            let extras = Extras { by_thread: top.by == View::Thread, all_writes };
            let exporter = exporter(top.socket, session.selection.clone());
            let start = starter(session, top.long_run, top.names);
            terminal::run(screen, options, Feed::Live { start, extras, exporter })?
        }
    };
    if let Some(signal) = ended.signal {
        return Ok(ExitCode::from(exit::SIGNALLED + signal as u8));
    }
    if let Some(summary) = ended.summary {
        session::tell_unmatched(&summary.servers, &names);
        let session = Some(Arc::new(ended.session));
        print_summary(&summary, &Printed { style, stuck_after, session, ..Printed::default() })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What an exporter remembers of the servers that are selected. That there is none, or none that may be
/// asked, is no error: the past begins now.
fn exporter(socket: PathBuf, selection: Selection) -> terminal::Exporter {
    let asked = socket.clone();
    let earlier = move || {
        let history = remote::fetch(&socket).ok()?;
        let all = history.last(Duration::MAX)?;
        let alive = selection.processes();
        let servers = all.servers.iter().filter(|server| selection.takes(server, &alive));
        let servers = servers.map(|server| server.id).collect();
        Some(Earlier { history, servers })
    };
    let standing = move || Standing::ask(&asked).into_all();
    terminal::Exporter { earlier: Box::new(earlier), standing: Box::new(standing) }
}

/// What attaches, now and when the view asks for it again.
fn starter(session: Session, long_run: LongRunArgs, names: NameArgs) -> Start {
    let start = move |extras: Extras, interval| -> anyhow::Result<Live> {
        let mut session = session.clone();
        session.config.by_thread = extras.by_thread;
        if extras.all_writes {
            session.config.watch(Writes::All.ops());
        }
        let selection = session.selection.clone();
        let options = live::Options { interval, max_cpu: long_run.max_cpu.0, ..live::Options::default() };
        let names = names.server_name.clone();
        let make = move || {
            let mut sampler = session.start()?;
            sampler.set_given_names(names);
            Ok(sampler)
        };
        Live::start(make, selection, options)
    };
    Arc::new(move |extras, interval| {
        start(extras, interval).map_err(|error| StartError(causes(error.chain())))
    })
}

/// What was seen stays on the terminal when the view has gone.
fn print_summary(m: &Interval, options: &Printed) -> anyhow::Result<()> {
    let mut text = Vec::new();
    render(m, options, &mut text)?;
    print(&text)
}
