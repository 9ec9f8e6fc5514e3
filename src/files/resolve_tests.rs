//! Resolution of this process's own files: no privilege needed. Other roots:
//! tests/root/beside/other_roots.rs.

use super::*;
use crate::linux::PROC;
use crate::linux::open_files::{flags, writes_are_durable};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

fn me() -> u32 {
    std::process::id()
}

/// The identity as the kernel side would send it.
fn id_of(file: &File) -> FileId {
    let info = DescriptorInfo::read(Path::new(PROC), me(), file.as_raw_fd()).unwrap();
    let mount = mount_of(Path::new(PROC), me(), info.mount_id.unwrap()).unwrap();
    let inode = rooted::attributes(file).unwrap().inode;
    FileId { device: mount.device, inode, generation: 1, weak: false, part: false }
}

fn resolve_own(file: &File, id: FileId) -> Option<Resolved> {
    resolve(Path::new(PROC), me(), file.as_raw_fd(), id)
}

fn file_called(name: &[u8]) -> (tempfile::TempDir, PathBuf, File) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join(OsStr::from_bytes(name));
    let file = File::create_new(&path).unwrap();
    (dir, path, file)
}

#[test]
fn a_verified_descriptor_gives_the_raw_path_and_where_it_lies() {
    for name in [&b"plain"[..], b"\xff\xfe", b"new\nline\x1b[2J", b"really (deleted)", b" "] {
        let (_dir, path, file) = file_called(name);
        let resolved = resolve_own(&file, id_of(&file)).unwrap();
        assert_eq!(resolved.path, path);
        assert_eq!((resolved.deleted, resolved.is_directory), (false, Some(false)));
        assert!(path.starts_with(resolved.mount.unwrap()));
        assert!(resolved.filesystem.is_some_and(|filesystem| !filesystem.is_empty()));
    }
    let directory = tempfile::tempdir().unwrap();
    let handle = File::open(directory.path()).unwrap();
    assert_eq!(resolve_own(&handle, id_of(&handle)).unwrap().is_directory, Some(true));
}

#[test]
fn a_descriptor_that_holds_another_file_is_not_used() {
    let (_dir, _, file) = file_called(b"a");
    let id = id_of(&file);
    assert_eq!(resolve_own(&file, FileId { inode: id.inode + 1, ..id }), None);
    assert_eq!(resolve_own(&file, FileId { device: id.device + 1, ..id }), None);
    assert_eq!(resolve(Path::new(PROC), me(), 1_000_000, id), None);
    assert_eq!(resolve(Path::new(PROC), 0x7fff_fff0, 1, id), None);
    assert_eq!(resolve(Path::new("/nonexistent"), me(), 1, id), None);
}

/// As SQLite does between two commits: the journal, then its directory, then the next journal.
#[test]
fn what_is_told_is_of_one_file_however_often_its_descriptor_is_used_for_another() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (directory, path, journal) = file_called(b"a-journal");
    let id = id_of(&journal);
    let parent = File::open(directory.path()).unwrap();
    let mut used = std::os::fd::OwnedFd::from(journal.try_clone().unwrap());
    let (fd, end) = (used.as_raw_fd(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                for file in [&parent, &journal] {
                    rustix::io::dup2(file, &mut used).unwrap();
                }
            }
        });
        let found: Vec<Resolved> =
            (0..20_000).filter_map(|_| resolve(Path::new(PROC), me(), fd, id)).collect();
        end.store(true, Ordering::Relaxed);
        assert!(!found.is_empty());
        let wrong = found.iter().find(|found| found.path != path || found.is_directory != Some(false));
        assert_eq!(wrong, None);
    });
}

#[test]
fn a_path_that_is_not_complete_is_not_absolute_and_its_end_is_not_known() {
    let components = [b"f".to_vec(), b"level40".to_vec()];
    let (_dir, _, file) = file_called(b"f");
    let id = id_of(&file);
    let cut = from_dentry(Path::new(PROC), me(), -1, &components, false, id).unwrap();
    assert_eq!(cut.path, Path::new("…/level40/f"));
    assert_eq!(still_exists(Path::new(PROC), me(), &cut.path, id), Existence::Unknown);
}

#[test]
fn only_the_kernels_own_deleted_suffix_is_taken_off() {
    for name in [&b"gone"[..], b"gone (deleted)"] {
        let (_dir, path, file) = file_called(name);
        std::fs::remove_file(&path).unwrap();
        let resolved = resolve_own(&file, id_of(&file)).unwrap();
        assert_eq!((resolved.path, resolved.deleted), (path, true));
    }
    // One of two names is gone: the file lives, the name that this descriptor was opened by does not.
    let (dir, path, file) = file_called(b"first");
    std::fs::hard_link(&path, dir.path().join("second")).unwrap();
    std::fs::remove_file(&path).unwrap();
    let resolved = resolve_own(&file, id_of(&file)).unwrap();
    assert_eq!((resolved.path, resolved.deleted), (path, true));
    // A deleted file, and a stranger that is called as the kernel would write the deleted one.
    let (_dir, path, file) = file_called(b"twin");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(format!("{} (deleted)", path.display()), "").unwrap();
    assert_eq!(resolve_own(&file, id_of(&file)).unwrap().path, path);
}

#[test]
fn a_rename_is_followed() {
    let (dir, path, file) = file_called(b"#ib_redo5_tmp");
    let id = id_of(&file);
    let renamed = dir.path().canonicalize().unwrap().join("#ib_redo5");
    std::fs::rename(&path, &renamed).unwrap();
    assert_eq!(resolve_own(&file, id).unwrap().path, renamed);
    let exists = |path| still_exists(Path::new(PROC), me(), path, id);
    assert_eq!(exists(&renamed), Existence::Same);
    assert_eq!(exists(&path), Existence::Unlinked);
}

#[test]
fn existence_is_told_by_the_inode() {
    let (_dir, path, file) = file_called(b"f");
    let id = id_of(&file);
    let exists = |pid, path: &Path| still_exists(Path::new(PROC), pid, path, id);
    assert_eq!(exists(me(), &path), Existence::Same);
    assert_eq!(exists(me(), &path.join("below")), Existence::Unlinked);
    assert_eq!(exists(0x7fff_fff0, &path), Existence::Unknown);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(exists(me(), &path), Existence::Unlinked);
    // `file` keeps the inode alive, so the new file has another number.
    std::fs::write(&path, "another").unwrap();
    assert_eq!(exists(me(), &path), Existence::Unlinked);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), &path).unwrap();
    assert_eq!(exists(me(), &path), Existence::Unlinked, "a symlink is not the file");
}

#[test]
fn a_name_from_the_kernel_becomes_a_path_by_its_mount() {
    let (_dir, path, file) = file_called(b"\xffname");
    let id = id_of(&file);
    let info = DescriptorInfo::read(Path::new(PROC), me(), file.as_raw_fd()).unwrap();
    let mount = mount_of(Path::new(PROC), me(), info.mount_id.unwrap()).unwrap();
    let below = path.strip_prefix(&mount.mount_point).unwrap();
    let components: Vec<Vec<u8>> = below.iter().rev().map(|name| name.as_bytes().to_vec()).collect();
    let from = |mount_id, components: &[Vec<u8>], id| {
        from_dentry(Path::new(PROC), me(), mount_id, components, true, id)
    };
    let resolved = from(mount.id, &components, id).unwrap();
    assert_eq!((&resolved.path, resolved.is_directory), (&path, None));
    assert_eq!(resolved.mount.as_ref(), Some(&mount.mount_point));
    assert_eq!(Resolved { is_directory: Some(false), ..resolved }, resolve_own(&file, id).unwrap());
    let unlisted = from(-1, &components, id).unwrap();
    assert_eq!((unlisted.path, unlisted.mount), (Path::new("/").join(below), None));
    let root = from(mount.id, &[], id).unwrap();
    assert_eq!(root.path, mount.mount_point);
    assert_eq!(from(-1, &[], id), None);
    let elsewhere = from(mount.id, &components, FileId { device: 1, ..id }).unwrap();
    assert_eq!(elsewhere.mount, None, "a mount number that was reused for another filesystem");
    let hostile = from(-1, &[b"b".to_vec(), b"/etc/x".to_vec(), b"a".to_vec()], id).unwrap();
    assert_eq!(hostile.path, Path::new("/a/b"));
}

#[test]
fn an_identity_is_found_among_the_descriptors() {
    let (_dir, _, file) = file_called(b"f");
    let id = id_of(&file);
    let twice = file.try_clone().unwrap();
    let (_dir, _, second) = file_called(b"g");
    let elsewhere = FileId { device: id.device ^ 1, ..id };
    let wanted = [elsewhere, id, id_of(&second)];
    let find = |until| find_open_descriptors(Path::new(PROC), me(), &wanted, until);
    let lowest = file.as_raw_fd().min(twice.as_raw_fd());
    let mut found = find(Instant::now() + Duration::from_secs(60));
    found.sort_by_key(|(file, _)| *file != id);
    assert_eq!(found, [(id, lowest), (id_of(&second), second.as_raw_fd())]);
    assert_eq!(find(Instant::now()), [], "there is no time");
}

#[test]
fn flags_tell_durable_writes() {
    use std::os::unix::fs::OpenOptionsExt;
    let dir = tempfile::tempdir().unwrap();
    for (custom, durable) in
        [(0, false), (libc::O_DSYNC, true), (libc::O_SYNC, true), (libc::O_DIRECTORY, false)]
    {
        let mut options = File::options();
        options.custom_flags(custom).read(true);
        let file = if custom == libc::O_DIRECTORY {
            options.open(dir.path()).unwrap()
        } else {
            options.write(true).create(true).truncate(false).open(dir.path().join("f")).unwrap()
        };
        let flags = flags(Path::new(PROC), me(), file.as_raw_fd()).unwrap();
        assert_eq!(writes_are_durable(flags), durable, "{flags:o}");
    }
}

#[test]
fn fdinfo_of_old_kernels_and_of_odd_descriptors_is_understood() {
    let info = DescriptorInfo::parse("pos:\t0\nflags:\t0100002\nmnt_id:\t27\n");
    assert_eq!(info, DescriptorInfo { flags: Some(0o100002), mount_id: Some(27), inode: None });
    assert_eq!(DescriptorInfo::parse("garbage\nflags:\tx\n"), DescriptorInfo::default());
}

#[test]
fn devices_are_called_by_their_source_or_their_mount_or_by_number() {
    let mounts = mountinfo::parse(
        b"1 0 0:42 / /b rw - btrfs /dev/vdb1 rw\n2 0 0:43 / /t rw - tmpfs none rw\n3 0 4095:9 / / rw - ext4 /dev/root rw\n4 0 0:44 / /n rw - nfs4 host:/export rw\n",
    );
    assert_eq!(device_name(&mounts, 42), "/dev/vdb1");
    assert_eq!(device_name(&mounts, 43), "/t");
    assert_eq!(device_name(&mounts, 44), "host:/export");
    assert_eq!(device_name(&mounts, 45), "0:45");
    let long = format!("1 0 0:42 / /{} rw - tmpfs none rw\n", "x".repeat(200));
    assert_eq!(device_name(mountinfo::parse(long.as_bytes()), 42), "0:42");
    assert_eq!(device_name(&mounts, 4095 << 20 | 9), "4095:9");
}

#[test]
fn first_bytes_come_from_the_very_file() {
    let (_dir, path, file) = file_called(b"odd.000001");
    let id = id_of(&file);
    std::fs::write(&path, b"\xfebin...").unwrap();
    let read = |id| first_bytes(Path::new(PROC), me(), &path, id);
    assert_eq!(read(id).unwrap(), b"\xfebin...");
    assert_eq!(read(FileId { inode: id.inode + 1, ..id }), None);
}

#[test]
fn a_file_is_open_until_its_last_descriptor_is_closed_and_while_that_is_not_known() {
    let (proc_root, own) = (Path::new(PROC), std::process::id());
    let file = tempfile::tempfile().unwrap();
    let id = id_of(&file);
    let soon = || Instant::now() + Duration::from_secs(5);
    let second = file.try_clone().unwrap();
    assert!(may_have_open(proc_root, own, id, soon()));
    drop(file);
    assert!(may_have_open(proc_root, own, id, soon()));
    drop(second);
    assert!(!may_have_open(proc_root, own, id, soon()));
    assert!(may_have_open(proc_root, own, id, Instant::now()), "there was no time to look");
    assert!(!may_have_open(proc_root, u32::MAX >> 1, id, soon()), "there is no such process");
}
