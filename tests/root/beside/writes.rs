//! Needs root: every write is counted where that is asked for, to the call, the byte and the error, apart
//! from syncs.

use crate::common::disk::Mounted;
use crate::common::measured::{number, text};
use crate::common::needs;
use crate::common::ways::{seen, syncgen, writes_made, writes_seen};

const TRACEFS: &str = "/sys/kernel/tracing/events";

/// Each is one kind of write and nothing else.
const WAYS: &str = "odsync-write,odsync-pwrite,odsync-writev,odsync-pwritev,odsync-pwritev2,osync-pwrite,rwf-dsync,rwf-sync,\
    odsync-append,odsync-empty,odsync-short,odsync-fault,plain,plain-fault,plain-read-only,pipe,directory,sendfile,\
    copy-file-range,splice,fallocate,ring-odsync,ring-rwf-dsync,ring-short,ring-plain,ring-plain-fault,aio-odsync,\
    aio-odsync-vector,aio-rwf-dsync,aio-short,aio-fault,aio-plain,aio-plain-fault";

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_every_write_is_counted_to_the_byte_and_apart_from_syncs() {
    needs(&[TRACEFS]);
    let (tmpfs, ext4, xfs) = (Mounted::tmpfs(), Mounted::image("ext4", 64), Mounted::image("xfs", 320));
    for mounted in [&tmpfs, &ext4, &xfs] {
        let (measured, said) = syncgen(&["--writes", "all", "--by", "thread"], mounted.path(), WAYS, 100);
        assert_eq!(writes_seen(&measured), writes_made(&said), "{said}");
        measured.assert_nothing_lost();
        let durable = |op: &str| op == "dsync_write";
        assert!(seen(&measured).iter().all(|((_, op, ..), (.., errors))| {
            durable(op) || errors.as_object().is_some_and(|errors| !errors.is_empty())
        }));
        assert!(measured.roles().iter().all(|row| durable(&text(row, "op"))), "{:?}", measured.roles());
        let threads = measured.0["threads"].as_array().unwrap();
        assert!(!threads.is_empty() && threads.iter().all(|row| durable(&text(row, "op"))), "{threads:?}");
        let plain = measured.0["writes"].as_array().unwrap().iter().find(|row| row["op"] == "write").unwrap();
        assert!(number(plain, "count") > 0 && plain["latency_seconds"]["max"].as_f64().unwrap() > 0.0);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_the_table_of_writes_asks_for_them_and_sums_up_their_bytes() {
    needs(&[TRACEFS]);
    let tmpfs = Mounted::tmpfs();
    let program = crate::common::built("syncgen");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["once", "--by", "writes", "--"])
        .arg(program)
        .arg(tmpfs.path())
        .args(["--ways", "plain,odsync-write,copy-file-range", "--syncs", "100"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let total = text.lines().find(|line| line.starts_with("total")).unwrap_or_else(|| panic!("{text}"));
    // Three files, and what is copied, which syncgen wrote by one call. Durable writes are synced.
    assert!(total.contains(" 301 ") && total.contains(" 210,700  140,700 ("), "{text}");
    assert!(text.contains("WRITES") && !text.contains("SYNCS"), "{text}");
}
