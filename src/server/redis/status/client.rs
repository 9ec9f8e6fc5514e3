//! A client that asks Redis or Valkey what it counts and what it was told, and takes whatever answers for
//! hostile. It only reads: AUTH where there is a password, INFO and CONFIG GET.

use std::io::{self, BufReader, Write};
use std::time::{Instant, SystemTime};

use super::reading::{Reading, SETTINGS};
use super::resp::{self, Reply, RespError};
use crate::model::Server;
use crate::server::asking::connection::{self, Failure};
use crate::server::asking::find::Target;
use crate::server::asking::identity::Origin;
use crate::server::asking::options::ConnectOptions;
use crate::server::asking::transport::Transport;
use crate::server::asking::{Scope, StatusError};
use crate::server::redis::adapter::{DEFAULT_PORT, Redis};
use crate::server::what::adapter::Adapter;

/// Byte limit until we are let in, the server's certificates included.
const CONNECT_BYTES: u64 = 256 << 10;
/// That of the answers to one reading: each has a limit of its own.
const ANSWER_BYTES: u64 = 1 << 20;
/// Characters of the server's own words in a message.
const WORDS: usize = 200;

/// The sections of INFO that are asked for, one by one: versions before 7 take one at a time. The last one is
/// long, and only read where all is.
const SECTIONS: [&str; 4] = ["server", "persistence", "replication", "commandstats"];

/// A connection, which may be asked again and again.
pub struct Client {
    stream: BufReader<Transport>,
    origin: Origin,
    is_encrypted: bool,
}

impl connection::Client for Client {
    type Reading = Reading;
    const ADAPTER: &'static dyn Adapter = &Redis;
    const DEFAULT_PORT: u16 = DEFAULT_PORT;
    const PASSWORD_VARIABLE: Option<&'static str> = Some("REDISCLI_AUTH");

    /// Its socket, which is a matter of configuration, then its ports.
    fn places(options: ConnectOptions, server: &Server) -> Result<Vec<Target>, StatusError> {
        let socket = server.socket.as_ref().map(|_| Target::of(options.clone(), server, DEFAULT_PORT));
        match (socket, Target::where_it_listens(&options, server)) {
            (Some(Ok(socket)), ports) => {
                Ok(std::iter::once(socket).chain(ports.unwrap_or_default()).collect())
            }
            (Some(Err(error)), Err(_)) => Err(error),
            (_, ports) => ports,
        }
    }

    fn connect(target: &Target, until: Instant) -> Result<Client, Failure> {
        let options = &target.options;
        connection::connect(target, until, CONNECT_BYTES, &|transport, host, tls| {
            let origin = Origin::of(&transport, target)?;
            let (transport, is_encrypted) = transport.encrypt_if_asked(host, tls, options)?;
            let mut client = Client { stream: BufReader::new(transport), origin, is_encrypted };
            client.log_in(target)?;
            Ok(client)
        })
    }

    fn read(&mut self, scope: Scope, until: Instant) -> Result<Reading, Failure> {
        self.stream.get_mut().allow(until, ANSWER_BYTES);
        let (sections, settings) = match scope {
            Scope::Everything => (&SECTIONS[..], &SETTINGS[..]),
            _ => (&SECTIONS[..3], &[][..]),
        };
        let infos = sections.iter().flat_map(|section| resp::command(&["INFO", section]));
        let configs = settings.iter().flat_map(|name| resp::command(&["CONFIG", "GET", name]));
        self.send(&infos.chain(configs).collect::<Vec<u8>>())?;
        let mut reading = Reading::empty(self.origin, SystemTime::now());
        for _ in sections {
            match self.reply()? {
                Reply::Text(text) => reading.add(&text).map_err(Failure::Broken)?,
                Reply::Error(words) => return Err(refused(&words)),
                Reply::List(_) | Reply::Other => return Err(Failure::Broken(NOT_REDIS.into())),
            }
        }
        for &name in settings {
            match self.reply()? {
                Reply::List(answer) => reading.set(name, &answer),
                // By its access control, or because the command was renamed.
                Reply::Error(words) => reading.refuse(format!("CONFIG GET: {}", few(&words))),
                Reply::Text(_) | Reply::Other => return Err(Failure::Broken(NOT_REDIS.into())),
            }
        }
        if scope == Scope::Writes {
            reading.compare_bytes();
        }
        match reading.is_complete() {
            true => Ok(reading),
            false => Err(Failure::Broken(NOT_REDIS.into())),
        }
    }

    fn is_of(reading: &Reading, server: &Server) -> Result<(), StatusError> {
        reading.is_of(server)
    }

    fn version(reading: &Reading) -> Option<String> {
        reading.version()
    }
}

const NOT_REDIS: &str = "its answers are not Redis'";

impl Client {
    /// The rules of [`protection`](crate::server::asking::protection) hold for where the password goes. An
    /// account may have none; then any is right.
    fn log_in(&mut self, target: &Target) -> Result<(), Failure> {
        let options = &target.options;
        let password = options.password.as_ref().map(|password| password.reveal());
        if password.is_none() && options.user.is_none() {
            return Ok(());
        }
        if password.is_some()
            && !self.stream.get_ref().is_private()
            && !self.origin.is_any_of(&target.servers)
        {
            let text = "no server that is traced listens there any more, so the password is not sent";
            return Err(Failure::Broken(text.into()));
        }
        let words: Vec<&str> = ["AUTH"]
            .into_iter()
            .chain(options.user.as_deref())
            .chain([password.unwrap_or_default()])
            .collect();
        self.send(&resp::command(&words))?;
        match self.reply()? {
            Reply::Text(answer) if answer == "OK" => Ok(()),
            Reply::Error(words) => Err(refused(&words)),
            _ => Err(Failure::Broken(NOT_REDIS.into())),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).and_then(|()| stream.flush()).map_err(|error| self.failure(error.into()))
    }

    fn reply(&mut self) -> Result<Reply, Failure> {
        resp::reply(&mut self.stream).map_err(|error| self.failure(error))
    }

    /// Where Redis wants TLS, it tells whoever does not speak it nothing.
    fn failure(&self, error: RespError) -> Failure {
        let is_end = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
        };
        match error {
            RespError::Io(error) if !is_end(&error) => error.into(),
            RespError::Io(_) | RespError::NoAnswer if !self.is_encrypted => Failure::Broken(format!(
                "{error}; if it wants TLS there, give --ssl-mode, or --ssl-ca, --ssl-cert and --ssl-key"
            )),
            _ => Failure::Broken(error.to_string()),
        }
    }
}

/// In the server's own words, with what to do about it.
fn refused(words: &str) -> Failure {
    let hint = match words.split_ascii_whitespace().next() {
        Some("NOAUTH") => "; give a place, and a password by --password or REDISCLI_AUTH",
        Some("NOPERM") => "; the account needs +info, and +config|get for its settings",
        _ => "",
    };
    Failure::Refused(format!("{}{hint}", few(words.trim_end_matches('.'))))
}

fn few(words: &str) -> String {
    match words.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_owned(),
    }
}
