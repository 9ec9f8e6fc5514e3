//! What the kernel and a program give each other for libaio: include/uapi/linux/aio_abi.h, little-endian. The
//! bench has it from here as well.

/// struct iocb.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Block {
    pub data: u64,
    pub key: u32,
    pub flags: i32,
    pub opcode: u16,
    pub priority: i16,
    pub fd: i32,
    pub buffer: u64,
    pub bytes: u64,
    pub offset: i64,
    pub reserved: u64,
    pub block_flags: u32,
    pub event_fd: u32,
}

/// struct io_event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    pub data: u64,
    pub block: u64,
    pub result: i64,
    pub result_too: i64,
}

pub const PWRITE: u16 = 1;
