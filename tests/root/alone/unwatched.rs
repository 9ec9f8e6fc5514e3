//! Needs root: what is made durable outside of the watched calls is counted below them, to the call, on
//! filesystems that show it; and nothing else is.

use std::process::Command;

use crate::common::disk::Mounted;
use crate::common::durable::DURABLE;
use crate::common::faults::{fsynctop, output, stdout, tool, trace};
use crate::common::measured::{Measured, number};
use crate::common::tracing::Tracing;
use crate::common::{needs, wait_until};
use serde_json::Value;

const FILESYSTEMS: [&str; 2] = ["ext4", "xfs"];
const TRACEFS: &str = "/sys/kernel/tracing/events";
/// What DURABLE makes.
const MADE: u64 = 200;

fn durable(way: &str, file: &std::path::Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", DURABLE, way]).arg(file);
    command
}

fn unwatched(measured: &Value) -> (u64, u64) {
    let of_servers = measured["servers"].as_array().unwrap().iter().map(|server| number(server, "unwatched"));
    (number(&measured["lost"], "unwatched"), of_servers.sum())
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_each_durable_write_outside_of_the_watched_calls_is_counted_for_its_server() {
    needs(&[TRACEFS]);
    for filesystem in FILESYSTEMS {
        let mounted = Mounted::image(filesystem, 400);
        for way in ["o_dsync", "rwf_dsync", "msync", "io_uring", "libaio"] {
            let file = mounted.path().join(way);
            let watched: u64 = if way == "msync" { 0 } else { MADE };
            let (measured, printed) = trace(&[], &mut durable(way, &file));
            assert_eq!(printed, "200\n");
            let missed = MADE - watched;
            assert_eq!(unwatched(&measured), (missed, missed), "{way} on {filesystem}: {measured:#}");
            assert_eq!(Measured(measured.clone()).total(), watched, "{way} on {filesystem}");
            // Where it is not watched, a worker of the kernel syncs a file that is known for a sync by call.
            if way == "libaio" {
                let (measured, _) = trace(&["--ops", "fsync"], &mut durable("libaio_known", &file));
                assert_eq!(unwatched(&measured), (MADE, MADE), "{way} on {filesystem}: {measured:#}");
                assert_eq!(Measured(measured).total(), 1);
            }
            // Where writes are not watched, the net below has them.
            if way.ends_with("dsync") {
                let (measured, _) = trace(&["--writes", "off"], &mut durable(way, &file));
                assert_eq!(unwatched(&measured), (MADE, MADE), "{way} on {filesystem}: {measured:#}");
            }
            let on = measured["unwatched_counted_on"].as_array().unwrap();
            assert!(on.iter().any(|name| name == filesystem), "{on:?}");
            // Where it is watched, it is counted there and only there.
            if way == "msync" {
                let (measured, _) = trace(&["--ops", "fsync,fdatasync,msync"], &mut durable(way, &file));
                assert_eq!(unwatched(&measured), (0, 0), "{measured:#}");
                assert_eq!(Measured(measured).total(), MADE);
            }
        }
        let file = mounted.path().join("text");
        let mut once = fsynctop();
        once.args(["once", "--writes", "off", "--", "python3", "-c", DURABLE, "o_dsync"]).arg(&file);
        let text = stdout(&output(&mut once));
        assert!(text.contains("No watched sync in "), "{text}");
        assert!(text.contains("also made data durable 200 times by calls that are not watched"), "{text}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_no_watched_call_is_taken_for_one_that_is_not() {
    needs(&[TRACEFS]);
    for filesystem in FILESYSTEMS {
        let mounted = Mounted::image(filesystem, 400);
        let mut syncgen = Command::new(tool("syncgen"));
        syncgen.arg(mounted.path()).args(["--threads", "4", "--syncs", "2500", "--op", "fsync,fdatasync"]);
        syncgen.args(["--files", "3", "--write", "64"]);
        let (measured, _) = trace(&[], &mut syncgen);
        // The loop device has synced its image meanwhile, from the kernel: that is nobody's.
        let lost = &measured["lost"];
        assert_eq!((unwatched(&measured), &lost["neighbours_unwatched"]), ((0, 0), &0.into()), "{lost}");
        assert_eq!(Measured(measured).total(), 10_000);
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_calls_that_are_under_way_when_tracing_begins_are_watched_ones() {
    needs(&[TRACEFS]);
    let mounted = Mounted::image("ext4", 400);
    let mut syncgen = Command::new(tool("syncgen"));
    syncgen.arg(mounted.path()).args([
        "--threads",
        "8",
        "--seconds",
        "60",
        "--write",
        "64",
        "--comm",
        "mysqld",
    ]);
    let load = crate::common::Running(syncgen.stdout(std::process::Stdio::null()).spawn().unwrap());
    let pid = load.0.id().to_string();
    // On a disk that others keep busy, nothing may end within a window.
    let mut syncs = 0;
    for _ in 0..10 {
        let once =
            fsynctop().args(["once", "--duration", "200ms", "--output", "json", "--pid", &pid]).output();
        let measured: Value = serde_json::from_slice(&once.unwrap().stdout).unwrap();
        assert_eq!(unwatched(&measured), (0, 0), "{:#}", measured["lost"]);
        syncs += Measured(measured).total();
    }
    assert!(syncs > 0);
}

/// (device number, command, those that were not timed)
fn untimed(measured: &Measured) -> Vec<(&str, &str, u64)> {
    let rows = measured.0["neighbours"].as_array().unwrap().iter();
    rows.map(|row| {
        (row["device_number"].as_str().unwrap(), row["comm"].as_str().unwrap(), number(row, "untimed"))
    })
    .filter(|(.., n)| *n > 0)
    .collect()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_neighbour_that_syncs_in_other_ways_is_counted_by_command_and_device() {
    needs(&[TRACEFS]);
    for filesystem in FILESYSTEMS {
        let mounted = Mounted::image(filesystem, 400);
        let device = device_number(mounted.path());
        let tracing = Tracing::begin(&["--output", "json"]);
        for way in ["o_dsync", "rwf_dsync", "io_uring"] {
            let file = mounted.path().join(way);
            assert!(output(&mut durable(way, &file)).status.success());
        }
        // Two calls of whole filesystems: of this one, and of all.
        let mut syncgen = Command::new(tool("syncgen"));
        syncgen.arg(mounted.path()).args(["--op", "syncfs", "--comm", "backupjob", "--syncs", "30"]);
        assert!(output(&mut syncgen).status.success());
        assert!(output(Command::new("sync").env_clear().env("PATH", "/usr/bin:/bin")).status.success());
        let measured = tracing.measured().remove(0);
        assert_eq!(unwatched(&measured.0), (0, 0));
        let found = untimed(&measured);
        let expected =
            [("0:0", "sync", 1), (device.as_str(), "backupjob", 30), (device.as_str(), "python3", 3 * MADE)];
        for one in expected {
            assert!(found.contains(&one), "{filesystem}: {one:?} is not in {found:?}");
        }
        let all: u64 = found.iter().map(|(.., n)| n).sum();
        assert_eq!(measured.lost("neighbours_unwatched"), all, "{found:?} {}", measured.0["lost"]);
        measured.assert_nothing_lost();
    }
}

/// As `stat` has it, and the rows.
fn device_number(path: &std::path::Path) -> String {
    use std::os::linux::fs::MetadataExt;
    let device = std::fs::metadata(path).unwrap().st_dev();
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_whoever_syncs_beside_a_server_stands_below_its_table_and_a_probe_of_ours_does_not() {
    needs(&[TRACEFS]);
    let mounted = Mounted::image("ext4", 200);
    // A server that syncs a file there, so that its device is known.
    let mut syncgen = Command::new(tool("syncgen"));
    syncgen.arg(mounted.path()).args(["--comm", "mysqld", "--syncs", "1", "--wait", "--hold"]);
    syncgen.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut server = crate::common::Running(syncgen.spawn().unwrap());
    let pid = server.0.id().to_string();
    let tracing = Tracing::of_pid(&pid, &["--output", "table"]);
    std::io::Write::write_all(server.0.stdin.as_mut().unwrap(), b"\n").unwrap();
    assert!(output(&mut durable("o_dsync", &mounted.path().join("neighbour"))).status.success());
    let text = tracing.end();
    let line = text.lines().find(|line| line.contains("python3")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.starts_with("also on ") && line.contains(" untimed syncs/s"), "{line}");

    // Another fsynctop proves itself meanwhile, on descriptors that are not open and files in memory.
    let tracing = Tracing::of_pid(&pid, &["--output", "json"]);
    assert!(output(fsynctop().args(["once", "-d", "0.1", "--pid", &pid])).status.success());
    let measured = tracing.measured();
    let rows: Vec<&Value> =
        measured.iter().flat_map(|interval| interval.0["neighbours"].as_array().unwrap()).collect();
    assert!(!rows.iter().any(|row| row["comm"] == "fsynctop"), "{rows:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_whoever_syncs_on_another_filesystem_of_the_disk_is_a_neighbour() {
    needs(&[TRACEFS]);
    let outer = Mounted::image("ext4", 600);
    let inner = Mounted::image_in(outer.path(), "ext4", 200, &[]);
    let mut syncgen = Command::new(tool("syncgen"));
    syncgen.arg(inner.path()).args(["--comm", "mysqld", "--seconds", "60", "--write", "64"]);
    let server = crate::common::Running(syncgen.stdout(std::process::Stdio::null()).spawn().unwrap());
    let tracing = Tracing::of_pid(&server.0.id().to_string(), &["--output", "table"]);
    let mut neighbour = Command::new(tool("syncgen"));
    neighbour.arg(outer.path()).args(["--comm", "backupjob", "--syncs", "50"]);
    assert!(output(&mut neighbour).status.success());
    let text = tracing.end();
    let line = text.lines().find(|line| line.contains("backupjob")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.starts_with("also on /dev/loop") && line.contains(" (on /dev/loop"), "{line}");
    assert!(text.contains(", the same disk)"), "{text}");
}

/// By the calls of a 32-bit program: open, write, fsync and fdatasync of
/// arch/x86/entry/syscalls/syscall_32.tbl.
#[cfg(target_arch = "x86_64")]
const SYNCS_OF_32_BITS: &str = r#"
static long call(long n, long a, long b, long c) {
  long r;
  __asm__ volatile("int $0x80" : "=a"(r) : "0"(n), "b"(a), "c"(b), "d"(c) : "memory");
  return r;
}
__attribute__((used)) static int run(int argc, char **argv) {
  char byte;
  long fd = call(5, (long)argv[1], 02101, 0644);
  if (fd < 0 || call(3, 0, (long)&byte, 1) != 1) return 3;
  for (int i = 0; i < 50; i++)
    if (call(4, fd, (long)"0123456789abcdef", 16) != 16 || call(i < 30 ? 118 : 148, fd, 0, 0)) return 4;
  call(3, 0, (long)&byte, 1);
  return 0;
}
__asm__(".globl _start\n_start:\n mov %esp,%eax\n lea 4(%eax),%edx\n mov (%eax),%eax\n and $-16,%esp\n"
        " push %edx\n push %eax\n call run\n mov %eax,%ebx\n mov $1,%eax\n int $0x80\n");
"#;

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_syncs_of_a_32_bit_program_are_counted_and_it_is_said_that_they_are_not_watched() {
    needs(&[TRACEFS]);
    let mounted = Mounted::image("ext4", 200);
    let (source, program) = (mounted.path().join("syncs.c"), mounted.path().join("syncs32"));
    std::fs::write(&source, SYNCS_OF_32_BITS).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pie", "-no-pie"]);
    clang.args(["-fno-stack-protector", "-O1", "-o"]).arg(&program).arg(&source);
    let built = output(&mut clang);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = |tracing: &dyn Fn(&str) -> Tracing| -> Vec<Measured> {
        let data = mounted.path().join("data");
        let mut syncs = Command::new(&program);
        let mut running = syncs.arg(&data).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let tracing = tracing(&running.id().to_string());
        std::io::Write::write_all(running.stdin.as_mut().unwrap(), b"\n").unwrap();
        wait_until("it to have written", || std::fs::metadata(&data).is_ok_and(|data| data.len() == 50 * 16));
        // And synced.
        let waits_in =
            || std::fs::read_to_string(format!("/proc/{}/wchan", running.id())).unwrap_or_default();
        wait_until("it to read again", || waits_in().contains("pipe"));
        let measured = tracing.measured();
        drop(running.stdin.take());
        assert!(running.wait().unwrap().success());
        std::fs::remove_file(&data).unwrap();
        measured
    };
    let measured = run(&|pid| Tracing::of_pid(pid, &["--output", "json"]));
    let all: Vec<_> = measured.iter().map(|interval| unwatched(&interval.0)).collect();
    let sum = all.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(sum, (50, 50), "{all:?}");
    let note = measured.last().unwrap().0["servers"][0]["notes"][0].as_str().unwrap();
    assert!(note.starts_with("This is a 32-bit program"), "{note}");
    let measured = run(&|_| Tracing::begin(&["--output", "json"])).remove(0);
    let found = untimed(&measured);
    assert!(found.iter().any(|&(_, comm, n)| (comm, n) == ("syncs32", 50)), "{found:?}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_check_says_where_they_are_counted() {
    needs(&[TRACEFS]);
    let _mounted = FILESYSTEMS.map(|filesystem| Mounted::image(filesystem, 400));
    let output = output(fsynctop().args(["check", "--output", "json"]));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = value["checks"].as_array().unwrap();
    let ours = checks.iter().find(|check| check["name"] == "unwatched").unwrap();
    let detail = ours["detail"].as_str().unwrap();
    assert!(detail.starts_with("msync: counted on "), "{detail}");
    assert!(FILESYSTEMS.iter().all(|filesystem| detail.contains(filesystem)), "{detail}");
}
