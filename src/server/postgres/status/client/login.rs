//! Proves who we are. A password is sent as a hash of the server's challenge, or as it is where nobody else
//! can read it.

use std::io::{Read, Write};

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::messages::{Error, Messages};
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::asking::transport::Transport;
use crate::server::postgres::status::role;

/// Messages of a login: a server says some fifteen of its settings when it lets somebody in.
const ROUNDS: usize = 128;
/// The database that initdb makes for whoever has none of their own.
const DATABASE: &str = "postgres";
/// The role that owns a cluster, where the server does not say who its owner is.
const ROLE: &str = "postgres";
/// For the session alone. Nothing that somebody has put into another schema is run in our name; no answer is
/// worth more time; and a reader has no use for machine code.
const SETTINGS: &str = "-c search_path=pg_catalog -c statement_timeout=2s -c lock_timeout=1s -c jit=off \
                        -c default_transaction_read_only=on -c client_encoding=UTF8";

/// Encrypts as far as was asked for. The server answers the request with one byte, and TLS begins with ours:
/// what it sent before that would be taken for TLS, and end the connection.
pub(super) fn encrypt(
    mut transport: Transport,
    host: &str,
    tls: Tls,
    options: &ConnectOptions,
) -> Result<Messages, Error> {
    if tls == Tls::Disabled {
        return Ok(Messages::over(transport));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    transport.write_all(&request)?;
    let mut answer = [0];
    transport.read_exact(&mut answer)?;
    match (answer[0], tls) {
        (b'S', _) => Ok(Messages::over(transport.encrypt(host, tls == Tls::VerifyIdentity, options)?)),
        (b'N', Tls::Preferred) => Ok(Messages::over(transport)),
        (b'N', _) => Err(Error::broken("the server has no TLS, which --ssl-mode asks for")),
        _ => Err(Error::broken("its answer is none of a server of PostgreSQL's protocol")),
    }
}

/// `server`: the process at the other end, whose owner is who the method "peer" lets in.
pub(super) fn log_in(
    mut messages: Messages,
    options: &ConnectOptions,
    server: Option<u32>,
) -> Result<Messages, Error> {
    let role = options.user.clone().or_else(|| role::of_owner(server?)).unwrap_or_else(|| ROLE.to_owned());
    let role = role.as_str();
    let database = options.database.as_deref().unwrap_or(DATABASE);
    let parameters =
        [("user", role), ("database", database), ("application_name", "fsynctop"), ("options", SETTINGS)];
    let mut startup = BytesMut::new();
    frontend::startup_message(parameters, &mut startup)?;
    messages.send(&startup)?;
    let password = options.password.as_ref().map(|password| password.reveal().as_bytes());
    let mut scram = None;
    for _ in 0..ROUNDS {
        match messages.next()? {
            Message::AuthenticationOk if scram.is_some() => {
                return Err(Error::broken("the server lets us in without proof that it knows the password"));
            }
            Message::AuthenticationOk => return until_ready(messages),
            Message::ErrorResponse(body) => return Err(Error::of_server(body.fields())),
            Message::NoticeResponse(_) => {}
            request => answer(&mut messages, &request, role, password, &mut scram)?,
        }
    }
    Err(Error::broken("the server asks to log in again and again"))
}

fn answer(
    messages: &mut Messages,
    request: &Message,
    role: &str,
    password: Option<&[u8]>,
    scram: &mut Option<ScramSha256>,
) -> Result<(), Error> {
    let mut reply = BytesMut::new();
    let password = || {
        password.ok_or_else(|| {
            Error::broken(format!(
                "the server asks for {role}'s password, and there is none: --service-file, PGPASSWORD or --password"
            ))
        })
    };
    match request {
        Message::AuthenticationCleartextPassword => {
            let password = password()?;
            if !messages.is_private() {
                let text = "the server asks for the password itself, and the connection is not encrypted, so it is \
                            not sent: give --socket, or --ssl-mode required or verify-identity";
                return Err(Error::broken(text));
            }
            frontend::password_message(password, &mut reply)?;
        }
        Message::AuthenticationMd5Password(body) => {
            let hash = md5_hash(role.as_bytes(), password()?, body.salt());
            frontend::password_message(hash.as_bytes(), &mut reply)?;
        }
        Message::AuthenticationSasl(body) => {
            if !body.mechanisms().any(|mechanism| Ok(mechanism == SCRAM_SHA_256))? {
                return Err(Error::broken("the server asks for a method of SASL other than SCRAM-SHA-256"));
            }
            let begun = ScramSha256::new(password()?, ChannelBinding::unsupported());
            frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut reply)?;
            *scram = Some(begun);
        }
        // The crate refuses more than 100,000 rounds of hashing, which the server would choose.
        Message::AuthenticationSaslContinue(body) => {
            let begun =
                scram.as_mut().ok_or_else(|| Error::broken("the server goes on with what was not begun"))?;
            begun.update(body.data())?;
            frontend::sasl_response(begun.message(), &mut reply)?;
        }
        Message::AuthenticationSaslFinal(body) => {
            let mut begun =
                scram.take().ok_or_else(|| Error::broken("the server ends what was not begun"))?;
            return Ok(begun.finish(body.data())?);
        }
        _ => {
            return Err(Error::broken(
                "the server asks for a way to log in that is not used here: give a role of scram-sha-256, or one that \
                 the server knows by its socket (peer)",
            ));
        }
    }
    messages.send(&reply)
}

/// It has let us in, and says what it likes until it is ready.
fn until_ready(mut messages: Messages) -> Result<Messages, Error> {
    for _ in 0..ROUNDS {
        match messages.next()? {
            Message::ReadyForQuery(_) => return Ok(messages),
            Message::ErrorResponse(body) => return Err(Error::of_server(body.fields())),
            Message::ParameterStatus(_) | Message::BackendKeyData(_) | Message::NoticeResponse(_) => {}
            _ => return Err(Error::broken("the server answered the login with something else")),
        }
    }
    Err(Error::broken("the server lets us in again and again"))
}
