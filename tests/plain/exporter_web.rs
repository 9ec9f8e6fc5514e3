//! The exporter's web server as its clients see it: pages, forms, sharing, and the end. Needs no root.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::common::web::{SCRAPE, Server, ask, curl, read_answer, scrape, status};
use serde_json::json;

#[test]
fn every_page_is_there_and_nothing_else() {
    let server = Server::start(json!({}));
    for (path, code, content_type, part) in [
        ("/", 200, "text/html; charset=utf-8", "<a href=\"/metrics\">"),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8", "renders_total 1\n"),
        ("/metrics?name=x", 200, "text/plain; version=0.0.4; charset=utf-8", "renders_total"),
        ("/status", 200, "application/json", "\"schema\": 1"),
        ("/-/healthy", 200, "text/plain; charset=utf-8", "healthy"),
        ("/-/ready", 200, "text/plain; charset=utf-8", "ready"),
        ("/nothing", 404, "text/plain; charset=utf-8", "no such page"),
        ("/metrics/", 404, "text/plain; charset=utf-8", "no such page"),
        ("/%2e%2e/etc/passwd", 404, "text/plain; charset=utf-8", "no such page"),
    ] {
        let answer = ask(&mut server.connect(), &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).unwrap();
        assert_eq!((answer.status, answer.header("content-type")), (code, Some(content_type)), "{path}");
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    let landing = ask(&mut server.connect(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(landing.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let text = landing.text();
    assert!(!text.contains("http:") && !text.contains("src="), "something from elsewhere in {text}");
    let report = server.end();
    assert_eq!((&report["requests"]["200"], &report["requests"]["404"]), (&json!(7), &json!(3)));
}

#[test]
fn head_has_everything_but_the_body_and_other_methods_are_refused() {
    let server = Server::start(json!({ "bytes": 5000 }));
    let mut stream = server.connect();
    let get = ask(&mut stream, SCRAPE).unwrap();
    let head = curl(&["--head", &server.url("/metrics")]);
    let head = String::from_utf8(head.stdout).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("content-length: {}\r\n", get.body.len())), "{head}");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        let answer = ask(&mut stream, &format!("{method} /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).unwrap();
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    // none of all that was the end of the connection
    assert_eq!(ask(&mut stream, SCRAPE).unwrap().status, 200);
    assert_eq!(status(&["--data", "body", &server.url("/metrics")]), 405);
    assert_eq!(status(&["--request", "GET", "--data", "body", &server.url("/metrics")]), 400);
}

#[test]
fn it_is_not_ready_until_it_is_and_says_why_without_markup() {
    let server = Server::start(json!({ "not_ready": true }));
    let ready = curl(&["--write-out", "%{http_code}", &server.url("/-/ready")]);
    assert_eq!(String::from_utf8_lossy(&ready.stdout), "not yet: <attaching>\n503");
    assert_eq!(status(&[&server.url("/-/healthy")]), 200);
    let landing = String::from_utf8(curl(&[&server.url("/")]).stdout).unwrap();
    assert!(landing.contains("not yet: &lt;attaching&gt;"), "{landing}");
}

#[test]
fn an_answer_is_compressed_for_who_asks_for_that() {
    let server = Server::start(json!({ "bytes": 400_000 }));
    let plain = scrape(&server);
    let (directory, url) = (tempfile::tempdir().unwrap(), server.url("/metrics"));
    let file = directory.path().join("scrape.gz");
    let accept = "Accept-Encoding: gzip";
    let headers = curl(&["--header", accept, "--dump-header", "-", "--output", file.to_str().unwrap(), &url]);
    assert!(String::from_utf8_lossy(&headers.stdout).contains("content-encoding: gzip\r\n"));
    let compressed = std::fs::read(&file).unwrap();
    assert!(compressed.len() < plain.body.len() / 5, "{}", compressed.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text.len(), plain.body.len());
    assert_eq!(plain.header("vary"), Some("Accept, Accept-Encoding"));
}

#[test]
fn each_client_gets_the_form_that_it_asks_for_whatever_others_ask_for_at_the_same_time() {
    const MESSAGE: &str =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let server = Server::start(json!({ "takes_ms": 600 }));
    let forms = [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", "# Text"),
        (
            "application/openmetrics-text",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "# OpenMetrics",
        ),
        (
            MESSAGE,
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
            "# Protobuf",
        ),
    ];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            for (accept, content_type, found) in forms {
                let url = server.url("/metrics");
                scope.spawn(move || {
                    let accept = format!("Accept: {accept}");
                    let answer = curl(&["--header", &accept, "--compressed", "--dump-header", "-", &url]);
                    let answer = String::from_utf8(answer.stdout).unwrap();
                    assert!(answer.contains(&format!("content-type: {content_type}\r\n")), "{answer}");
                    assert!(answer.contains("content-encoding: gzip\r\n"), "{answer}");
                    assert!(answer.contains(&format!("{found}\n")), "{answer}");
                });
            }
        }
    });
    // Each was made once.
    assert_eq!(server.end()["made"], 3);
}

#[test]
fn whatever_stands_in_accept_is_answered() {
    let server = Server::start(json!({}));
    for accept in [
        "",
        ",,,;;;",
        "text/plain;q=;version=",
        "*/*;q=NaN",
        "*/*;q=-1, text/*;q=1e999",
        &"application/openmetrics-text;version=\"1.0.0,".repeat(300),
        &"a/b;q=0.1,".repeat(1_400),
        "text/plain;version=0.0.4;version=1.0.0;q=0;q=1",
        "\u{202e}/\u{ff}",
    ] {
        let mut stream = server.connect();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
        let answer = ask(&mut stream, &request).unwrap();
        assert_eq!(answer.status, 200, "{accept}");
        assert!(
            answer.header("content-type").is_some_and(|it| it.contains("version=") || it.contains("proto="))
        );
    }
}

#[test]
fn scrapes_at_the_same_time_share_one_answer() {
    let server = Server::start(json!({ "bytes": 100_000, "takes_ms": 300 }));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..40).map(|_| scope.spawn(|| scrape(&server))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for answer in &answers {
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("renders_total 1\n"), "it was made more than once");
    }
    assert_eq!(server.end()["made"], 1);
}

#[test]
fn asking_without_a_pause_costs_little() {
    let server = Server::start(json!({ "bytes": 200_000, "takes_ms": 20 }));
    let mut stream = server.connect();
    let (begun, mut asked) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(ask(&mut stream, SCRAPE).unwrap().status, 200);
        asked += 1;
    }
    let report = server.end();
    // 20 ms of work are given for half a second, and requests come 200 a second after a burst of 200
    let made = report["made"].as_u64().unwrap();
    assert!((2..=7).contains(&made), "made {made} times");
    assert!((300..=1000).contains(&asked), "{asked} answers in 3 s");
}

#[test]
fn a_connection_is_kept_for_the_next_scrape() {
    let server = Server::start(json!({ "bytes": 300_000 }));
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, SCRAPE).unwrap().status, 200);
    // longer than a request and an answer may take: now it is idle
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(ask(&mut stream, SCRAPE).unwrap().status, 200);
    let report = server.end();
    assert_eq!((&report["connections"], &report["timed_out"]), (&json!(1), &json!(0)));
}

#[test]
fn a_scrape_in_progress_is_answered_before_the_end_and_no_new_one_begins() {
    // Long enough for a machine that is busy to close the idle connection meanwhile.
    let mut server = Server::start(json!({ "takes_ms": 4000 }));
    let (mut idle, mut busy) = (server.connect(), server.connect());
    let begun = Instant::now();
    std::io::Write::write_all(&mut busy, SCRAPE.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    server.tell_to_end();
    let mut rest = Vec::new();
    assert_eq!(idle.read_to_end(&mut rest).unwrap(), 0, "an idle connection is closed at once");
    assert!(begun.elapsed() < Duration::from_millis(3900), "{:?}", begun.elapsed());
    // Its tasks end in no particular order.
    let is_closed = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        std::net::TcpStream::connect(server.address).is_err()
    });
    assert!(is_closed, "it still listens");
    let answer = read_answer(&mut busy, begun).unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(server.end()["requests"]["200"], 1);
}
