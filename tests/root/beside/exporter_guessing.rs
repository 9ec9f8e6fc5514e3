//! Needs root, to be two users of this host: one guesses passwords, the other has the right one, and both
//! come from loopback addresses.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::needs;
use crate::common::web::{Guessers, Server, ask, authorized, users_file};
use rustix::process::Uid;
use serde_json::json;

const RIGHT: [&str; 4] = ["alice", "bob", "carol", "prometheus"];

/// What clients with the right password get from 127.0.0.1 while another user guesses from the addresses of
/// `guessers`.
fn answered_while_guessing(guessers: fn(usize) -> Ipv4Addr) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(json!({ "web_config_file": users_file(directory.path(), &RIGHT) }));
    let server = Arc::new(server);
    let guessing = {
        let server = server.clone();
        Guessers::start(30, move |number| {
            // Of this thread alone; its sockets are that user's.
            let nobody = Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?;
            server.connect_from(guessers(number))
        })
    };
    let before = guessing.guesses();
    for name in RIGHT {
        let mut stream = server.connect_from(Ipv4Addr::LOCALHOST).unwrap();
        let answer = ask(&mut stream, &authorized(name, name)).unwrap();
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert!(answer.took < Duration::from_secs(9), "{name}: {:?}", answer.took);
    }
    assert!(guessing.guesses() > before, "nobody guessed meanwhile");
}

#[test]
#[ignore = "needs root"]
fn another_user_who_guesses_from_the_same_address_stops_nobody() {
    needs(&[]);
    answered_while_guessing(|_| Ipv4Addr::LOCALHOST);
}

#[test]
#[ignore = "needs root"]
fn another_user_who_guesses_from_many_loopback_networks_stops_nobody() {
    needs(&[]);
    answered_while_guessing(|number| Ipv4Addr::new(127, 3, number as u8, 1));
}
