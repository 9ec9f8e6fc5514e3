//! Needs root: what is written and not synced, to the byte, and how old the oldest of it is: never less than
//! it is, and no more than the calls themselves took.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::disk::Mounted;
use crate::common::faults::FaultFs;
use crate::common::measured::{Measured, number};
use crate::common::needs;
use crate::common::traced::{Live, Traced};
use crate::common::wait_until;
use crate::common::ways::{name_of, syncgen};
use serde_json::Value;

const TRACEFS: &str = "/sys/kernel/tracing/events";
const ALL: [&str; 2] = ["--writes", "all"];
/// What one write has, if nothing else is said.
const PIECE: usize = 700;
/// Beyond the time that a workload measured around its own calls.
const SLACK: Duration = Duration::from_millis(30);

fn open(directory: &Path, name: &str, flags: i32) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).custom_flags(flags);
    options.open(directory.join(name)).unwrap()
}

fn write(file: &File, times: usize) {
    for _ in 0..times {
        // Always the same page: each time counts.
        file.write_all_at(&[b'u'; PIECE], 0).unwrap();
    }
}

/// Leaves the time beside the file, for the test to read: when a write had just ended that is to be the
/// oldest unsynced one, or the greatest age that any had just before a sync ended.
fn note(directory: &Path, name: &str, what: &str, nanoseconds: u128) {
    std::fs::write(directory.join(format!("{name}.{what}")), nanoseconds.to_string()).unwrap();
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

fn noted(directory: &Path, name: &str, what: &str) -> Duration {
    let text = std::fs::read_to_string(directory.join(format!("{name}.{what}"))).unwrap();
    Duration::from_nanos(text.parse().unwrap())
}

fn row<'a>(measured: &'a Measured, name: &str) -> Option<&'a Value> {
    let rows = measured.0["unsynced_files"].as_array().unwrap();
    let mut its = rows.iter().filter(|row| name_of(row) == name);
    let row = its.next();
    assert!(its.next().is_none(), "two rows of {name}: {rows:?}");
    row
}

fn bytes(measured: &Measured, name: &str) -> u64 {
    row(measured, name).map_or(0, |row| number(row, "bytes"))
}

fn seconds(row: &Value, field: &str) -> Duration {
    Duration::from_secs_f64(row[field].as_f64().unwrap_or_else(|| panic!("no {field}: {row}")))
}

/// At the end of the measurement the oldest is as old as was noted.
fn assert_oldest(measured: &Measured, directory: &Path, name: &str) {
    let end = measured.0["end"].as_str().unwrap();
    let end = humantime::parse_rfc3339(end).unwrap().duration_since(UNIX_EPOCH).unwrap();
    let truth = end.saturating_sub(noted(directory, name, "oldest"));
    let seen = seconds(row(measured, name).unwrap_or_else(|| panic!("no {name}")), "oldest_seconds");
    // `end` has microseconds.
    assert!(seen + Duration::from_micros(2) >= truth, "{name}: {seen:?} is less than {truth:?}");
    assert!(seen <= truth + SLACK, "{name}: {seen:?} is more than {truth:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_no_sync_has_covered_is_told_to_the_byte_with_the_age_of_the_oldest() {
    let pause = || std::thread::sleep(Duration::from_millis(40));
    let test = Traced::begin(|directory| {
        let file = |name| open(directory, name, 0);
        let oldest = |name| note(directory, name, "oldest", now());

        let dirty = file("dirty");
        write(&dirty, 1);
        oldest("dirty");
        pause();
        write(&dirty, 2);

        let synced = file("synced");
        write(&synced, 1);
        let since = now();
        pause();
        write(&synced, 2);
        let before = now();
        synced.sync_all().unwrap();
        note(directory, "synced", "at-least", before - since);

        let partly = file("partly");
        write(&partly, 3);
        pause();
        partly.sync_data().unwrap();
        partly.sync_data().unwrap();
        write(&partly, 1);
        oldest("partly");
        pause();
        write(&partly, 1);

        let (one, other) = (file("two-descriptors"), file("two-descriptors"));
        write(&one, 2);
        other.sync_all().unwrap();
        write(&other, 1);
        oldest("two-descriptors");

        write(&file("closed"), 1);
        oldest("closed");

        let mixed = file("mixed");
        write(&mixed, 1);
        oldest("mixed");
        pause();
        write(&open(directory, "mixed", libc::O_DSYNC), 5);
        write(&open(directory, "durable", libc::O_DSYNC), 5);

        // It names no file: it may have covered this one.
        let filesystem = file("filesystem");
        write(&filesystem, 1);
        oldest("filesystem");
        rustix::fs::syncfs(&filesystem).unwrap();

        let deleted = file("deleted");
        std::fs::remove_file(directory.join("deleted")).unwrap();
        write(&deleted, 1);

        // More than there are generations.
        let often = file("often");
        for _ in 0..100 {
            write(&often, 1);
            often.sync_data().unwrap();
        }
        write(&often, 1);
        oldest("often");
    });
    needs(&[TRACEFS]);
    let (ext4, xfs) = (Mounted::image("ext4", 64), Mounted::image("xfs", 320));
    for mounted in [&ext4, &xfs] {
        let measured = test.measure(mounted.path(), &ALL);
        measured.assert_no_call_lost();
        assert_eq!(measured.lost("unwatched"), 1, "the syncfs");
        let piece = PIECE as u64;
        let expected = [
            ("dirty", 3),
            ("synced", 0),
            ("partly", 2),
            ("two-descriptors", 1),
            ("closed", 1),
            ("mixed", 1),
            ("durable", 0),
            ("filesystem", 1),
            ("deleted", 0),
            ("often", 1),
        ];
        for (name, pieces) in expected {
            assert_eq!(bytes(&measured, name), pieces * piece, "{name}: {}", measured.0["unsynced_files"]);
            if pieces > 0 {
                assert_oldest(&measured, mounted.path(), name);
            }
        }
        for name in ["durable", "deleted"] {
            assert!(row(&measured, name).is_none(), "{name}");
        }
        let most = |name| number(row(&measured, name).unwrap(), "max_bytes");
        assert_eq!(
            (most("synced"), most("partly"), most("often"), most("dirty")),
            (3 * piece, 3 * piece, piece, 3 * piece)
        );
        let synced = row(&measured, "synced").unwrap();
        let (seen, truth) =
            (seconds(synced, "max_oldest_seconds"), noted(mounted.path(), "synced", "at-least"));
        assert!(seen >= truth, "{seen:?} is less than {truth:?}");
        assert!(synced["oldest_seconds"].is_null() && synced["sync_failed"] == false, "{synced}");
        let roles = measured.0["unsynced"].as_array().unwrap();
        assert_eq!(roles.len(), 1, "{roles:?}");
        let written: u64 = expected.iter().map(|(_, pieces)| pieces * piece).sum();
        // And the notes, each of which is a file that nobody syncs.
        let notes = |row: &&Value| name_of(row).contains('.');
        let rows = measured.0["unsynced_files"].as_array().unwrap();
        let notes: u64 = rows.iter().filter(notes).map(|row| number(row, "bytes")).sum();
        assert_eq!(number(&roles[0], "bytes"), written + notes);
        assert_eq!(measured.0["unsynced_unknown_bytes"], 0);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_sync_covers_what_had_been_written_when_it_began_and_nothing_that_was_written_meanwhile() {
    let test = Traced::begin(|directory| {
        let (file, both) = (open(directory, "log", 0), open(directory, "both", 0));
        write(&file, 2);
        std::thread::scope(|scope| {
            let sync = scope.spawn(|| file.sync_data().unwrap());
            std::thread::sleep(Duration::from_millis(100));
            write(&file, 3);
            note(directory, "log", "oldest", now());
            // Another sync that begins meanwhile covers these, too.
            write(&both, 1);
            let first = scope.spawn(|| both.sync_data().unwrap());
            std::thread::sleep(Duration::from_millis(50));
            write(&both, 2);
            let second = scope.spawn(|| both.sync_data().unwrap());
            first.join().unwrap();
            second.join().unwrap();
            sync.join().unwrap();
        });
        write(&file, 1);
    });
    needs(&[TRACEFS, "/dev/fuse"]);
    let disk = FaultFs::mount("ok");
    // Its flushes are syncs of the image, which take so long; nothing else of it does.
    let mount = Mounted::image_in(disk.path(), "ext4", 64, &["-O", "^has_journal"]);
    disk.control("delay 300ms");
    let measured = test.measure(mount.path(), &ALL);
    disk.control("ok");
    let log = row(&measured, "log").unwrap();
    let piece = PIECE as u64;
    assert_eq!((number(log, "bytes"), number(log, "max_bytes")), (4 * piece, 5 * piece), "{log}");
    assert_oldest(&measured, mount.path(), "log");
    assert!(seconds(log, "max_oldest_seconds") >= Duration::from_millis(300), "{log}");
    let both = row(&measured, "both").unwrap();
    assert_eq!((number(both, "bytes"), number(both, "max_bytes")), (0, 3 * piece), "{both}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_a_failed_sync_should_have_covered_is_possibly_lost_until_the_file_is_closed() {
    let test = Traced::begin(|directory| {
        let control = |command: &str| std::fs::write(directory.join(".control"), command).unwrap();
        let mut lines = std::io::stdin().lines();
        let file = open(directory, "log", 0);
        write(&file, 3);
        control("fail EIO on log");
        assert!(file.sync_data().is_err());
        write(&file, 1);
        assert!(file.sync_data().is_err());
        control("ok on log");
        file.sync_data().unwrap();
        write(&file, 2);
        note(directory, "log", "failed", now());
        lines.next();
        drop(file);
        note(directory, "log", "closed", now());
        lines.next();
    });
    needs(&[TRACEFS, "/dev/fuse"]);
    let mount = FaultFs::mount("ok");
    let mut live = Live::start("0.5", &ALL, &test.command(mount.path()));
    let piece = PIECE as u64;
    wait_until("the failures", || {
        live.next().unwrap();
        mount.path().join("log.failed").exists()
    });
    let measured = live.next().unwrap();
    let failed = row(&measured, "log").unwrap();
    assert_eq!((number(failed, "bytes"), number(failed, "possibly_lost_bytes")), (2 * piece, 4 * piece));
    assert_eq!(failed["sync_failed"], true);
    // It is looked for every other second, and found open.
    for _ in 0..6 {
        let measured = live.next().unwrap();
        assert_eq!(number(row(&measured, "log").unwrap(), "possibly_lost_bytes"), 4 * piece);
    }
    live.tell("close");
    wait_until("the file to be known as closed", || {
        let measured = live.next().unwrap();
        row(&measured, "log").is_some_and(|row| number(row, "possibly_lost_bytes") == 0)
    });
    let left = live.next().unwrap();
    assert_eq!(bytes(&left, "log"), 2 * piece, "closed dirty");
    live.tell("end");
    assert!(live.end().1);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_requests_write_and_sync_as_calls_do() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    const WAYS: &str = "plain,sendfile,copy-file-range,splice,fallocate,odsync-write,plain-fault,ring-plain,ring-odsync,\
        ring-linked,aio-plain,aio-odsync,aio-plain-fault,written,ring-written,ring-written-range,aio-written";
    let (measured, said) = syncgen(&ALL, ext4.path(), WAYS, 3);
    for (way, done) in said["ways"].as_object().unwrap() {
        let name = format!("way-{way}");
        let unsynced = match way.as_str() {
            "ring-linked" | "written" | "ring-written" | "aio-written" => 0,
            // Each of these syncs is of a part of the file.
            "ring-written-range" => 3 * PIECE as u64,
            _ if done["op"] == "write" => number(done, "bytes"),
            _ => 0,
        };
        assert_eq!(bytes(&measured, &name), unsynced, "{way}: {said}");
    }
    for way in ["way-ring-linked", "way-ring-written", "way-aio-written"] {
        assert_eq!(number(row(&measured, way).unwrap(), "max_bytes"), PIECE as u64, "{way}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_files_beyond_the_room_are_told_of_and_nobody_takes_all_of_it() {
    // What one owner can have of it.
    const ROOM: usize = 4_096 / 8 * 7;
    let test = Traced::begin(|directory| {
        let mut lines = std::io::stdin().lines();
        let files = |from: usize, to: usize, sync: bool| {
            for number in from..to {
                let file = open(directory, &format!("file-{number}"), 0);
                write(&file, 1);
                if sync {
                    file.sync_data().unwrap();
                }
            }
        };
        // Twice as many as there is room for, half of that at a time.
        files(0, ROOM - 100, true);
        note(directory, "first", "done", now());
        lines.next();
        files(ROOM, 2 * ROOM - 500, false);
        note(directory, "second", "done", now());
        lines.next();
        // These are dirty: whichever stand idle make room, and are told of as unknown.
        files(2 * ROOM, 3 * ROOM, false);
        note(directory, "third", "done", now());
        lines.next();
        // Another process has one file.
        let log = format!("of={}", directory.join("others").display());
        let dd = ["if=/dev/zero", &format!("bs={PIECE}"), "count=1", "status=none", &log];
        assert!(std::process::Command::new("dd").args(dd).status().unwrap().success());
        note(directory, "fourth", "done", now());
        lines.next();
    });
    needs(&[TRACEFS]);
    let tmpfs = Mounted::tmpfs();
    let mut live = Live::start("0.3", &ALL, &test.command(tmpfs.path()));
    // The last interval, and what was not known in any.
    let mut unknown = 0;
    let mut until = |name: &str| {
        let mut last = None;
        let mut next = || {
            let measured = live.next().unwrap();
            unknown += number(&measured.0, "unsynced_unknown_bytes");
            last = Some(measured);
        };
        wait_until(name, || {
            next();
            tmpfs.path().join(format!("{name}.done")).exists()
        });
        // Idle for an interval.
        (0..3).for_each(|_| next());
        live.tell("go on");
        (last.unwrap(), unknown)
    };
    let sum = |measured: &Measured| -> u64 {
        let rows = measured.0["unsynced_files"].as_array().unwrap().iter();
        rows.filter(|row| name_of(row).starts_with("file-")).map(|row| number(row, "bytes")).sum()
    };
    let piece = PIECE as u64;
    let (first, unknown) = until("first");
    assert_eq!((sum(&first), unknown), (0, 0));
    let (second, unknown) = until("second");
    assert_eq!((sum(&second), unknown), ((ROOM as u64 - 500) * piece, 0));
    let (third, unknown) = until("third");
    // Nor are the notes known any more: the least goes first.
    let note = |name| std::fs::metadata(tmpfs.path().join(format!("{name}.done"))).unwrap().len();
    let notes: u64 = ["first", "second", "third"].map(note).iter().sum();
    assert_eq!(sum(&third) + unknown, (2 * ROOM as u64 - 500) * piece + notes);
    assert!(sum(&third) > (ROOM as u64 - 500) * piece && unknown > notes, "{unknown}");
    let (fourth, _) = until("fourth");
    assert_eq!(bytes(&fourth, "others"), piece, "one process took all the room");
    assert!(live.end().1);
}
