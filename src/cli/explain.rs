//! `fsynctop explain`: attaches the wait probes for a while, and says where the time of the syncs went.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::connection::ConnectionArgs;
use super::exit::{BAD_USAGE, Exit, NOTHING_TO_TRACE};
use super::one_server::{self, Found};
use super::options::{StyleArgs, TraceArgs, Writes, duration};
use super::output::print_last;
use super::output_file::OutputFile;
use super::progress::{self, Progress};
use super::replay::{self, ReplayArgs};
use super::session::{self, Session};
use super::signals::End;
use super::standing::Standing;
use super::wait_probes::{Reader, not_attached};
use crate::engine::engines::Engines;
use crate::explain::commit_watch::{CommitWatch, Explained};
use crate::explain::waits::{Account, Processors, Who, flame, journals};
use crate::explain::{Explanation, json, page, without_thread};
use crate::model::{Interval, WaitLosses};
use crate::probe::{WaitProbe, Waits};
use crate::recording::{History, remote};
use crate::render::{Options, Style, reading};
use crate::sampler::Sampler;
use crate::server::adapters::{self, for_each_client};
use crate::server::asking::choose::Chosen;
use crate::server::asking::connection::Client;
use crate::server::mysql::status::client::Client as MySqlClient;
use crate::server::who::finder::Finder;

/// What is said of one server alone.
const OF_ONE_SERVER: &str = "what the throughput is made of, and what of the settings' promises is kept";
const FACTORS_NOT_RECORDED: &str =
    "what the throughput is made of, and whether the settings' promises are kept: that takes a live server";
const WAITS_NOT_RECORDED: &str = "what each sync waited for (it is recorded with `record --waits`)";
const JOURNALS_NOT_RECORDED: &str = "what journals and devices did meanwhile: it is not recorded";
/// How long the first look at the processes may take.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// How long a wait for events lasts at most: then Ctrl-C is looked at.
const SLICE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainOutput {
    /// A page of plain English, with tables
    #[default]
    #[value(alias = "text")]
    Table,
    /// One object (docs/json.md)
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// How long to watch: 10, 90s, 5m
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = "10s")]
    pub duration: Duration,
    /// A page for people, JSON for programs
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub output: ExplainOutput,
    /// Write the stacks of the waits there
    ///
    /// In the folded form that flame graphs are made from, in microseconds.
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Draw a flame graph of the waits there (SVG)
    #[arg(long, value_name = "FILE")]
    pub flamegraph: Option<PathBuf>,
    #[command(flatten)]
    pub style: StyleArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
}

pub fn run(arguments: &Explain, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    if let Some(history) = arguments.replay.history(&arguments.trace.targets)? {
        let explanation = recorded(arguments, &history)?;
        write_stacks(arguments, &explanation.waits)?;
        write(arguments, &explanation)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = End::watch()?;
    let mut session = Session::of(&arguments.trace, engines)?;
    if session.selection.processes().is_empty() {
        return Err(session::nothing_selected("explain", &session.selection, ""));
    }
    session.config.watch_waits = true;
    if arguments.trace.writes != Writes::Off {
        // What was written, and what of it is not synced, is a part of the page.
        session.config.watch(Writes::All.ops());
    }
    session::require_root()?;
    let mut not_measurable = Vec::new();
    let explained = match the_server(arguments, &session, &mut not_measurable)? {
        Some(found) => {
            let explain_one = adapters::entry_of(found.adapter, for_each_client!(explain_one));
            explain_one(arguments, &stop, &session, found, not_measurable)?
        }
        None => explain::<MySqlClient>(arguments, &stop, &session, None, not_measurable)?,
    };
    write_stacks(arguments, &explained.explanation.waits)?;
    write(arguments, &explained.explanation)?;
    Ok(ExitCode::SUCCESS)
}

/// As far as it was recorded: how busy the logs were, what went wrong, what was written, and with `--waits`
/// what syncs waited for.
fn recorded(arguments: &Explain, history: &History) -> anyhow::Result<Explanation> {
    if arguments.output == ExplainOutput::Json {
        let message = "`fsynctop once --replay --output json` has what was recorded".to_owned();
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    let mut measurement = history.last(Duration::MAX).context("its intervals cannot be read")?;
    let is_meant = replay::only(&arguments.trace.targets, &measurement.servers)?;
    let options = Options { style: arguments.style.apply(Style::for_stdout()), ..Options::default() };
    let troubles = history.troubles(Duration::MAX, options.stuck_after, &is_meant);
    let has_waits = !measurement.waits.is_empty();
    if !has_waits && (arguments.folded.is_some() || arguments.flamegraph.is_some()) {
        let message = "what syncs waited for was not recorded: `record --waits` does so".to_owned();
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    measurement.retain_servers(&is_meant);
    let incidents = reading::incidents(&troubles.incidents, &measurement, &options);
    let waits = Account::recorded(&measurement);
    let of_waits = if has_waits { JOURNALS_NOT_RECORDED } else { WAITS_NOT_RECORDED };
    Ok(Explanation {
        incidents: Some(incidents.into_iter().map(|sentence| sentence.text).collect()),
        commits: None,
        journals: Vec::new(),
        not_measurable: [of_waits, FACTORS_NOT_RECORDED].map(str::to_owned).to_vec(),
        processors: Processors::new(None, &waits),
        waits,
        measurement,
    })
}

/// What is to be said, and what is detached once that has been printed.
struct Traced {
    explanation: Explanation,
    _waits: WaitProbe,
    _sampler: Sampler,
}

fn explain_one<C: Explained>(
    arguments: &Explain,
    stop: &End,
    session: &Session,
    found: Found,
    mut not_measurable: Vec<String>,
) -> anyhow::Result<Traced> {
    let chosen = if_any(found.choose::<C>(), &mut not_measurable)?;
    let chosen = chosen.and_then(|chosen| if_known(chosen, &mut not_measurable));
    explain(arguments, stop, session, chosen, not_measurable)
}

/// `chosen`: the one server of which more is told than what its syncs waited for.
fn explain<C: Explained>(
    arguments: &Explain,
    stop: &End,
    session: &Session,
    chosen: Option<Chosen<C>>,
    mut not_measurable: Vec<String>,
) -> anyhow::Result<Traced> {
    let selection = &session.selection;
    let reader = Reader::load()?;
    let mut sampler = session.start()?;
    let mut probe = reader.attach(session, &sampler)?;
    let mut finder = Finder::start(selection);
    sampler.set_selection(selection);
    look_for_servers(&mut sampler, &mut finder, FIRST_LOOK);
    sampler.learn_parts(FIRST_LOOK);

    let mut commits = chosen.map(|Chosen { server, status }| {
        CommitWatch::begin(server, status, sampler.watch_logs(), session.engines().clone())
    });
    if let Some(commits) = &mut commits {
        commits.count_at_begin();
    }
    probe.begin().context("cannot begin to watch")?;
    let first = match &mut commits {
        Some(commits) => commits.open(&mut sampler)?,
        None => sampler.snapshot()?,
    };
    let progress = Progress::begin(
        &format!("Watching the syncs of {}", progress::names(&selection.processes())),
        arguments.duration,
    );
    let end = Instant::now() + arguments.duration;
    while !stop.is_requested() && Instant::now() < end {
        let slice = commits.as_ref().map_or(SLICE, CommitWatch::every).min(SLICE);
        let left = end.saturating_duration_since(Instant::now()).min(slice);
        sampler.wait(left).context("reading events")?;
        if let Some(commits) = &mut commits {
            commits.sample(&mut sampler).context("looking at the syncs in flight")?;
        }
        look_for_servers(&mut sampler, &mut finder, Duration::ZERO);
        progress.tick();
    }
    drop(progress);
    if let Some(commits) = &mut commits {
        commits.count_at_end();
    }
    probe.end().context("cannot end watching")?;
    let at_end = match &mut commits {
        Some(commits) => commits.close(&mut sampler, Sampler::stop)?,
        None => sampler.stop()?,
    };
    let last = sampler.wind_up(&at_end)?;
    let measurement = Interval::between(&first, &last);
    let raw = probe.read().context("cannot read what syncs waited for")?;
    not_measurable.extend(not_attached(&raw.not_attached));
    not_measurable.extend(without_thread(&measurement));
    let journals = journals(&measurement, &raw.journals, raw.is_attached("start_handle"));
    let waits = account(&mut sampler, &raw, &reader);
    let processors = Processors::new(commits.as_ref().and_then(CommitWatch::idle), &waits);
    let commits = commits.map(|commits| {
        let until = Interval::between(&first, &at_end);
        commits.finish(&measurement, &first.in_flight, &until, &waits)
    });
    let explanation =
        Explanation { commits, journals, incidents: None, not_measurable, waits, processors, measurement };
    Ok(Traced { explanation, _waits: probe, _sampler: sampler })
}

fn look_for_servers(sampler: &mut Sampler, finder: &mut Finder, patience: Duration) {
    for server in finder.take(patience) {
        sampler.expect_server(server);
    }
}

fn account(sampler: &mut Sampler, waits: &Waits, reader: &Reader) -> Account {
    let lost = WaitLosses { syncs: sampler.without_wait_state(), ..waits.lost };
    let who = |slot| {
        let (server, role, op) = sampler.owner_of(slot)?;
        Some(Who { server, role, op })
    };
    Account { lost, ..Account::new(waits, &reader.symbols, &reader.rules, who) }
}

/// The one server whose counters and settings are looked at, if it is a database. Of several, none.
fn the_server(
    arguments: &Explain,
    session: &Session,
    not_measurable: &mut Vec<String>,
) -> anyhow::Result<Option<Found>> {
    let (targets, connection) = (&arguments.trace.targets, &arguments.connection);
    // The settings of the others are looked at, too, and no more.
    let engines = [one_server::are_factors_known, one_server::has_counters];
    if_any(one_server::of_any_engine(targets, connection, &session.rules, &engines), not_measurable)
}

/// None: there is no such server, or there are several.
fn if_any<T>(found: anyhow::Result<T>, not_measurable: &mut Vec<String>) -> anyhow::Result<Option<T>> {
    let error = match found {
        Ok(found) => return Ok(Some(found)),
        Err(error) => error,
    };
    let why = match error.downcast_ref::<Exit>() {
        // Without the list of them that follows.
        Some(exit) if exit.status == BAD_USAGE => {
            exit.message.lines().next().unwrap_or_default().trim_end_matches(':')
        }
        Some(exit) if exit.status == NOTHING_TO_TRACE => "no server was found at the beginning",
        _ => return Err(error),
    };
    not_measurable.push(format!("{OF_ONE_SERVER}: {why}"));
    Ok(None)
}

/// None: it does not answer, and its executable does not tell what it is either, as those of some engines
/// never do.
fn if_known<C: Client>(chosen: Chosen<C>, not_measurable: &mut Vec<String>) -> Option<Chosen<C>> {
    let Chosen { server, status } = &chosen;
    if let (Err(error), None, false) = (status, &server.version, C::ADAPTER.products().is_empty()) {
        if server.engine.as_deref().is_some_and(one_server::are_factors_known) {
            not_measurable.push(format!("{OF_ONE_SERVER}: {error}"));
        }
        return None;
    }
    Some(chosen)
}

fn write_stacks(arguments: &Explain, account: &Account) -> anyhow::Result<()> {
    let lines = flame::folded(account);
    let write = |path: &Path, bytes: &[u8]| OutputFile::open(path, false)?.write(bytes);
    if let Some(path) = &arguments.folded {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        write(path, text.as_bytes())?;
    }
    if let Some(path) = &arguments.flamegraph {
        match flame::graph(&lines).context("cannot draw the flame graph")? {
            Some(svg) => write(path, &svg)?,
            None => eprintln!("fsynctop: no sync took any time: {} is not written", path.display()),
        }
    }
    Ok(())
}

fn write(arguments: &Explain, explanation: &Explanation) -> anyhow::Result<()> {
    let style = arguments.style.apply(Style::for_stdout());
    let text = match arguments.output {
        ExplainOutput::Table => {
            let standing = match arguments.replay.replay {
                Some(_) => Standing::default(),
                None => Standing::ask(Path::new(remote::SOCKET)),
            };
            page::page(explanation, &style, arguments.trace.verbose)
                + &standing.text(&explanation.measurement.servers, &style)
        }
        ExplainOutput::Json => json::json(explanation)?,
    };
    print_last(text.as_bytes())
}
