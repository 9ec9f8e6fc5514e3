//! The one server that `verify` and `explain` are about, and a connection to its own counters where there is one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::connection::ConnectionArgs;
use super::exit::{BAD_USAGE, Exit};
use super::options::TargetArgs;
use super::session;
use crate::model::Server;
use crate::server::describe;
use crate::server::describers::describe_all;
use crate::server::status::StatusError;
use crate::server::status::connection::Connection;
use crate::server::status::find::Target;
use crate::server::status::options::ConnectOptions;
use crate::server::status::reading::{Reading, Scope};

/// How long describing the servers may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection, and what the server first said.
pub type Status = Result<(Connection, Reading), StatusError>;

pub struct Chosen {
    pub server: Server,
    pub status: Status,
}

/// The server that is selected; of several, the one that the connection leads to. Looks into the servers' roots.
pub fn choose(
    targets: &TargetArgs,
    connection: &ConnectionArgs,
    rules: Option<&Path>,
) -> anyhow::Result<Chosen> {
    session::require_host_pids()?;
    let rules = session::rules(rules)?;
    let options = connection.options()?;
    let selection = session::selection(targets)?;
    let described = describe_all(&selection.processes(), Arc::new(rules), DESCRIBE_TIMEOUT);
    let mut servers: Vec<Server> = described.into_iter().map(|(server, _)| server).collect();
    if servers.is_empty() {
        return Err(session::nothing_selected("compare with", &selection, ""));
    }
    match options.place() {
        Some(place) => {
            let target = Target::named(options, place).where_servers_listen(&servers);
            let status = open(&target);
            if servers.len() > 1 {
                servers = match &status {
                    Ok((_, reading)) => those_at(reading, servers, &target.name)?,
                    Err(error) => {
                        let why = format!("{error}; so --pid has to say which server is meant:");
                        let message = why + &list(&servers);
                        return Err(Exit { status: BAD_USAGE, message }.into());
                    }
                };
            }
            let server = only(servers)?;
            let status = status.and_then(|status| status.1.is_of(&server).map(|()| status));
            Ok(Chosen { server, status })
        }
        None => {
            let server = only(servers)?;
            let status = find(options, &server);
            Ok(Chosen { server, status })
        }
    }
}

/// Those that the server which answered at `place` can be.
fn those_at(reading: &Reading, servers: Vec<Server>, place: &str) -> anyhow::Result<Vec<Server>> {
    let (mut same, others): (Vec<_>, Vec<_>) =
        servers.into_iter().partition(|server| reading.is_of(server).is_ok());
    if same.is_empty() {
        let message = format!("the server at {place} is none of those that run here:{}", list(&others));
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    // Of one that is just starting or ending, too little is known to say that it is another.
    let is_known = |server: &Server| server.datadir.is_some();
    if same.iter().any(is_known) {
        same.retain(is_known);
    }
    Ok(same)
}

fn only(mut servers: Vec<Server>) -> anyhow::Result<Server> {
    if let [_] = servers[..] {
        return servers.pop().context("one server");
    }
    let message = format!("there are several servers; say which one with --pid:{}", list(&servers));
    Err(Exit { status: BAD_USAGE, message }.into())
}

/// A line for each, below a sentence that ends with a colon.
fn list(servers: &[Server]) -> String {
    servers.iter().map(|server| format!("\n  {}", describe::in_words(server))).collect()
}

fn find(options: ConnectOptions, server: &Server) -> Status {
    let status = open(&Target::of(options, server)?)?;
    status.1.is_of(server)?;
    Ok(status)
}

fn open(target: &Target) -> Status {
    let mut connection = Connection::open(target)?;
    let reading = connection.read(Scope::Everything)?;
    Ok((connection, reading))
}
