//! tracefs mounted privately where it is not mounted: needs root, no BPF. Each case runs on a thread with a
//! mount namespace of its own, in which tracefs is unmounted first; the machine's own mounts are never
//! touched.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use crate::common::needs;
use fsynctop::host::{Status, checks, tracefs};
use fsynctop::linux::mountinfo;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

const ID: &str = "/sys/kernel/tracing/events/syscalls/sys_enter_fsync/id";

/// Runs `case` on a thread with mounts of its own, of which none is of these filesystems.
fn without(filesystems: &'static [&'static str], case: fn()) {
    needs(&[]);
    let outcome = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let nothing = None::<&str>;
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
        let listed = fs::read("/proc/thread-self/mountinfo").unwrap();
        let mut points: Vec<PathBuf> = mountinfo::parse(&listed)
            .into_iter()
            .filter(|mount| filesystems.contains(&mount.filesystem.as_str()))
            .map(|mount| mount.mount_point)
            .collect();
        points.reverse();
        for point in points {
            let _ = umount2(&point, MntFlags::MNT_DETACH);
        }
        case();
    });
    outcome.join().unwrap();
}

fn namespace() -> PathBuf {
    fs::read_link("/proc/thread-self/ns/mnt").unwrap()
}

/// What `with_tracefs` must do, from where tracefs is not mounted at all.
fn mounts_it_for_a_moment() {
    assert!(!Path::new(ID).exists(), "tracefs was to be unmounted here");
    assert_eq!(tracefs::locate(), None);
    let (before, directory) = (namespace(), std::env::current_dir().unwrap());
    let inside = tracefs::with_tracefs(|| (fs::read_to_string(ID), namespace())).unwrap();
    let id = inside.0.expect("the number of the tracepoint is to be read inside");
    assert!(id.trim().parse::<u32>().unwrap() > 0);
    assert_ne!(inside.1, before, "it was mounted in the thread's own namespace");
    assert_eq!(namespace(), before, "the thread came back");
    assert_eq!(std::env::current_dir().unwrap(), directory);
    assert!(!Path::new(ID).exists(), "nothing is left of it");
}

#[test]
#[ignore = "needs root"]
fn root_tracefs_is_mounted_for_a_moment_and_leaves_no_trace() {
    without(&["tracefs", "debugfs"], mounts_it_for_a_moment);
}

#[test]
#[ignore = "needs root"]
fn root_a_panic_inside_brings_the_thread_back_too() {
    without(&["tracefs", "debugfs"], || {
        let before = namespace();
        let outcome = std::panic::catch_unwind(|| tracefs::with_tracefs(|| panic!("while attaching")));
        assert!(outcome.is_err());
        assert_eq!(namespace(), before);
    });
}

#[test]
#[ignore = "needs root"]
fn root_the_check_of_tracefs_is_content_without_a_mount() {
    without(&["tracefs", "debugfs"], || {
        let verdicts = checks(0);
        let verdict = verdicts.iter().find(|verdict| verdict.name == tracefs::NAME).unwrap();
        assert_eq!(verdict.status, Status::Ok);
        assert!(verdict.detail.contains("privately"), "{}", verdict.detail);
    });
}

#[test]
#[ignore = "needs root"]
fn root_a_chroot_is_kept() {
    without(&["tracefs", "debugfs"], || {
        // a directory that is there anyway: nothing that has the whole machine mounted on it is ever to be
        // removed
        let (nothing, new) = (None::<&str>, "/mnt");
        mount(Some("/"), new, nothing, MsFlags::MS_BIND | MsFlags::MS_REC, nothing).unwrap();
        nix::unistd::chroot(new).unwrap();
        std::env::set_current_dir("/proc").unwrap();
        let own = |path| fs::metadata(path).map(|found| (found.dev(), found.ino())).unwrap();
        let mount_of_root = |text: io::Result<String>| text.unwrap().lines().next().map(str::to_owned);
        let before = (own("/"), mount_of_root(fs::read_to_string("/proc/thread-self/mountinfo")));
        mounts_it_for_a_moment();
        let after = (own("/"), mount_of_root(fs::read_to_string("/proc/thread-self/mountinfo")));
        assert_eq!(before, after);
        assert!(before.1.unwrap().contains(" / / "), "the root is the bind mount");
    });
}
