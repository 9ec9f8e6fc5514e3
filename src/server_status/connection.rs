//! One client connection with a thread of its own: whoever asks waits for so long and no longer, whatever the server
//! does. It keeps the connection, and makes it anew where the server closed it.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, DriverError, OptsBuilder, SslOpts};
use rustix::fs::{Mode, OFlags};

use super::StatusError;
use super::find::Target;
use super::options::{Place, Tls};
use super::reading::{Reading, Scope};
use crate::text::escape_sentence;

/// How long connecting may take.
pub const CONNECT: Duration = Duration::from_secs(1);
/// How long an answer may take.
pub const ANSWER: Duration = Duration::from_secs(2);
/// Only a status variable can be that long; also spares the client a question of its own.
const MAX_PACKET: usize = 16 << 20;
/// "Too many connections".
const NO_CONNECTION_LEFT: u16 = 1040;

struct Request {
    number: u64,
    scope: Scope,
}

type Answer = (u64, Result<Reading, StatusError>);

/// A connection to one server.
pub struct Connection {
    name: String,
    requests: Sender<Request>,
    answers: Receiver<Answer>,
    number: u64,
}

impl Connection {
    /// Connects.
    pub fn open(target: &Target) -> Result<Connection, StatusError> {
        let (requests, inbox) = channel();
        let (outbox, answers) = channel();
        let name = target.name.clone();
        let worker = Worker { target: target.clone(), connection: None };
        std::thread::Builder::new()
            .name("server-status".into())
            .spawn(move || worker.run(&inbox, &outbox))
            .map_err(|error| StatusError::NoConnection { endpoint: name.clone(), reason: error.to_string() })?;
        let mut connection = Connection { name, requests, answers, number: 0 };
        connection.ask(Scope::Nothing, CONNECT)?;
        Ok(connection)
    }

    /// What the server counts now. After an answer that did not come in time, this can be tried again.
    pub fn read(&mut self, scope: Scope) -> Result<Reading, StatusError> {
        self.ask(scope, ANSWER)
    }

    /// Where it leads to, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, scope: Scope, patience: Duration) -> Result<Reading, StatusError> {
        let end = Instant::now() + patience;
        let late = || StatusError::NoAnswer { endpoint: self.name.clone(), seconds: patience.as_secs_f64() };
        self.number += 1;
        self.requests.send(Request { number: self.number, scope }).map_err(|_| late())?;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok((number, answer)) if number == self.number => return answer,
                Ok(_) => {} // to an earlier question, which was waited for no longer
                Err(_) => return Err(late()),
            }
        }
    }
}

/// The thread's side. It may wait for the server as long as that takes; the deadlines of the socket only make it
/// come back where the server never answers.
struct Worker {
    target: Target,
    connection: Option<Conn>,
}

impl Worker {
    fn run(mut self, inbox: &Receiver<Request>, outbox: &Sender<Answer>) {
        while let Ok(mut request) = inbox.recv() {
            // Questions that piled up while the server hung are not asked any more.
            while let Ok(later) = inbox.try_recv() {
                request = later;
            }
            let answer = self.answer(request.scope);
            if outbox.send((request.number, answer)).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, scope: Scope) -> Result<Reading, StatusError> {
        let was_connected = self.connection.is_some();
        match self.try_to_answer(scope) {
            // A server that was restarted, or closed an idle connection.
            Err(Failure::Lost(_)) if was_connected => self.try_to_answer(scope),
            other => other,
        }
        // Whatever listens there chooses the words.
        .map_err(|failure| match failure {
            Failure::Lost(reason) => {
                let reason = escape_sentence(&reason);
                StatusError::NoConnection { endpoint: self.target.name.clone(), reason }
            }
            Failure::Refused(reason) => StatusError::Refused(escape_sentence(&reason)),
        })
    }

    fn try_to_answer(&mut self, scope: Scope) -> Result<Reading, Failure> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(connect(&self.target).map_err(|error| self.target.explain(&error))?),
        };
        let answer = Reading::ask(scope, &mut |question| rows(connection, question));
        answer.map_err(|error| match error {
            mysql::Error::MySqlError(error) => Failure::Refused(error.to_string()),
            other => {
                self.connection = None;
                Failure::Lost(other.to_string())
            }
        })
    }
}

enum Failure {
    /// There is no connection.
    Lost(String),
    Refused(String),
}

/// The text of every column of every row.
fn rows(connection: &mut Conn, question: &str) -> mysql::Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for row in connection.query_iter(question)? {
        let values = row?.unwrap().into_iter().map(|value| match value {
            mysql::Value::NULL => String::new(),
            mysql::Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => other.as_sql(true).trim_matches('\'').to_owned(),
        });
        rows.push(values.collect());
    }
    Ok(rows)
}

/// The client library takes text only, and without a socket it would go to a TCP port: a path of other bytes is reached by
/// a descriptor.
fn connect_to_socket(options: OptsBuilder, path: &Path) -> mysql::Result<Conn> {
    match path.to_str() {
        Some(text) => Conn::new(options.socket(Some(text))),
        None => {
            let open = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(std::io::Error::from)?;
            Conn::new(options.socket(Some(format!("/proc/self/fd/{}", open.as_raw_fd()))))
        }
    }
}

fn connect(target: &Target) -> mysql::Result<Conn> {
    let options = &target.options;
    let plain = OptsBuilder::new()
        .user(Some(options.user_name()))
        .pass(options.password.as_ref().map(|password| password.reveal()))
        .prefer_socket(false)
        .max_allowed_packet(Some(MAX_PACKET))
        .tcp_connect_timeout(Some(CONNECT))
        .read_timeout(Some(ANSWER))
        .write_timeout(Some(ANSWER));
    let (host, port) = match &target.place {
        Place::Socket(path) => return connect_to_socket(plain, path),
        Place::Tcp { host, port } => (host, *port),
    };
    let plain = plain.ip_or_hostname(Some(host.as_str())).tcp_port(port);
    let tls = options.tls.unwrap_or(if options.ca.is_some() { Tls::VerifyIdentity } else { Tls::default() });
    let mut protection = SslOpts::default()
        .with_danger_accept_invalid_certs(tls != Tls::VerifyIdentity)
        .with_root_cert_path(options.ca.clone());
    if let (Some(certificate), Some(key)) = (&options.certificate, &options.key) {
        let identity = mysql::ClientIdentity::new(certificate.clone(), key.clone());
        protection = protection.with_client_identity(Some(identity));
    }
    let protected = plain.clone().ssl_opts(protection);
    match tls {
        Tls::Disabled => Conn::new(plain),
        Tls::Required | Tls::VerifyIdentity => Conn::new(protected),
        Tls::Preferred => match Conn::new(protected) {
            Err(mysql::Error::DriverError(DriverError::TlsNotSupported)) => Conn::new(plain),
            other => other,
        },
    }
}

impl Target {
    fn explain(&self, error: &mysql::Error) -> Failure {
        let cure = match error {
            mysql::Error::MySqlError(error) if error.code == NO_CONNECTION_LEFT => {
                "; a server with admin_address (MySQL) or extra_port (MariaDB) has a connection to spare there: \
                 --host and --port"
            }
            mysql::Error::MySqlError(error) if matches!(error.code, 1045 | 1698) => {
                "; --user and a password (--defaults-file, MYSQL_PWD, --password) name another account"
            }
            _ => "",
        };
        let reason = match error {
            mysql::Error::MySqlError(error) => error.to_string(),
            mysql::Error::IoError(error) => error.to_string(),
            mysql::Error::TlsError(error) => error.to_string(),
            other => other.to_string(),
        };
        Failure::Lost(format!("{reason}{cure}"))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::server_status::options::ConnectOptions;

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
        let read = Connection::open(&target).and_then(|mut connection| connection.read(Scope::Everything));
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
