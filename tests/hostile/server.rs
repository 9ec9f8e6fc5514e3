//! Whoever listens in a server's place may send what it likes: each attack ends in time, in little memory,
//! with an error in words, and leaves no thread behind. The peers here are real ones that speak the protocol
//! wrongly on purpose.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use fsynctop::server::asking::find::Target;
use fsynctop::server::asking::options::{ConnectOptions, Place, Tls};
use fsynctop::server::asking::secret::Secret;
use fsynctop::server::mysql::status::client::Client;

use crate::common::hostile::{SLACK, Stream, alone, for_ever, judge};

const PASSWORD: &str = "open sesame";
fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    [&length[..3], &[sequence], body].concat()
}

/// CLIENT_SSL
const SSL: u32 = 0x800;

fn greeting_for(plugin: &str, ssl: u32) -> Vec<u8> {
    // PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, LOCAL_FILES, TRANSACTIONS.
    let capabilities: u32 = 0x0000_0200 | 0x0000_8000 | 0x0008_0000 | 0x80 | 0x2000 | ssl;
    let mut body = b"\x0a8.4.0\0\x01\0\0\0abcdefgh\0".to_vec();
    body.extend(&capabilities.to_le_bytes()[..2]);
    body.extend([45, 2, 0]);
    body.extend(&capabilities.to_le_bytes()[2..]);
    body.push(21);
    body.extend([0; 10]);
    body.extend(b"ijklmnopqrst\0");
    body.extend(plugin.bytes());
    body.push(0);
    packet(0, &body)
}

fn greeting() -> Vec<u8> {
    greeting_for("mysql_native_password", 0)
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const END: &[u8] = &[0xfe, 0, 0, 2, 0];

/// What one packet of the client's says. None: it hung up.
fn read_packet(stream: &mut dyn Stream) -> Option<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let mut body = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// Lets the client in, answers its first question, and returns when it asks the second.
fn let_in(stream: &mut dyn Stream) -> Option<()> {
    stream.write_all(&greeting()).ok()?;
    read_packet(stream)?;
    stream.write_all(&packet(2, OK)).ok()?;
    read_packet(stream)?;
    stream.write_all(&packet(1, OK)).ok()?;
    read_packet(stream)?;
    Some(())
}

fn column() -> Vec<u8> {
    [&b"\x03def\0\0\0\x01a\0\x0c\x2d\0\xff\xff\0\0\xfd\0\0\0\0\0"[..]].concat()
}

/// A unix socket where everybody who connects meets `peer`.
fn target(directory: &tempfile::TempDir, peer: impl Fn(&mut dyn Stream) + Send + Sync + 'static) -> Target {
    let path: PathBuf = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| peer(&mut stream.unwrap()));
    });
    let options = ConnectOptions {
        user: Some("monitor".into()),
        password: Some(Secret::new(PASSWORD.into())),
        ..ConnectOptions::default()
    };
    Target::named(options, Place::Socket(path))
}

fn attack(says: &str, peer: impl Fn(&mut dyn Stream) + Send + Sync + 'static) {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    judge::<Client>(&target(&directory, peer), says);
}

#[test]
fn a_number_of_columns_that_no_memory_has_room_for_is_refused() {
    attack("columns", |stream| {
        if let_in(stream).is_some() {
            let count = [&[0xfe], &(1u64 << 34).to_le_bytes()[..]].concat();
            let _ = stream.write_all(&packet(1, &count));
            read_packet(stream);
        }
    });
}

#[test]
fn rows_without_end_are_cut_off() {
    attack("more than", |stream| {
        if let_in(stream).is_some() {
            let mut sequence = 1u8;
            let mut send = |body: &[u8]| {
                let sent = stream.write_all(&packet(sequence, body));
                sequence = sequence.wrapping_add(1);
                sent.is_ok()
            };
            let _ = send(&[1]) && send(&column()) && send(END);
            while send(b"\x01a") {}
        }
    });
}

#[test]
fn long_rows_without_end_are_cut_off() {
    attack("more than", |stream| {
        if let_in(stream).is_some() {
            let mut sequence = 1u8;
            let mut send = |body: &[u8]| {
                let sent = stream.write_all(&packet(sequence, body));
                sequence = sequence.wrapping_add(1);
                sent.is_ok()
            };
            let _ = send(&[1]) && send(&column()) && send(END);
            let row = [&[0xfd, 0, 0, 1][..], &[b'a'; 1 << 16]].concat();
            while send(&row) {}
        }
    });
}

#[test]
fn a_row_that_ends_inside_a_value_is_no_row() {
    attack("row", |stream| {
        if let_in(stream).is_some() {
            for (sequence, body) in [&[1][..], &column(), END, b"\xfd\xff\xff\xffa"].iter().enumerate() {
                let _ = stream.write_all(&packet(1 + sequence as u8, body));
            }
            read_packet(stream);
        }
    });
}

#[test]
fn packets_of_sixteen_megabytes_are_not_waited_for() {
    attack("more than", |stream| {
        if let_in(stream).is_some() {
            let block = vec![b'a'; 1 << 20];
            for sequence in (1..=255).cycle() {
                let header = stream.write_all(&[0xff, 0xff, 0xff, sequence]).is_ok();
                let body = (0..16).all(|part| {
                    let length = block.len() - usize::from(part == 15);
                    stream.write_all(&block[..length]).is_ok()
                });
                if !header || !body {
                    break;
                }
            }
        }
    });
}

#[test]
fn a_greeting_without_end_is_refused() {
    attack("more than", |stream| {
        let _ = stream.write_all(&[0xff, 0xff, 0xff, 0, 0x0a]);
        for_ever(stream, &[b'8'; 4096]);
    });
}

#[test]
fn a_greeting_that_comes_byte_by_byte_is_not_waited_for() {
    attack("did not answer within 1 s", |stream| {
        for byte in greeting() {
            if stream.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_not_waited_for() {
    attack("did not answer within 2 s", |stream| {
        if let_in(stream).is_some() {
            for byte in std::iter::once(&packet(1, &[1])).flatten().chain(&packet(2, &[b'a'; 200])) {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    });
}

#[test]
fn silence_is_not_waited_for() {
    attack("did not answer within 1 s", |stream| drop(read_packet(stream)));
}

#[test]
fn a_socket_that_accepts_nobody_is_not_waited_for() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = || socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let listener = make();
    let address = SocketAddrUnix::new(&path).unwrap();
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = make();
        if rustix::net::connect(&socket, &address).is_err() {
            break; // no room for one more
        }
        waiting.push(socket);
    }
    let target = Target::named(ConnectOptions::default(), Place::Socket(path));
    judge::<Client>(&target, "did not answer within 1 s");
}

#[test]
fn an_error_is_shown_in_its_words_and_no_longer_than_servers_make_them() {
    attack("go away", |stream| {
        let words = [&b"\xff\x10\x04go away\x1b[2J"[..], &[b'!'; 10_000]].concat();
        let _ = stream.write_all(&packet(0, &words));
    });
}

#[test]
fn other_plugins_are_not_tried_without_end() {
    attack("again and again", |stream| {
        let _ = stream.write_all(&greeting());
        let switch = b"\xfemysql_native_password\0abcdefghijklmnopqrst\0";
        for sequence in (2..=254).step_by(2).cycle() {
            if read_packet(stream).is_none() || stream.write_all(&packet(sequence, switch)).is_err() {
                break;
            }
        }
    });
}

#[test]
fn empty_packets_are_an_error_and_no_panic() {
    attack("empty packet", |stream| {
        let _ = stream.write_all(&greeting());
        read_packet(stream);
        let _ = stream.write_all(&packet(2, b""));
        read_packet(stream);
    });
    attack("empty packet", |stream| drop(stream.write_all(&packet(0, b""))));
}

#[test]
fn greetings_that_are_cut_or_garbled_are_an_error_and_no_panic() {
    let _alone = alone();
    let whole = greeting();
    let body = &whole[4..];
    let mut bad: Vec<Vec<u8>> = (0..body.len() - 24).map(|length| body[..length].to_vec()).collect();
    // The length of the challenge, as no server says it.
    let at = 1 + 6 + 4 + 8 + 1 + 2 + 1 + 2 + 2;
    assert_eq!(body[at], 21);
    bad.extend([0x80, 0xff].map(|length| [&body[..at], &[length], &body[at + 1..]].concat()));
    for body in bad {
        let directory = tempfile::tempdir().unwrap();
        let target = target(&directory, move |stream| drop(stream.write_all(&packet(0, &body))));
        judge::<Client>(&target, "no connection to the server at");
    }
}

/// Everything that a client sends after its login packet.
fn recorded(stream: &mut dyn Stream, outbox: &Sender<Vec<u8>>) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let _ = outbox.send(rest);
}

fn received(inbox: &Receiver<Vec<u8>>) -> Vec<u8> {
    inbox.recv_timeout(SLACK).expect("the client hung up")
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_password_itself_is_not_given_to_who_asks_for_it() {
    for plugin in ["mysql_clear_password", "dialog", "mysql_old_password", "sha256_password"] {
        let (outbox, inbox) = channel();
        attack(&format!("asks for {plugin}"), move |stream| {
            let _ = stream.write_all(&greeting());
            read_packet(stream);
            let request = [&b"\xfe"[..], plugin.as_bytes(), b"\0Password: "].concat();
            let _ = stream.write_all(&packet(2, &request));
            recorded(stream, &outbox);
        });
        assert_eq!(received(&inbox), b"", "{plugin}");
    }
}

#[test]
fn no_file_is_sent_to_a_server_that_asks_for_one() {
    let (outbox, inbox) = channel();
    attack("asks for a file", move |stream| {
        if let_in(stream).is_some() {
            let _ = stream.write_all(&packet(1, b"\xfb/etc/passwd"));
            recorded(stream, &outbox);
        }
    });
    let sent = received(&inbox);
    assert!(sent.is_empty(), "{:?}", String::from_utf8_lossy(&sent));
}

/// A port of 127.0.0.1 where everybody who connects meets `peer`.
fn port(peer: impl Fn(&mut dyn Stream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(|stream| peer(&mut stream.unwrap())));
    port
}

fn over_tcp(port: u16, tls: Option<Tls>) -> Target {
    let options = ConnectOptions {
        user: Some("monitor".into()),
        password: Some(Secret::new(PASSWORD.into())),
        tls,
        ..ConnectOptions::default()
    };
    Target::named(options, Place::Tcp { host: "localhost".into(), port })
}

/// Asks for the password as caching_sha2_password does when it does not know it yet, and has a key of its own
/// ready.
fn ask_for_the_password(stream: &mut dyn Stream, outbox: &Sender<Vec<u8>>) {
    let _ = stream.write_all(&greeting_for("caching_sha2_password", 0));
    read_packet(stream);
    let _ = stream.write_all(&packet(2, &[1, 4]));
    recorded(stream, outbox);
}

#[test]
fn over_plain_tcp_no_key_is_asked_for_and_no_password_sent() {
    let _alone = alone();
    let (outbox, inbox) = channel();
    let port = port(move |stream| ask_for_the_password(stream, &outbox));
    for tls in [None, Some(Tls::Preferred), Some(Tls::Disabled)] {
        let target =
            over_tcp(port, tls)
                .where_addresses_are_the_servers([(std::net::Ipv4Addr::LOCALHOST, port).into()]);
        judge::<Client>(&target, "not encrypted");
        assert_eq!(received(&inbox), b"", "{tls:?}: a request for a key, or a password");
    }
}

#[test]
fn a_local_port_that_is_not_the_servers_gets_no_password() {
    let _alone = alone();
    let (outbox, inbox) = channel();
    let port = port(move |stream| recorded(stream, &outbox));
    for tls in [None, Some(Tls::Required), Some(Tls::Disabled)] {
        judge::<Client>(&over_tcp(port, tls), "no server that is traced was seen to listen on 127.0.0.1:");
        let sent = inbox.try_recv().unwrap_or_default();
        assert!(!contains(&sent, PASSWORD) && sent.is_empty(), "{sent:?}");
    }
}

#[test]
fn bytes_from_before_the_encryption_are_not_taken_for_encrypted_ones() {
    let _alone = alone();
    let port = port(|stream| {
        let early = packet(1, OK);
        let _ = stream.write_all(&[greeting_for("mysql_native_password", SSL), early].concat());
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let target = over_tcp(port, Some(Tls::Required)).where_addresses_are_the_servers([(
        std::net::Ipv4Addr::LOCALHOST,
        port,
    )
        .into()]);
    judge::<Client>(&target, "more than its greeting before the encryption began");
}

#[test]
fn a_server_that_has_no_tls_any_more_is_not_talked_to_without() {
    let _alone = alone();
    let (outbox, inbox) = channel();
    let port = port(move |stream| {
        let _ = stream.write_all(&greeting());
        recorded(stream, &outbox);
    });
    for tls in [Tls::Required, Tls::VerifyIdentity] {
        judge::<Client>(
            &over_tcp(port, Some(tls)).where_addresses_are_the_servers([(
                std::net::Ipv4Addr::LOCALHOST,
                port,
            )
                .into()]),
            "has no TLS",
        );
        assert_eq!(received(&inbox), b"");
    }
}
