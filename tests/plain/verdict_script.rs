//! `examples/verdict/fsynctop-verdict` beside an exporter that answers in each way, or not at all. How
//! keepalived runs it beside a real one is in tests/root/alone/verdict_consumers.rs.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const BODY: &str = "{\"state\":\"it is said here\"}";
/// Of the second that it has, what a busy machine may take to start its programs.
const SLACK: Duration = Duration::from_secs(5);

fn ask(socket: &Path, on_unknown: Option<&str>) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/verdict/fsynctop-verdict");
    let mut command = Command::new("sh");
    command.arg(script).arg("shop").env("FSYNCTOP_VERDICT_SOCKET", socket).env_remove("ON_UNKNOWN");
    command.envs(on_unknown.map(|value| ("ON_UNKNOWN", value))).output().unwrap()
}

/// What it ends with, says and complains of, and how often it asked, where these statuses are the answers to
/// its requests, one after the other; 0 closes the connection without one.
fn answered(statuses: &[u16], on_unknown: Option<&str>) -> (i32, String, String, usize) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("verdict.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let asked = AtomicUsize::new(0);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            for status in statuses {
                let (mut client, _) = listener.accept().unwrap();
                let mut request = [0; 4_096];
                let length = client.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                if request.is_empty() {
                    return;
                }
                asked.fetch_add(1, Ordering::Relaxed);
                let is_strict = request.starts_with("GET /api/v1/verdict?server=shop&strict HTTP");
                assert_eq!(is_strict, on_unknown.is_some(), "{request}");
                if *status != 0 {
                    let length = BODY.len() + 1;
                    let head =
                        format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n");
                    client.write_all(format!("{head}\r\n{BODY}\n").as_bytes()).unwrap();
                }
            }
        });
        let output = ask(&socket, on_unknown);
        // If it was asked fewer times, it waits still.
        drop(UnixStream::connect(&socket));
        output
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr), asked.load(Ordering::Relaxed))
}

#[test]
fn only_what_is_wrong_ends_with_1_and_what_is_not_known_is_said() {
    let said = format!("fsynctop-verdict: {BODY}");
    for (status, plain, failing) in [(200, 0, 0), (503, 1, 1), (202, 0, 1), (404, 0, 1), (400, 0, 1)] {
        for (on_unknown, code) in [(None, plain), (Some("fail"), failing)] {
            let (ended, stdout, stderr, _) = answered(&[status], on_unknown);
            let expected = match status {
                200 => ("", ""),
                503 => (BODY, ""),
                _ => ("", &*said),
            };
            assert_eq!((ended, (&*stdout, &*stderr)), (code, expected), "{status} {on_unknown:?}");
        }
    }
}

#[test]
fn whoever_does_not_answer_is_asked_once_more_and_is_not_well() {
    let (code, _, stderr, asked) = answered(&[0, 503], None);
    assert_eq!((code, &*stderr, asked), (1, "", 2), "the second answer counts");
    for (on_unknown, expected) in [(None, 0), (Some("fail"), 1)] {
        let (code, stdout, stderr, asked) = answered(&[0, 0], on_unknown);
        assert_eq!((code, &*stdout, asked), (expected, "", 2));
        assert!(stderr.starts_with("fsynctop-verdict: no answer, which is not well: curl: "), "{stderr}");
    }
    // Nobody accepts.
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("verdict.sock");
    let _silent = UnixListener::bind(&socket).unwrap();
    let began = Instant::now();
    let output = ask(&socket, None);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no answer"), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", began.elapsed());
}
