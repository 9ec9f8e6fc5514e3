//! Clients that mean no good, or know no better: none of them stops the scrapes of others, or makes the
//! exporter's memory grow. Needs no root.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::web::{SCRAPE, Server, ask, is_closed, read_answer, scrape};
use serde_json::{Value, json};

/// What the process may take beside what it took after its first scrape.
const MORE: u64 = 8 << 20;
/// A scrape of others takes no longer, on a machine that has other work too.
const IN_TIME: Duration = Duration::from_secs(2);

/// A server whose memory is known, after it has done everything once.
struct Besieged {
    server: Server,
    before: u64,
    /// How long scrapes of others took.
    took: Vec<Duration>,
}

impl Besieged {
    fn start(told: Value) -> Besieged {
        let server = Server::start(told);
        for _ in 0..3 {
            assert_eq!(scrape(&server).status, 200);
            std::thread::sleep(Duration::from_millis(400));
        }
        let before = server.resident();
        Besieged { server, before, took: Vec::new() }
    }

    /// A scraper that connects anew for each scrape, as after a restart.
    fn scrape_for(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let answer = scrape(&self.server);
            assert_eq!(answer.status, 200);
            self.took.push(answer.took);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn end(self) -> Value {
        let slowest = self.took.iter().max().copied().unwrap_or_default();
        let grown = self.server.peak_resident().saturating_sub(self.before);
        println!(
            "{} scrapes, the slowest {slowest:?}; at first {} kB resident, then at most {} kB more",
            self.took.len(),
            self.before / 1024,
            grown / 1024
        );
        assert!(slowest < IN_TIME, "a scrape took {slowest:?}");
        assert!(grown < MORE, "memory grew by {} kB", grown / 1024);
        self.server.end()
    }
}

/// As many as there are descriptors for, tried for a while: the exporter takes them in at its own pace.
fn connect_many(server: &Server, many: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let stream = TcpStream::connect_timeout(&server.address, Duration::from_secs(20));
        stream.inspect(|stream| stream.set_nonblocking(true).unwrap()).ok()
    };
    (0..many).filter_map(connect).collect()
}

fn how_many_are_open(streams: &mut [TcpStream]) -> usize {
    streams.iter_mut().map(|stream| !is_closed(stream)).filter(|open| *open).count()
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10), "still not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn five_hundred_that_send_a_byte_now_and_then_do_not_stop_a_scrape() {
    let mut besieged = Besieged::start(json!({ "bytes": 200_000 }));
    let stop = AtomicBool::new(false);
    let mut open = 0;
    std::thread::scope(|scope| {
        let server = &besieged.server;
        let attack = {
            let mut slow = connect_many(server, 500);
            let stop = &stop;
            scope.spawn(move || {
                let letters =
                    b"GET /metrics HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
                for letter in letters.iter().cycle() {
                    for stream in &mut slow {
                        stream.set_nonblocking(true).unwrap();
                        let _ = stream.write(&[*letter]);
                    }
                    if stop.load(Ordering::Relaxed) {
                        return how_many_are_open(&mut slow);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                0
            })
        };
        besieged.took = {
            let begun = Instant::now();
            let mut took = Vec::new();
            while begun.elapsed() < Duration::from_secs(8) {
                let answer = scrape(server);
                assert_eq!(answer.status, 200);
                took.push(answer.took);
                std::thread::sleep(Duration::from_millis(100));
            }
            took
        };
        stop.store(true, Ordering::Relaxed);
        open = attack.join().unwrap();
        soon("few files are open", || server.open_files() < 100);
    });
    assert_eq!(open, 0, "the slow ones have had their five seconds");
    let report = besieged.end();
    let ended = report["gave_way"].as_u64().unwrap() + report["timed_out"].as_u64().unwrap();
    assert!(ended >= 500, "{report}");
}

#[test]
fn a_thousand_connections_are_not_all_kept_and_do_not_stop_a_scrape() {
    let mut besieged = Besieged::start(json!({}));
    let mut many = connect_many(&besieged.server, 1000);
    assert!(many.len() > 900, "only {} could connect", many.len());
    besieged.scrape_for(Duration::from_secs(1));
    // Those of the lobby come in first, one by one: on a busy machine that takes longer.
    soon("few are open", || how_many_are_open(&mut many) < 64);
    soon("few files are open", || besieged.server.open_files() < 100);
    drop(many);
    besieged.scrape_for(Duration::from_secs(1));
    let report = besieged.end();
    // Out of a place, or out of the queue for one.
    let gone = ["gave_way", "refused"].map(|how| report[how].as_u64().unwrap());
    assert!(gone.iter().sum::<u64>() >= 900, "{report}");
}

#[test]
fn who_says_nothing_is_sent_away_after_five_seconds() {
    let server = Server::start(json!({}));
    let mut silent = server.connect();
    let begun = Instant::now();
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
    let after = begun.elapsed();
    assert!((4500..6500).contains(&after.as_millis()), "{after:?}");
    assert_eq!(server.end()["timed_out"], 1);
}

#[test]
fn who_does_not_take_the_answer_is_sent_away_and_costs_no_memory() {
    let mut besieged = Besieged::start(json!({ "bytes": 3_000_000 }));
    // the answer, once rendered, is there for all of them
    let one_answer = 3_500_000;
    let mut many = connect_many(&besieged.server, 60);
    for stream in &mut many {
        stream.set_nonblocking(false).unwrap();
        stream.write_all(SCRAPE.as_bytes()).unwrap();
    }
    besieged.scrape_for(Duration::from_secs(3));
    let grown = besieged.server.peak_resident().saturating_sub(besieged.before);
    assert!(grown < MORE + 2 * one_answer, "memory grew by {} kB", grown / 1024);
    std::thread::sleep(Duration::from_secs(9));
    let mut closed = 0;
    for stream in &mut many {
        // what had been sent before is still to be had; the rest is not
        let mut got = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let ended = stream.read_to_end(&mut got);
        let timed_out = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        closed += usize::from(!timed_out && got.len() < 3_000_000);
    }
    assert_eq!(closed, 60);
    let report = besieged.server.end();
    let ended = report["timed_out"].as_u64().unwrap() + report["gave_way"].as_u64().unwrap();
    assert!(ended >= 60, "{report}");
}

#[test]
fn a_full_house_sends_the_next_one_away_with_503() {
    let server = Server::start(json!({ "takes_ms": 2000 }));
    let mut many: Vec<_> = (0..64).map(|_| server.connect()).collect();
    for stream in &mut many {
        stream.write_all(SCRAPE.as_bytes()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    let answer = ask(&mut server.connect(), SCRAPE).unwrap();
    assert_eq!((answer.status, answer.header("connection")), (503, Some("close")));
    assert_eq!(answer.text(), "too many connections\n");
    // whose answer is being made are not the ones to give way
    for stream in &mut many {
        assert_eq!(read_answer(stream, Instant::now()).unwrap().status, 200);
    }
    let report = server.end();
    assert_eq!((&report["refused"], &report["gave_way"], &report["made"]), (&json!(1), &json!(0), &json!(1)));
}

#[test]
fn huge_requests_are_refused_early() {
    let mut besieged = Besieged::start(json!({}));
    let server = &besieged.server;
    let long = "a".repeat(1 << 20);
    for request in [
        format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-Many: a\r\n".repeat(1000)),
        format!("{long} /metrics HTTP/1.1\r\n\r\n"),
        "X".repeat(10 << 20),
        "\0\u{1}\u{2}\r\n\r\n".to_owned(),
    ] {
        let mut stream = server.connect();
        // the exporter may close before it has all of it
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let refused = ["HTTP/1.1 400", "HTTP/1.1 414", "HTTP/1.1 431"];
        let is_refused = answer.is_empty() || refused.iter().any(|line| answer.starts_with(line));
        assert!(is_refused, "{answer}");
    }
    // a body without an end, which nobody reads
    let mut stream = server.connect();
    let head = "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(ask(&mut stream, head).unwrap().status, 405);
    let chunk = vec![b'x'; 1 << 16];
    let sent = (0..2000).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 200, "{sent} pieces of 64 kB were taken in");
    besieged.scrape_for(Duration::from_millis(500));
    let report = besieged.end();
    assert!(report["requests"]["431"].as_u64().unwrap() >= 3, "{report}");
}

#[test]
fn two_requests_in_one_are_two_answers() {
    let server = Server::start(json!({}));
    let mut stream = server.connect();
    stream
        .write_all(
            format!("{SCRAPE}{SCRAPE}GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 3, "{all}");
    // lengths that contradict each other are nobody's to interpret
    let smuggled = "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello";
    let answer = ask(&mut server.connect(), smuggled).unwrap();
    assert_eq!(answer.status, 400);
}

#[test]
fn a_flood_of_requests_costs_little_and_stops_nobody() {
    let mut besieged = Besieged::start(json!({ "bytes": 50_000 }));
    let stop = AtomicBool::new(false);
    let before = besieged.server.cpu();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut stream = besieged.server.connect();
                while !stop.load(Ordering::Relaxed) {
                    ask(&mut stream, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                }
            });
        }
        let mut took = Vec::new();
        while begun.elapsed() < Duration::from_secs(4) {
            let answer = scrape(&besieged.server);
            assert_eq!(answer.status, 200);
            took.push(answer.took);
        }
        stop.store(true, Ordering::Relaxed);
        besieged.took = took;
    });
    let share = (besieged.server.cpu() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("{:.0} % of a processor", share * 100.0);
    assert!(share < 0.25, "it took {:.0} % of a processor (unoptimised)", share * 100.0);
    besieged.end();
}
