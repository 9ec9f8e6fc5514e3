//! Needs root: syncs and durable writes by libaio are counted as their events say, to the request, the byte
//! and the error, and what is never reaped is counted as such.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::disk::{Mounted, run};
use crate::common::measured::{Measured, number, path_of, text};
use crate::common::nested::Nested;
use crate::common::server::{Database, Kind};
use crate::common::traced::measure;
use crate::common::tracing::Tracing;
use crate::common::ways::{made, name_of, seen, syncgen};
use crate::common::{Running, needs};
use serde_json::{Value, json};

const TRACEFS: &str = "/sys/kernel/tracing/events";

/// Everything that syncgen's ways do by libaio and that the kernel reports.
const REAPED: &str = "aio-fsync,aio-fdatasync,aio-pgetevents,aio-batch,aio-partial,aio-no-room,aio-bad-descriptor,\
    aio-odsync,aio-odsync-vector,aio-rwf-dsync,aio-short,aio-fault,aio-full,aio-read-only,aio-plain,aio-plain-fault,\
    aio-plain-read-only";

fn not_watched(measured: &Measured, way: &str) -> bool {
    measured.0["not_watched"].as_array().unwrap().contains(&way.into())
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_requests_are_counted_as_their_events_say() {
    needs(&[TRACEFS]);
    // tmpfs takes no direct writes before 6.6.
    let small = Mounted::new(&["-t", "tmpfs", "-o", "size=8m", "fsynctop-test"]);
    let (ext4, xfs) = (Mounted::image("ext4", 64), Mounted::image("xfs", 320));
    for (mounted, direct) in [(&small, ""), (&ext4, ",aio-odsync-direct"), (&xfs, ",aio-odsync-direct")] {
        let (measured, said) = syncgen(&[], mounted.path(), &format!("{REAPED}{direct}"), 100);
        assert_eq!(seen(&measured), made(&said), "{said}");
        assert_eq!(said["ways"]["aio-full"]["errors"], json!({ "ENOSPC": 100 }), "{said}");
        assert!(number(&said["ways"]["aio-no-room"], "calls") >= 100, "{said}");
        measured.assert_nothing_lost();
        assert!(measured.in_flight().is_empty(), "{:?}", measured.in_flight());
        assert!(!not_watched(&measured, "libaio"));
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_is_never_reaped_is_said_to_be_unreported_and_nothing_of_it_hangs() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    for way in ["aio-destroyed", "aio-self-reaped", "aio-abandoned"] {
        let (measured, said) = syncgen(&[], ext4.path(), way, 100);
        assert_eq!((number(&said["ways"][way], "silent"), measured.lost("unreported")), (100, 100), "{way}");
        assert_eq!((measured.total(), measured.lost("unwatched")), (0, 0), "{way}");
        assert!(measured.in_flight().is_empty(), "{way}: {:?}", measured.in_flight());
    }
    // What such a process reaps by calls counts all the same.
    let (measured, said) = syncgen(&[], ext4.path(), "aio-self-reaped,aio-fsync,aio-batch,aio-odsync", 100);
    assert_eq!(seen(&measured), made(&said), "{said}");
    assert_eq!(measured.lost("unreported"), 100);
    // More than is followed of one call, and more than there is room for in one owner's share.
    let (measured, said) = syncgen(&[], ext4.path(), "aio-huge", 1);
    let made = number(&said["ways"]["aio-huge"], "calls");
    let lost = measured.lost("unreported") + measured.lost("threads");
    assert_eq!(measured.total() + lost, made, "{}", measured.0["lost"]);
    assert!(measured.total() > 0 && measured.lost("unreported") > 0, "{}", measured.0["lost"]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_by_libaio_as_by_calls_only_what_is_asked_for_is_watched() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    let by = |options: &[&str]| {
        let (measured, _) =
            syncgen(options, ext4.path(), "aio-fsync,aio-fdatasync,aio-odsync,aio-plain-fault", 50);
        let ops = measured.files().iter().chain(measured.0["failures"].as_array().unwrap());
        let mut ops: Vec<String> = ops.map(|row| format!("{} {}", text(row, "op"), row["count"])).collect();
        ops.sort();
        (ops, measured.lost("unwatched"), not_watched(&measured, "libaio"))
    };
    // io_submit executes these writes itself, where the net below sees them.
    let syncs = ["fdatasync 50".to_owned(), "fsync 50".to_owned()];
    assert_eq!(by(&["--writes", "off"]), (syncs.to_vec(), 50, false));
    // A worker executes the other sync, and says nothing of whom it works for.
    let (ops, unwatched, _) = by(&["--writes", "off", "--ops", "fsync"]);
    assert_eq!((ops, unwatched), (vec!["fsync 50".to_owned()], 50));
    let (ops, unwatched, libaio) = by(&["--writes", "off", "--ops", "msync"]);
    assert_eq!((ops, unwatched, libaio), (Vec::new(), 50, true));
}

/// Submits by libaio what the code says that follows it.
const SUBMIT: &str = r#"
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
SETUP, SUBMIT = (0, 2) if platform.machine() == 'aarch64' else (206, 209)
FSYNC = 2
context = ctypes.c_ulong(0)
assert libc.syscall(SETUP, 8, ctypes.byref(context)) == 0
kept = []
def submit(opcode, fd):
    block = ctypes.create_string_buffer(struct.pack('QIIHhI', 0, 0, 0, opcode, 0, fd) + bytes(40), 64)
    kept.append(block)
    blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    assert libc.syscall(SUBMIT, context, ctypes.c_long(1), blocks) == 1
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'a' * 65536, 0)
"#;

fn submitting(code: &str, file: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg("-c").arg(format!("{SUBMIT}\n{code}")).arg(file);
    command
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_what_a_program_leaves_behind_is_not_in_flight_in_the_next() {
    needs(&[TRACEFS]);
    let ext4 = Mounted::image("ext4", 64);
    let code = "for _ in range(3): submit(FSYNC, fd)\nos.execvp('sleep', ['sleep', '2'])";
    let file = ext4.path().join("left-behind");
    let command = submitting(code, &file);
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let run = measure(&["--interval", "400ms"], &words);
    assert!(run.output.status.success() && run.measured.len() > 3, "{:?}", run.output);
    // While it sleeps.
    let [before @ .., _] = &run.measured[..] else { panic!("no interval") };
    assert_eq!(before.iter().map(|measured| measured.lost("unreported")).sum::<u64>(), 3);
    assert!(before[before.len() - 1].in_flight().is_empty(), "{:?}", before[before.len() - 1].in_flight());
    assert_eq!(run.measured.iter().map(Measured::total).sum::<u64>(), 0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_request_that_hangs_is_in_flight() {
    needs(&[TRACEFS]);
    let nested = Nested::new().unwrap();
    let file = nested.inner().join("hangs");
    let code = "print('ready', flush=True)\nsys.stdin.readline()\nsubmit(FSYNC, fd)\n\
                print('submitted', flush=True)\nsys.stdin.readline()";
    let mut command = submitting(code, &file);
    let mut writer = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(writer.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    let tracing = Tracing::begin(&["--output", "json", "--pid", &writer.0.id().to_string()]);
    nested.freeze();
    writer.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(said.next().as_deref(), Some("submitted"));
    std::thread::sleep(Duration::from_secs(1));
    let measured = tracing.one();
    nested.thaw();
    let [hung] = measured.in_flight() else { panic!("one: {}", measured.0["in_flight"]) };
    assert_eq!(
        (text(hung, "op"), text(hung, "via"), path_of(hung)),
        ("fsync".into(), "aio".into(), Some(file))
    );
    assert!(hung["age_seconds"].as_f64().unwrap() > 1.0, "{hung}");
}

/// Of the table that the load fills.
fn tablespace(database: &Database) -> PathBuf {
    let datadir = database.datadir.strip_prefix("/").unwrap();
    let root = PathBuf::from(format!("/proc/{}/root", database.pid));
    let find = Command::new("find").arg(root.join(datadir)).args(["-name", "products.ibd"]).output().unwrap();
    PathBuf::from(String::from_utf8(find.stdout).unwrap().trim())
}

#[test]
#[ignore = "needs root, a kernel with BTF and MySQL"]
fn root_the_data_pages_that_mysql_writes_by_libaio_are_counted_once_they_are_durable() {
    needs(&[TRACEFS]);
    const PAGE: u64 = 16 << 10;
    // Direct, where a worker of the kernel executes the sync, and through the page cache, where io_submit
    // does. No flush method makes these descriptors O_DSYNC: that one is about the redo log.
    for method in ["O_DIRECT", "O_DSYNC"] {
        let database = Database::start(Kind::MySql, &[&format!("--innodb-flush-method={method}")]);
        database.prepare();
        let by_libaio = || {
            let tracing = Tracing::begin(&["--pid", &database.pid.to_string(), "--output", "json"]);
            database.insert(8, 400);
            // All pages are written at once.
            database.execute(&["SET GLOBAL innodb_max_dirty_pages_pct = 0"]);
            std::thread::sleep(Duration::from_secs(3));
            database.execute(&["SET GLOBAL innodb_max_dirty_pages_pct = 90"]);
            let [measured] = tracing.measured().try_into().unwrap_or_else(|_| panic!("one measurement"));
            measured.assert_nothing_lost();
            let rows = measured.files().iter().filter(|row| row["via"] == "aio");
            let of = |row: &Value| (text(row, "op"), text(row, "role"), name_of(row));
            rows.map(|row| (of(row), (number(row, "count"), number(row, "bytes")))).collect::<Vec<_>>()
        };
        assert_eq!(by_libaio(), [], "{method}: its data files are synced after they are written");
        run("chattr", &["+S", tablespace(&database).to_str().unwrap()]);
        let rows = by_libaio();
        let [(row, (count, bytes))] = &rows[..] else { panic!("{method}: one row: {rows:?}") };
        assert_eq!(*row, ("dsync_write".into(), "tablespace".into(), "products.ibd".into()), "{method}");
        assert!(*count > 1 && *bytes == count * PAGE, "{method}: {count} writes of {bytes} bytes");
    }
}
