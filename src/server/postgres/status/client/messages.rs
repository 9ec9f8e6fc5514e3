//! Messages over a transport, and why there are none. A length that the server says is compared with a limit
//! before there is memory for it.

use std::io::{self, BufReader, Read, Write};
use std::time::Instant;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{ErrorFields, Message};

use crate::server::asking::connection::Failure;
use crate::server::asking::transport::Transport;

/// A type and a length, which counts itself.
const HEADER: usize = 5;
/// The longest of a login are the methods and challenges of SASL.
const LOGIN_MESSAGE: u64 = 16 << 10;

/// Servers end messages nowhere; a person reads no more.
const MESSAGE_BYTES: usize = 512;

/// The text of every column of every row; NULL is nothing.
pub type Rows = Vec<Vec<String>>;

pub type Error = Failure<ServerError>;

#[derive(Debug, thiserror::Error)]
#[error("ERROR {code}: {message}")]
pub struct ServerError {
    /// SQLSTATE.
    pub code: String,
    pub message: String,
}

impl Error {
    pub(super) fn of_server(mut fields: ErrorFields<'_>) -> Error {
        let (mut code, mut message) = (String::new(), String::new());
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(MESSAGE_BYTES)]).into_owned();
        // What follows a field that is none says nothing.
        while let Ok(Some(field)) = fields.next() {
            match field.type_() {
                b'C' => code = text(field.value_bytes()),
                b'M' => message = text(field.value_bytes()),
                _ => {}
            }
        }
        Error::Refused(ServerError { code, message })
    }
}

pub(super) struct Messages {
    transport: BufReader<Transport>,
    longest: u64,
}

impl Messages {
    pub fn over(transport: Transport) -> Messages {
        Messages { transport: BufReader::new(transport), longest: LOGIN_MESSAGE }
    }

    /// True if only the other end can read what is sent.
    pub fn is_private(&self) -> bool {
        self.transport.get_ref().is_private()
    }

    /// From now on: until that moment, and that many bytes of the server's.
    pub fn allow(&mut self, until: Instant, limit: u64) {
        self.longest = limit;
        self.transport.get_mut().allow(until, limit);
    }

    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        Ok(self.transport.get_mut().write_all(message)?)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.transport.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::broken("the server closed the connection"),
            _ => error.into(),
        })
    }

    pub fn next(&mut self) -> Result<Message, Error> {
        let mut header = [0; HEADER];
        self.read(&mut header)?;
        let [_, length @ ..] = header;
        let body = u32::from_be_bytes(length).checked_sub(4).map(u64::from);
        let Some(body) = body.filter(|&body| body <= self.longest) else {
            return Err(Error::Broken(format!(
                "the server sent a message of more than {} bytes where none is as long, or is none of PostgreSQL's \
                 protocol",
                self.longest
            )));
        };
        let mut message = BytesMut::zeroed(HEADER + body as usize);
        message[..HEADER].copy_from_slice(&header);
        self.read(&mut message[HEADER..])?;
        let parsed = Message::parse(&mut message)
            .map_err(|error| Error::Broken(format!("this is no server of PostgreSQL's protocol: {error}")))?;
        parsed.ok_or_else(|| Error::broken("the server sent a message that ends too early"))
    }
}
