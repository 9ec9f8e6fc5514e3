//! Packets over a transport, and why there are none.

use mysql_common::proto::codec::PacketCodec;
use mysql_common::proto::codec::error::PacketCodecError;
use mysql_common::proto::sync_framed::MySyncFramed;

use crate::server::asking::connection::Failure;
use crate::server::asking::options::ConnectOptions;
use crate::server::asking::transport::Transport;

/// The challenge of a plugin is the longest packet of a login.
const LOGIN_PACKET: usize = 16 << 10;
/// Servers end messages there (MYSQL_ERRMSG_SIZE).
const MESSAGE_BYTES: usize = 512;

/// The text of every column of every row.
pub type Rows = Vec<Vec<String>>;

pub type Error = Failure<ServerError>;

#[derive(Debug, thiserror::Error)]
#[error("ERROR {code} ({state}): {message}")]
pub struct ServerError {
    pub code: u16,
    pub state: String,
    pub message: String,
}

impl Error {
    /// Of an error packet, whose first byte is 0xff.
    pub(super) fn of_server(packet: &[u8]) -> Error {
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
        Error::Refused(ServerError { code: u16::from_le_bytes([*low, *high]), state: text(state), message })
    }
}

/// Packets over a transport.
pub(crate) struct Packets(pub(super) MySyncFramed<Transport>);

impl Packets {
    pub(super) fn over(transport: Transport) -> Packets {
        let mut codec = PacketCodec::default();
        codec.max_allowed_packet = LOGIN_PACKET;
        Packets(MySyncFramed::construct(Default::default(), Default::default(), codec, transport))
    }

    /// The next packet, which has a first byte.
    pub(super) fn next(&mut self) -> Result<Vec<u8>, Error> {
        let mut packet = Vec::new();
        match self.0.next_packet(&mut packet) {
            Ok(true) if packet.is_empty() => Err(Error::broken("the server sent an empty packet")),
            Ok(true) => Ok(packet),
            Ok(false) => Err(Error::broken("the server closed the connection")),
            Err(error) => Err(self.explain(error)),
        }
    }

    pub(super) fn send(&mut self, mut body: &[u8]) -> Result<(), Error> {
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
    pub(super) fn encrypt(
        self,
        host: &str,
        verify: bool,
        options: &ConnectOptions,
    ) -> Result<Packets, Error> {
        let (early, out, codec, transport) = self.0.destruct();
        // Bytes that came before the encryption would be taken for some that came through it.
        if !early.is_empty() {
            return Err(Error::broken("the server sent more than its greeting before the encryption began"));
        }
        let transport = transport.encrypt(host, verify, options)?;
        Ok(Packets(MySyncFramed::construct(early, out, codec, transport)))
    }
}
