//! Whoever listens in the place of an etcd may send what it likes: each attack ends in time, in little
//! memory, with an error in words, and leaves no thread behind. The peers here are real ones that answer
//! wrongly on purpose.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fsynctop::model::Server;
use fsynctop::server::asking::choose;
use fsynctop::server::asking::find::Target;
use fsynctop::server::asking::options::{ConnectOptions, Place, Tls};
use fsynctop::server::asking::{Scope, StatusError};
use fsynctop::server::etcd::status::Connection;
use fsynctop::server::etcd::status::client::Client;
use fsynctop::server::etcd::status::reading::Reading;
use fsynctop::server::who::processes;

use crate::common::hostile::{SLACK, alone, at, for_ever, judge, listen, this_process};
use crate::common::sleeper;

const PAGE: &str = "# HELP etcd_disk_wal_fsync_duration_seconds The latency distributions of fsync called by WAL.\n\
                    etcd_disk_wal_fsync_duration_seconds_count 5\n\
                    etcd_disk_backend_commit_duration_seconds_count 6\n";

/// Of so many bytes, and then the content.
fn answer(length: usize, content: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{content}")
}

fn whole(content: &str) -> String {
    answer(content.len(), content)
}

/// What the client asks; None where it has gone.
fn read_request(stream: &mut dyn Read) -> Option<String> {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    String::from_utf8(request).ok()
}

fn read(target: &Target) -> Result<Reading, StatusError> {
    Connection::open(target).and_then(|mut connection| connection.read(Scope::Everything))
}

/// A peer that is asked, and then does this.
fn attack(says: &str, peer: impl Fn(&mut TcpStream) + Send + Sync + 'static) {
    let _alone = alone();
    let address = listen(move |stream| {
        if read_request(stream).is_some() {
            peer(stream);
        }
    });
    judge::<Client>(&at(address), says);
}

/// Answers that and no more.
fn attack_with(says: &str, bytes: impl AsRef<[u8]> + Send + Sync + 'static) {
    attack(says, move |stream| {
        let _ = stream.write_all(bytes.as_ref());
    });
}

#[test]
fn an_answer_as_etcd_gives_it_is_one() {
    let _alone = alone();
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = connections.clone();
    let address = listen(move |stream| {
        seen.fetch_add(1, Ordering::Relaxed);
        while let Some(request) = read_request(stream) {
            assert!(request.starts_with("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
            let _ = stream.write_all(whole(PAGE).as_bytes());
        }
    });
    let mut connection = Connection::open(&at(address)).unwrap();
    for _ in 0..3 {
        assert_eq!(connection.read(Scope::Syncs).unwrap().version(), None);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1, "one connection is kept");
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_made_anew() {
    let _alone = alone();
    let address = listen(|stream| {
        read_request(stream);
        let _ = stream.write_all(whole(PAGE).as_bytes());
    });
    let mut connection = Connection::open(&at(address)).unwrap();
    connection.read(Scope::Syncs).unwrap();
    connection.read(Scope::Syncs).unwrap();
}

#[test]
fn a_header_without_end_is_cut_off() {
    attack("its header has no end", |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        for_ever(stream, b"a: b\r\n");
    });
    attack("its header has no end", |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\na: ");
        for_ever(stream, &[b'a'; 4096]);
    });
}

#[test]
fn an_answer_without_end_is_cut_off() {
    attack("too many lines", |stream| {
        let _ = stream.write_all(answer(1 << 40, "").as_bytes());
        for_ever(stream, b"a 1\n");
    });
    attack("a line of it is too long", |stream| {
        let _ = stream.write_all(answer(1 << 40, "").as_bytes());
        for_ever(stream, &[b'a'; 4096]);
    });
    attack("more than 4194304 bytes", |stream| {
        let _ = stream.write_all(answer(1 << 40, "").as_bytes());
        for_ever(stream, &[&[b'a'; 1_000][..], b" 1\n"].concat());
    });
    attack("more than 4194304 bytes", |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("1;{}\r\n\n\r\n", "x".repeat(200));
        for_ever(stream, chunk.repeat(64).as_bytes());
    });
    attack("its answer is cut off", |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for_ever(stream, b"0");
    });
    attack("goes on after its end", |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
        for_ever(stream, b"a: b\r\n");
    });
}

#[test]
fn what_comes_byte_by_byte_and_what_does_not_come_is_not_waited_for() {
    attack("did not answer within 1 s", |stream| {
        for byte in whole(PAGE).as_bytes() {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    attack("did not answer within 1 s", |stream| drop(stream.read_to_end(&mut Vec::new())));
    // The first answer is right, and the second does not end.
    attack("did not answer within 2 s", |stream| {
        let _ = stream.write_all(whole(PAGE).as_bytes());
        if read_request(stream).is_some() {
            let _ = stream.write_all(answer(PAGE.len(), &PAGE[..PAGE.len() - 1]).as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
}

#[test]
fn what_is_no_answer_of_etcd_s_is_an_error() {
    attack_with("its /metrics page is not etcd's", whole("<html>Welcome to nginx!</html>\n"));
    attack_with("its /metrics page is not etcd's", whole("etcd_disk_wal_fsync_duration_seconds_count 5\n"));
    attack_with("its /metrics page is not etcd's", whole(""));
    attack_with("twice", whole(&PAGE.repeat(2)));
    attack_with("is no count", whole(&PAGE.replace(" 5\n", " NaN\n")));
    attack_with("its answer is cut off", answer(PAGE.len() + 1, PAGE));
    attack_with("does not say in one way where it ends", format!("HTTP/1.1 200 OK\r\n\r\n{PAGE}"));
    attack_with("too many headers", format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(65)));
    attack_with("compressed", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n");
}

#[test]
fn no_redirection_is_followed() {
    let _alone = alone();
    let visited = Arc::new(AtomicUsize::new(0));
    let seen = visited.clone();
    let other = listen(move |stream| {
        seen.fetch_add(1, Ordering::Relaxed);
        read_request(stream);
        let _ = stream.write_all(whole(PAGE).as_bytes());
    });
    for status in [301, 302, 303, 307, 308] {
        let address = listen(move |stream| {
            read_request(stream);
            let location = format!("Location: http://{other}/metrics\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(format!("HTTP/1.1 {status} There\r\n{location}").as_bytes());
        });
        judge::<Client>(&at(address), &format!("it answers with status {status}"));
    }
    assert_eq!(visited.load(Ordering::Relaxed), 0);
}

#[test]
fn where_plain_http_is_refused_the_message_says_what_to_do() {
    let hint = "--listen-metrics-urls=http://127.0.0.1:2381";
    // As etcd does it, as Go's own server does it, and as others do.
    attack_with(hint, "");
    attack_with(hint, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    attack_with(hint, b"\x15\x03\x01\0\x02\x02\x46");
    attack_with("it answers with status 404", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let _alone = alone();
    // With TLS, there is no such hint.
    let address = listen(|stream| {
        let _ = stream.write_all(whole(PAGE).as_bytes());
        let _ = stream.read(&mut [0; 100]);
    });
    let mut target = at(address);
    target.options.tls = Some(Tls::Required);
    let error = read(&target).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no connection") && !error.contains(hint), "{error}");
}

#[test]
fn words_of_the_peer_cannot_write_to_the_terminal() {
    attack_with("speaks no HTTP", b"\x1b[2J\x1b]0;mine\x07");
    attack_with("speaks no HTTP", "HTTP/1.1 500 \x1b[2J\r\n\x1b]0: mine\r\n\r\n");
}

#[test]
fn a_place_where_the_traced_server_does_not_listen_is_another_server_s() {
    let _alone = alone();
    let address = listen(|stream| {
        while read_request(stream).is_some() {
            let _ = stream.write_all(whole(PAGE).as_bytes());
        }
    });
    let named = || ConnectOptions { port: Some(address.port()), ..ConnectOptions::default() };
    let status = |server: Server| choose::choose::<Client>(vec![server], named()).unwrap().status.map(|_| ());
    status(this_process("etcd")).unwrap();
    // A process that listens nowhere.
    let sleep = sleeper();
    let other = processes::find(Path::new("/proc"), sleep.0.id()).unwrap();
    let error = status(Server::new(other.id(), "etcd".into())).unwrap_err().to_string();
    let says = format!(
        "the connection leads to another server: process {} does not listen at {address}",
        sleep.0.id()
    );
    assert_eq!(error, says);
}

#[test]
fn a_socket_of_a_process_that_is_not_traced_hears_nothing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("localhost:2379");
    let listener = UnixListener::bind(&path).unwrap();
    let (outbox, inbox) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = read_request(&mut stream);
            let _ = stream.write_all(whole(PAGE).as_bytes());
            let _ = outbox.send(request);
        }
    });
    for servers in [vec![], vec![1]] {
        let mut target = Target::named(ConnectOptions::default(), Place::Socket(path.clone()));
        target.servers = servers;
        judge::<Client>(&target, "none of the servers that are traced");
        assert_eq!(inbox.recv_timeout(SLACK).unwrap(), None);
    }
    let mut target = Target::named(ConnectOptions::default(), Place::Socket(path));
    target.servers = vec![std::process::id()];
    read(&target).unwrap().is_of(&this_process("etcd")).unwrap();
}
