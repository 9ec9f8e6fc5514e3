//! Needs root: a sampler that has given up its rights after attaching still names the files of other users'
//! servers, sees their syncs in flight, and gives back its rows.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::faults::FaultFs;
use crate::common::rows;
use crate::common::{Running, built, needs, wait_until};
use fsynctop::engine::engines::Engines;
use fsynctop::engine::rules::Rules;
use fsynctop::exporter::confine::User;
use fsynctop::exporter::privileges;
use fsynctop::host::tracefs::with_tracefs_if_possible;
use fsynctop::live::{Live, Options};
use fsynctop::model::{FileRow, Snapshot, Target};
use fsynctop::probe::{Capacity, Probe, ProbeConfig};
use fsynctop::sampler::Sampler;
use fsynctop::server::who::filter::TargetFilter;
use fsynctop::server::who::selection::Selection;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

const SOMEBODY: u32 = 65_533;

/// Traces the processes of this name.
fn live_without_rights(comm: &'static str) -> Live {
    let config =
        ProbeConfig { capacity: Capacity { files: 64, histograms: 16, threads: 64 }, ..rows::of_comm(comm) };
    let make = move || -> std::io::Result<Sampler> {
        let probe = with_tracefs_if_possible(|| Probe::attach(&config)).map_err(std::io::Error::other)?;
        privileges::keep_needed(User::default()).map_err(std::io::Error::other)?;
        assert!(!privileges::in_words().contains("CAP_SYS_ADMIN"), "{}", privileges::in_words());
        Ok(Sampler::of_probe(probe, Rules::builtin(), "test".into()))
    };
    let options = Options { interval: Duration::from_millis(200), max_cpu: None, ..Options::default() };
    let selection =
        Selection::new(Engines::builtin(), vec![TargetFilter::comms(&[comm.to_owned()]).unwrap()]);
    Live::start(make, selection, options).unwrap()
}

/// syncgen as another user, in a directory that is only for this one. The process is called privgen.
struct Somebody {
    load: Running,
    private: PathBuf,
    _directory: tempfile::TempDir,
}

impl Somebody {
    fn start(arguments: &[&str]) -> Somebody {
        let directory = tempfile::tempdir().unwrap();
        let private = directory.path().join("private");
        fs::create_dir(&private).unwrap();
        chown(&private, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = directory.path().join("privgen");
        fs::copy(built("syncgen"), &program).unwrap();
        let load = Command::new("setpriv")
            .args([&format!("--reuid={SOMEBODY}"), &format!("--regid={SOMEBODY}"), "--clear-groups"])
            .arg(&program)
            .arg(&private)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Somebody { load: Running(load.unwrap()), private, _directory: directory }
    }
}

/// The calling thread has these capabilities in effect.
fn have(effective: CapabilitySet) {
    let own = capabilities(None).unwrap();
    set_capabilities(None, CapabilitySets { effective, ..own }).unwrap();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn files_of_another_user_are_named_and_a_full_map_gives_back_its_rows() {
    needs(&["/sys/kernel/tracing/events"]);
    let live = live_without_rights("privgen");
    // four times as many files as there are rows
    let somebody = Somebody::start(&["--files", "256", "--syncs", "5120", "--hold"]);
    let rows_of = |snapshot: &Snapshot| -> Vec<FileRow> {
        snapshot.files.iter().filter(|row| row.server.pid == somebody.load.0.id()).cloned().collect()
    };
    wait_until("all 5120 syncs", || {
        rows_of(&live.latest()).iter().map(|row| row.stats.count).sum::<u64>() == 5120
    });
    let confirmed = |row: &FileRow| {
        let path = row.info.path.as_ref().is_some_and(|path| path.starts_with(&somebody.private));
        matches!(row.target, Target::File(_)) && path && row.info.mount.is_some() && row.info.device.is_some()
    };
    wait_until("files with their mounts", || {
        rows_of(&live.latest()).iter().filter(|row| confirmed(row)).count() >= 64
    });
    let lost = live.latest().lost;
    assert_eq!(lost.files, 0, "{lost:?}");
}

/// What describing a server reads of it, and naming its files: each must work for the whole to work.
fn reads(pid: u32, private: &Path) -> [bool; 4] {
    let link = |what: &str| format!("/proc/{pid}/{what}");
    let descriptors = fs::read_dir(link("fd")).is_ok_and(|entries| {
        entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(private)))
    });
    let root = Path::new(&link("root")).join(private.strip_prefix("/").unwrap());
    [
        descriptors,
        fs::read(link("maps")).is_ok_and(|maps| !maps.is_empty()),
        fs::read(link("syscall")).is_ok(),
        fs::read(root.join("sync-0")).is_ok(),
    ]
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn what_is_kept_is_enough_to_read_another_users_server_and_none_of_it_is_too_much() {
    needs(&[]);
    let somebody = Somebody::start(&["--hold"]);
    let (pid, private) = (somebody.load.0.id(), somebody.private.clone());
    wait_until("its file", || private.join("sync-0").exists());
    let as_thread = |prepare: fn()| {
        let private = private.clone();
        let task = move || {
            prepare();
            reads(pid, &private)
        };
        std::thread::spawn(task).join().unwrap()
    };
    assert_eq!(as_thread(|| privileges::keep_needed(User::default()).unwrap()), [true; 4]);
    assert_eq!(as_thread(|| have(CapabilitySet::empty())), [false; 4]);
    assert_eq!(as_thread(|| have(CapabilitySet::SYS_PTRACE)), [false, true, false, false]);
    assert_eq!(as_thread(|| have(CapabilitySet::DAC_READ_SEARCH)), [false; 4]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_sync_that_hangs_is_seen() {
    needs(&["/sys/kernel/tracing/events", "/dev/fuse"]);
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
