//! Needs root: how a measurement ends. The result comes before the programs are detached, and has the
//! latencies of the syncs that end a moment later.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::common::faults::{FaultFs, fsynctop, output, row, stdout};
use crate::common::{Running, needs, sleeper, tracepoints, wait_until};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;

/// A pipe that has no room, so that whoever prints waits for its reader.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b' '; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_result_is_printed_and_its_end_read_before_the_tracepoints_are_detached() {
    needs(&["/sys/kernel/tracing/events"]);
    // It is to be the last user of its tracepoints, which waits for the kernel.
    tracepoints::let_go();
    let target = sleeper();
    let pid = target.0.id().to_string();
    for (action, says) in [("once", "sleep"), ("explain", "No sync of a traced process was seen")] {
        let (mut reader, writer) = full_pipe();
        let mut command = fsynctop();
        command.args([action, "-d", "0.1", "--attach", "tracepoint", "--pid", &pid]);
        let mut tracing = Running(command.stdout(writer).spawn().unwrap());
        drop(command);
        let of_it = |file: &str| PathBuf::from(format!("/proc/{}/{file}", tracing.0.id()));
        let prints = format!("{} 0x1 ", libc::SYS_write);
        let call = || std::fs::read_to_string(of_it("syscall")).unwrap_or_default();
        wait_until("it to print", || call().starts_with(&prints));
        let descriptors = std::fs::read_dir(of_it("fd")).unwrap().map(|entry| entry.unwrap().path());
        let attached = descriptors
            .filter_map(|descriptor| std::fs::read_link(descriptor).ok())
            .filter(|target| target.to_str() == Some("anon_inode:[perf_event]"))
            .count();
        assert!(attached > 0, "{action}: nothing is attached any more");
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.contains(says), "{action}: {}", text.trim_start());
        // Unless it has ended meanwhile.
        if let Ok(out) = std::fs::read_link(of_it("fd/1")) {
            assert_eq!(out, Path::new("/dev/null"), "{action}");
        }
        assert!(tracing.0.wait().unwrap().success(), "{action}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_sync_that_ends_a_moment_after_the_measurement_counts_with_its_latency() {
    needs(&["/dev/fuse"]);
    let mount = FaultFs::mount("delay 20ms");
    mount.go_first();
    let file = mount.path().join("last");
    std::fs::write(&file, "x").unwrap();
    // The command ends once its child's sync is in flight.
    let script = r#"sync --data "$1" & while :; do read -r call rest </proc/$!/syscall; [ "$call" = "$2" ] && exit; done"#;
    let fdatasync = libc::SYS_fdatasync.to_string();
    for _ in 0..3 {
        let mut once = fsynctop();
        once.args(["once", "--by", "file", "--output", "json", "--", "sh", "-c", script, "sh"]);
        once.arg(&file).arg(&fdatasync);
        let output = output(&mut once);
        let measured: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{output:?}"));
        let row = row(&measured["files"], &[("path", file.to_str().unwrap())]);
        assert_eq!(row["count"], 1, "{measured}");
        let seconds = row["latency_seconds"]["max"].as_f64().unwrap();
        assert!((0.020..0.1).contains(&seconds), "{seconds}: {measured}");
    }
}
