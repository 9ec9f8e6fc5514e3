//! Clients that guess passwords, or flood the exporter on every connection that there is, and what others get
//! meanwhile. Needs no root.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::web::{Guessers, SCRAPE, Server, ask, authorized, users_file};
use serde_json::json;

const GUESSER: Ipv4Addr = Ipv4Addr::new(127, 0, 7, 66);
/// None of them has been checked before: each needs a turn.
const RIGHT: [&str; 4] = ["alice", "bob", "carol", "prometheus"];

/// What clients with the right password get from `source` while others guess from another address.
fn answered_while_guessing(source: Ipv4Addr) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(json!({ "web_config_file": users_file(directory.path(), &RIGHT) }));
    let server = Arc::new(server);
    let guessing = {
        let server = server.clone();
        Guessers::start(60, move |_| server.connect_from(GUESSER))
    };
    let before = guessing.guesses();
    for name in RIGHT {
        let mut stream = server.connect_from(source).unwrap();
        let answer = ask(&mut stream, &authorized(name, name)).unwrap();
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert!(answer.took < Duration::from_secs(9), "{name}: {:?}", answer.took);
    }
    assert!(guessing.guesses() > before, "nobody guessed meanwhile");
}

#[test]
fn a_right_client_of_another_network_is_answered_while_others_guess() {
    answered_while_guessing(Ipv4Addr::new(127, 0, 9, 1));
}

#[test]
fn a_right_client_of_the_same_network_is_answered_while_others_guess() {
    answered_while_guessing(Ipv4Addr::new(127, 0, 7, 1));
}

#[test]
fn requests_without_end_on_every_connection_stop_nobody() {
    let server = Arc::new(Server::start(json!({})));
    let flood = {
        let server = server.clone();
        Guessers::start(80, move |_| server.connect_from(GUESSER))
    };
    let before = flood.guesses();
    for _ in 0..20 {
        let mut stream = server.connect_from(Ipv4Addr::new(127, 0, 9, 1)).unwrap();
        let answer = ask(&mut stream, SCRAPE).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert!(flood.guesses() > before);
}
