//! A client of MySQL's protocol that treats the server as hostile: it sends questions that are known
//! beforehand, and whatever comes back has a limit before memory is allocated for it. `mysql_common` frames
//! packets and makes scrambles. The `mysql` crate, which would do all the rest, allocates whatever number of
//! columns the server announces, and asks the server for the key to encrypt the password with.

mod greeting;
mod login;
mod rows;

use std::io;
use std::time::Instant;

use mysql_common::proto::codec::PacketCodec;
use mysql_common::proto::codec::error::PacketCodecError;
use mysql_common::proto::sync_framed::MySyncFramed;

use super::reading::Reading;
use crate::model::Server;
use crate::server::asking::connection::{self, Failure};
use crate::server::asking::find::Target;
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::asking::transport::Transport;
use crate::server::asking::{Scope, StatusError};
use greeting::Greeting;

/// Byte limit until we are logged in, the server's certificates included.
pub(crate) const LOGIN_BYTES: u64 = 256 << 10;
/// What one question is answered with: the longest is a set of transaction identifiers.
const ANSWER_BYTES: u64 = 8 << 20;
/// The challenge of a plugin is the longest packet of a login.
const LOGIN_PACKET: usize = 16 << 10;
/// Servers end messages there (MYSQL_ERRMSG_SIZE).
const MESSAGE_BYTES: usize = 512;

/// The text of every column of every row.
pub type Rows = Vec<Vec<String>>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's own.
    #[error("ERROR {code} ({state}): {message}")]
    Server { code: u16, state: String, message: String },
    #[error("the time was up")]
    Late,
    /// The connection is of no more use.
    #[error("{0}")]
    Broken(String),
}

impl Error {
    fn broken(text: impl Into<String>) -> Error {
        Error::Broken(text.into())
    }

    /// Of an error packet, whose first byte is 0xff.
    fn of_server(packet: &[u8]) -> Error {
        let [_, low, high, rest @ ..] = packet else {
            return Error::broken("the server sent an error without a number");
        };
        // Before the client has said what it can, errors have no SQL state.
        let (state, message) = match rest {
            [b'#', rest @ ..] if rest.len() >= 5 => rest.split_at(5),
            other => (&b"HY000"[..], other),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let message = text(&message[..message.len().min(MESSAGE_BYTES)]);
        Error::Server { code: u16::from_le_bytes([*low, *high]), state: text(state), message }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::TimedOut => Error::Late,
            _ => Error::Broken(error.to_string()),
        }
    }
}

/// Packets over a transport.
struct Packets(MySyncFramed<Transport>);

impl Packets {
    fn over(transport: Transport) -> Packets {
        let mut codec = PacketCodec::default();
        codec.max_allowed_packet = LOGIN_PACKET;
        Packets(MySyncFramed::construct(Default::default(), Default::default(), codec, transport))
    }

    /// The next packet, which has a first byte.
    fn next(&mut self) -> Result<Vec<u8>, Error> {
        let mut packet = Vec::new();
        match self.0.next_packet(&mut packet) {
            Ok(true) if packet.is_empty() => Err(Error::broken("the server sent an empty packet")),
            Ok(true) => Ok(packet),
            Ok(false) => Err(Error::broken("the server closed the connection")),
            Err(error) => Err(self.explain(error)),
        }
    }

    fn send(&mut self, mut body: &[u8]) -> Result<(), Error> {
        self.0.send(&mut body).map_err(|error| self.explain(error))
    }

    fn explain(&self, error: PacketCodecError) -> Error {
        match error {
            PacketCodecError::Io(error) => error.into(),
            PacketCodecError::PacketTooLarge => {
                let limit = self.0.codec().max_allowed_packet;
                Error::Broken(format!(
                    "the server sent a packet of more than {limit} bytes where none is as long"
                ))
            }
            other => Error::Broken(format!("this is no server of MySQL's protocol: {other}")),
        }
    }

    /// Encrypts all that follows.
    fn encrypt(self, host: &str, verify: bool, options: &ConnectOptions) -> Result<Packets, Error> {
        let (early, out, codec, transport) = self.0.destruct();
        // Bytes that came before the encryption would be taken for some that came through it.
        if !early.is_empty() {
            return Err(Error::broken("the server sent more than its greeting before the encryption began"));
        }
        let transport = transport.encrypt(host, verify, options)?;
        Ok(Packets(MySyncFramed::construct(early, out, codec, transport)))
    }
}

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
    const DEFAULT_PORT: u16 = crate::server::mysql::adapter::DEFAULT_PORT;

    fn connect(target: &Target, until: Instant) -> Result<Client, Failure> {
        let log_in = |transport, host: &str, tls| {
            Client::log_in(transport, host, tls, &target.options).map_err(|error| with_cure(error).into())
        };
        connection::connect(target, until, LOGIN_BYTES, &log_in)
    }

    fn read(&mut self, scope: Scope, until: Instant) -> Result<Reading, Failure> {
        Ok(Reading::ask(scope, &mut |question| self.query(question, until))?)
    }

    fn is_of(reading: &Reading, server: &Server) -> Result<(), StatusError> {
        reading.is_of(server)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Late => Failure::Late,
            Error::Broken(reason) => Failure::Broken(reason),
            refused @ Error::Server { .. } => Failure::Refused(refused.to_string()),
        }
    }
}

/// A server that lets nobody in is no connection.
fn with_cure(error: Error) -> Error {
    let Error::Server { code, .. } = error else { return error };
    let cure = match code {
        NO_CONNECTION_LEFT => {
            "; a server with admin_address (MySQL) or extra_port (MariaDB) has a connection to spare there: --host and \
             --port"
        }
        1045 | 1698 => {
            "; --user and a password (--defaults-file, MYSQL_PWD, --password) name another account"
        }
        _ => "",
    };
    Error::Broken(format!("{error}{cure}"))
}
