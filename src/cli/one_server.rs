//! The one server that `verify` and `explain` work on.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::connection::{ConnectionArgs, Options};
use super::exit::{BAD_USAGE, Exit, NOTHING_TO_TRACE};
use super::options::TargetArgs;
use super::session;
use crate::engine::engines::Engines;
use crate::engine::rules::Rules;
use crate::explain::commit_watch::Explained;
use crate::model::{Engine, Server};
use crate::server::adapters::{self, for_each_client};
use crate::server::asking::choose::{self, Chosen};
use crate::server::asking::connection::Client;
use crate::server::what::adapter::Adapter;
use crate::server::what::describe;
use crate::server::what::describers::describe_all;
use crate::server::who::processes::ThreadGroup;
use crate::server::who::selection::Selection;

/// How long describing the servers may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Servers of one engine, one of which is meant.
pub struct Found {
    pub(super) adapter: &'static dyn Adapter,
    servers: Vec<Server>,
    options: Options,
}

/// The servers that are selected. By default those of the engines that come first in `engines`, of which
/// there are any. Looks into the servers' roots.
pub fn of_any_engine(
    targets: &TargetArgs,
    connection: &ConnectionArgs,
    rules: &Arc<Rules>,
    engines: &[fn(&Engine) -> bool],
) -> anyhow::Result<Found> {
    let options = connection.options()?;
    let (selection, processes) = first_of(targets, rules.engines(), engines)?;
    let described = describe_all(&processes, rules.clone(), DESCRIBE_TIMEOUT);
    let mut servers: Vec<Server> = described.into_iter().map(|(server, _)| server).collect();
    let is_of = |server: &Server, adapter: &dyn Adapter| adapters::of_server(server).is(adapter);
    if let Some(meant) = connection.engine()
        && servers.iter().any(|server| is_of(server, meant))
    {
        servers.retain(|server| is_of(server, meant));
    }
    let Some(first) = servers.first() else {
        return Err(session::nothing_selected("compare with", &selection, ""));
    };
    let adapter = adapters::of_server(first);
    if !servers.iter().all(|server| is_of(server, adapter)) {
        // One place is no place of servers of two protocols: which is meant has to be said.
        return Err(wrong(choose::several(&servers)).into());
    }
    Ok(Found { adapter, servers, options })
}

impl Found {
    /// The one server; of several, the one that the connection leads to. An error if none of them can have
    /// counters.
    pub fn choose<C: Client>(self) -> anyhow::Result<Chosen<C>> {
        let strangers = (!self.servers.iter().any(is_known)).then(|| no_counters(&self.servers));
        let options = self.options.of::<C>();
        let is_named = options.names_a_place();
        match (choose::choose(self.servers, options), strangers) {
            (Err(_), Some(strangers)) => Err(strangers.into()),
            // With a place that was named, why it could not be reached is worth more.
            (Ok(Chosen { status: Err(_), .. }), Some(strangers)) if !is_named => Err(strangers.into()),
            (chosen, _) => Ok(chosen.map_err(wrong)?),
        }
    }
}

fn wrong(error: choose::ChooseError) -> Exit {
    Exit { status: BAD_USAGE, message: error.to_string() }
}

/// By its executable or by its name.
fn is_known(server: &Server) -> bool {
    server.version.is_some() || server.engine.as_deref().is_some_and(has_counters)
}

fn first_of(
    targets: &TargetArgs,
    known: &Arc<Engines>,
    engines: &[fn(&Engine) -> bool],
) -> anyhow::Result<(Selection, Vec<ThreadGroup>)> {
    let mut found = None;
    for &engine in engines {
        let selection = session::selection_of(targets, known, engine)?;
        let processes = selection.processes();
        let is_empty = processes.is_empty();
        found = Some((selection, processes));
        if !is_empty {
            break;
        }
    }
    found.context("no engine is known")
}

/// The engines whose counters this program knows to read.
pub(crate) fn has_counters(engine: &Engine) -> bool {
    adapters::all().any(|adapter| adapter.counts_for(engine))
}

/// Those whose throughput it takes apart.
pub fn are_factors_known(engine: &Engine) -> bool {
    for_each_client!(has_factors).into_iter().any(|has_factors| has_factors(engine))
}

fn has_factors<C: Explained>(engine: &Engine) -> bool {
    C::HAS_FACTORS && C::ADAPTER.counts_for(engine)
}

/// Of processes of which none is known.
fn no_counters(strangers: &[Server]) -> Exit {
    let who = match strangers {
        [one] => format!("{} is neither", describe::in_words(one)),
        all => {
            let first = all.first().map(describe::in_words).unwrap_or_default();
            format!("none of the {} selected processes ({first}, …) is", all.len())
        }
    };
    let (or, its) = if strangers.len() == 1 { ("nor", "its") } else { ("or", "their") };
    let engines = Engines::builtin();
    let known =
        engines.profiles().iter().map(|profile| &profile.engine).filter(|engine| has_counters(engine));
    let known = known.map(|engine| engine.title.as_str()).collect::<Vec<_>>().join(", ");
    let (first, last) = known.rsplit_once(", ").unwrap_or_default();
    let message = format!(
        "nothing to compare with: {who} {first} {or} {last}, and fsynctop cannot read {its} counters"
    );
    Exit { status: NOTHING_TO_TRACE, message }
}
