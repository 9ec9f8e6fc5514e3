//! The one server that `verify` and `explain` work on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::connection::ConnectionArgs;
use super::exit::{BAD_USAGE, Exit};
use super::options::TargetArgs;
use super::session;
use crate::model::Server;
use crate::server::describers::describe_all;
use crate::server::status::choose::{self, Chosen};

/// How long describing the servers may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The server that is selected; of several, the one that the connection leads to. Looks into the servers'
/// roots.
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
    let servers: Vec<Server> = described.into_iter().map(|(server, _)| server).collect();
    if servers.is_empty() {
        return Err(session::nothing_selected("compare with", &selection, ""));
    }
    let wrong = |error: choose::ChooseError| Exit { status: BAD_USAGE, message: error.to_string() };
    Ok(choose::choose(servers, options).map_err(wrong)?)
}
