//! Chooses one of several servers: the one that the connection leads to, or the only one.

use super::find::Target;
use super::options::ConnectOptions;
use super::{Scope, StatusError};
use crate::model::Server;
use crate::server::describe;
use crate::server::mysql::status::Connection;
use crate::server::mysql::status::reading::Reading;

/// A connection, and what the server said first.
pub type Status = Result<(Connection, Reading), StatusError>;

pub struct Chosen {
    pub server: Server,
    pub status: Status,
}

/// The options do not lead to one server.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    #[error("there are several servers; name one with --pid:{0}")]
    Several(String),
    #[error("{0}; so --pid has to say which server is meant:{1}")]
    NotReached(StatusError, String),
    #[error("the server at {0} is none of those that run here:{1}")]
    Another(String, String),
}

/// Of servers that run here, at least one.
pub fn choose(mut servers: Vec<Server>, options: ConnectOptions) -> Result<Chosen, ChooseError> {
    let Some(place) = options.place() else {
        let server = only(servers)?;
        let status = find(options, &server);
        return Ok(Chosen { server, status });
    };
    let target = Target::named(options, place).where_servers_listen(&servers);
    let status = open(&target);
    let status = match status {
        Ok((connection, reading)) => {
            if servers.len() > 1 {
                servers = those_at(&reading, servers, &target.name)?;
            }
            Ok((connection, reading))
        }
        Err(error) if servers.len() > 1 => return Err(ChooseError::NotReached(error, list(&servers))),
        Err(error) => Err(error),
    };
    let server = only(servers)?;
    let status = status.and_then(|status| status.1.is_of(&server).map(|()| status));
    Ok(Chosen { server, status })
}

/// Those that the server which answered can be.
fn those_at(reading: &Reading, servers: Vec<Server>, place: &str) -> Result<Vec<Server>, ChooseError> {
    let (mut same, others): (Vec<_>, Vec<_>) =
        servers.into_iter().partition(|server| reading.is_of(server).is_ok());
    if same.is_empty() {
        return Err(ChooseError::Another(place.to_owned(), list(&others)));
    }
    // Of one that is just starting or ending, too little is known to rule it out.
    let is_known = |server: &Server| server.datadir.is_some();
    if same.iter().any(is_known) {
        same.retain(is_known);
    }
    Ok(same)
}

fn only(servers: Vec<Server>) -> Result<Server, ChooseError> {
    match <[Server; 1]>::try_from(servers) {
        Ok([server]) => Ok(server),
        Err(servers) => Err(ChooseError::Several(list(&servers))),
    }
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
