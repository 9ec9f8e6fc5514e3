//! Hands the history to `fsynctop --once --last` on the same host, over a local socket that root and its group alone
//! may open.

use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::log;
use crate::history::History;
use crate::history::remote::{Refusal, Request, What};

/// Root, or the exporter's own user, and its group.
const MODE: Mode = Mode::from_raw_mode(0o660);
const DIRECTORY_MODE: u32 = 0o755;
const WAITING: i32 = 8;
/// Who is answered at the same time; each has a copy of the list of what is remembered.
const MOST_CLIENTS: usize = 4;
const LARGEST_REQUEST: u64 = 1_024;
/// How long a client may take to ask, and to take any part of its answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error(
        "another exporter listens on {} already: give this one a path of its own with --socket, or --no-socket",
        .0.display()
    )]
    Taken(PathBuf),
    #[error("{} is there and is no socket: remove it, or take another path with --socket", .0.display())]
    NotASocket(PathBuf),
    #[error("cannot listen on {}: {source}; --socket takes another path, --no-socket does without", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A socket that is open and not yet answered on.
#[derive(Debug)]
pub struct HistorySocket {
    listener: UnixListener,
    path: PathBuf,
}

impl HistorySocket {
    /// Opens the socket, in the place of one that an exporter left behind which was killed.
    pub fn open(path: &Path) -> Result<HistorySocket, SocketError> {
        let failed = |source: io::Error| SocketError::Io { path: path.to_owned(), source };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(DIRECTORY_MODE)
                .create(directory)
                .map_err(failed)?;
        }
        make_way(path)?;
        let listener = listen(path).map_err(|error| failed(error.into()))?;
        Ok(HistorySocket { listener: UnixListener::from(listener), path: path.to_owned() })
    }

    /// Answers, on a thread of its own, for as long as the process lives. The socket's file goes when this is dropped.
    pub fn serve(self, history: impl Fn() -> History + Send + Sync + 'static) -> io::Result<Serving> {
        let HistorySocket { listener, path } = self;
        let history: Arc<dyn Fn() -> History + Send + Sync> = Arc::new(history);
        std::thread::Builder::new().name("history".into()).spawn(move || accept(&listener, &history))?;
        Ok(Serving { path })
    }
}

/// Removes the socket's file at the end.
#[derive(Debug)]
pub struct Serving {
    path: PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Who has the right to make it may not have the right to remove it: then the next one does.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes what a killed exporter left behind.
fn make_way(path: &Path) -> Result<(), SocketError> {
    let Ok(file) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !file.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| SocketError::Io { path: path.to_owned(), source })
        }
        _ => Err(SocketError::Taken(path.to_owned())),
    }
}

/// The file never has more than its mode: the kernel takes it from the socket, less what the umask takes away
/// (net/unix/af_unix.c, unix_bind_bsd), which is then given back.
fn listen(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(socket.as_fd(), MODE)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, MODE)?;
    rustix::net::listen(&socket, WAITING)?;
    Ok(socket)
}

fn accept(listener: &UnixListener, history: &Arc<dyn Fn() -> History + Send + Sync>) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                log::warning(format_args!("the history's socket: {error}"));
                // Of descriptors there may be some again in a moment.
                std::thread::sleep(Duration::from_secs(1));
                continue;
            }
        };
        let place = Place::take(&clients);
        let history = history.clone();
        let task = move || {
            // A client that has gone wants no answer.
            let _ = answer(&stream, place.as_ref().map(|_| &*history));
        };
        // Without a thread nobody is answered; the client sees the end of the connection.
        let _ = std::thread::Builder::new().name("history-client".into()).spawn(task);
    }
}

/// One of the clients that are answered at the same time.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(clients: &Arc<AtomicUsize>) -> Option<Place> {
        let taken = clients.fetch_add(1, Ordering::Relaxed);
        let place = Place(clients.clone());
        (taken < MOST_CLIENTS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(stream: &UnixStream, history: Option<&(dyn Fn() -> History + Send + Sync)>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LARGEST_REQUEST)).read_line(&mut line)?;
    let mut out = BufWriter::new(stream);
    match (serde_json::from_str::<Request>(&line), history) {
        (Ok(Request { request: What::History, .. }), Some(history)) => history().write_json(&mut out)?,
        (Ok(_), None) => refuse(&mut out, "too many ask at the same time: try again")?,
        (Err(error), _) => refuse(&mut out, &format!("not a request: {error}"))?,
    }
    out.flush()
}

fn refuse(out: &mut impl Write, why: &str) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Refusal { error: why.to_owned() })?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;

    use super::*;
    use crate::history::{self, remote};
    use crate::once::fixture::busy;

    fn remembered() -> History {
        let mut history = History::new(history::Options::default());
        (0..20).for_each(|_| history.push(&busy()));
        history
    }

    #[test]
    fn the_history_arrives_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/exporter.sock");
        let serving = HistorySocket::open(&path).unwrap().serve(remembered).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let history = remote::fetch(&path).unwrap();
        assert!(history.moments().eq(remembered().moments()));
        // A second exporter sees that it is taken.
        assert!(matches!(HistorySocket::open(&path), Err(SocketError::Taken(_))));
        drop(serving);
        assert!(!path.exists());
        let error = remote::fetch(&path).unwrap_err();
        assert!(matches!(error, remote::RemoteError::Nobody(_)), "{error}");
        assert!(error.to_string().contains("Start `fsynctop exporter`"), "{error}");
    }

    #[test]
    fn what_a_killed_exporter_left_behind_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(remote::fetch(&path), Err(remote::RemoteError::Nobody(_))));
        HistorySocket::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(HistorySocket::open(&path), Err(SocketError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn nonsense_is_refused_and_slow_clients_stop_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exporter.sock");
        let _serving = HistorySocket::open(&path).unwrap().serve(remembered).unwrap();
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
        // More than may ask at a time: those that are too many are told so at once, and nobody waits for them.
        let barrier = Barrier::new(MOST_CLIENTS + 1);
        std::thread::scope(|scope| {
            for _ in 0..MOST_CLIENTS {
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
        assert!(errors.next().unwrap().contains("schema 9"));
        task.join().unwrap();
    }
}
