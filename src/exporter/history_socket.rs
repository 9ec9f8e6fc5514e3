//! Hands the history and the verdicts to the views on the same host, over a local socket that root and its
//! group alone may open, and takes acknowledgements there.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::fs::Mode;

use super::local_socket::{self, Kind, SocketError};
use super::log::Seldom;
use super::source::NotReady;
use super::verdict::{Asked, Told};
use super::web::{is_the_listeners_end, may_acknowledge};
use crate::linux::blocking::{Limits, Pool, Share};
use crate::recording::deadline::WithDeadline;
use crate::recording::remote::{Acknowledged, Refusal, Request, What};

/// Root, or the exporter's own user, and its group.
const MODE: Mode = Mode::from_raw_mode(0o660);
const WAITING: i32 = 8;
/// Who is answered at the same time, each by a thread; each has a copy of the list of what is remembered.
pub(crate) const MAX_CLIENTS: usize = 4;
const MAX_REQUEST_BYTES: u64 = 1_024;
/// Each ends with its client, after [`CLIENT_TIMEOUT`] at the latest: none needs to be abandoned.
const CLIENTS: Share = Share { threads: MAX_CLIENTS, with_abandoned: MAX_CLIENTS, queue: MAX_CLIENTS };
/// How long a client may take to ask and to take its answer, altogether.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the socket.
pub fn open(path: &Path) -> Result<UnixListener, SocketError> {
    let kind =
        Kind { option: "--socket", without: "start it with --no-socket", mode: MODE, waiting: WAITING };
    local_socket::open(path, kind)
}

/// What is asked for here; for up to [`MAX_CLIENTS`] at a time.
pub trait Remembering: Send + Sync {
    /// Writes what is remembered of the last minutes.
    fn history(&self, out: &mut dyn Write) -> Result<(), HistoryError>;

    /// How each server stands; never blocks.
    fn verdicts(&self) -> Result<Arc<Told>, NotReady>;

    /// See [`super::source::Source::acknowledge`].
    fn acknowledge(&self, server: &str, user: u32) -> Result<Option<u64>, NotReady>;
}

/// Answers, on a thread of its own, until the listener accepts nothing any more: it ends with why.
pub fn serve(
    listener: UnixListener,
    remembering: impl Remembering + 'static,
) -> io::Result<JoinHandle<io::Error>> {
    // A client that has gone wants no answer.
    let work = move |stream: &UnixStream| answer(stream, &remembering).ok();
    let limits = Limits::for_one_owner(CLIENTS, 2 * CLIENT_TIMEOUT);
    let clients = Pool::new("history-client", limits, work);
    // A loop that waits for clients, and for nothing else.
    std::thread::Builder::new().name("history".into()).spawn(move || accept(&listener, &clients))
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn accept(listener: &UnixListener, clients: &Pool<(), UnixStream, ()>) -> io::Error {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_the_listeners_end(&error) => return error,
            Err(error) => {
                static SELDOM: Seldom = Seldom::new();
                SELDOM.warn(format_args!("cannot accept a client on the history's socket: {error}"));
                // Of descriptors there may be some again in a moment.
                std::thread::sleep(Duration::from_secs(1));
                continue;
            }
        };
        // They have no results but their ends.
        while clients.poll().is_some() {}
        if clients.pending() >= MAX_CLIENTS {
            turn_away(&stream);
        } else {
            // Refused, the client sees the end of the connection.
            clients.submit((), stream);
        }
    }
}

/// One too many: told so without waiting for it.
fn turn_away(mut stream: &UnixStream) {
    let told = stream.set_nonblocking(true).and_then(|()| {
        // What is left unread would cut the answer off.
        let _ = stream.read(&mut [0; MAX_REQUEST_BYTES as usize]);
        refuse(&mut WithDeadline::new(stream, CLIENT_TIMEOUT), "too many ask at the same time: try again")
    });
    // It may have gone, or have no room for a line.
    drop(told);
}

fn answer(stream: &UnixStream, remembering: &impl Remembering) -> io::Result<()> {
    let mut connection = WithDeadline::new(stream, CLIENT_TIMEOUT);
    let mut line = String::new();
    BufReader::new((&mut connection).take(MAX_REQUEST_BYTES)).read_line(&mut line)?;
    let mut out = BufWriter::new(connection);
    match serde_json::from_str::<Request>(&line) {
        Ok(Request { what: What::History, .. }) => match remembering.history(&mut out) {
            Ok(()) => {}
            Err(HistoryError::NotReady(why)) => refuse(&mut out, &why.0)?,
            Err(HistoryError::Io(error)) => return Err(error),
        },
        Ok(Request { what: What::Verdicts, .. }) => {
            let told = remembering.verdicts();
            let report = told.map(|told| told.report(Asked::default()).map(|(_, report)| report));
            let report = report.unwrap_or_else(|why| Some(Told::nothing(&why.0)));
            writeln!(out, "{}", report.unwrap_or_default())?;
        }
        Ok(Request { what: What::Acknowledge { server }, .. }) => {
            let user = getsockopt(stream, PeerCredentials)?.uid();
            match acknowledge(remembering, &server, user) {
                Ok(acknowledged_files) => {
                    serde_json::to_writer(&mut out, &Acknowledged { server, acknowledged_files })?;
                    out.write_all(b"\n")?;
                }
                Err(why) => refuse(&mut out, &why)?,
            }
        }
        Err(error) => refuse(&mut out, &format!("not a request: {error}"))?,
    }
    out.flush()
}

fn acknowledge(remembering: &impl Remembering, server: &str, user: u32) -> Result<u64, String> {
    may_acknowledge(user)?;
    let files = remembering.acknowledge(server, user).map_err(|why| why.0)?;
    files.ok_or_else(|| "there is no server of this name: `fsynctop status` lists them".into())
}

fn refuse(out: &mut impl Write, why: &str) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Refusal { error: why.to_owned() })?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Barrier, Mutex};

    use super::*;
    use crate::model::fixture::busy;
    use crate::recording::{self, History, remote};
    use crate::verdict::State;

    fn remembered() -> History {
        let mut history = History::new(recording::Options::default());
        (0..20).for_each(|_| history.push(&busy()));
        history
    }

    /// One server, which fails until somebody knows of it.
    struct Fixed {
        acknowledged: Mutex<Option<u32>>,
    }

    impl Remembering for Fixed {
        fn history(&self, out: &mut dyn Write) -> Result<(), HistoryError> {
            Ok(remembered().write(out)?)
        }

        fn verdicts(&self) -> Result<Arc<Told>, NotReady> {
            let state = match *self.acknowledged.lock().unwrap() {
                None => State::Failing,
                Some(_) => State::Ok,
            };
            Ok(Arc::new(Told::of_one("3306", state)))
        }

        fn acknowledge(&self, server: &str, user: u32) -> Result<Option<u64>, NotReady> {
            *self.acknowledged.lock().unwrap() = Some(user);
            Ok((server == "3306").then_some(2))
        }
    }

    fn serve_remembered(path: &Path) {
        serve(open(path).unwrap(), Fixed { acknowledged: Mutex::new(None) }).unwrap();
    }

    #[test]
    fn a_failing_server_is_told_of_until_it_is_acknowledged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.sock");
        serve_remembered(&path);
        let states = || {
            let standing = remote::standing(&path).unwrap();
            standing
                .servers
                .into_iter()
                .map(|one| (one.verdict.server, one.verdict.state))
                .collect::<Vec<_>>()
        };
        assert_eq!(states(), [("3306".to_owned(), State::Failing)]);
        let wrong = remote::acknowledge(&path, "3307".into()).unwrap_err().to_string();
        assert!(wrong.contains("fsynctop status"), "{wrong}");
        let done = remote::acknowledge(&path, "3306".into()).unwrap();
        assert_eq!(done.acknowledged_files, 2);
        assert_eq!(states(), [("3306".to_owned(), State::Ok)]);
    }

    #[test]
    fn the_history_arrives_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/exporter.sock");
        serve_remembered(&path);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let history = remote::fetch(&path).unwrap();
        assert!(history.moments().eq(remembered().moments()));
        // A second exporter sees that it is taken.
        assert!(matches!(open(&path), Err(SocketError::Taken { .. })));
        let error = remote::fetch(&directory.path().join("none.sock")).unwrap_err();
        assert!(matches!(error, remote::RemoteError::Nobody(_)), "{error}");
        assert!(error.to_string().contains("Start `fsynctop exporter`"), "{error}");
    }

    #[test]
    fn what_a_killed_exporter_left_behind_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(remote::fetch(&path), Err(remote::RemoteError::Nobody(_))));
        open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(open(&path), Err(SocketError::NotASocket { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn nonsense_is_refused_and_slow_clients_stop_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.sock");
        serve_remembered(&path);
        let ask = |request: &[u8]| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(request).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).map(|_| said)
        };
        for request in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"{\"schema\":1,\"request\":\"shutdown\"}\n", b"\xff\n"]
        {
            let said = ask(request);
            assert!(
                said.as_ref().is_ok_and(|said| said.is_empty() || said.contains("not a request")),
                "{said:?}"
            );
        }
        // More than may ask at a time: those that are too many are told so at once, and nobody waits for
        // them.
        let barrier = Barrier::new(MAX_CLIENTS + 1);
        std::thread::scope(|scope| {
            for _ in 0..MAX_CLIENTS {
                scope.spawn(|| {
                    let _silent = UnixStream::connect(&path).unwrap();
                    barrier.wait();
                    // Until the one too many has been told.
                    barrier.wait();
                });
            }
            barrier.wait();
            // On a busy machine it takes a moment until all of them are taken in.
            let told = (0..100).find_map(|_| {
                std::thread::sleep(Duration::from_millis(20));
                remote::fetch(&path).err()
            });
            barrier.wait();
            let says_why = |error: &_| matches!(error, remote::RemoteError::Refused { said, .. } if said.contains("try again"));
            assert!(told.as_ref().is_some_and(says_why), "{told:?}");
        });
        let answered = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            remote::fetch(&path).is_ok()
        });
        assert!(answered);
    }

    #[test]
    fn another_programs_answer_is_said_to_be_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let task = std::thread::spawn(move || {
            for answer in ["HTTP/1.1 400\r\n", "", "{\"schema\":9}\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut errors = (0..3).map(|_| remote::fetch(&path).unwrap_err().to_string());
        assert!(errors.next().unwrap().contains("answered with something else"));
        assert!(errors.next().unwrap().contains("hung up"));
        assert!(errors.next().unwrap().contains("answered with something else"));
        task.join().unwrap();
    }
}
