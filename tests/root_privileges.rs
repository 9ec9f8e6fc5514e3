//! Needs root: a sampler that has given up its rights after attaching still names the files of other users' servers,
//! sees their syncs in flight, and gives back its rows.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::faults::FaultFs;
use common::{Running, built, can_run, wait_until};
use fsynctop::exporter::privileges;
use fsynctop::files::rules::Rules;
use fsynctop::host::tracefs::with_tracefs_if_possible;
use fsynctop::live::{Live, Options};
use fsynctop::probe::{Capacity, CommPattern, Probe, ProbeConfig, Targets};
use fsynctop::sampler::Sampler;
use fsynctop::snapshot::{FileRow, Op, Snapshot, Target};
use fsynctop::target::filter::TargetFilter;
use fsynctop::target::selection::Selection;

const SOMEBODY: u32 = 65_533;

/// Traces the processes of this name.
fn live_without_rights(comm: &'static str) -> Live {
    let config = ProbeConfig {
        targets: Targets { comms: vec![CommPattern::new(comm.as_bytes())], ..Targets::default() },
        ops: vec![Op::Fsync, Op::Fdatasync],
        mode: None,
        preemptible: fsynctop::host::may_skip_programs(),
        by_thread: false,
        capacity: Capacity { files: 64, histograms: 16 },
    };
    let make = move || -> std::io::Result<Sampler> {
        let probe = with_tracefs_if_possible(|| Probe::attach(&config)).map_err(std::io::Error::other)?;
        privileges::keep_needed()?;
        assert!(!privileges::in_words().contains("CAP_SYS_ADMIN"), "{}", privileges::in_words());
        Ok(Sampler::of_probe(probe, Rules::builtin(), "test".into()))
    };
    let options = Options { interval: Duration::from_millis(200), max_cpu: None };
    let selection = Selection::new(vec![TargetFilter::comms(&[comm.to_owned()]).unwrap()]);
    Live::start(make, selection, options).unwrap()
}

#[test]
fn files_of_another_user_are_named_and_a_full_map_gives_back_its_rows() {
    if !can_run("files_of_another_user_are_named", &["/sys/kernel/tracing/events"]) {
        return;
    }
    let live = live_without_rights("privgen");
    let directory = tempfile::tempdir().unwrap();
    let private = directory.path().join("private");
    fs::create_dir(&private).unwrap();
    chown(&private, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("privgen");
    fs::copy(built("syncgen"), &program).unwrap();
    // four times as many files as there are rows
    let load = Command::new("setpriv")
        .args([&format!("--reuid={SOMEBODY}"), &format!("--regid={SOMEBODY}"), "--clear-groups"])
        .arg(&program)
        .arg(&private)
        .args(["--files", "256", "--syncs", "5120", "--hold"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let load = Running(load.unwrap());
    let rows_of = |snapshot: &Snapshot| -> Vec<FileRow> {
        snapshot.files.iter().filter(|row| row.server.pid == load.0.id()).cloned().collect()
    };
    wait_until("all 5120 syncs", || {
        rows_of(&live.latest()).iter().map(|row| row.stats.count).sum::<u64>() == 5120
    });
    // device and mount come from the process's own /proc, which is not everybody's to read
    let confirmed = |row: &FileRow| {
        let path = row.info.path.as_ref().is_some_and(|path| path.starts_with(&private));
        matches!(row.target, Target::File(_)) && path && row.info.mount.is_some() && row.info.device.is_some()
    };
    wait_until("files with their mounts", || {
        rows_of(&live.latest()).iter().filter(|row| confirmed(row)).count() >= 64
    });
    let lost = live.latest().lost;
    assert_eq!(lost.files, 0, "{lost:?}");
}

#[test]
fn a_sync_that_hangs_is_seen() {
    if !can_run("a_sync_that_hangs_is_seen", &["/sys/kernel/tracing/events", "/dev/fuse"]) {
        return;
    }
    let live = live_without_rights("privsync");
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("privsync");
    let sync = ["/bin/sync", "/usr/bin/sync"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    fs::copy(sync, &program).unwrap();
    let faulty = FaultFs::mount("hang");
    let file = faulty.path().join("hangs");
    fs::write(&file, "x").unwrap();
    let hung = faulty.hang(Command::new(&program).arg("--data").arg(&file));
    let seen = |snapshot: &Snapshot| snapshot.in_flight.iter().any(|call| call.server.pid == hung.pid());
    wait_until("the sync that hangs", || seen(&live.latest()));
}
