//! Ways to make data durable beside fsync, as a program that needs no library for them.

/// For `python3 -c`, with the way and the file: makes 200 writes durable, each seen to succeed, and prints
/// how many there were. A worker of the kernel executes the syncs of libaio: as libaio_known, one fsync
/// before them makes the file known as the process' own.
pub const DURABLE: &str = r#"
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
aio = Aio() if way.startswith('libaio') else None
if way == 'libaio_known': os.fsync(fd)
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
