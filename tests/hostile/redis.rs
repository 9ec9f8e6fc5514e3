//! Whoever listens in the place of a Redis may send what it likes: each attack ends in time, in little
//! memory, with an error in words, and leaves no thread behind. The peers here are real ones that answer
//! wrongly on purpose.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use fsynctop::model::Server;
use fsynctop::server::asking::choose;
use fsynctop::server::asking::find::Target;
use fsynctop::server::asking::options::{ConnectOptions, Place, Tls};
use fsynctop::server::asking::secret::Secret;
use fsynctop::server::asking::{Scope, StatusError};
use fsynctop::server::redis::status::Connection;
use fsynctop::server::redis::status::client::Client;
use fsynctop::server::redis::status::reading::Reading;
use fsynctop::server::who::processes;

use crate::common::hostile::{SLACK, alone, at, for_ever, judge, listen, this_process};
use crate::common::sleeper;

/// The sections that are asked for.
fn sections() -> [String; 4] {
    let server = format!(
        "# Server\r\nredis_version:7.0.15\r\nprocess_id:{}\r\nrun_id:a\r\nuptime_in_seconds:1\r\n",
        std::process::id()
    );
    let persistence =
        "# Persistence\r\nrdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:0\r\nrdb_saves:3\r\n";
    let commands = "# Commandstats\r\ncmdstat_flushall:calls=1,usec=2\r\n";
    [server, persistence.into(), "# Replication\r\nrole:master\r\n".into(), commands.into()]
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// All answers to one reading, its settings included.
fn whole() -> String {
    let infos: String = sections().iter().map(|section| bulk(section)).collect();
    infos + &"*0\r\n".repeat(4)
}

/// The words of the next command; None where the client has gone.
fn command(stream: &mut dyn Read) -> Option<Vec<String>> {
    let mut line = || {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte).ok()?;
            line.push(byte[0]);
        }
        String::from_utf8(line).ok()
    };
    let words: usize = line()?.trim().strip_prefix('*')?.parse().ok()?;
    (0..words).map(|_| line().and_then(|_| Some(line()?.trim_end().to_owned()))).collect()
}

/// Each of a reading: four sections, four settings.
fn whole_request(stream: &mut dyn Read) -> Option<()> {
    (0..8).try_for_each(|_| command(stream).map(|_| ()))
}

fn read(target: &Target) -> Result<Reading, StatusError> {
    Connection::open(target).and_then(|mut connection| connection.read(Scope::Everything))
}

/// A peer that is asked something, and then does this.
fn attack(says: &str, peer: impl Fn(&mut TcpStream) + Send + Sync + 'static) {
    let _alone = alone();
    let address = listen(move |stream| {
        if command(stream).is_some() {
            peer(stream);
        }
    });
    judge::<Client>(&at(address), says);
}

/// Answers that and no more.
fn attack_with(says: &str, bytes: impl AsRef<[u8]> + Send + Sync + 'static) {
    attack(says, move |stream| {
        let _ = stream.write_all(bytes.as_ref());
        // What is still unread would reset the connection, and the answer with it.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
}

#[test]
fn an_answer_as_redis_gives_it_is_one() {
    let _alone = alone();
    let address = listen(|stream| {
        while let Some(words) = command(stream) {
            let answer = match (&*words[0], &*words[1]) {
                ("INFO", "server") => bulk(&sections()[0]),
                ("INFO", "persistence") => bulk(&sections()[1]),
                ("INFO", "replication") => bulk(&sections()[2]),
                ("INFO", "commandstats") => bulk(&sections()[3]),
                ("CONFIG", "GET") if words[2] == "save" => "-NOPERM this user has no permissions\r\n".into(),
                ("CONFIG", "GET") => format!("*2\r\n{}{}", bulk(&words[2]), bulk("yes")),
                other => panic!("{other:?} was asked"),
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let mut connection = Connection::open(&at(address)).unwrap();
    for _ in 0..3 {
        let reading = connection.read(Scope::Everything).unwrap();
        assert_eq!(reading.version().as_deref(), Some("Redis 7.0.15"));
    }
}

#[test]
fn an_answer_without_end_is_cut_off() {
    attack("a line of its answer is too long", |stream| for_ever(stream, &[b'+'; 4096]));
    attack("is longer than any of Redis'", |stream| {
        let _ = stream.write_all(b"$1099511627776\r\n");
        for_ever(stream, &[b'a'; 4096]);
    });
    attack("more parts than any", |stream| {
        let _ = stream.write_all(b"*1000000\r\n");
        for_ever(stream, b"$1\r\na\r\n");
    });
    // Each section is as long as one may be, and does not end in time.
    attack("did not answer within 1 s", |stream| {
        let _ = stream.write_all(b"$262144\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
}

#[test]
fn what_comes_byte_by_byte_and_what_does_not_come_is_not_waited_for() {
    attack("did not answer within 1 s", |stream| {
        for byte in whole().as_bytes() {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    attack("did not answer within 1 s", |stream| drop(stream.read_to_end(&mut Vec::new())));
    let _alone = alone();
    // The first answer is right, and the second does not end.
    let address = listen(|stream| {
        for _ in 0..3 {
            command(stream);
        }
        let first: String = sections()[..3].iter().map(|section| bulk(section)).collect();
        let _ = stream.write_all(first.as_bytes());
        if whole_request(stream).is_some() {
            let _ = stream.write_all(&whole().as_bytes()[..100]);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    judge::<Client>(&at(address), "did not answer within 2 s");
}

#[test]
fn what_is_no_answer_of_redis_is_an_error() {
    attack_with("does not speak Redis' protocol", "HTTP/1.1 400 Bad Request\r\n\r\n");
    attack_with("does not speak Redis' protocol", "J\0\0\0\x0a8.0.36\0");
    attack_with("its answers are not Redis'", ":1\r\n".repeat(7));
    attack_with("its answers are not Redis'", bulk("").repeat(3));
    attack_with("is no count", bulk("rdb_saves:many\r\n").repeat(3));
    attack_with("is too long", bulk(&format!("run_id:{}\r\n", "a".repeat(500))).repeat(3));
    attack_with("is no number", "$x\r\n");
    attack_with("does not speak Redis' protocol", "*1\r\n*1\r\n*1\r\n");
    attack_with("without an answer", "");
    attack_with("its answer is cut off", "$10\r\nabc");
}

#[test]
fn words_of_the_peer_are_short_and_cannot_write_to_the_terminal() {
    attack_with("\\x1b[2J", "-ERR \x1b[2J\x1b]0;mine\x07\r\n");
    attack_with("aaa…", format!("-{}\r\n", "a".repeat(3_000)));
    attack_with("a password by --password or REDISCLI_AUTH", "-NOAUTH Authentication required.\r\n");
    attack_with("the account needs +info", "-NOPERM this user has no permissions\r\n");
}

#[test]
fn where_tls_is_wanted_the_message_says_what_to_do() {
    attack_with("if it wants TLS there, give --ssl-mode", "");
    let _alone = alone();
    let address = listen(|stream| {
        let _ = stream.write_all(whole().as_bytes());
        let _ = stream.read(&mut [0; 100]);
    });
    let mut target = at(address);
    target.options.tls = Some(Tls::Required);
    let error = read(&target).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no connection") && !error.contains("if it wants"), "{error}");
}

fn serve(stream: &mut (impl Read + Write)) {
    while let Some(words) = command(stream) {
        let answer = match &*words[0] {
            "AUTH" => "+OK\r\n".to_owned(),
            "CONFIG" => "*0\r\n".to_owned(),
            _ => {
                let known = sections();
                let of_it = ["server", "persistence", "replication", "commandstats"]
                    .iter()
                    .position(|name| *name == words[1]);
                bulk(&known[of_it.unwrap()])
            }
        };
        let _ = stream.write_all(answer.as_bytes());
    }
}

#[test]
fn a_place_where_the_traced_server_does_not_listen_is_another_server_s() {
    let _alone = alone();
    let address = listen(serve);
    let named = || ConnectOptions { port: Some(address.port()), ..ConnectOptions::default() };
    let status = |server: Server| choose::choose::<Client>(vec![server], named()).unwrap().status.map(|_| ());
    status(this_process("redis-server")).unwrap();
    let sleep = sleeper();
    let other = processes::find(Path::new("/proc"), sleep.0.id()).unwrap();
    let error = status(Server::new(other.id(), "redis-server".into())).unwrap_err().to_string();
    let says = format!(
        "the connection leads to another server: process {} does not listen at {address}",
        sleep.0.id()
    );
    assert_eq!(error, says);
}

#[test]
fn a_password_goes_to_no_place_that_was_merely_found_and_to_no_stranger() {
    let _alone = alone();
    let (outbox, inbox) = std::sync::mpsc::channel();
    let address = listen(move |stream| {
        let words = command(stream);
        let _ = outbox.send(words);
    });
    let with_password =
        || ConnectOptions { password: Some(Secret::new("secret".into())), ..Default::default() };
    // Found by its port: this process listens there, and calls itself a server.
    let chosen = choose::choose::<Client>(vec![this_process("redis-server")], with_password()).unwrap();
    let error = chosen.status.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no place to use it"), "{error}");
    // Named, but no server that is traced was seen to listen there.
    let mut target = at(address);
    target.options = with_password();
    judge::<Client>(&target, "the password is not sent there");
    assert!(inbox.try_recv().is_err(), "something was sent");
    // It was, and does no more.
    let target = target.where_addresses_are_the_servers([address]);
    judge::<Client>(&target, "no server that is traced listens there any more");
    assert!(inbox.recv_timeout(SLACK).unwrap().is_none(), "something was sent");
    // And one that does.
    let mut target = at(address);
    (target.servers, target.options) = (vec![std::process::id()], with_password());
    judge::<Client>(&target.where_addresses_are_the_servers([address]), "without an answer");
    assert_eq!(inbox.recv_timeout(SLACK).unwrap().unwrap(), ["AUTH", "secret"]);
}

#[test]
fn a_socket_of_a_process_that_is_not_traced_hears_nothing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("redis.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (outbox, inbox) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut first = [0];
            let heard = stream.read_exact(&mut first).is_ok();
            let _ = outbox.send(heard);
        }
    });
    for servers in [vec![], vec![1]] {
        let mut target = Target::named(ConnectOptions::default(), Place::Socket(path.clone()));
        target.servers = servers;
        judge::<Client>(&target, "none of the servers that are traced");
        assert!(!inbox.recv_timeout(SLACK).unwrap());
    }
}
