//! Keeps the tracepoints that fsynctop attaches to in use while tests run, so that it detaches at once.
//!
//! Only the last user of a tracepoint waits for the kernel's grace period when it lets go of it, some 35 ms
//! for each (`tracepoint_synchronize_unregister` in kernel/trace/trace_event_perf.c). The tests start
//! fsynctop a thousand times, with some twenty tracepoints each.

#![allow(unsafe_code)]

use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use fsynctop::model::Op;
use libbpf_rs::libbpf_sys::perf_event_attr;

const EVENTS: &str = "/sys/kernel/tracing/events/syscalls";
/// The calls of libaio, which are not operations.
const LIBAIO: [&str; 4] = ["io_submit", "io_getevents", "io_pgetevents", "io_destroy"];
/// `PERF_TYPE_TRACEPOINT` and `PERF_FLAG_FD_CLOEXEC` of include/uapi/linux/perf_event.h.
const TRACEPOINT: u32 = 2;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

static HELD: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Opens an event on each tracepoint, unless this process has them. They stay disabled, so they count nothing
/// and cost nothing. Where there is no tracefs, the tests only take longer.
pub fn hold() {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.is_empty() {
        let calls = Op::ALL.iter().flat_map(|op| op.calls()).map(|call| call.name).chain(LIBAIO);
        let points = calls.flat_map(|call| ["enter", "exit"].map(|end| format!("sys_{end}_{call}")));
        *held = points.filter_map(|point| open(&point)).collect();
    }
}

/// Lets go of them, for a test of what fsynctop does where nobody else uses these tracepoints.
pub fn let_go() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn open(point: &str) -> Option<OwnedFd> {
    let id = std::fs::read_to_string(Path::new(EVENTS).join(point).join("id")).ok()?;
    let mut attributes = perf_event_attr {
        type_: TRACEPOINT,
        size: size_of::<perf_event_attr>() as u32,
        config: id.trim().parse().ok()?,
        ..Default::default()
    };
    attributes.set_disabled(1);
    // SAFETY: the kernel reads `size` bytes of the attributes, and returns a new descriptor or an error.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, 0, -1, CLOSE_ON_EXEC) };
    // SAFETY: the descriptor is new, and nobody else's.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
