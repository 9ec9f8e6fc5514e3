//! Needs root and FUSE: a failure that is not over is told by every view, also by an exporter that is started
//! again, until root acknowledges it.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::asked::Setting;
use crate::common::faults::{fsynctop, output, stderr, stdout};
use crate::common::wait_until;

const CONDITION: i32 = 4;

fn ask(socket: &Path, arguments: &[&str]) -> Output {
    let (action, options) = arguments.split_first().unwrap();
    output(fsynctop().arg(action).arg("--socket").arg(socket).args(options))
}

/// The server's line of `status`, as JSON.
fn status(socket: &Path) -> (Option<i32>, Value) {
    let ended = ask(socket, &["status", "--output", "json"]);
    let answer: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    assert_eq!(answer["by"], "exporter");
    (ended.status.code(), answer["servers"][0].clone())
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_failure_is_told_by_every_view_and_over_a_restart_until_it_is_acknowledged() {
    let mut setting = Setting::new(&[]);
    let socket = setting.history_socket();
    assert_eq!(status(&socket).1["state"], "ok");
    setting.mount.control("fail EIO on ib_logfile0");
    setting.wait_for("failing", 503);
    setting.mount.control("ok");
    let (code, before) = status(&socket);
    assert_eq!((code, &before["because"]["errno"]), (Some(CONDITION), &"EIO".into()), "{before:#}");

    setting.upgrade();
    setting.wait_for("failing", 503);
    let (code, after) = status(&socket);
    assert_eq!(code, Some(CONDITION));
    for field in ["server", "pid", "state", "since", "sentence", "because"] {
        assert_eq!(after[field], before[field], "{field}");
    }

    let table = ask(&socket, &["status"]);
    let table = stdout(&table);
    assert!(table.starts_with("failing  shop  since 2") && table.contains("EIO"), "{table}");
    let pid = before["pid"].to_string();
    let quiet = ["once", "-d", "0.2", "--pid", &pid];
    let once = ask(&socket, &[&quiet[..], &["--fail-on", "failing"]].concat());
    assert_eq!(once.status.code(), Some(CONDITION), "{once:?}");
    let json = ask(&socket, &[&quiet[..], &["--fail-on", "failing", "--output", "json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["verdicts"][0]["state"], &json["verdicts"][0]["since"]),
        (&"failing".into(), &before["since"])
    );
    for view in [&quiet[..], &["history"]] {
        // The history of an exporter that has only just begun has nothing to show for a second.
        wait_until("the view to have figures", || ask(&socket, view).status.success());
        let said = stdout(&ask(&socket, view)).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("shop has been failing since 2") && said.contains("EIO"), "{view:?}: {said}");
    }

    let wrong = ask(&socket, &["ack", "nobody"]);
    assert!(wrong.status.code() == Some(1) && stderr(&wrong).contains("fsynctop status"), "{wrong:?}");
    let done = ask(&socket, &["ack", "shop"]);
    assert!(done.status.success() && stdout(&done).contains("shop: failures of 1 file"), "{done:?}");
    wait_until("the server to be well", || status(&socket).1["state"] == "ok");
    assert_eq!(ask(&socket, &[&quiet[..], &["--fail-on", "failing"]].concat()).status.code(), Some(0));
    // What was acknowledged stays so.
    setting.upgrade();
    setting.wait_for("ok", 200);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_status_comes_from_memory_at_once_and_without_an_exporter_from_a_look() {
    let setting = Setting::new(&[]);
    let socket = setting.history_socket();
    let took = (0..5).map(|_| {
        let begun = Instant::now();
        assert!(ask(&socket, &["status"]).status.success());
        begun.elapsed()
    });
    println!("status: {:?}", took.min().unwrap());

    let pid = setting.server_pid().to_string();
    let nobody = Path::new("/var/tmp/no-such-exporter.sock");
    let look = ask(nobody, &["status", "--pid", &pid, "--output", "json"]);
    let look: Value = serde_json::from_slice(&look.stdout).unwrap_or_else(|_| panic!("{look:?}"));
    assert_eq!((&look["by"], &look["servers"][0]["state"]), (&"a look".into(), &"ok".into()), "{look:#}");
    assert!(look["looked_for_seconds"].as_f64().unwrap() >= 2.0, "{look:#}");
    let table = stdout(&ask(nobody, &["status", "--pid", &pid]));
    assert!(table.contains("what failed before is not known"), "{table}");

    setting.mount.control("hang on ib_logfile0");
    setting.mount.wait_for_hanging(1);
    std::thread::sleep(Duration::from_secs(4));
    let hung = ask(nobody, &["status", "--pid", &pid]);
    assert_eq!(hung.status.code(), Some(CONDITION), "{hung:?}");
    assert!(stdout(&hung).starts_with("stalled"), "{hung:?}");
}
