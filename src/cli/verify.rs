//! `fsynctop verify`: is what is traced what the server itself counts?

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::command::Traced;
use super::connection::ConnectionArgs;
use super::exit::{CONDITION, Exit, NOT_ENOUGH};
use super::one_server::{self, Found, has_counters};
use super::options::{Form, TraceArgs, Writes, duration};
use super::output::print_last;
use super::progress::{Progress, say};
use super::replay::{self, ReplayArgs};
use super::session::{self, Session};
use super::signals::End;
use crate::engine::engines::Engines;
use crate::engine::rules::Rules;
use crate::linux::PROC;
use crate::model::Server;
use crate::recording::History;
use crate::server::adapters::{self, for_each_client};
use crate::server::asking::Scope;
use crate::server::asking::choose::Chosen;
use crate::server::asking::connection::Client;
use crate::server::asking::told::Told;
use crate::server::what::describe;
use crate::server::who::filter::TargetFilter;
use crate::server::who::selection::Selection;
use crate::text::escape;
use crate::verify::edge::{Counts, compared};
use crate::verify::row::Verification;
use crate::verify::{Edge, recorded, render};

/// How long the last names are waited for before the window ends.
const PATIENCE: Duration = Duration::from_secs(1);
const SLICE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// How long to trace and count: 10, 90s, 5m; Ctrl-C ends it earlier
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, default_value = "30s")]
    pub duration: Duration,
    /// A table for people, JSON for programs
    #[arg(long, value_enum, default_value_t)]
    pub output: Form,
    /// Compare for as long as this command runs
    ///
    /// It starts when both sides count. Its own exit status is not passed on.
    #[arg(index = 2, last = true, help_heading = None, value_name = "COMMAND", conflicts_with_all = ["duration", "replay"])]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
}

pub fn run(arguments: &Verify, engines: Arc<Engines>) -> anyhow::Result<ExitCode> {
    if let Some(history) = arguments.replay.history(&arguments.trace.targets)? {
        return recorded(arguments, &history);
    }
    let stop = End::watch()?;
    session::require_host_pids()?;
    let rules = session::rules(engines, arguments.trace.roles.as_deref())?;
    let (targets, connection) = (&arguments.trace.targets, &arguments.connection);
    let found = one_server::of_any_engine(targets, connection, &rules, &[has_counters])?;
    adapters::entry_of(found.adapter, for_each_client!(run_on))(arguments, &stop, rules, found)
}

/// Of the one server whose counters were recorded.
fn recorded(arguments: &Verify, history: &History) -> anyhow::Result<ExitCode> {
    let counted = history.moments().find_map(|m| m.counters.iter().next().map(|row| row.server));
    let m = history.last(Duration::MAX).context("its intervals cannot be read")?;
    let is_meant = replay::only(&arguments.trace.targets, &m.servers)?;
    let server = match counted.filter(|&id| is_meant(id)) {
        Some(id) => m.server(id),
        None => m.servers.iter().find(|server| is_meant(server.id)),
    };
    let server = server.context("no server was recorded")?;
    adapters::entry_of(adapters::of_server(server), for_each_client!(recorded_of))(arguments, history, server)
}

fn recorded_of<C: Client<Reading: Counts + Told>>(
    arguments: &Verify,
    history: &History,
    server: &Server,
) -> anyhow::Result<ExitCode> {
    match recorded::compare::<C::Reading, _>(server, || history.moments()) {
        Ok(verification) => told(arguments, server, &verification),
        Err(missing) => Err(Exit { status: NOT_ENOUGH, message: missing.to_string() }.into()),
    }
}

fn run_on<C: Client<Reading: Counts>>(
    arguments: &Verify,
    stop: &End,
    rules: Arc<Rules>,
    found: Found,
) -> anyhow::Result<ExitCode> {
    let Chosen { mut server, status } = found.choose::<C>()?;
    session::require_root()?;
    let (mut connection, settings) = status.context("there is nothing to verify against")?;
    server.version = server.version.or_else(|| C::version(&settings));

    let mut command = match &arguments.command[..] {
        [] => None,
        command => Some(Traced::start(command)?),
    };
    let engines = rules.engines().clone();
    let filter = TargetFilter::pids(Path::new(PROC), &engines, &[server.id.pid])?;
    let selection = Selection::new(engines, vec![filter]);
    let mut sampler = Session::with(&arguments.trace, rules, selection)?.start()?;
    sampler.expect_server(server.id);
    let name = format!("{} {}", escape(server.comm.as_bytes()), server.id.pid);
    let what = format!("Comparing {name} with its own counters");
    if let Some(what) = C::Reading::WAITS_FOR {
        let most = C::Reading::PATIENCE.as_secs();
        say(&format!("Before and after, up to {most} s are waited for {what}"));
    }
    let progress = match &command {
        None => Some(Progress::begin(&what, arguments.duration)),
        Some(_) => {
            say(&format!("{what} until the command ends (Ctrl-C ends it early)"));
            None
        }
    };
    sampler.settle(PATIENCE)?;
    let scope = if arguments.trace.writes == Writes::All { Scope::Writes } else { Scope::Syncs };
    let first = Edge::find(&mut sampler, &mut connection, &settings, scope, server.id)?;
    if let Some(command) = &mut command {
        command.go()?;
    }
    let end = Instant::now() + arguments.duration;
    let has_ended = |command: &mut Option<Traced>| match command {
        Some(command) => Ok(command.ended()?.is_some()),
        None => anyhow::Ok(Instant::now() >= end),
    };
    while !stop.is_requested() && !has_ended(&mut command)? {
        sampler
            .wait(match &command {
                Some(_) => SLICE,
                None => SLICE.min(end.saturating_duration_since(Instant::now())),
            })
            .context("reading events")?;
        progress.iter().for_each(Progress::tick);
    }
    drop(progress);
    sampler.settle(PATIENCE)?;
    let mut last = Edge::find(&mut sampler, &mut connection, &settings, scope, server.id)?;
    // A setting may have been changed meanwhile.
    last.after = last.after.with_settings_of(&connection.read(Scope::Everything)?);
    told(arguments, &server, &compared(&server, &first, &last))
}

fn told(arguments: &Verify, server: &Server, verification: &Verification) -> anyhow::Result<ExitCode> {
    let text = match arguments.output {
        Form::Table => render::table(verification, &describe::in_words(server)),
        Form::Json => {
            let version = server.version.as_deref();
            let facts = json!({ "pid": server.id.pid, "comm": server.comm, "version": version });
            format!("{}\n", render::json(verification, facts))
        }
    };
    print_last(text.as_bytes())?;
    Ok(ExitCode::from(match verification.agrees() {
        Some(true) => 0,
        Some(false) => CONDITION,
        None => NOT_ENOUGH,
    }))
}
