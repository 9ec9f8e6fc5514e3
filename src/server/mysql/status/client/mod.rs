//! A client of MySQL's protocol that treats the server as hostile: it sends questions that are known
//! beforehand, and whatever comes back has a limit before memory is allocated for it. `mysql_common` frames
//! packets and makes scrambles. The `mysql` crate, which would do all the rest, allocates whatever number of
//! columns the server announces, and asks the server for the key to encrypt the password with.

mod greeting;
mod login;
mod packets;
mod rows;

use std::time::Instant;

use super::reading::Reading;
use crate::model::Server;
use crate::server::asking::connection::{self, Failure};
use crate::server::asking::find::Target;
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::asking::transport::Transport;
use crate::server::asking::{Scope, StatusError};
use crate::server::mysql::adapter::{DEFAULT_PORT, MySql};
use crate::server::what::adapter::Adapter;
use greeting::Greeting;
use packets::Packets;

pub use packets::{Error, Rows, ServerError};

/// Byte limit until we are logged in, the server's certificates included.
pub(crate) const LOGIN_BYTES: u64 = 256 << 10;
/// What one question is answered with: the longest is a set of transaction identifiers.
const ANSWER_BYTES: u64 = 8 << 20;

/// A connection that the server has let us in through.
pub struct Client(Packets);

impl Client {
    /// Logs in. The transport has the deadline, and [`LOGIN_BYTES`]. `host`: what the certificate must be
    /// for.
    pub(crate) fn log_in(
        transport: Transport,
        host: &str,
        tls: Tls,
        options: &ConnectOptions,
    ) -> Result<Client, Error> {
        let mut packets = Packets::over(transport);
        let first = packets.next()?;
        if first[0] == 0xff {
            return Err(Error::of_server(&first));
        }
        let greeting = Greeting::parse(&first)
            .ok_or_else(|| Error::broken("its greeting is none of a server of MySQL's protocol"))?;
        login::log_in(packets, &greeting, host, tls, options).map(Client)
    }

    /// Asks one question.
    pub fn query(&mut self, question: &str, until: Instant) -> Result<Rows, Error> {
        rows::query(&mut self.0, question, until, ANSWER_BYTES)
    }
}

/// "Too many connections".
const NO_CONNECTION_LEFT: u16 = 1040;

impl connection::Client for Client {
    type Reading = Reading;
    const ADAPTER: &'static dyn Adapter = &MySql;
    const DEFAULT_PORT: u16 = DEFAULT_PORT;
    const PASSWORD_VARIABLE: Option<&'static str> = Some("MYSQL_PWD");

    fn connect(target: &Target, until: Instant) -> Result<Client, Failure> {
        let log_in = |transport, host: &str, tls| {
            Client::log_in(transport, host, tls, &target.options).map_err(|error| error.with_cure(cure))
        };
        connection::connect(target, until, LOGIN_BYTES, &log_in)
    }

    fn read(&mut self, scope: Scope, until: Instant) -> Result<Reading, Failure> {
        Reading::ask(scope, &mut |question| self.query(question, until)).map_err(Failure::in_words)
    }

    fn is_of(reading: &Reading, server: &Server) -> Result<(), StatusError> {
        reading.is_of(server)
    }
}

/// What to do about an error that lets nobody in.
fn cure(error: &ServerError) -> &'static str {
    match error.code {
        NO_CONNECTION_LEFT => {
            "; a server with admin_address (MySQL) or extra_port (MariaDB) has a connection to spare there: --host and \
             --port"
        }
        1045 | 1698 => {
            "; --user and a password (--defaults-file, MYSQL_PWD, --password) name another account"
        }
        _ => "",
    }
}
