//! Whoever listens in the place of a PostgreSQL may send what it likes: each attack ends in time, in little
//! memory, with an error in words, and leaves no thread behind. The peers here are real ones that speak the
//! protocol wrongly on purpose.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use fsynctop::server::asking::find::Target;
use fsynctop::server::asking::options::{ConnectOptions, Place, Tls};
use fsynctop::server::asking::secret::Secret;
use fsynctop::server::postgres::status::client::Client;

use crate::common::hostile::{SLACK, Stream, alone, for_ever, judge};

const PASSWORD: &str = "open sesame";
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], body].concat()
}

/// What the client says first, which has no type.
fn read_startup(stream: &mut dyn Stream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn read_message(stream: &mut dyn Stream) -> Option<(u8, Vec<u8>)> {
    let mut kind = [0];
    stream.read_exact(&mut kind).ok()?;
    Some((kind[0], read_startup(stream)?))
}

const OK: &[u8] = &[0, 0, 0, 0];

/// Lets the client in, answers its first question, and returns when it asks the second.
fn let_in(stream: &mut dyn Stream) -> Option<()> {
    read_startup(stream)?;
    stream.write_all(&[message(b'R', OK), message(b'Z', b"I")].concat()).ok()?;
    read_message(stream)?;
    stream.write_all(&[message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat()).ok()?;
    read_message(stream)?;
    Some(())
}

fn row(value: &[u8]) -> Vec<u8> {
    message(b'D', &[&[0, 1][..], &u32::try_from(value.len()).unwrap().to_be_bytes(), value].concat())
}

fn options() -> ConnectOptions {
    ConnectOptions {
        user: Some("monitor".into()),
        password: Some(Secret::new(PASSWORD.into())),
        ..ConnectOptions::default()
    }
}

/// A unix socket of this process's, which is taken for the server that is traced.
fn attack(says: &str, peer: impl Fn(&mut dyn Stream) + Send + Sync + 'static) {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(|stream| peer(&mut stream.unwrap())));
    let mut target = Target::named(options(), Place::Socket(path));
    target.servers = vec![std::process::id()];
    judge::<Client>(&target, says);
}

#[test]
fn a_socket_of_a_process_that_is_not_traced_hears_nothing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let (outbox, inbox) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut heard = Vec::new();
            let _ = stream.unwrap().read_to_end(&mut heard);
            let _ = outbox.send(heard);
        }
    });
    for servers in [vec![], vec![1]] {
        let mut target = Target::named(options(), Place::Socket(path.clone()));
        target.servers = servers;
        judge::<Client>(&target, "none of the servers that are traced");
        assert_eq!(inbox.recv_timeout(SLACK).unwrap(), b"");
    }
}

#[test]
fn a_length_that_no_memory_has_room_for_is_refused() {
    for length in [u32::MAX, i32::MAX as u32, 1 << 30, 3, 0] {
        attack("more than", move |stream| {
            read_startup(stream);
            let _ = stream.write_all(&[&b"R"[..], &length.to_be_bytes()].concat());
            for_ever(stream, &[0; 4096]);
        });
        attack("more than", move |stream| {
            if let_in(stream).is_some() {
                let _ = stream.write_all(&[&b"D"[..], &length.to_be_bytes()].concat());
                for_ever(stream, &[0; 4096]);
            }
        });
    }
}

#[test]
fn rows_without_end_are_cut_off() {
    attack("more than", |stream| {
        if let_in(stream).is_some() {
            for_ever(stream, &row(b"a"));
        }
    });
    attack("more than", |stream| {
        if let_in(stream).is_some() {
            for_ever(stream, &row(&[b'a'; 1 << 16]));
        }
    });
}

#[test]
fn columns_without_end_and_rows_that_end_too_early_are_no_rows() {
    for (body, says) in [
        ([&[0xff, 0xff][..], &[0xff; 4 * 65_535]].concat(), "columns"),
        (vec![0, 1, 0, 0, 0, 9, b'a'], "does not end"),
        (vec![0, 1], "does not end"),
        (vec![0, 0, 7], "does not end"),
    ] {
        attack(says, move |stream| {
            if let_in(stream).is_some() {
                let _ = stream.write_all(&message(b'D', &body));
                read_message(stream);
            }
        });
    }
}

#[test]
fn notices_without_end_are_cut_off() {
    let notice = message(b'N', b"SNOTICE\0Mhello\0\0");
    let notices = notice.clone();
    attack("again and again", move |stream| {
        read_startup(stream);
        for_ever(stream, &notices);
    });
    attack("everything but its answer", move |stream| {
        if let_in(stream).is_some() {
            for_ever(stream, &notice);
        }
    });
    attack("lets us in again and again", |stream| {
        read_startup(stream);
        let _ = stream.write_all(&message(b'R', OK));
        for_ever(stream, &message(b'S', b"name\0value\0"));
    });
}

#[test]
fn what_comes_byte_by_byte_and_what_does_not_come_is_not_waited_for() {
    let slowly = |stream: &mut dyn Stream, bytes: &[u8]| {
        for byte in bytes {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    };
    attack("did not answer within 1 s", move |stream| slowly(stream, &message(b'R', OK)));
    attack("did not answer within 2 s", move |stream| {
        if let_in(stream).is_some() {
            slowly(stream, &row(&[b'a'; 200]));
        }
    });
    attack("did not answer within 1 s", |stream| drop(stream.read_to_end(&mut Vec::new())));
}

#[test]
fn an_error_is_shown_in_its_words_and_no_longer_than_a_person_reads() {
    attack("go away", |stream| {
        read_startup(stream);
        let words = [&b"SFATAL\0C28000\0Mgo away\x1b[2J"[..], &[b'!'; 10_000], b"\0\0"].concat();
        let _ = stream.write_all(&message(b'E', &words));
        read_message(stream);
    });
    attack("ERROR", |stream| {
        read_startup(stream);
        let _ = stream.write_all(&message(b'E', b"no fields and no end"));
        read_message(stream);
    });
}

#[test]
fn other_answers_to_a_login_are_an_error_and_no_panic() {
    for body in
        [&b""[..], &[0, 0, 0, 10], &[0, 0, 0, 10, b'X'], &[0, 0, 0, 99], &[0, 0, 0, 11], &[0, 0, 0, 12, 1]]
    {
        attack("no connection to the server at", move |stream| {
            read_startup(stream);
            let _ = stream.write_all(&message(b'R', body));
            read_message(stream);
        });
    }
    for kind in *b"GHWKTtdcZ1" {
        attack("no connection to the server at", move |stream| {
            read_startup(stream);
            let _ = stream.write_all(&message(kind, &[0; 8]));
            read_message(stream);
        });
    }
}

/// Answers the beginning of SCRAM with a challenge of so many rounds.
fn scram(stream: &mut dyn Stream, rounds: &str) -> Option<()> {
    read_startup(stream)?;
    stream.write_all(&message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0")).ok()?;
    let (_, body) = read_message(stream)?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let (_, nonce) = text.split_once(",r=")?;
    let challenge = format!("r={nonce}server,s=c2FsdA==,i={rounds}");
    stream.write_all(&message(b'R', &[&[0, 0, 0, 11], challenge.as_bytes()].concat())).ok()?;
    read_message(stream)?;
    Some(())
}

#[test]
fn a_server_that_asks_for_hashing_without_end_gets_none() {
    attack("iteration count", |stream| scram(stream, "4294967295").unwrap_or_default());
    attack("no connection", |stream| {
        scram(stream, "99999999999999999999").unwrap_or_default();
    });
}

#[test]
fn a_server_that_does_not_know_the_password_is_not_believed() {
    attack("verification", |stream| {
        if scram(stream, "4096").is_some() {
            let proof = [&[0, 0, 0, 12][..], b"v=bm90aGluZw=="].concat();
            let _ = stream.write_all(&message(b'R', &proof));
            read_message(stream);
        }
    });
    attack("without proof", |stream| {
        if scram(stream, "4096").is_some() {
            let _ = stream.write_all(&[message(b'R', &[0; 4]), message(b'Z', b"I")].concat());
            read_message(stream);
        }
    });
}

#[test]
fn over_plain_tcp_the_password_itself_is_not_sent() {
    let _alone = alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (outbox, inbox) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A request for TLS is eight bytes; then comes the rest.
            let first = read_startup(&mut stream);
            if first.is_some_and(|body| body.len() == 4) {
                let _ = stream.write_all(b"N");
                read_startup(&mut stream);
            }
            let _ = stream.write_all(&message(b'R', &[0, 0, 0, 3]));
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            let _ = outbox.send(heard);
        }
    });
    for tls in [None, Some(Tls::Preferred), Some(Tls::Disabled)] {
        let place = Place::Tcp { host: "localhost".into(), port };
        let target = Target::named(ConnectOptions { tls, ..options() }, place)
            .where_addresses_are_the_servers([(std::net::Ipv4Addr::LOCALHOST, port).into()]);
        judge::<Client>(&target, "not encrypted");
        assert_eq!(inbox.recv_timeout(SLACK).unwrap(), b"", "{tls:?}");
        // And where no server that is traced was seen to listen, no connection is made.
        let target =
            Target::named(ConnectOptions { tls, ..options() }, Place::Tcp { host: "127.0.0.1".into(), port });
        judge::<Client>(&target, "no server that is traced was seen to listen");
        assert!(inbox.recv_timeout(Duration::from_millis(300)).is_err(), "it connected");
    }
    let place = Place::Tcp { host: "localhost".into(), port };
    let required = Target::named(ConnectOptions { tls: Some(Tls::VerifyIdentity), ..options() }, place);
    judge::<Client>(&required, "no TLS");
}
