//! Needs root: identity on the filesystems that number their files each in its own way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, create_dir, create_dir_all, remove_file};
use std::io::{BufRead, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::disk::{Mounted, run};
use crate::common::measured::{Measured, counts, number, text};
use crate::common::traced::Traced;
use crate::common::{Running, id_of, needs, rows};
use fsynctop::engine::rules::Rules;
use fsynctop::files::resolve;
use fsynctop::model::Role;
use fsynctop::sampler::Sampler;
use serde_json::Value;

fn create(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
}

fn sync(file: &File, times: usize) {
    (0..times).for_each(|_| file.sync_all().unwrap());
}

/// Creates files until one gets the inode number of an unlinked one, as the next one does on ext4.
fn reuse_an_inode(dir: &Path) {
    let (first, second) = (dir.join("first.ibd"), dir.join("second.ibd"));
    let file = create(&first);
    let inode = file.metadata().unwrap().ino();
    sync(&file, 3);
    drop(file);
    remove_file(&first).unwrap();
    // Below an overlay, the inode may go a moment later.
    let again = (0..100).find_map(|_| {
        let file = create(&second);
        if file.metadata().unwrap().ino() == inode {
            return Some(file);
        }
        drop(file);
        remove_file(&second).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        None
    });
    sync(&again.expect("the filesystem hands the number out again"), 5);
}

fn all_equal(measured: &Measured, field: &str) -> bool {
    let values: BTreeSet<String> = measured.files().iter().map(|row| row[field].to_string()).collect();
    values.len() == 1
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn an_inode_number_reused_on_ext4_is_another_file() {
    let test = Traced::begin(reuse_an_inode);
    let disk = Mounted::image("ext4", 32);
    let measured = test.measure(disk.path(), &[]);
    measured.assert_nothing_lost();
    let expected = counts([("first.ibd", "fsync", 3), ("second.ibd", "fsync", 5)]);
    assert_eq!(measured.by_path(disk.path()), expected);
    assert!(all_equal(&measured, "inode") && !all_equal(&measured, "generation"));
    assert!(measured.files().iter().all(|row| row["identity_weak"] == false && row["filesystem"] == "ext4"));
}

/// Number and descriptor of an unlinked file are a new one's at once, while the process lives on.
fn reuse_inode_and_descriptor(dir: &Path) {
    let mut lines = std::io::stdin().lock().lines();
    lines.next();
    let (first, second) = (dir.join("first.ibd"), dir.join("#ib_redo5"));
    let file = create(&first);
    let (inode, descriptor) = (file.metadata().unwrap().ino(), file.as_raw_fd());
    sync(&file, 3);
    // So that it is looked at again when it is synced.
    std::thread::sleep(Duration::from_millis(4_000));
    sync(&file, 1);
    drop(file);
    remove_file(&first).unwrap();
    let file = create(&second);
    assert_eq!((file.metadata().unwrap().ino(), file.as_raw_fd()), (inode, descriptor));
    sync(&file, 5);
    File::create(dir.join("done")).unwrap();
    lines.next();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_file_does_not_take_the_name_of_one_that_has_its_number_and_descriptor_now() {
    let test = Traced::begin(reuse_inode_and_descriptor);
    let disk = Mounted::image("ext4", 32);
    let command = test.command(disk.path());
    let child = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).spawn();
    let mut child = Running(child.unwrap());
    let mut commands = child.0.stdin.take().unwrap();
    let config = rows::of_pid(child.0.id());
    let mut sampler = Sampler::start(&config, Rules::builtin(), "test".into()).unwrap();
    writeln!(commands, "go").unwrap();
    let done = disk.path().join("done");
    crate::common::wait_until("the workload to be done", || {
        sampler.wait(Duration::from_millis(500)).unwrap();
        sampler.snapshot().unwrap();
        done.exists()
    });
    // The first reading has it looked at, the second one has what was found.
    sampler.snapshot().unwrap();
    sampler.settle(Duration::from_secs(5)).unwrap();
    let snapshot = sampler.snapshot().unwrap();
    let rows = snapshot.files.iter().map(|row| {
        let path = row.info.path.as_deref().unwrap().strip_prefix(disk.path()).unwrap();
        (path.to_str().unwrap().to_owned(), (row.stats.count, row.info.role, row.info.unlinked))
    });
    let expected = [("#ib_redo5", (5, Role::Redo, false)), ("first.ibd", (4, Role::Tablespace, true))];
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), expected.map(|(path, is)| (path.to_owned(), is)).into());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn an_inode_number_reused_on_overlayfs_is_another_file() {
    let test = Traced::begin(reuse_an_inode);
    let disk = Mounted::image("ext4", 32);
    let overlay = Mounted::overlay(disk.path());
    let measured = test.measure(overlay.path(), &[]);
    measured.assert_nothing_lost();
    let expected = counts([("first.ibd", "fsync", 3), ("second.ibd", "fsync", 5)]);
    assert_eq!(measured.by_path(overlay.path()), expected);
    assert!(all_equal(&measured, "inode") && !all_equal(&measured, "generation"));
    assert!(measured.files().iter().all(|row| row["filesystem"] == "overlay"));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn files_on_an_overlay_over_tmpfs_are_told_apart() {
    let test = Traced::begin(|dir| {
        for i in 0..50 {
            let path = dir.join(format!("{i}.ibd"));
            let file = create(&path);
            sync(&file, i + 1);
            drop(file);
            remove_file(&path).unwrap();
        }
    });
    let memory = Mounted::tmpfs();
    let overlay = Mounted::overlay(memory.path());
    let measured = test.measure(overlay.path(), &[]);
    measured.assert_nothing_lost();
    let rows = measured.by_path(overlay.path());
    assert_eq!(rows.len(), 50);
    assert!((0..50).all(|i| rows[&(format!("{i}.ibd").into(), "fsync".to_owned())] == i + 1), "{rows:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn equal_inode_numbers_in_two_btrfs_subvolumes_are_two_files() {
    let test = Traced::begin(|dir| {
        let files = ["one", "two", "nested/three"].map(|name| create(&dir.join(name).join("ibdata1")));
        let inodes: BTreeSet<_> = files.iter().map(|file| file.metadata().unwrap().ino()).collect();
        assert_eq!(inodes.len(), 1, "each subvolume numbers its files from the same number on");
        files.iter().zip([4, 6, 8]).for_each(|(file, times)| sync(file, times));
        // A whole filesystem, through one of its subvolumes.
        rustix::fs::syncfs(&files[1]).unwrap();
    });
    let disk = Mounted::image("btrfs", 128);
    create_dir(disk.path().join("nested")).unwrap();
    for name in ["one", "two", "nested/three"] {
        run("btrfs", &["subvolume", "create", disk.path().join(name).to_str().unwrap()]);
    }
    let measured = test.measure(disk.path(), &["--ops", "fsync,syncfs"]);
    measured.assert_nothing_lost();
    let rows =
        ["one", "two", "nested/three"].map(|name| measured.only(&disk.path().join(name).join("ibdata1")));
    assert_eq!(rows.map(|row| number(row, "count")), [4, 6, 8]);
    let devices: BTreeSet<_> = rows.iter().map(|row| text(row, "device_number")).collect();
    assert_eq!(devices.len(), 3, "each subvolume has a number of its own");
    let is_whole = |row: &&Value| row["op"] == "syncfs";
    let whole = measured.files().iter().find(is_whole).expect("syncfs has a row");
    for row in rows.into_iter().chain([whole]) {
        let device = text(row, "device");
        assert!(device.starts_with("/dev/loop"), "{row}");
    }
    for row in rows {
        assert_eq!(text(row, "mount"), disk.path().display().to_string());
        assert_eq!(text(row, "filesystem"), "btrfs");
    }
    assert_eq!(measured.total(), 19);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_descriptor_on_btrfs_verifies_by_the_subvolumes_device() {
    needs(&[]);
    let disk = Mounted::image("btrfs", 128);
    for name in ["one", "two"] {
        run("btrfs", &["subvolume", "create", disk.path().join(name).to_str().unwrap()]);
    }
    let [one, two] = ["one", "two"].map(|name| disk.path().join(name).join("file"));
    let (file, _other) = (create(&one), create(&two));
    let (own, others) = (id_of(&one), id_of(&two));
    assert_eq!(own.inode, others.inode);
    let resolve = |id| resolve::resolve(Path::new("/proc"), std::process::id(), file.as_raw_fd(), id);
    let resolved = resolve(own).expect("the descriptor holds it");
    assert_eq!((resolved.path, resolved.mount.as_deref()), (one, Some(disk.path())));
    assert_eq!(resolve(others), None, "the same number in the other subvolume is another file");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn files_on_xfs_are_counted_under_their_names() {
    let test = Traced::begin(|dir| {
        create_dir_all(dir.join("data/shop")).unwrap();
        for (name, times) in [("data/ib_logfile0", 9), ("data/shop/products.ibd", 13)] {
            let path = dir.join(name);
            let file = create(&path);
            for _ in 0..times {
                std::io::Write::write_all(&mut &file, b"row").unwrap();
                sync(&file, 1);
            }
        }
        // Numbers that are handed out again.
        for i in 0..20 {
            let path = dir.join(format!("{i}.ibd"));
            sync(&create(&path), i + 1);
            remove_file(&path).unwrap();
        }
    });
    let disk = Mounted::image("xfs", 512);
    let measured = test.measure(disk.path(), &[]);
    measured.assert_nothing_lost();
    let rows = measured.by_path(disk.path());
    let count_of = |name: &str| rows[&(name.into(), "fsync".to_owned())];
    assert_eq!([count_of("data/ib_logfile0"), count_of("data/shop/products.ibd")], [9, 13]);
    assert!((0..20).all(|i| count_of(&format!("{i}.ibd")) == i + 1), "{rows:?}");
    assert_eq!((rows.len(), measured.of_role("redo")), (22, 9));
    assert!(measured.files().iter().all(|row| row["filesystem"] == "xfs"));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_file_below_a_bind_mount_has_the_path_it_was_opened_by() {
    let test = Traced::begin(|dir| {
        create_dir(dir.join("shop")).unwrap();
        sync(&create(&dir.join("shop/products.ibd")), 5);
    });
    let disk = Mounted::image("ext4", 32);
    let inner = disk.path().join("srv/mysql/data");
    create_dir_all(&inner).unwrap();
    let bound = Mounted::new(&["--bind", inner.to_str().unwrap()]);
    let measured = test.measure(bound.path(), &[]);
    measured.assert_nothing_lost();
    let row = measured.only(&bound.path().join("shop/products.ibd"));
    assert_eq!((number(row, "count"), text(row, "mount")), (5, bound.path().display().to_string()));
    assert!(text(row, "device").starts_with("/dev/loop"));
}
