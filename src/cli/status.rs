//! `fsynctop status`: how each server stands, from the exporter's memory; without an exporter, from two
//! seconds of tracing.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::exit::{CONDITION, Exit, FAILED, NOTHING_TO_TRACE};
use super::fail_on;
use super::options::{FormArgs, NameArgs, StyleArgs, TraceArgs};
use super::output::print;
use super::progress::Progress;
use super::replay::{self, ReplayArgs};
use super::session::{self, Session};
use super::signals::End;
use super::standing;
use crate::engine::engines::Engines;
use crate::live::{self, Live};
use crate::model::{Interval, ServerId};
use crate::recording::remote::{self, RemoteError, StandingOf};
use crate::render::Style;
use crate::server::who::selection::Selection;
use crate::text::{duration_in_words, escape, escape_sentence, rfc3339, rfc3339_millis};
use crate::verdict::{OfServer, State, Thresholds, of_window};

/// How long it looks where no exporter is there.
const LOOK: Duration = Duration::from_secs(2);
const SLICE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    style: StyleArgs,
    #[command(flatten)]
    pub names: NameArgs,
    /// End with status 4 if a server is in one of these states
    #[arg(long, value_name = "STATE,…", value_parser = fail_on::state, value_delimiter = ',', default_values = [State::Failing.name(), State::Stalled.name()])]
    fail_on: Vec<State>,
    /// The exporter's socket
    #[arg(long, value_name = "PATH", default_value = remote::SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    pub replay: ReplayArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
}

/// How the servers stand, and who says so.
struct Found {
    servers: Vec<StandingOf>,
    /// None: the exporter says so.
    looked_for: Option<Duration>,
    /// Of a recording, of which time; None: of now.
    recorded: Option<(SystemTime, SystemTime)>,
    /// Why the exporter does not know.
    not_tracing: Option<String>,
    not_recording: Option<String>,
}

pub(crate) fn run(arguments: &Status, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    let targets = &arguments.trace.targets;
    let select = || session::selection(targets, &engines);
    if let Some(history) = arguments.replay.history(targets)? {
        let all = history.last(Duration::MAX).context("its intervals cannot be read")?;
        let is_meant = replay::only(targets, &all.servers)?;
        return tell(arguments, recorded(&all, is_meant));
    }
    let mut found = match remote::standing(&arguments.socket) {
        Ok(standing) => {
            let remote::Standing { servers, not_tracing, not_recording } = standing;
            Found { servers, looked_for: None, recorded: None, not_tracing, not_recording }
        }
        Err(RemoteError::Nobody(_)) => look(arguments, &select()?)?,
        Err(error) => return Err(Exit { status: FAILED, message: error.to_string() }.into()),
    };
    if targets.is_given() {
        let pids: Vec<u32> = select()?.processes().iter().map(|process| process.pid).collect();
        found.servers.retain(|one| pids.contains(&one.verdict.pid));
    }
    if found.servers.is_empty() && found.not_tracing.is_none() {
        let not_recording = found.not_recording.as_deref().map(standing::not_recording);
        let not_recording = not_recording.map_or_else(String::new, |why| format!(". {why}"));
        let message = format!("no server is known: {} is looked for{not_recording}", select()?.describe());
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    }
    tell(arguments, found)
}

/// As it is at the end of what was recorded.
fn recorded(m: &Interval, is_meant: impl Fn(ServerId) -> bool) -> Found {
    let mut m = m.clone();
    m.retain_servers(is_meant);
    let mut servers = standing_in(&m);
    let told: Vec<_> = servers.iter().map(|one| as_it_was_told(one, &m)).collect();
    // Of some of those that ran alone, it would not be clear of which.
    let is_told = |(one, told): (&StandingOf, &Option<OfServer>)| told.is_some() || !one.running;
    let are_told = told.iter().any(Option::is_some) && servers.iter().zip(&told).all(is_told);
    for (one, told) in servers.iter_mut().zip(told).filter(|_| are_told) {
        one.verdict = told.unwrap_or_else(|| one.verdict.clone());
    }
    Found {
        servers,
        looked_for: (!are_told).then_some(m.span.duration),
        recorded: Some((m.span.start, m.span.end)),
        not_tracing: None,
        not_recording: None,
    }
}

/// What an exporter told then knows of what had been before, too. None: it told nothing of this server.
fn as_it_was_told(one: &StandingOf, m: &Interval) -> Option<OfServer> {
    let its_own = m.servers.iter().rfind(|server| server.id.pid == one.verdict.pid)?;
    let told = m.verdicts.iter().find(|row| row.server == its_own.id)?;
    let state = State::ALL.into_iter().find(|state| state.name() == told.state)?;
    let OfServer { server, pid, storage, .. } = one.verdict.clone();
    Some(OfServer {
        server,
        pid,
        state,
        since: rfc3339_millis(told.since),
        for_seconds: m.span.end.duration_since(told.since).unwrap_or_default().as_secs_f64(),
        sentence: told.sentence.clone(),
        because: None,
        storage,
    })
}

fn tell(arguments: &Status, mut found: Found) -> anyhow::Result<ExitCode> {
    found
        .servers
        .sort_by(|a, b| (b.verdict.state, &a.verdict.server).cmp(&(a.verdict.state, &b.verdict.server)));
    let text = match arguments.form.is_json() {
        true => json(&found),
        false => table(&found, &arguments.style.apply(Style::for_stdout())),
    };
    print(text.as_bytes())?;
    let is_condition = |one: &&StandingOf| arguments.fail_on.contains(&one.verdict.state);
    // Where nothing is traced, no server is known to be in any other state.
    let is_blind = found.not_tracing.is_some() && arguments.fail_on.contains(&State::Unknown);
    let holds = is_blind || found.servers.iter().filter(|one| one.running).any(|one| is_condition(&one));
    Ok(ExitCode::from(if holds { CONDITION } else { 0 }))
}

/// Traces for two seconds.
fn look(arguments: &Status, selection: &Selection) -> anyhow::Result<Found> {
    let stop = End::watch()?;
    session::require_host_pids()?;
    let rules = session::rules(selection.engines().clone(), arguments.trace.roles.as_deref())?;
    if selection.processes().is_empty() {
        return Err(session::nothing_selected("look at", selection, ""));
    }
    session::require_root()?;
    let session = Session::with(&arguments.trace, rules, selection.clone())?;
    let names = arguments.names.server_name.clone();
    let make = move || -> anyhow::Result<_> {
        let mut sampler = session.start()?;
        sampler.set_given_names(names);
        Ok(sampler)
    };
    let live =
        Live::start(make, selection.clone(), live::Options { max_cpu: None, ..live::Options::default() })?;
    let (first, end) = (live.latest(), Instant::now() + LOOK);
    let progress = Progress::begin("No exporter runs here: looking", LOOK);
    while Instant::now() < end && !stop.is_requested() {
        std::thread::sleep(SLICE);
        progress.tick();
    }
    let last = live.stop()?;
    let m = Interval::between(&first, &last);
    session::tell_unmatched(&m.servers, &arguments.names);
    Ok(Found {
        servers: standing_in(&m),
        looked_for: Some(m.span.duration),
        recorded: None,
        not_tracing: None,
        not_recording: None,
    })
}

fn standing_in(m: &Interval) -> Vec<StandingOf> {
    let verdicts = of_window(m, &Thresholds::default(), &State::ALL, Instant::now());
    let names = fail_on::names(&m.servers);
    let report = verdicts.report(Instant::now(), |id| names.get(&id).cloned());
    let is_alive = |of: &OfServer| m.servers.iter().any(|server| server.id.pid == of.pid && server.alive);
    let standing = |verdict: OfServer| StandingOf { running: is_alive(&verdict), verdict };
    report.servers.into_iter().map(standing).collect()
}

fn json(found: &Found) -> String {
    let object = json!({
        "schema": 1,
        "by": match (found.recorded, found.looked_for) {
            (Some(_), _) => "a recording",
            (None, Some(_)) => "a look",
            (None, None) => "exporter",
        },
        "looked_for_seconds": found.looked_for.map(|time| time.as_secs_f64()),
        "not_tracing": found.not_tracing,
        "not_recording": found.not_recording,
        "servers": found.servers,
    });
    format!("{object}\n")
}

fn table(found: &Found, style: &Style) -> String {
    let name = |one: &StandingOf| escape(one.verdict.server.as_bytes());
    let width = found.servers.iter().map(|one| name(one).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for one in &found.servers {
        let OfServer { state, since, for_seconds, sentence, .. } = &one.verdict;
        let word = style.paint((*state).into(), &format!("{:<8}", state.name()));
        let mut line = format!("{word} {:<width$}", name(one));
        if found.looked_for.is_none() {
            let time = duration_in_words((for_seconds.max(0.0) * 1e9) as u64);
            line.push_str(&format!("  since {} ({time})", standing::moment(since)));
        }
        text.push_str(&format!("{}\n", line.trim_end()));
        if !matches!(state, State::Ok | State::Idle) {
            let wrapped = style.wrap(&format!("  {}", escape_sentence(sentence)), 2);
            wrapped.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
    }
    for line in notes(found) {
        style.wrap(&line, 0).iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    style.finish(text)
}

/// What a reader has to know, or can do.
fn notes(found: &Found) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &found.not_tracing {
        notes.push(format!("The exporter is not tracing: {}.", escape_sentence(why)));
    }
    notes.extend(found.not_recording.as_deref().map(standing::not_recording));
    if let Some((from, to)) = found.recorded {
        let [from, to] = [from, to].map(|time| standing::moment(&rfc3339(time)));
        notes.push(match found.looked_for {
            Some(_) => format!("As recorded from {from} to {to}: what failed before is not known."),
            None => format!("As the exporter told it at the end of what was recorded from {from} to {to}."),
        });
    } else if let Some(time) = found.looked_for {
        notes.push(format!(
            "Seen in {}, without an exporter: what failed before is not known.",
            duration_in_words(time.as_nanos() as u64)
        ));
    }
    let failing = found.servers.iter().find(|one| one.verdict.state == State::Failing);
    if let (Some(one), None, None) = (failing, found.looked_for, found.recorded) {
        let name = super::shell::words([one.verdict.server.clone().into()].into_iter());
        notes.push(format!("`fsynctop ack {name}` acknowledges its failures."));
    }
    notes
}
