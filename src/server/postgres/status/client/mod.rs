//! A client of PostgreSQL's protocol (version 3) that treats the server as hostile: it sends questions that
//! are known beforehand, and whatever comes back has a limit before memory is allocated for it.
//! `postgres-protocol` makes and takes messages apart; framing is done here, because its own reserves memory
//! for whatever length the server announces.

mod login;
mod messages;
mod rows;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use super::reading::{self, Reading};
use crate::linux::effective_user::with_effective_user;
use crate::model::Server;
use crate::server::asking::bounded::Bounded;
use crate::server::asking::connection::{self, Failure};
use crate::server::asking::find::Target;
use crate::server::asking::identity::listener;
use crate::server::asking::options::Place;
use crate::server::asking::transport::Transport;
use crate::server::asking::{Scope, StatusError};
use crate::server::postgres::adapter::{DEFAULT_PORT, Postgres};
use crate::server::what::adapter::Adapter;
use messages::Messages;

pub use messages::{Error, Rows, ServerError};

/// Byte limit until we are logged in, the server's certificates included.
const LOGIN_BYTES: u64 = 256 << 10;
/// What one question is answered with: some hundred names and numbers.
const ANSWER_BYTES: u64 = 1 << 20;

/// A connection that the server has let us in through.
pub struct Client {
    messages: Messages,
    /// The views of counters that this version has.
    views: Option<BTreeSet<String>>,
}

impl Client {
    /// Asks one question.
    pub fn query(&mut self, question: &str, until: Instant) -> Result<Rows, Error> {
        rows::query(&mut self.messages, question, until, ANSWER_BYTES)
    }
}

impl connection::Client for Client {
    type Reading = Reading;
    const ADAPTER: &'static dyn Adapter = &Postgres;
    const DEFAULT_PORT: u16 = DEFAULT_PORT;
    const PASSWORD_VARIABLE: Option<&'static str> = Some("PGPASSWORD");

    fn connect(target: &Target, until: Instant) -> Result<Client, Failure> {
        let log_in = |messages, server| {
            let logged_in = login::log_in(messages, &target.options, server);
            let client = logged_in.map(|messages| Client { messages, views: None });
            client.map_err(|error| error.with_cure(cure))
        };
        let Place::Socket(path) = &target.place else {
            return connection::connect(target, until, LOGIN_BYTES, &|transport, host, tls| {
                let server = <[u32; 1]>::try_from(&*target.servers).ok().map(|[one]| one);
                let messages = login::encrypt(transport, host, tls, &target.options);
                log_in(messages.map_err(Failure::in_words)?, server)
            });
        };
        // The method "peer" asks the kernel who connects, and lets the server's owner in.
        let owner = std::fs::metadata(path)?.uid();
        let stream = with_effective_user(owner, || Bounded::to_socket(path, until, LOGIN_BYTES))?;
        let server = listener(&stream, target)?;
        log_in(Messages::over(Transport::socket(stream)), Some(server))
    }

    fn read(&mut self, scope: Scope, until: Instant) -> Result<Reading, Failure> {
        let mut views = self.views.take();
        let reading = reading::ask(scope, &mut views, &mut |question| self.query(question, until));
        self.views = views;
        reading.map_err(Failure::in_words)
    }

    fn is_of(reading: &Reading, server: &Server) -> Result<(), StatusError> {
        reading.is_of(server)
    }
}

/// What to do about an error that lets nobody in.
fn cure(error: &ServerError) -> &'static str {
    match error.code.as_str() {
        // too_many_connections
        "53300" => "; --user names a superuser, for whom the server keeps connections",
        // invalid_authorization_specification, invalid_password
        "28000" | "28P01" => {
            "; --user and a password (--service-file, PGPASSWORD, --password) name another role"
        }
        _ => "",
    }
}
