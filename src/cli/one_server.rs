//! The one server that `verify` and `explain` are about, and a connection to its own counters where there is one.

use std::path::Path;

use anyhow::Context;

use super::args::TargetArgs;
use super::connection::ConnectionArgs;
use super::{BAD_USAGE, Exit, NOTHING_TO_TRACE, session};
use crate::files::rules::Rules;
use crate::server_status::StatusError;
use crate::server_status::connection::Connection;
use crate::server_status::find::Target;
use crate::server_status::options::ConnectOptions;
use crate::server_status::reading::{Reading, Scope};
use crate::snapshot::Server;
use crate::target::describe;

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
    let mut servers: Vec<Server> = describe_all(&selection.processes(), &rules);
    if servers.is_empty() {
        let message = format!(
            "there is no {} on this host; --pid and --comm select other processes",
            selection.describe().trim_start_matches("a ")
        );
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    }
    match options.place() {
        Some(place) => {
            let status = open(&Target::named(options, place));
            if let Ok((_, reading)) = &status
                && servers.len() > 1
            {
                servers.retain(|server| reading.is_of(server).is_ok());
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

fn describe_all(processes: &[crate::target::processes::ThreadGroup], rules: &Rules) -> Vec<Server> {
    let described =
        processes.iter().map(|process| describe::describe(Path::new("/proc"), process.id(), rules).0);
    described.filter(|server| server.alive).collect()
}

fn only(mut servers: Vec<Server>) -> anyhow::Result<Server> {
    if let [_] = servers[..] {
        return servers.pop().context("one server");
    }
    let lines: Vec<String> =
        servers.iter().map(|server| format!("\n  {}", describe::in_words(server))).collect();
    let message = format!("there are several servers; say which one with --pid:{}", lines.concat());
    Err(Exit { status: BAD_USAGE, message }.into())
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
