//! Needs root and the tracing filesystem: data that is made durable by a way that is not watched is never
//! called watched.

mod common;

use std::process::Command;

use common::disk::Mounted;
use common::faults::{fsynctop, output, stdout, trace};
use common::needs;
use serde_json::Value;

const TRACEFS: &str = "/sys/kernel/tracing/events";
/// Makes 200 writes durable in a file, in one way, each seen to succeed; prints how many there were.
const DURABLE: &str = r#"
import ctypes, mmap, os, platform, struct, sys
way, path = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
is_arm = platform.machine() == 'aarch64'

def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    assert result >= 0, (number, os.strerror(ctypes.get_errno()))
    return result

class Ring:
    """An io_uring of one entry (uapi/linux/io_uring.h)."""
    def __init__(self):
        params = ctypes.create_string_buffer(120)
        self.fd = call(425, 1, params)
        sq = struct.unpack_from('10I', params, 40)
        self.cq = struct.unpack_from('6I', params, 80)
        size = max(sq[6] + 4, self.cq[5] + 16 * 2)
        self.rings = mmap.mmap(self.fd, size)
        self.entries = mmap.mmap(self.fd, 64, offset=0x10000000)
        self.sq_tail, self.sq_array = sq[1], sq[6]
    def fsync(self, fd):
        IORING_OP_FSYNC, IORING_ENTER_GETEVENTS = 3, 1
        self.entries[:] = struct.pack('BBHi', IORING_OP_FSYNC, 0, 0, fd) + bytes(56)
        tail, = struct.unpack_from('I', self.rings, self.sq_tail)
        struct.pack_into('I', self.rings, self.sq_array, 0)
        struct.pack_into('I', self.rings, self.sq_tail, tail + 1)
        assert call(426, self.fd, 1, 1, IORING_ENTER_GETEVENTS, None, 0) == 1
        head, = struct.unpack_from('I', self.rings, self.cq[0])
        mask, = struct.unpack_from('I', self.rings, self.cq[2])
        result, = struct.unpack_from('i', self.rings, self.cq[5] + 16 * (head & mask) + 8)
        struct.pack_into('I', self.rings, self.cq[0], head + 1)
        assert result == 0, result

class Aio:
    """A context of libaio (uapi/linux/aio_abi.h)."""
    def __init__(self):
        self.setup, self.submit, self.events = (0, 2, 4) if is_arm else (206, 209, 208)
        self.context = ctypes.c_ulong(0)
        call(self.setup, 1, ctypes.byref(self.context))
    def fdatasync(self, fd):
        IOCB_CMD_FDSYNC = 3
        block = ctypes.create_string_buffer(struct.pack('QIIHhI', 0, 0, 0, IOCB_CMD_FDSYNC, 0, fd) + bytes(40), 64)
        blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        assert call(self.submit, self.context, ctypes.c_long(1), blocks) == 1
        event = ctypes.create_string_buffer(32)
        assert call(self.events, self.context, ctypes.c_long(1), ctypes.c_long(1), event, None) == 1
        assert struct.unpack_from('q', event, 16)[0] == 0, event.raw

flags = os.O_DSYNC if way == 'o_dsync' else 0
fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
ring = Ring() if way == 'io_uring' else None
aio = Aio() if way == 'libaio' else None
for n in range(200):
    block = bytes([n]) * 4096
    if way == 'rwf_dsync':
        assert os.pwritev(fd, [block], 0, os.RWF_DSYNC) == 4096
        continue
    assert os.pwrite(fd, block, 0) == 4096
    if ring: ring.fsync(fd)
    elif aio: aio.fdatasync(fd)
    elif way == 'fdatasync': os.fdatasync(fd)
    elif way == 'msync':
        with mmap.mmap(fd, 4096) as pages: pages[0] = n; pages.flush()
print(200)
"#;

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_each_durable_write_is_counted_or_its_way_is_said_not_to_be_watched() {
    needs(&[TRACEFS]);
    let mounted = Mounted::image("ext4", 200);
    let mut seen = 0;
    for way in ["fdatasync", "msync", "io_uring", "libaio", "rwf_dsync", "o_dsync"] {
        let file = mounted.path().join(way);
        let command = || {
            let mut command = Command::new("python3");
            command.args(["-c", DURABLE, way]).arg(&file);
            command
        };
        let mut once = fsynctop();
        once.args(["once", "--"]).arg("python3").args(["-c", DURABLE, way]).arg(&file);
        let text = stdout(&output(&mut once));
        assert!(!text.contains("missed"), "{text}");
        assert!(text.contains("none of the watched calls was lost"), "{text}");
        let last = text.lines().last().unwrap_or_default();
        let rest = last.strip_prefix("Not watched: ").unwrap_or_else(|| panic!("{text}"));
        assert!(rest.contains("io_uring") && rest.contains("libaio") && rest.contains("O_DSYNC"), "{text}");

        let (measured, printed) = trace(&[], &mut command());
        assert_eq!(printed, "200\n", "{way}");
        let rows = measured["files"].as_array().unwrap().iter();
        let counted: u64 = rows.filter(|row| row["path"] == *file.to_str().unwrap()).map(count).sum();
        let not_watched: Vec<&str> =
            measured["not_watched"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(counted == 200, !not_watched.contains(&way), "{way}: {counted} counted, {not_watched:?}");
        seen += counted;
    }
    assert!(seen >= 200, "what is watched is counted: {seen}");
    // What is asked for is not called unwatched.
    let file = mounted.path().join("msync");
    let mut command = Command::new("python3");
    command.args(["-c", DURABLE, "msync"]).arg(&file);
    let (measured, _) = trace(&["--ops", "fsync,msync"], &mut command);
    let counted: u64 =
        measured["roles"].as_array().unwrap().iter().filter(|row| row["op"] == "msync").map(count).sum();
    let not_watched = &measured["not_watched"];
    assert_eq!(counted, 200, "{measured:#}");
    let left_out: Vec<&str> = not_watched.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(left_out.contains(&"fdatasync") && !left_out.contains(&"msync"), "{left_out:?}");
}

fn count(row: &Value) -> u64 {
    row["count"].as_u64().unwrap()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_check_lists_what_is_not_watched() {
    needs(&[TRACEFS]);
    let listed = |options: &[&str]| -> Vec<String> {
        let output = output(fsynctop().args(["check", "--output", "json"]).args(options));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = value["checks"].as_array().unwrap().iter();
        let ours = checks.filter(|check| check["name"] == "not watched");
        ours.map(|check| check["detail"].as_str().unwrap().to_owned()).collect()
    };
    let default = listed(&[]);
    for way in ["io_uring: ", "libaio: ", "O_DSYNC writes: ", "RWF_DSYNC writes: ", "msync, sync_file_range"]
    {
        assert_eq!(default.iter().filter(|line| line.starts_with(way)).count(), 1, "{way}: {default:?}");
    }
    let asked = listed(&["--ops", "fsync,fdatasync,msync"]);
    assert!(asked.iter().any(|line| line.starts_with("sync_file_range, syncfs, sync: ")), "{asked:?}");
}
