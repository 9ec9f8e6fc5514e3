//! Needs root: what is made durable outside of the watched calls is counted below them, to the call, on
//! filesystems that show it; and nothing else is.

mod common;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::disk::Mounted;
use common::durable::DURABLE;
use common::faults::{fsynctop, output, stdout, tool, trace};
use common::measured::{Measured, number};
use common::needs;
use common::tracing::Tracing;
use serde_json::Value;

const FILESYSTEMS: [&str; 2] = ["ext4", "xfs"];
const TRACEFS: &str = "/sys/kernel/tracing/events";
/// What DURABLE makes.
const MADE: u64 = 200;

fn durable(way: &str, file: &std::path::Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", DURABLE, way]).arg(file);
    command
}

fn unwatched(measured: &Value) -> (u64, u64) {
    let of_servers = measured["servers"].as_array().unwrap().iter().map(|server| number(server, "unwatched"));
    (number(&measured["lost"], "unwatched"), of_servers.sum())
}

/// What other processes do is counted for the whole host: one of these tests at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    needs(&[TRACEFS]);
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_each_durable_write_outside_of_the_watched_calls_is_counted_for_its_server() {
    let _alone = alone();
    for filesystem in FILESYSTEMS {
        let mounted = Mounted::image(filesystem, 400);
        for way in ["o_dsync", "rwf_dsync", "msync", "io_uring", "libaio"] {
            let file = mounted.path().join(way);
            let watched: u64 = if way == "msync" { 0 } else { MADE };
            let (measured, printed) = trace(&[], &mut durable(way, &file));
            assert_eq!(printed, "200\n");
            let missed = MADE - watched;
            assert_eq!(unwatched(&measured), (missed, missed), "{way} on {filesystem}: {measured:#}");
            assert_eq!(Measured(measured.clone()).total(), watched, "{way} on {filesystem}");
            // Where it is not watched, a worker of the kernel syncs a file that is known for a sync by call.
            if way == "libaio" {
                let (measured, _) = trace(&["--ops", "fsync"], &mut durable("libaio_known", &file));
                assert_eq!(unwatched(&measured), (MADE, MADE), "{way} on {filesystem}: {measured:#}");
                assert_eq!(Measured(measured).total(), 1);
            }
            // Where writes are not watched, the net below has them.
            if way.ends_with("dsync") {
                let (measured, _) = trace(&["--writes", "off"], &mut durable(way, &file));
                assert_eq!(unwatched(&measured), (MADE, MADE), "{way} on {filesystem}: {measured:#}");
            }
            let on = measured["unwatched_counted_on"].as_array().unwrap();
            assert!(on.iter().any(|name| name == filesystem), "{on:?}");
            // Where it is watched, it is counted there and only there.
            if way == "msync" {
                let (measured, _) = trace(&["--ops", "fsync,fdatasync,msync"], &mut durable(way, &file));
                assert_eq!(unwatched(&measured), (0, 0), "{measured:#}");
                assert_eq!(Measured(measured).total(), MADE);
            }
        }
        let file = mounted.path().join("text");
        let mut once = fsynctop();
        once.args(["once", "--writes", "off", "--", "python3", "-c", DURABLE, "o_dsync"]).arg(&file);
        let text = stdout(&output(&mut once));
        assert!(text.contains("No watched sync in "), "{text}");
        assert!(text.contains("also made data durable 200 times by calls that are not watched"), "{text}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_no_watched_call_is_taken_for_one_that_is_not() {
    let _alone = alone();
    for filesystem in FILESYSTEMS {
        let mounted = Mounted::image(filesystem, 400);
        let mut syncgen = Command::new(tool("syncgen"));
        syncgen.arg(mounted.path()).args(["--threads", "4", "--syncs", "2500", "--op", "fsync,fdatasync"]);
        syncgen.args(["--files", "3", "--write", "64"]);
        let (measured, _) = trace(&[], &mut syncgen);
        // The loop device has synced its image meanwhile, from the kernel: that is nobody's.
        let lost = &measured["lost"];
        assert_eq!((unwatched(&measured), &lost["neighbours_unwatched"]), ((0, 0), &0.into()), "{lost}");
        assert_eq!(Measured(measured).total(), 10_000);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_calls_that_are_under_way_when_tracing_begins_are_watched_ones() {
    let _alone = alone();
    let mounted = Mounted::image("ext4", 400);
    let mut syncgen = Command::new(tool("syncgen"));
    syncgen.arg(mounted.path()).args([
        "--threads",
        "8",
        "--seconds",
        "60",
        "--write",
        "64",
        "--comm",
        "mysqld",
    ]);
    let load = common::Running(syncgen.stdout(std::process::Stdio::null()).spawn().unwrap());
    let pid = load.0.id().to_string();
    for _ in 0..10 {
        let once =
            fsynctop().args(["once", "--duration", "200ms", "--output", "json", "--pid", &pid]).output();
        let measured: Value = serde_json::from_slice(&once.unwrap().stdout).unwrap();
        assert_eq!(unwatched(&measured), (0, 0), "{:#}", measured["lost"]);
        assert!(Measured(measured).total() > 0);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_neighbour_that_syncs_in_other_ways_is_counted_apart_and_nobody_is_said_to_be_alone() {
    let _alone = alone();
    let mounted = Mounted::image("ext4", 200);
    let neighbour = || {
        let file = mounted.path().join("neighbour");
        assert!(output(&mut durable("o_dsync", &file)).status.success());
    };
    let tracing = Tracing::begin(&["--output", "json"]);
    neighbour();
    let measured = tracing.measured().remove(0);
    assert_eq!(unwatched(&measured.0), (0, 0));
    assert_eq!(measured.lost("neighbours_unwatched"), MADE, "{}", measured.0["lost"]);
    measured.assert_nothing_lost();

    // A server that syncs a file there, so that its device is known.
    let mut syncgen = Command::new(tool("syncgen"));
    syncgen.arg(mounted.path()).args(["--comm", "mysqld", "--syncs", "1", "--wait", "--hold"]);
    syncgen.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut server = common::Running(syncgen.spawn().unwrap());
    let pid = server.0.id().to_string();
    let mut once = fsynctop();
    once.args(["once", "--duration", "5s", "--pid", &pid]).stdout(std::process::Stdio::piped());
    let once = once.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2_000));
    std::io::Write::write_all(server.0.stdin.as_mut().unwrap(), b"\n").unwrap();
    neighbour();
    let text = stdout(&once.wait_with_output().unwrap());
    assert!(text.contains("others on this host synced 200 times in ways"), "{text}");
    assert!(!text.contains("no other process synced"), "{text}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_check_says_where_they_are_counted() {
    let _alone = alone();
    let _mounted = FILESYSTEMS.map(|filesystem| Mounted::image(filesystem, 400));
    let output = output(fsynctop().args(["check", "--output", "json"]));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = value["checks"].as_array().unwrap();
    let ours = checks.iter().find(|check| check["name"] == "unwatched").unwrap();
    let detail = ours["detail"].as_str().unwrap();
    assert!(detail.starts_with("msync: counted on "), "{detail}");
    assert!(FILESYSTEMS.iter().all(|filesystem| detail.contains(filesystem)), "{detail}");
}
