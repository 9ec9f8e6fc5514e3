//! The one server that `verify` and `explain` work on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::connection::ConnectionArgs;
use super::exit::{BAD_USAGE, Exit, NOTHING_TO_TRACE};
use super::options::TargetArgs;
use super::session;
use crate::model::{Engine, Role, Server};
use crate::server::describe;
use crate::server::describers::describe_all;
use crate::server::status::choose::{self, Chosen};
use crate::server::{etcd, mysql, postgres, product};

/// How long describing the servers may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// One server and its counters, by the client of its engine.
pub enum OneServer {
    MySql(Chosen<mysql::status::client::Client>),
    Postgres(Chosen<postgres::status::client::Client>),
    Etcd(Chosen<etcd::status::client::Client>),
}

/// The server that is selected; of several, the one that the connection leads to. An error if none of them
/// can have counters. Looks into the servers' roots.
pub fn of_any_engine(
    targets: &TargetArgs,
    connection: &ConnectionArgs,
    rules: Option<&Path>,
    engines: fn(&Engine) -> bool,
) -> anyhow::Result<OneServer> {
    session::require_host_pids()?;
    let rules = session::rules(targets, rules)?;
    let options = connection.options()?;
    let selection = session::selection_of(targets, engines)?;
    let described = describe_all(&selection.processes(), Arc::new(rules), DESCRIBE_TIMEOUT);
    let mut servers: Vec<Server> = described.into_iter().map(|(server, _)| server).collect();
    // A file of one product's clients says which servers are meant.
    if connection.service_file.is_some() && servers.iter().any(product::is_postgres) {
        servers.retain(product::is_postgres);
    }
    if servers.is_empty() {
        return Err(session::nothing_selected("compare with", &selection, ""));
    }
    let are = |is: fn(&Server) -> bool| servers.iter().filter(|server| is(server)).count();
    match (are(product::is_postgres), are(product::is_etcd)) {
        (0, 0) => {}
        (all, 0) if all == servers.len() => {
            return Ok(OneServer::Postgres(choose::choose(servers, options.postgres).map_err(wrong)?));
        }
        (0, all) if all == servers.len() => {
            if servers.iter().any(|server| server.engine.as_deref().is_some_and(|engine| !engines(engine))) {
                return Err(no_counters(&servers).into());
            }
            return Ok(OneServer::Etcd(choose::choose(servers, options.etcd).map_err(wrong)?));
        }
        // One place is no place of servers of two protocols: which is meant has to be said.
        _ => return Err(wrong(choose::several(&servers)).into()),
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

/// The engines whose counters this program knows to read.
pub(crate) fn has_counters(engine: &Engine) -> bool {
    are_factors_known(engine) || engine.name == "etcd"
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
        "nothing to compare with: {who} MySQL, MariaDB, PostgreSQL {or} etcd, and fsynctop cannot read {its} counters"
    );
    Exit { status: NOTHING_TO_TRACE, message }
}
