//! Threads that do nothing, many of them, on this host.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// Each thread takes some of a process's mappings, of which it may have 65,530.
const PER_PROCESS: usize = 10_000;
const STACK: usize = 16 << 10;
const PID_MAX: &str = "/proc/sys/kernel/pid_max";

/// They end when this is dropped.
pub struct IdleThreads {
    processes: Vec<Child>,
    /// What is to be written back to `pid_max`.
    pid_max: Option<String>,
}

impl IdleThreads {
    /// Raises `kernel.pid_max` for as long as they live, where it leaves no room for them.
    pub fn start(threads: usize) -> Result<IdleThreads> {
        let before = std::fs::read_to_string(PID_MAX)?;
        let mut idle = IdleThreads { processes: Vec::new(), pid_max: None };
        if before.trim().parse::<usize>()? < threads * 2 {
            std::fs::write(PID_MAX, "4194304").context("cannot raise kernel.pid_max")?;
            idle.pid_max = Some(before);
        }
        for first in (0..threads).step_by(PER_PROCESS) {
            let mut process = Command::new("/proc/self/exe")
                .args(["--idle", &PER_PROCESS.min(threads - first).to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let out = process.stdout.take();
            idle.processes.push(process);
            let mut line = String::new();
            BufReader::new(out.context("its standard output")?).read_line(&mut line)?;
            ensure!(line == "ready\n", "{threads} idle threads could not be started");
        }
        Ok(idle)
    }
}

impl Drop for IdleThreads {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        if let Some(before) = &self.pid_max
            && let Err(error) = std::fs::write(PID_MAX, before)
        {
            eprintln!("bench: cannot set kernel.pid_max back to {}: {error}", before.trim());
        }
    }
}

/// Starts the threads, says so, and stays until it is killed or its parent is gone.
pub fn be(threads: usize) -> Result<()> {
    for _ in 0..threads {
        let forever = || loop {
            std::thread::sleep(Duration::from_secs(3600));
        };
        std::thread::Builder::new().stack_size(STACK).spawn(forever).context("a thread")?;
    }
    writeln!(std::io::stdout(), "ready")?;
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    Ok(())
}
