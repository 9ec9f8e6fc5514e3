//! Needs root: which file was synced. Descriptors, names and links change; the file that the kernel synced
//! does not.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, create_dir, remove_file, rename};
use std::io::BufRead;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::common::disk::Mounted;
use crate::common::faultfs::FaultFs;
use crate::common::measured::{count, counts, path_of, text};
use crate::common::traced::{Live, Traced};
use crate::common::wait_until;

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn sync(file: &File, times: usize) {
    (0..times).for_each(|_| file.sync_all().unwrap());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_descriptor_reused_ten_thousand_times_counts_for_the_file_it_stood_for() {
    let test = Traced::begin(|dir| {
        let number = open(&dir.join("a")).as_raw_fd();
        for i in 0..10_000 {
            // Every third time the second file.
            let file = open(&dir.join(if i % 3 == 2 { "b" } else { "a" }));
            assert_eq!(file.as_raw_fd(), number);
            file.sync_data().unwrap();
        }
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    assert_eq!(measured.by_path(dir.path()), counts([("a", "fdatasync", 6_667), ("b", "fdatasync", 3_333)]));
    assert_eq!(measured.total(), 10_000);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_rename_between_syncs_keeps_one_row_with_one_of_the_names() {
    let test = Traced::begin(|dir| {
        let names = ["#ib_redo7_tmp", "#ib_redo7"].map(|name| dir.join(name));
        let file = open(&names[0]);
        for i in 0..5_000 {
            sync(&file, 1);
            rename(&names[i % 2], &names[(i + 1) % 2]).unwrap();
        }
        rename(&names[0], &names[1]).unwrap();
        sync(&file, 1);
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    let [row] = measured.files() else { panic!("one identity: {:?}", measured.files()) };
    assert_eq!(count(row), 5_001);
    let name = path_of(row).unwrap().strip_prefix(dir.path()).unwrap().to_owned();
    assert!(name == Path::new("#ib_redo7") || name == Path::new("#ib_redo7_tmp"), "{name:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_file_whose_process_lives_a_millisecond_has_its_name() {
    let test = Traced::begin(|dir| {
        create_dir(dir.join("shop")).unwrap();
        let path = dir.join("shop/short.ibd");
        let file = open(&path);
        sync(&file, 1);
        remove_file(&path).unwrap();
        drop(file);
    });
    for dir in [Mounted::tmpfs(), Mounted::image("ext4", 32)] {
        let measured = test.measure(dir.path(), &[]);
        measured.assert_nothing_lost();
        assert_eq!(measured.by_path(dir.path()), counts([("shop/short.ibd", "fsync", 1)]));
        assert_eq!(measured.files()[0]["role"], "tablespace");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn files_of_one_basename_are_told_apart() {
    let test = Traced::begin(|dir| {
        for (database, times) in [("shop", 11), ("shop/old", 22)] {
            create_dir(dir.join(database)).unwrap();
            sync(&open(&dir.join(database).join("products.ibd")), times);
        }
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    let expected = counts([("shop/products.ibd", "fsync", 11), ("shop/old/products.ibd", "fsync", 22)]);
    assert_eq!(measured.by_path(dir.path()), expected);
}

const HOSTILE: &[u8] = b"a\nb\x1b[2J\x1b]0;title\x07\xff\xfe\xc2\x9b31m\xe2\x80\xae.ibd";

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_hostile_name_is_whole_in_json_and_harmless_in_a_table() {
    let test = Traced::begin(|dir| {
        sync(&open(&dir.join(OsStr::from_bytes(HOSTILE))), 7);
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    let [row] = measured.files() else { panic!("{:?}", measured.files()) };
    assert_eq!((count(row), text(row, "role").as_str()), (7, "tablespace"));
    assert_eq!(path_of(row).unwrap(), dir.path().join(OsStr::from_bytes(HOSTILE)));
    for output in ["table", "csv", "json"] {
        let printed = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
            .args(["once", "--by", "file", "--color", "never", "--output", output, "--"])
            .args(test.command(dir.path()))
            .output()
            .unwrap();
        let text = String::from_utf8(printed.stdout).expect("what is no text is escaped");
        assert!(text.contains("31m"), "the file is there: {text}");
        let bad = text.chars().find(|&c| c != '\n' && (c.is_control() || c == '\u{202e}'));
        assert_eq!(bad, None, "{output}: {text:?}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_directory_is_synced_under_its_own_name() {
    let test = Traced::begin(|dir| {
        create_dir(dir.join("#innodb_redo")).unwrap();
        sync(&File::open(dir.join("#innodb_redo")).unwrap(), 4);
        sync(&File::open(dir).unwrap(), 3);
    });
    for dir in [Mounted::tmpfs(), Mounted::image("ext4", 32)] {
        let measured = test.measure(dir.path(), &[]);
        measured.assert_nothing_lost();
        assert_eq!(measured.by_path(dir.path()), counts([("#innodb_redo", "fsync", 4), ("", "fsync", 3)]));
        assert_eq!(measured.of_role("directory"), 7);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_file_without_a_directory_entry_has_a_row_of_its_own() {
    let test = Traced::begin(|dir| {
        let file =
            File::from(rustix::fs::memfd_create("in memory", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        sync(&file, 5);
        let path = dir.join("deleted");
        let file = open(&path);
        remove_file(&path).unwrap();
        sync(&file, 6);
        // A file that took the name of a deleted one is another file.
        sync(&open(&path), 7);
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    let mut rows: Vec<_> = measured.files().iter().map(|row| (count(row), path_of(row).unwrap())).collect();
    rows.sort();
    let [(5, memory), (6, deleted), (7, new)] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(memory, Path::new("/memfd:in memory"));
    assert_eq!([deleted, new], [&dir.path().join("deleted"); 2]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_file_in_a_chroot_has_the_path_that_its_process_sees() {
    let test = Traced::begin(|dir| {
        std::os::unix::fs::chroot(dir.join("jail")).unwrap();
        std::env::set_current_dir("/").unwrap();
        let file = open(Path::new("/data/ibdata1"));
        for line in std::io::stdin().lock().lines() {
            sync(&file, line.unwrap().parse().unwrap());
        }
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("jail/data")).unwrap();
    let mut live = Live::start("0.2", &[], &test.command(dir.path()));
    let (mut sent, mut seen) = (0, 0);
    wait_until("the path inside of the chroot", || {
        live.tell("3");
        sent += 3;
        let interval = live.next().expect("the workload runs");
        seen += interval.total();
        interval.files().iter().any(|row| path_of(row).as_deref() == Some(Path::new("/data/ibdata1")))
    });
    let (left, success) = live.end();
    assert!(success);
    assert_eq!(seen + left.iter().map(|interval| interval.total()).sum::<u64>(), sent);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_file_that_is_renamed_while_its_sync_hangs_stays_one_file() {
    let test = Traced::begin(|dir| {
        let file = open(&dir.join("before/redo"));
        std::thread::spawn(move || sync(&file, 1));
        for line in std::io::stdin().lock().lines() {
            // The file itself cannot be renamed: the hanging sync has it locked. Its directory can.
            match line.unwrap().as_str() {
                "rename" => rename(dir.join("before"), dir.join("after")).unwrap(),
                _ => std::fs::write(dir.join(".control"), "release").unwrap(),
            }
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let _faultfs = FaultFs::mount(dir.path());
    create_dir(dir.path().join("before")).unwrap();
    std::fs::write(dir.path().join(".control"), "hang").unwrap();
    let names = ["before/redo", "after/redo"].map(|name| dir.path().join(name));

    let mut live = Live::start("0.2", &[], &test.command(dir.path()));
    let hanging = |live: &mut Live| {
        let interval = live.next().expect("the workload runs");
        assert!(interval.files().iter().all(|row| count(row) == 0), "nothing has ended yet");
        let paths: Vec<_> = interval.in_flight().iter().map(|sync| path_of(sync).unwrap()).collect();
        assert!(paths.iter().all(|path| names.contains(path)), "{paths:?}");
        paths.len()
    };
    wait_until("the sync to hang", || hanging(&mut live) == 1);
    live.tell("rename");
    wait_until("the rename", || dir.path().join("after").exists());
    (0..3).for_each(|_| assert_eq!(hanging(&mut live), 1));
    live.tell("release");
    let mut rows = Vec::new();
    wait_until("the sync to end", || {
        let ended = live.next().expect("the workload runs").files().to_vec();
        rows.extend(ended.into_iter().filter(|row| count(row) > 0));
        !rows.is_empty()
    });
    let (left, success) = live.end();
    assert!(success && left.iter().all(|interval| interval.files().is_empty()));
    let [row] = &rows[..] else { panic!("one row: {rows:?}") };
    assert_eq!(count(row), 1);
    assert!(names.contains(&path_of(row).unwrap()), "{row}");
}

/// Deeper than the kernel side follows, by the number of directories or by the length of their names.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_path_that_is_too_deep_is_not_shown_as_if_it_began_at_the_root() {
    const DEPTHS: [(&str, usize, usize); 2] = [("many", 40, 8), ("long", 6, 250)];
    let test = Traced::begin(|dir| {
        for (name, depth, length) in DEPTHS {
            let mut deep = dir.join(name);
            (0..depth).for_each(|level| deep.push(format!("{level:0length$}")));
            std::fs::create_dir_all(&deep).unwrap();
            // Closed and gone at once, so that its name comes from the kernel side alone.
            let path = deep.join(format!("{name}.tmp"));
            sync(&open(&path), 1);
            remove_file(&path).unwrap();
        }
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    for (name, ..) in DEPTHS {
        let is_it = |path: &std::path::PathBuf| path.ends_with(format!("{name}.tmp"));
        let path = measured.files().iter().filter_map(path_of).find(is_it).unwrap();
        assert!(path.starts_with("…"), "{}", path.display());
    }
}

/// Their calls fail, and are counted; a name that such a file has not is not lost.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_pipes_and_sockets_are_called_as_proc_calls_them() {
    let test = Traced::begin(|_| {
        for _ in 0..10 {
            let (_reader, pipe) = std::io::pipe().unwrap();
            let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
            assert!(rustix::fs::fsync(&pipe).is_err() && rustix::fs::fsync(&socket).is_err());
        }
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    for kind in ["pipe:[", "socket:["] {
        let rows =
            measured.files().iter().filter(|row| row["path"].as_str().is_some_and(|p| p.starts_with(kind)));
        assert_eq!(rows.map(count).sum::<u64>(), 10, "{kind}: {:#?}", measured.files());
    }
}

/// The kernel takes the name of a thread in: nothing is written, and nothing can be lost.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_is_written_to_proc_is_no_file() {
    let test = Traced::begin(|dir| {
        let name = OpenOptions::new().write(true).open("/proc/self/comm").unwrap();
        let file = open(&dir.join("file"));
        for _ in 0..10 {
            rustix::io::write(&name, b"renamed").unwrap();
            rustix::io::write(&file, b"written").unwrap();
        }
    });
    let dir = Mounted::tmpfs();
    let measured = test.measure(dir.path(), &["--writes", "all"]);
    measured.assert_nothing_lost();
    let writes: Vec<_> = measured.0["writes"].as_array().unwrap().iter().filter_map(path_of).collect();
    assert_eq!(writes.iter().filter(|path| path.starts_with(dir.path())).count(), 1, "{writes:?}");
    assert!(writes.iter().all(|path| !path.ends_with("comm")), "{writes:?}");
}
