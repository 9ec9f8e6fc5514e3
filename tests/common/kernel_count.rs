//! Syncs by process as bpftrace counts them: another program, in other probes.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Running;
use super::faults::signal;

pub const BPFTRACE: &str = "/usr/bin/bpftrace";

/// Calls of fsync and fdatasync by process.
pub struct KernelCount(Running);

impl KernelCount {
    pub fn begin() -> KernelCount {
        let program = r#"BEGIN { printf("begun\n") }
            tracepoint:syscalls:sys_exit_fsync,tracepoint:syscalls:sys_exit_fdatasync { @[pid] = count() }"#;
        let mut command = Command::new(BPFTRACE);
        command.args(["-e", program]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"begun\n") {
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
        child.stdout = Some(output);
        KernelCount(Running(child))
    }

    /// Of one process since the beginning.
    pub fn end(mut self, pid: u32) -> u64 {
        let child = &mut self.0.0;
        // bpftrace misses one now and then, and would go on for ever.
        while child.try_wait().unwrap().is_none() {
            signal(child.id(), "INT");
            wait_for(child, Duration::from_secs(2));
        }
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix(&format!("@[{pid}]: ")));
        count.unwrap_or_else(|| panic!("no {pid} in {text}")).parse().unwrap()
    }
}

/// Until it has ended, but no longer than this.
fn wait_for(child: &mut Child, at_most: Duration) {
    let began = Instant::now();
    while began.elapsed() < at_most && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
}
