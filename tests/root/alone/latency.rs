//! Needs root and FUSE: syncs that take a known time, and syncs that fail with a known error.

use std::process::Command;
use std::time::Duration;

use crate::common::faults::{FaultFs, assert_nothing_lost, row, tool, trace};
use crate::common::needs;
use fsynctop::model::histogram::{bucket_of, lower_edge};
use serde_json::Value;

/// A quantile is the middle of a bucket, which is a sixteenth of its lower edge wide; the caller's own
/// histogram has three digits.
const BUCKET: f64 = 1.032;
const DIGITS: f64 = 1.001;
/// What lies between a call and what is measured of it: the way in and out of the kernel, ...
const SYSCALL: f64 = 200e-6;
/// ... and, on a busy machine, a wait for the processor on the way back. It hits single calls, not the median
/// of many.
const SCHEDULER: f64 = 20e-3;
const MANY: u64 = 50;

/// Delays each sync, and holds every figure against what the caller measured around its own calls, and
/// against the delay, which is a lower bound that no scheduling can break.
fn a_delay_is_measured(delay: Duration, threads: u32, syncs: u64) {
    needs(&["/dev/fuse"]);
    let mount = FaultFs::mount(&format!("delay {}ms", delay.as_millis()));
    let mut load = Command::new(tool("syncgen"));
    load.arg(mount.path()).arg("--latency").args(["--op", "fdatasync"]);
    load.args(["--threads", &threads.to_string(), "--syncs", &syncs.to_string()]);
    let (measured, printed) = trace(&["--by", "thread"], &mut load);
    let caller: Value = serde_json::from_str(&printed).unwrap();
    let caller = &caller["latency_seconds"]["fdatasync"];
    assert_nothing_lost(&measured);
    let path = mount.path().join("sync-0");
    let file = row(&measured["files"], &[("path", path.to_str().unwrap()), ("op", "fdatasync")]);
    let role = row(&measured["roles"], &[("role", "other"), ("op", "fdatasync")]);
    println!("caller {caller}\nfile {file:#}");

    let count = syncs * u64::from(threads);
    let delay = delay.as_secs_f64();
    for figures in [file, role] {
        assert_eq!(figures["count"], count);
        assert_eq!(figures["errors"], serde_json::json!({}));
        let latency = &figures["latency_seconds"];
        let seconds = |figure: &str| latency[figure].as_f64().unwrap();
        let called = |figure: &str| caller[figure].as_f64().unwrap();

        let lowest = lower_edge(bucket_of((delay * 1e9) as u64)) as f64 / 1e9;
        assert!(seconds("min") >= lowest, "a bucket below the delay is in use: {latency}");
        for quantile in ["p50", "p90", "p99", "p999"] {
            assert!(seconds(quantile) * BUCKET >= delay, "{quantile} is below the delay: {latency}");
            assert!(seconds(quantile) <= called("max") * DIGITS, "{quantile} is above all: {latency}");
        }
        let median_noise = if count >= MANY { SYSCALL } else { SCHEDULER };
        for (quantile, noise) in [("p50", median_noise), ("p99", SCHEDULER)] {
            let (ours, theirs) = (seconds(quantile), called(quantile));
            assert!(ours <= theirs * DIGITS * BUCKET, "{quantile}: {ours}, the caller saw {theirs}");
            assert!(ours * BUCKET >= theirs / DIGITS - noise, "{quantile}: {ours}, the caller saw {theirs}");
        }
        for figure in ["mean", "max"] {
            let (ours, theirs) = (seconds(figure), called(figure));
            assert!(ours >= delay && ours <= theirs * DIGITS, "{figure}: {ours}, the caller saw {theirs}");
            assert!(ours >= theirs / DIGITS - SCHEDULER, "{figure}: {ours}, the caller saw {theirs}");
        }
        assert_eq!(latency["max_exact"], true);
        let total = figures["total_seconds"].as_f64().unwrap();
        assert!((total / count as f64 - seconds("mean")).abs() < 1e-9, "{figures:#}");
        let mean_in_flight = figures["in_flight_mean"].as_f64().unwrap();
        let elapsed = measured["duration_seconds"].as_f64().unwrap();
        assert!((mean_in_flight * elapsed - total).abs() < 1e-6, "{figures:#}");
    }
    let by_thread: u64 =
        measured["threads"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(by_thread, count);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_syncs_delayed_by_a_millisecond_are_measured() {
    a_delay_is_measured(Duration::from_millis(1), 1, 150);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_syncs_delayed_by_ten_milliseconds_are_measured() {
    a_delay_is_measured(Duration::from_millis(10), 2, 30);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_syncs_delayed_by_a_tenth_of_a_second_are_measured() {
    a_delay_is_measured(Duration::from_millis(100), 2, 6);
}

/// Beyond 2^31 ns, where 32 bits end.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_syncs_delayed_by_three_seconds_are_measured() {
    a_delay_is_measured(Duration::from_secs(3), 3, 1);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_failed_syncs_are_counted_by_file_and_error() {
    needs(&["/dev/fuse"]);
    let mount = FaultFs::mount("fail EIO on sync-0\nfail ENOSPC on sync-1");
    let mut load = Command::new(tool("syncgen"));
    load.arg(mount.path()).args([
        "--files",
        "3",
        "--syncs",
        "60",
        "--threads",
        "2",
        "--op",
        "fsync,fdatasync",
    ]);
    let (measured, printed) = trace(&[], &mut load);
    let truth: Value = serde_json::from_str(&printed).unwrap();
    assert_nothing_lost(&measured);
    for (file, error) in [("sync-0", Some("EIO")), ("sync-1", Some("ENOSPC")), ("sync-2", None)] {
        let path = mount.path().join(file);
        let made = row(&truth["files"], &[("path", path.to_str().unwrap())]);
        for op in ["fsync", "fdatasync"] {
            let counted = row(&measured["files"], &[("path", path.to_str().unwrap()), ("op", op)]);
            assert_eq!(counted["count"], made["ops"][op]["calls"], "{counted:#}");
            assert_eq!(counted["count"], 20, "two threads, sixty syncs each, of three files and two calls");
            assert_eq!(counted["errors"], made["ops"][op]["errors"], "{counted:#}");
            let expected = error.map_or(serde_json::json!({}), |error| serde_json::json!({ error: 20 }));
            assert_eq!(counted["errors"], expected);
        }
    }
    for op in ["fsync", "fdatasync"] {
        let role = row(&measured["roles"], &[("role", "other"), ("op", op)]);
        assert_eq!(role["errors"], serde_json::json!({ "EIO": 20, "ENOSPC": 20 }));
    }
}
