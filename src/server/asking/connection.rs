//! One client connection on a thread of its own, so that a caller waits until its deadline at most, whatever
//! the server does. The connection is kept, and opened anew where the server has closed it.

use std::fmt::Display;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::bounded::Bounded;
use super::find::Target;
use super::options::{ConnectOptions, Place, Tls};
use super::protection;
use super::transport::Transport;
use super::{Scope, StatusError};
use crate::linux::blocking::Mailbox;
use crate::model::Server;
use crate::server::what::adapter::Adapter;
use crate::text::escape_sentence;

/// How long connecting may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an answer may take.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A client of one engine's protocol, which lives on the connection's thread.
pub trait Client: Sized + Send + 'static {
    /// What the server answered at one moment.
    type Reading: Send + 'static;
    const ADAPTER: &'static dyn Adapter;
    /// Where servers listen if no port is given.
    const DEFAULT_PORT: u16;
    /// The variable of the environment in which other clients of the engine look for a password. None: its
    /// counters are for anybody, without an account.
    const PASSWORD_VARIABLE: Option<&'static str>;

    /// Where to look for a server that runs here, if no place was named: the likeliest place first.
    fn places(options: ConnectOptions, server: &Server) -> Result<Vec<Target>, StatusError> {
        Ok(vec![Target::of(options, server, Self::DEFAULT_PORT)?])
    }
    fn connect(target: &Target, until: Instant) -> Result<Self, Failure>;
    fn read(&mut self, scope: Scope, until: Instant) -> Result<Self::Reading, Failure>;
    /// Whether the server that answered is the one that is traced, as far as both sides say who they are.
    fn is_of(reading: &Self::Reading, server: &Server) -> Result<(), StatusError>;
    /// What it says that it is, for a server whose executable does not tell: "etcd 3.4.23".
    fn version(_: &Self::Reading) -> Option<String> {
        None
    }
}

/// Why there is no answer. Whatever listens there chooses the words.
#[derive(Debug)]
pub enum Failure<R = String> {
    Late,
    /// The connection is of no more use.
    Broken(String),
    /// The server's own error: in words, or as its protocol has it.
    Refused(R),
}

impl<R> Failure<R> {
    pub(crate) fn broken(text: impl Into<String>) -> Failure<R> {
        Failure::Broken(text.into())
    }
}

impl<R: Display> Failure<R> {
    pub(crate) fn in_words(self) -> Failure {
        match self {
            Failure::Late => Failure::Late,
            Failure::Broken(reason) => Failure::Broken(reason),
            Failure::Refused(error) => Failure::Refused(error.to_string()),
        }
    }

    /// A server that lets nobody in is no connection. `cure`: what to do about its error.
    pub(crate) fn with_cure(self, cure: impl Fn(&R) -> &'static str) -> Failure {
        match self {
            Failure::Refused(error) => Failure::Broken(format!("{error}{}", cure(&error))),
            other => other.in_words(),
        }
    }
}

impl<R> From<io::Error> for Failure<R> {
    fn from(error: io::Error) -> Failure<R> {
        match error.kind() {
            io::ErrorKind::TimedOut => Failure::Late,
            _ => Failure::Broken(error.to_string()),
        }
    }
}

struct Request {
    number: u64,
    scope: Scope,
    until: Instant,
    timeout: Duration,
}

type Answer<R> = (u64, Result<R, StatusError>);

/// A connection to one server.
pub struct Connection<C: Client> {
    name: String,
    requests: Mailbox<Request>,
    answers: Receiver<Answer<C::Reading>>,
    number: u64,
}

impl<C: Client> Connection<C> {
    /// Connects.
    pub fn open(target: &Target) -> Result<Connection<C>, StatusError> {
        let (outbox, answers) = channel();
        let name = target.name.clone();
        let mut worker = Worker::<C> { target: target.clone(), connection: None };
        // Nobody may be waiting any more. Questions that piled up while names were looked up are not asked.
        let answer = move |request: Request| drop(outbox.send((request.number, worker.answer(&request))));
        let requests = Mailbox::start("server-status", answer).map_err(|error| {
            StatusError::NoConnection { endpoint: name.clone(), reason: error.to_string() }
        })?;
        let mut connection = Connection { name, requests, answers, number: 0 };
        connection.ask(Scope::Nothing, CONNECT_TIMEOUT)?;
        Ok(connection)
    }

    /// What the server counts now. After an answer that did not come in time, this can be tried again.
    pub fn read(&mut self, scope: Scope) -> Result<C::Reading, StatusError> {
        self.ask(scope, ANSWER_TIMEOUT)
    }

    /// Where it leads to, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, scope: Scope, timeout: Duration) -> Result<C::Reading, StatusError> {
        let until = Instant::now() + timeout;
        let late = || StatusError::NoAnswer { endpoint: self.name.clone(), seconds: timeout.as_secs_f64() };
        self.number += 1;
        self.requests.ask(Request { number: self.number, scope, until, timeout });
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok((number, answer)) if number == self.number => return answer,
                Ok(_) => {} // to an earlier question, which was waited for no longer
                Err(_) => return Err(late()),
            }
        }
    }
}

/// The thread's side. Every socket of its own has the deadline of the question, so it ends or is free again
/// with it.
struct Worker<C> {
    target: Target,
    connection: Option<C>,
}

impl<C: Client> Worker<C> {
    fn answer(&mut self, request: &Request) -> Result<C::Reading, StatusError> {
        let was_connected = self.connection.is_some();
        let mut answer = self.try_to_answer(request);
        // A server that was restarted, or closed an idle connection.
        if was_connected && matches!(answer, Err(Failure::Broken(_))) {
            answer = self.try_to_answer(request);
        }
        let endpoint = || self.target.name.clone();
        answer.map_err(|error| match error {
            Failure::Late => {
                StatusError::NoAnswer { endpoint: endpoint(), seconds: request.timeout.as_secs_f64() }
            }
            Failure::Broken(reason) => {
                StatusError::NoConnection { endpoint: endpoint(), reason: escape_sentence(&reason) }
            }
            Failure::Refused(words) => StatusError::Refused(escape_sentence(&words)),
        })
    }

    fn try_to_answer(&mut self, request: &Request) -> Result<C::Reading, Failure> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(C::connect(&self.target, request.until)?),
        };
        let answer = connection.read(request.scope, request.until);
        if matches!(answer, Err(Failure::Broken(_) | Failure::Late)) {
            self.connection = None;
        }
        answer
    }
}

/// Connects to the place that is named. `bytes`: what it may send until it has let us in.
pub(crate) fn connect<C>(
    target: &Target,
    until: Instant,
    bytes: u64,
    log_in: &dyn Fn(Transport, &str, Tls) -> Result<C, Failure>,
) -> Result<C, Failure> {
    let (host, port) = match &target.place {
        Place::Socket(path) => {
            let stream = Bounded::to_socket(path, until, bytes)?;
            return log_in(Transport::socket(stream), "", Tls::Disabled);
        }
        Place::Tcp { host, port } => (host, *port),
    };
    // Looked up once: what was decided about an address must hold for the one that is connected to.
    let mut last = Failure::Broken("the name has no address".into());
    for address in (host.as_str(), port).to_socket_addrs()? {
        let tls =
            protection::of(&target.options, address, &target.server_addresses).map_err(Failure::Broken)?;
        match Bounded::to_address(address, until, bytes) {
            Ok(stream) => return log_in(Transport::tcp(stream), host, tls),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    /// Listens there and answers whoever connects with MySQL's error packet, for ever.
    fn refuse(path: &Path, words: &'static [u8]) {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let body = [&[0xff, 0x10, 0x04], words].concat();
                let header = [body.len() as u8, 0, 0, 0];
                let _ = stream.unwrap().write_all(&[&header[..], &body].concat());
            }
        });
    }

    fn error_at(path: &Path) -> String {
        let target = Target::named(ConnectOptions::default(), Place::Socket(path.to_owned()));
        let read = crate::server::mysql::status::Connection::open(&target)
            .and_then(|mut connection| connection.read(Scope::Everything));
        read.map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn what_answers_in_the_place_of_a_server_cannot_write_to_the_terminal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        refuse(&path, b"\x1b[2J\x1b]0;mine\x07 go away");
        let error = error_at(&path);
        assert!(error.contains("go away") && error.contains("\\x1b[2J"), "{error:?}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }

    #[test]
    fn a_socket_whose_path_is_no_text_is_the_one_that_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(OsStr::from_bytes(b"\xff.sock"));
        refuse(&path, b"not UTF-8, but here");
        let error = error_at(&path);
        assert!(error.contains("not UTF-8, but here"), "{error:?}");
        let gone = directory.path().join(OsStr::from_bytes(b"\xfe.sock"));
        assert!(error_at(&gone).contains("No such file"), "{}", error_at(&gone));
    }
}
