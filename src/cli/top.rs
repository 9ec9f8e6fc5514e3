//! `fsynctop` and `fsynctop top`: the live view. Without a terminal, one measurement.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::args::{Arguments, ColorArg, LongRunArgs, Once, Plain, TraceArgs, duration};
use super::{once, print, session};
use crate::files::rules::Rules;
use crate::history::remote;
use crate::live::{self, Live};
use crate::model::Measurement;
use crate::once::render;
use crate::render::{By, Options as Printed, Style};
use crate::server::selection::Selection;
use crate::top::terminal::{self, Screen};
use crate::top::{Colors, Earlier, Options, Start, StartError, View};

#[derive(Args, Debug)]
#[command(next_help_heading = "What to show")]
pub struct Top {
    /// From one snapshot to the next; + and - change it
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub interval: Duration,
    /// What a row of the table stands for; by thread, the server pays a little more for each sync
    #[arg(long, value_enum, default_value_t)]
    pub by: Rows,
    /// A sync in flight for this long is shown as stuck
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub stuck_after: Duration,
    /// Colours [NO_COLOR is honoured]
    #[arg(long, value_enum, default_value_t = ColorArg::Auto, value_name = "WHEN")]
    pub color: ColorArg,
    /// Draw with ASCII only
    #[arg(long)]
    pub no_unicode: bool,
    /// Leave the mouse to the terminal, which then selects and copies text with it
    #[arg(long)]
    pub no_mouse: bool,
    /// Where an exporter on this host, if there is one, is asked for the last ten minutes
    #[arg(long, value_name = "PATH", default_value = remote::SOCKET)]
    pub socket: PathBuf,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub long_run: LongRunArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    #[default]
    Role,
    File,
    /// Each thread that syncs
    Thread,
    Server,
    /// Other processes that sync, by device
    Neighbour,
    /// The slowest syncs, and all that failed
    Log,
}

impl Rows {
    fn view(self) -> View {
        match self {
            Rows::Role => View::Role,
            Rows::File => View::File,
            Rows::Thread => View::Thread,
            Rows::Server => View::Server,
            Rows::Neighbour => View::Neighbour,
            Rows::Log => View::Log,
        }
    }
}

impl From<By> for Rows {
    fn from(by: By) -> Rows {
        match by {
            By::Role => Rows::Role,
            By::File => Rows::File,
            By::Thread => Rows::Thread,
            By::Server => Rows::Server,
        }
    }
}

/// Plain `fsynctop`: the live view, unless something is asked for that only one measurement can give.
pub fn run_plain(plain: Plain) -> anyhow::Result<ExitCode> {
    let one_measurement = plain.asks_for_one_measurement();
    let Plain { socket, measure: arguments, .. } = plain;
    if one_measurement {
        return once::run(&arguments);
    }
    let top = Top {
        interval: arguments.interval.unwrap_or(Duration::from_secs(1)),
        by: arguments.by.into(),
        stuck_after: arguments.stuck_after,
        color: arguments.color,
        no_unicode: arguments.no_unicode,
        no_mouse: false,
        socket,
        trace: arguments.trace.clone(),
        long_run: arguments.long_run.clone(),
    };
    match Screen::open() {
        Some(screen) => show(top, screen),
        None => measure_once(&arguments),
    }
}

pub fn run(top: Top) -> anyhow::Result<ExitCode> {
    if let Some(screen) = Screen::open() {
        return show(top, screen);
    }
    let by = match top.by {
        Rows::File => By::File,
        Rows::Thread => By::Thread,
        Rows::Server => By::Server,
        Rows::Role | Rows::Neighbour | Rows::Log => By::Role,
    };
    let defaults = <Arguments as clap::Parser>::try_parse_from(["fsynctop"])?.plain.measure;
    measure_once(&Once {
        by,
        stuck_after: top.stuck_after,
        color: top.color,
        no_unicode: top.no_unicode,
        trace: top.trace,
        long_run: top.long_run,
        ..defaults
    })
}

fn measure_once(arguments: &Once) -> anyhow::Result<ExitCode> {
    eprintln!("fsynctop: there is no terminal for the live view: doing what `fsynctop once` does");
    once::run(arguments)
}

fn show(top: Top, screen: Screen) -> anyhow::Result<ExitCode> {
    session::rules(top.trace.roles.as_deref())?;
    session::require_host_pids()?;
    let selection = session::selection(&top.trace.targets)?;
    let mut style = Style::for_stdout();
    top.color.apply(&mut style);
    style.unicode &= !top.no_unicode;
    let colors = match Colors::from_environment(|name| std::env::var_os(name)) {
        _ if !style.color => Colors::None,
        Colors::None => Colors::Sixteen,
        some => some,
    };
    let options = Options {
        unicode: style.unicode,
        colors,
        stuck_after: top.stuck_after,
        waits_for: selection.describe(),
        interval: top.interval,
        view: top.by.view(),
        mouse: !top.no_mouse,
    };
    let by_thread = top.by == Rows::Thread;
    let earlier = earlier(top.socket, selection.clone());
    let start = starter(top.trace, top.long_run, selection);
    let stuck_after = top.stuck_after;
    let ended = terminal::run(screen, options, start, by_thread, earlier)?;
    if let Some(signal) = ended.signal {
        return Ok(ExitCode::from(128 + signal as u8));
    }
    if let Some(summary) = ended.summary {
        let session = Some(Arc::new(ended.session));
        print_summary(&summary, &Printed { style, stuck_after, session, ..Printed::default() })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What an exporter remembers of the servers that are selected. That there is none, or none that may be asked, is no
/// error: the past begins now.
fn earlier(socket: PathBuf, selection: Selection) -> terminal::Earlier {
    Box::new(move || {
        let history = remote::fetch(&socket).ok()?;
        let all = history.last(Duration::MAX)?;
        let alive = selection.processes();
        let servers = all.measurement.servers.iter().filter(|server| selection.takes(server, &alive));
        let servers = servers.map(|server| server.id).collect();
        Some(Earlier { history, servers })
    })
}

/// What attaches, now and when the view asks for it again.
fn starter(trace: TraceArgs, long_run: LongRunArgs, selection: Selection) -> Start {
    let start = move |by_thread, interval| -> anyhow::Result<Live> {
        let rules: Rules = session::rules(trace.roles.as_deref())?;
        let config = session::probe_config(&trace, &selection, by_thread)?;
        let trace = trace.clone();
        let options = live::Options { interval, max_cpu: long_run.max_cpu.0, ..live::Options::default() };
        Live::start(move || session::start(&trace, &config, rules), selection.clone(), options)
    };
    Arc::new(move |by_thread, interval| {
        start(by_thread, interval).map_err(|error| StartError(format!("{error:#}")))
    })
}

/// What was seen stays on the terminal when the view has gone.
fn print_summary(m: &Measurement, options: &Printed) -> anyhow::Result<()> {
    let mut text = Vec::new();
    render(m, options, &mut text)?;
    print(&text)
}
