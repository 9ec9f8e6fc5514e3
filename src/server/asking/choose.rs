//! Chooses one of several servers: the one that the connection leads to, or the only one.

use super::connection::{Client, Connection};
use super::find::Target;
use super::options::ConnectOptions;
use super::{Scope, StatusError};
use crate::model::Server;
use crate::server::what::describe;

/// A connection, and what the server said first.
pub type Status<C> = Result<(Connection<C>, <C as Client>::Reading), StatusError>;

pub struct Chosen<C: Client> {
    pub server: Server,
    pub status: Status<C>,
}

/// The options do not lead to one server.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    #[error("there are several servers; --server NAME or --pid says which one is meant:{0}")]
    Several(String),
    #[error("{0}; so --pid has to say which server is meant:{1}")]
    NotReached(StatusError, String),
    #[error("the server at {0} is none of those that run here:{1}")]
    Another(String, String),
}

/// Of servers that run here, at least one, all of the client's engine.
pub fn choose<C: Client>(
    mut servers: Vec<Server>,
    options: ConnectOptions,
) -> Result<Chosen<C>, ChooseError> {
    let Some(place) = options.place(C::DEFAULT_PORT) else {
        let server = only(servers)?;
        let status = find(options, &server);
        return Ok(Chosen { server, status });
    };
    let target = Target::named(options, place).where_servers_listen(&servers);
    let status = open::<C>(&target);
    let status = match status {
        Ok((connection, reading)) => {
            if servers.len() > 1 {
                servers = those_at::<C>(&reading, servers, &target.name)?;
            }
            Ok((connection, reading))
        }
        Err(error) if servers.len() > 1 => return Err(ChooseError::NotReached(error, list(&servers))),
        Err(error) => Err(error),
    };
    let server = only(servers)?;
    let status = status.and_then(|status| C::is_of(&status.1, &server).map(|()| status));
    Ok(Chosen { server, status })
}

/// Those that the server which answered can be.
fn those_at<C: Client>(
    reading: &C::Reading,
    servers: Vec<Server>,
    place: &str,
) -> Result<Vec<Server>, ChooseError> {
    let (mut same, others): (Vec<_>, Vec<_>) =
        servers.into_iter().partition(|server| C::is_of(reading, server).is_ok());
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
    <[Server; 1]>::try_from(servers).map(|[server]| server).map_err(|servers| several(&servers))
}

pub(crate) fn several(servers: &[Server]) -> ChooseError {
    ChooseError::Several(list(servers))
}

/// A line for each, below a sentence that ends with a colon.
fn list(servers: &[Server]) -> String {
    servers.iter().map(|server| format!("\n  {}", describe::in_words(server))).collect()
}

/// Of several places where nobody answers as it should, the first one says why.
fn find<C: Client>(options: ConnectOptions, server: &Server) -> Status<C> {
    let mut why = None;
    for target in C::places(options, server)? {
        match open::<C>(&target).and_then(|status| C::is_of(&status.1, server).map(|()| status)) {
            Ok(status) => return Ok(status),
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or_else(|| StatusError::Options("it listens nowhere".into())))
}

fn open<C: Client>(target: &Target) -> Status<C> {
    let mut connection = Connection::open(target)?;
    let reading = connection.read(Scope::Everything)?;
    Ok((connection, reading))
}
