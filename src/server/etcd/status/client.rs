//! A client that asks etcd for its page of metrics, and takes whatever answers for hostile. It sends nothing
//! that is secret: the page is for anybody who reaches it.

use std::io::{self, BufReader, Write};
use std::time::Instant;

use super::http::{self, HttpError};
use super::reading::Reading;
use crate::model::Server;
use crate::server::asking::connection::{self, Failure};
use crate::server::asking::find::Target;
use crate::server::asking::identity::Origin;
use crate::server::asking::options::{ConnectOptions, Place};
use crate::server::asking::transport::Transport;
use crate::server::asking::{Scope, StatusError};
use crate::server::etcd::adapter::{DEFAULT_PORT, Etcd};
use crate::server::what::adapter::Adapter;

/// Byte limit until the connection is made, the server's certificates included.
const CONNECT_BYTES: u64 = 256 << 10;
/// That of an answer: etcd 3.4 sends 145 kB, and more with each method of its own that was called.
const ANSWER_BYTES: u64 = 4 << 20;

/// A connection, which may be asked again and again.
pub struct Client {
    stream: BufReader<Transport>,
    request: String,
    origin: Origin,
    is_encrypted: bool,
}

/// Of the way to the page, or of the page.
enum PageError {
    Http(HttpError),
    Page(String),
}

impl From<HttpError> for PageError {
    fn from(error: HttpError) -> PageError {
        PageError::Http(error)
    }
}

impl connection::Client for Client {
    type Reading = Reading;
    const ADAPTER: &'static dyn Adapter = &Etcd;
    const DEFAULT_PORT: u16 = DEFAULT_PORT;
    const PASSWORD_VARIABLE: Option<&'static str> = None;

    fn places(options: ConnectOptions, server: &Server) -> Result<Vec<Target>, StatusError> {
        Target::where_it_listens(&options, server)
    }

    fn connect(target: &Target, until: Instant) -> Result<Client, Failure> {
        let options = &target.options;
        connection::connect(target, until, CONNECT_BYTES, &|transport, host, tls| {
            let origin = Origin::of(&transport, target)?;
            let (transport, is_encrypted) = transport.encrypt_if_asked(host, tls, options)?;
            let request = format!(
                "GET /metrics HTTP/1.1\r\nHost: {}\r\nUser-Agent: fsynctop\r\nAccept: text/plain;version=0.0.4\r\n\r\n",
                authority(&target.place)
            );
            Ok(Client { stream: BufReader::new(transport), request, origin, is_encrypted })
        })
    }

    /// All there is to ask is one page.
    fn read(&mut self, _: Scope, until: Instant) -> Result<Reading, Failure> {
        let mut reading = Reading::empty(self.origin);
        self.ask(until, &mut reading).map_err(|error| self.failure(error))?;
        match reading.is_complete() {
            true => Ok(reading),
            false => Err(Failure::Broken("its /metrics page is not etcd's".into())),
        }
    }

    fn is_of(reading: &Reading, server: &Server) -> Result<(), StatusError> {
        reading.is_of(server)
    }

    fn version(reading: &Reading) -> Option<String> {
        Some(format!("etcd {}", reading.version()?))
    }
}

impl Client {
    fn ask(&mut self, until: Instant, reading: &mut Reading) -> Result<(), PageError> {
        let stream = self.stream.get_mut();
        stream.allow(until, ANSWER_BYTES);
        stream.write_all(self.request.as_bytes()).and_then(|()| stream.flush()).map_err(HttpError::Io)?;
        http::answer(&mut self.stream, &mut |line| reading.add(line).map_err(PageError::Page))
    }

    /// Where etcd wants TLS, it tells whoever does not speak it nothing, or little.
    fn failure(&self, error: PageError) -> Failure {
        let error = match error {
            PageError::Page(why) => return Failure::Broken(why),
            PageError::Http(error) => error,
        };
        let is_end = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
        };
        match error {
            HttpError::Io(error) if !is_end(&error) => error.into(),
            HttpError::Status(status) if status != 400 => Failure::Broken(error.to_string()),
            // TLS begins in another way.
            HttpError::NoHttp(reason) if reason != httparse::Error::Version => {
                Failure::Broken(error.to_string())
            }
            HttpError::Broken(_) => Failure::Broken(error.to_string()),
            _ if self.is_encrypted => {
                Failure::Broken(format!("{error}; --ssl-cert and --ssl-key may be wanted"))
            }
            _ => Failure::Broken(format!(
                "plain HTTP is refused there ({error}): have etcd serve its metrics without TLS too, with \
                 --listen-metrics-urls=http://127.0.0.1:2381, or give --ssl-ca, --ssl-cert and --ssl-key"
            )),
        }
    }
}

/// As the header has it.
fn authority(place: &Place) -> String {
    match place {
        Place::Socket(_) => "localhost".into(),
        Place::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
        Place::Tcp { host, port } => format!("{host}:{port}"),
    }
}
