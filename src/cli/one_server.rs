//! The one server that `verify` and `explain` work on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::connection::ConnectionArgs;
use super::exit::{BAD_USAGE, Exit, NOTHING_TO_TRACE};
use super::options::TargetArgs;
use super::session;
use crate::model::{Engine, Role, Server};
use crate::server::asking::choose::{self, Chosen};
use crate::server::what::describe;
use crate::server::what::describers::describe_all;
use crate::server::what::product;
use crate::server::who::processes::ThreadGroup;
use crate::server::who::selection::Selection;
use crate::server::{etcd, mysql, postgres, redis};

/// How long describing the servers may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// One server and its counters, by the client of its engine.
pub enum OneServer {
    MySql(Chosen<mysql::status::client::Client>),
    Postgres(Chosen<postgres::status::client::Client>),
    Etcd(Chosen<etcd::status::client::Client>),
    Redis(Chosen<redis::status::client::Client>),
}

/// By the protocol that it speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// Also of what is none of the others.
    MySql,
    Postgres,
    Etcd,
    Redis,
}

impl Protocol {
    fn of(server: &Server) -> Protocol {
        match server {
            server if product::is_postgres(server) => Protocol::Postgres,
            server if product::is_etcd(server) => Protocol::Etcd,
            server if product::is_redis(server) => Protocol::Redis,
            _ => Protocol::MySql,
        }
    }
}

/// The server that is selected; of several, the one that the connection leads to. By default those of the
/// engines that come first in `engines`, of which there are any. An error if none of them can have counters.
/// Looks into the servers' roots.
pub fn of_any_engine(
    targets: &TargetArgs,
    connection: &ConnectionArgs,
    rules: Option<&Path>,
    engines: &[fn(&Engine) -> bool],
) -> anyhow::Result<OneServer> {
    session::require_host_pids()?;
    let rules = session::rules(targets, rules)?;
    let options = connection.options()?;
    let (selection, processes) = first_of(targets, engines)?;
    let described = describe_all(&processes, Arc::new(rules), DESCRIBE_TIMEOUT);
    let mut servers: Vec<Server> = described.into_iter().map(|(server, _)| server).collect();
    // A file of one product's clients says which servers are meant.
    if connection.service_file.is_some() && servers.iter().any(product::is_postgres) {
        servers.retain(product::is_postgres);
    }
    if servers.is_empty() {
        return Err(session::nothing_selected("compare with", &selection, ""));
    }
    let protocol = Protocol::of(&servers[0]);
    if servers.iter().any(|server| Protocol::of(server) != protocol) {
        // One place is no place of servers of two protocols: which is meant has to be said.
        return Err(wrong(choose::several(&servers)).into());
    }
    match protocol {
        Protocol::MySql => {}
        Protocol::Postgres => {
            return Ok(OneServer::Postgres(choose::choose(servers, options.postgres).map_err(wrong)?));
        }
        Protocol::Etcd => return Ok(OneServer::Etcd(choose::choose(servers, options.etcd).map_err(wrong)?)),
        Protocol::Redis => {
            return Ok(OneServer::Redis(choose::choose(servers, options.redis).map_err(wrong)?));
        }
    }
    let strangers = (!servers.iter().any(is_known)).then(|| no_counters(&servers));
    let is_named = options.mysql.names_a_place();
    match (choose::choose(servers, options.mysql), strangers) {
        (Err(_), Some(strangers)) => Err(strangers.into()),
        // With a place that was named, why it could not be reached is worth more.
        (Ok(Chosen { status: Err(_), .. }), Some(strangers)) if !is_named => Err(strangers.into()),
        (chosen, _) => Ok(OneServer::MySql(chosen.map_err(wrong)?)),
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
    engines: &[fn(&Engine) -> bool],
) -> anyhow::Result<(Selection, Vec<ThreadGroup>)> {
    let mut found = None;
    for &engine in engines {
        let selection = session::selection_of(targets, engine)?;
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
    are_factors_known(engine) || ["etcd", "redis", "valkey"].contains(&engine.name.as_str())
}

/// Those whose throughput it takes apart.
pub fn are_factors_known(engine: &Engine) -> bool {
    engine.has(Role::Redo) || engine.name == "postgres"
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
    let message = format!(
        "nothing to compare with: {who} MySQL, MariaDB, PostgreSQL, etcd, Redis {or} Valkey, and fsynctop cannot read \
         {its} counters"
    );
    Exit { status: NOTHING_TO_TRACE, message }
}
