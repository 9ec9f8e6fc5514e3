//! The history's socket against who may open its directory, or the socket, and means no good. A process of
//! its own: its threads are counted. Needs no root.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fsynctop::exporter::history_socket::{self, HistoryError, Remembering};
use fsynctop::exporter::source::NotReady;
use fsynctop::exporter::verdict::Told;
use fsynctop::recording::{self, History, remote};

/// An exporter that has nothing to tell.
struct Nothing;

impl Remembering for Nothing {
    fn history(&self, out: &mut dyn Write) -> Result<(), HistoryError> {
        Ok(History::new(recording::Options::default()).write(out)?)
    }

    fn verdicts(&self) -> Result<Arc<Told>, NotReady> {
        Err(NotReady("nothing is traced here".into()))
    }

    fn acknowledge(&self, _server: &str, _user: u32) -> Result<Option<u64>, NotReady> {
        Ok(None)
    }
}

fn serve_nothing(path: &Path) {
    history_socket::serve(history_socket::open(path).unwrap(), Nothing).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Threads of this process that answer somebody.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name == "history-client\n").count()
}

#[test]
fn a_link_planted_in_the_sockets_place_changes_no_other_file() {
    let directory = tempfile::tempdir().unwrap();
    let (path, victim) = (directory.path().join("exporter.sock"), directory.path().join("victim"));
    fs::write(&victim, "precious").unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let link = directory.path().join("link");
            while !stop.load(Ordering::Relaxed) {
                let _ = symlink(&victim, &link);
                if fs::symlink_metadata(&path).is_ok() {
                    let _ = fs::rename(&link, &path);
                }
            }
        });
        for _ in 0..3000 {
            let _ = history_socket::open(&path);
            let _ = fs::remove_file(&path);
            if mode(&victim) != 0o600 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(mode(&victim), 0o600, "the link was followed");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let hostile = directory.path().join("hostile");
    fs::create_dir(&hostile).unwrap();
    for bits in [0o777, 0o1777, 0o757] {
        fs::set_permissions(&hostile, Permissions::from_mode(bits)).unwrap();
        let error = history_socket::open(&hostile.join("exporter.sock")).unwrap_err().to_string();
        assert!(error.contains("hostile") && error.contains("chmod o-w"), "{error}");
        assert_eq!(fs::read_dir(&hostile).unwrap().count(), 0);
    }
}

#[test]
fn what_is_in_the_way_and_is_no_socket_stays() {
    let directory = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (directory.path().join("exporter.sock"), directory.path().join("elsewhere"));
    // A link to a socket that nobody listens on any more: it is the link that is in the way.
    drop(UnixListener::bind(&elsewhere).unwrap());
    symlink(&elsewhere, &path).unwrap();
    let error = history_socket::open(&path).unwrap_err().to_string();
    assert!(error.contains("is no socket"), "{error}");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink() && elsewhere.exists());
}

#[test]
fn two_hundred_silent_clients_take_no_more_than_a_few_threads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exporter.sock");
    serve_nothing(&path);
    let mut most = 0;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(UnixStream::connect(&path).unwrap());
        most = most.max(threads());
    }
    std::thread::sleep(Duration::from_millis(500));
    most = most.max(threads());
    // Four of this exporter, and one or two of those of the other tests.
    assert!((4..=8).contains(&most), "{most} threads");
    let closed = silent.iter_mut().filter_map(|stream| {
        stream.set_nonblocking(true).unwrap();
        stream.read_to_end(&mut Vec::new()).is_ok().then_some(())
    });
    let closed = closed.count();
    assert!(closed >= 190, "{closed} of the surplus were closed");
}

#[test]
fn a_request_that_drips_in_ends_with_its_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exporter.sock");
    serve_nothing(&path);
    let mut stream = UnixStream::connect(&path).unwrap();
    let begun = Instant::now();
    while stream.write_all(b" ").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is still listened to");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_answer_that_drips_in_ends_with_its_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exporter.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b" ").is_ok() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let begun = Instant::now();
        let (fetched, until_fetched) = mpsc::channel::<()>();
        let stop = &stop;
        scope.spawn(move || {
            let _ = until_fetched.recv_timeout(Duration::from_secs(25));
            stop.store(true, Ordering::Relaxed);
        });
        let error = remote::fetch(&path).unwrap_err().to_string();
        drop(fetched);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(error.contains("in time"), "{error}");
    });
}
