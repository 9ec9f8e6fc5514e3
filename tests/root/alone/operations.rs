//! Needs root: every call that `--ops` knows, and every way it can fail, counted to the call.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use crate::common::disk::Mounted;
use crate::common::faultfs::FaultFs;
use crate::common::measured::{Measured, count, counts, number, path_of, text};
use crate::common::traced::{Traced, measure};
use crate::common::{built, needs};
use fsynctop::model::{Op, Scope};
use serde_json::{Value, json};

fn syncgen(options: &[&str], directory: &Path, arguments: &[&str]) -> (Measured, Value) {
    let program = built("syncgen");
    let mut command = vec![program.to_str().unwrap(), directory.to_str().unwrap()];
    command.extend(arguments);
    let run = measure(options, &command);
    assert!(run.output.status.success(), "{:?}", run.output);
    let [measured] = run.measured.try_into().unwrap_or_else(|_| panic!("one measurement"));
    (measured, serde_json::from_slice(&run.output.stdout).unwrap())
}

/// (call, what it was about) → (count, errors).
fn by_target(measured: &Measured) -> BTreeMap<(String, String), (u64, Value)> {
    let mut rows = BTreeMap::new();
    for row in measured.files() {
        let figures = (count(row), row["errors"].clone());
        let earlier = rows.insert((text(row, "op"), text(row, "target")), figures);
        assert!(earlier.is_none(), "two rows: {row}");
    }
    rows
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn every_call_is_counted_in_a_row_of_its_kind() {
    needs(&[]);
    let disk = Mounted::image("ext4", 32);
    let calls = Op::SYNCS.map(Op::name).join(",");
    // Two threads take turns through the calls: seven of each a thread. `sync` is of the whole host: few of
    // them.
    let each = 7 * Op::SYNCS.len() as u64;
    let arguments = ["--op", &calls, "--threads", "2", "--syncs", &each.to_string(), "--write", "16"];
    let (measured, said) = syncgen(&["--ops", &calls, "--by", "thread"], disk.path(), &arguments);
    measured.assert_nothing_lost();
    let row = |op: Op| {
        let target = match op.scope() {
            Scope::File => "file",
            Scope::Filesystem => "filesystem",
            Scope::Unnamed => "none",
        };
        ((op.name().to_owned(), target.to_owned()), (14, json!({})))
    };
    let expected = BTreeMap::from(Op::SYNCS.map(row));
    assert_eq!(by_target(&measured), expected);
    assert_eq!((measured.total(), said["calls"].as_u64().unwrap()), (2 * each, 2 * each));
    for row in measured.files() {
        match row["target"].as_str().unwrap() {
            "file" => assert_eq!(path_of(row).unwrap(), disk.path().join("sync-0")),
            "filesystem" => assert!(text(row, "device").starts_with("/dev/loop"), "{row}"),
            _ => assert_eq!(row["path"], Value::Null),
        }
    }
    assert_eq!(measured.threads().len(), 2 * Op::SYNCS.len());
    for thread in said["threads"].as_array().unwrap() {
        let rows = measured.threads().iter().filter(|row| row["tid"] == thread["tid"]);
        assert!(rows.clone().all(|row| count(row) == 7) && rows.count() == Op::SYNCS.len());
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn calls_that_are_not_asked_for_are_not_counted() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let arguments = ["--op", "fsync,fdatasync,sync_file_range,syncfs", "--syncs", "400"];
    let (measured, _) = syncgen(&[], memory.path(), &arguments);
    let path = "sync-0";
    assert_eq!(measured.by_path(memory.path()), counts([(path, "fsync", 100), (path, "fdatasync", 100)]));
    let (measured, _) = syncgen(&["--ops", "syncfs"], memory.path(), &arguments);
    assert_eq!(measured.total(), 100);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn calls_on_bad_descriptors_are_counted_in_a_row_of_their_own() {
    needs(&[]);
    let memory = Mounted::tmpfs();
    let calls = "fsync,fdatasync,sync_file_range,syncfs";
    let (measured, _) =
        syncgen(&["--ops", calls], memory.path(), &["--op", calls, "--syncs", "1000", "--bad-fd"]);
    measured.assert_nothing_lost();
    let row = |op: &str| ((op.to_owned(), "bad_descriptor".to_owned()), (250, json!({ "EBADF": 250 })));
    assert_eq!(
        by_target(&measured),
        BTreeMap::from(["fsync", "fdatasync", "sync_file_range", "syncfs"].map(row))
    );
    assert_eq!(measured.total(), 1_000);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn errors_stand_with_their_file_by_name_and_number() {
    let test = Traced::begin(|dir| {
        for (name, times) in [("fail-EIO-a", 3), ("fail-ENOSPC-a", 5), ("fail-EROFS-a", 7), ("fine", 11)] {
            let file = File::create(dir.join(name)).unwrap();
            (0..times).for_each(|_| assert_eq!(file.sync_all().is_ok(), name == "fine"));
        }
        let file = File::create(dir.join("changing")).unwrap();
        for (rule, times) in [("fail EDQUOT", 2), ("ok", 4), ("fail EIO", 6)] {
            std::fs::write(dir.join(".control"), format!("{rule} on changing")).unwrap();
            (0..times).for_each(|_| assert_eq!(file.sync_data().is_ok(), rule == "ok"));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let _faultfs = FaultFs::mount(dir.path());
    let measured = test.measure(dir.path(), &[]);
    measured.assert_nothing_lost();
    let figures = |name: &str| {
        let row = measured.only(&dir.path().join(name));
        (count(row), row["errors"].clone())
    };
    assert_eq!(figures("fail-EIO-a"), (3, json!({ "EIO": 3 })));
    assert_eq!(figures("fail-ENOSPC-a"), (5, json!({ "ENOSPC": 5 })));
    assert_eq!(figures("fail-EROFS-a"), (7, json!({ "EROFS": 7 })));
    assert_eq!(figures("fine"), (11, json!({})));
    assert_eq!(figures("changing"), (12, json!({ "EDQUOT": 2, "EIO": 6 })));
    let role = |op: &str| measured.roles().iter().find(|row| row["op"] == op).unwrap()["errors"].clone();
    assert_eq!(role("fsync"), json!({ "EIO": 3, "ENOSPC": 5, "EROFS": 7 }));
    assert_eq!(role("fdatasync"), json!({ "EDQUOT": 2, "EIO": 6 }));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn what_cannot_be_synced_has_a_row_with_its_error() {
    let test = Traced::begin(|dir| {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = rustix::fs::open(dir, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let status = File::open("/proc/self/status").unwrap();
        let fails = |fd: std::os::fd::BorrowedFd, error, times| {
            (0..times).for_each(|_| assert_eq!(rustix::fs::fsync(fd), Err(error)));
        };
        fails(reader.as_fd(), rustix::io::Errno::INVAL, 3);
        fails(writer.as_fd(), rustix::io::Errno::INVAL, 4);
        fails(status.as_fd(), rustix::io::Errno::INVAL, 5);
        fails(path.as_fd(), rustix::io::Errno::BADF, 6);
    });
    let memory = Mounted::tmpfs();
    let measured = test.measure(memory.path(), &[]);
    let mut rows: Vec<_> = measured.files().iter().map(|row| (count(row), row["errors"].clone())).collect();
    rows.sort_by_key(|row| row.0);
    // Both ends of a pipe are one inode.
    let expected = [(5, json!({ "EINVAL": 5 })), (6, json!({ "EBADF": 6 })), (7, json!({ "EINVAL": 7 }))];
    assert_eq!(rows, expected);
    assert_eq!(number(measured.only(memory.path()), "count"), 6);
    assert_eq!((measured.total(), measured.lost("files")), (18, 0));
}
