//! Needs root and FUSE: what a program is told that asks the exporter how a server stands, while a log hangs,
//! fails and goes on, and while the exporter itself is stopped, hangs or ends.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use crate::common::asked::{BUSY, INTERVAL, LIMIT, Setting};
use crate::common::faults::{FaultFs, output, stdout};
use crate::common::wait_until;

/// For an answer out of memory, connecting included, on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(500);

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_log_that_hangs_is_told_within_the_limit_and_an_interval_and_so_is_its_end() {
    let setting = Setting::new(&[]);
    setting.mount.control("hang on ib_logfile0");
    setting.mount.wait_for_hanging(1);
    let took = setting.wait_for("stalled", 503);
    println!("hang to 503: {took:?}");
    assert!(took > LIMIT - Duration::from_millis(200) && took < LIMIT + INTERVAL + BUSY, "{took:?}");

    let verdict = setting.verdict().json();
    let server = &verdict["servers"][0];
    assert_eq!((&server["server"], &server["state"]), (&"shop".into(), &"stalled".into()), "{verdict:#}");
    let because = &server["because"];
    assert_eq!((&because["role"], &because["op"]), (&"redo".into(), &"fdatasync".into()), "{verdict:#}");
    assert!(because["path"].as_str().unwrap().ends_with("ib_logfile0"), "{verdict:#}");
    assert!(because["age_seconds"].as_f64().unwrap() >= 2.0, "{verdict:#}");

    let url = "/api/v1/verdict";
    assert_eq!(setting.ask_on_loopback("GET", url).status, 503);
    let head = setting.ask_on_loopback("HEAD", url);
    assert_eq!((head.status, head.body.as_str()), (503, ""));
    assert_eq!(setting.ask("/api/v1/verdict?server=shop").status, 503);
    assert_eq!(setting.ask("/api/v1/verdict?server=shop&strict").status, 503);
    assert_eq!(setting.ask("/api/v1/verdict?server=shops").status, 404);
    assert_eq!(setting.ask("/api/v1/verdict?strct").status, 400);
    assert_eq!(setting.ask_on_loopback("GET", "/-/healthy").status, 200);
    for page in ["/", "/metrics", "/status", "/-/ready", "/api/v1"] {
        assert_eq!(setting.ask(page).status, 404, "{page}");
        assert_eq!(setting.ask_on_loopback("GET", page).status, 404, "{page}");
    }
    let metrics = setting.exporter.get("/metrics");
    for (state, value) in
        [("ok", 0), ("idle", 0), ("slow", 0), ("unknown", 0), ("stalled", 1), ("failing", 0)]
    {
        let line = format!("fsynctop_verdict{{server=\"shop\",state=\"{state}\"}} {value}");
        assert!(metrics.lines().any(|found| found == line), "{line}:\n{metrics}");
    }
    assert!(metrics.contains("fsynctop_verdict_since_timestamp_seconds{server=\"shop\"} 1"), "{metrics}");
    // The main entrance has it as well, among its other pages.
    assert!(setting.exporter.get(url).contains("\"stalled\""));

    setting.mount.control("release");
    let took = setting.wait_for("ok", 200);
    println!("release to 200: {took:?}");
    assert!(took < INTERVAL + BUSY, "{took:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_failure_stays_until_root_acknowledges_it() {
    let setting = Setting::new(&[]);
    setting.mount.control("fail EIO on ib_logfile0");
    let took = setting.wait_for("failing", 503);
    println!("EIO to 503: {took:?}");
    setting.mount.control("ok");
    // What is read after a failed sync may be what was never written: that it works again says nothing.
    std::thread::sleep(3 * INTERVAL);
    let failing = setting.verdict();
    assert_eq!((failing.status, &failing.json()["servers"][0]["because"]["errno"]), (503, &"EIO".into()));

    let acknowledge = "http://db1/api/v1/verdict/acknowledge?server=";
    let socket = setting.socket();
    let curl = ["curl", "-sS", "-X", "POST", "-w", "%{http_code}", "--unix-socket", socket.to_str().unwrap()];
    let ask = |before: &[&str], url: &str| {
        let all = [before, &curl, &[url]].concat();
        stdout(&output(Command::new(all[0]).args(&all[1..])))
    };
    let other = ["setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups"];
    assert!(ask(&other, &format!("{acknowledge}shop")).ends_with("403"));
    // The exporter's own user, which is nobody here, and other daemons' as well.
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let refused = ask(&nobody, &format!("{acknowledge}shop"));
    assert!(refused.ends_with("403") && refused.contains("only root may"), "{refused}");
    assert!(ask(&[], &format!("{acknowledge}nobody")).ends_with("404"));
    assert!(ask(&[], acknowledge.trim_end_matches("?server=")).ends_with("400"));
    assert_eq!(setting.ask("/api/v1/verdict/acknowledge?server=shop").status, 405, "by GET");
    assert_eq!(setting.ask_on_loopback("POST", "/api/v1/verdict/acknowledge?server=shop").status, 404);
    assert_eq!(setting.verdict().state(), "failing");

    let done = ask(&[], &format!("{acknowledge}shop"));
    assert!(done.ends_with("200") && done.contains("\"acknowledged_files\":1"), "{done}");
    setting.wait_for("ok", 200);
    setting.exporter.wait_for_line("user 0 has acknowledged failures of 1 file of shop");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_whatever_hangs_there_is_an_answer_at_once() {
    let users = FaultFs::mount("ok");
    let config = users.path().join("web.yml");
    std::fs::write(&config, "{}\n").unwrap();
    let setting = Setting::new(&["--web-config-file", config.to_str().unwrap()]);

    // The filesystem of its own configuration hangs.
    let frozen = users.freeze();
    setting.exporter.signal("HUP");
    for _ in 0..20 {
        let asked = setting.verdict();
        assert!(asked.status == 200 && asked.state() == "ok" && asked.took < AT_ONCE, "{:?}", asked.took);
        std::thread::sleep(Duration::from_millis(100));
    }
    let looked = "was read anew";
    assert!(!setting.exporter.log().contains(looked), "it waits: {}", setting.exporter.log());
    drop(frozen);
    // It had been about to read it all the while.
    setting.exporter.wait_for_line(looked);

    // A hundred at once.
    let slowest = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..100).map(|_| scope.spawn(|| setting.verdict())).collect();
        let answers = clients.into_iter().map(|client| client.join().unwrap());
        answers.map(|asked| (assert_eq!(asked.status, 200), asked.took).1).max().unwrap()
    });
    println!("a hundred at once: {slowest:?}");
    assert!(slowest < BUSY, "{slowest:?}");

    // The process that traces stands still: what it said last becomes too old, and is unknown.
    setting.exporter.signal("STOP");
    let took = setting.wait_for("unknown", 202);
    println!("stopped to unknown: {took:?}");
    assert!(took < 3 * INTERVAL + Duration::from_secs(2) + BUSY, "{took:?}");
    let asked = setting.ask("/api/v1/verdict?strict");
    assert!(asked.status == 503 && asked.took < AT_ONCE, "{} {:?}", asked.status, asked.took);
    assert_eq!(asked.json()["stale"], true);
    setting.exporter.signal("CONT");
    setting.wait_for("ok", 200);

    let loopback = setting.loopback();
    setting.exporter.signal("KILL");
    wait_until("nobody to answer", || UnixStream::connect(setting.socket()).is_err());
    let refused = TcpStream::connect(&loopback).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
