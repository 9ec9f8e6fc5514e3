//! `-- COMMAND`: a child that is traced from before its first instruction, and whose exit status is passed
//! on.

use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use anyhow::Context;

use super::exit::FAILED;

/// A child that waits to be told before it becomes the command, and then is that.
pub struct Traced {
    child: Child,
    told: bool,
    go: PipeWriter,
    /// The child opens the pipe through our descriptor, so it stays open for as long as the child may.
    _wait: PipeReader,
}

impl Traced {
    /// Starts this program again, as the child that waits. No fork handler is needed, hence nothing unsafe.
    pub fn start(command: &[OsString]) -> anyhow::Result<Traced> {
        let (wait, go) = std::io::pipe().context("a pipe")?;
        let pipe = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), wait.as_raw_fd()));
        let child = Command::new("/proc/self/exe")
            .arg0("fsynctop")
            .arg("exec-when-told")
            .arg(pipe)
            .arg("--")
            .args(command)
            .spawn()
            .context("cannot start a process")?;
        Ok(Traced { child, told: false, go, _wait: wait })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it become the command.
    pub fn go(&mut self) -> anyhow::Result<()> {
        self.told = true;
        self.go.write_all(b"!").context("the command's process ended before it began")
    }

    /// Its status, once it has ended.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().context("waiting for the command")
    }
}

/// If tracing failed, the command never ran; the process that waits to become it goes without a word.
impl Drop for Traced {
    fn drop(&mut self) {
        if !self.told {
            // It may have ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The child's side: waits for a byte, then becomes the command.
pub(crate) fn exec_when_told(pipe: &Path, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let mut told = [0];
    let mut pipe = std::fs::File::open(pipe).context("the tracer has gone")?;
    if pipe.read_exact(&mut told).is_err() {
        // It ended without tracing, and has said why.
        return Ok(ExitCode::from(FAILED));
    }
    drop(pipe);
    let (program, arguments) = command.split_first().context("no command")?;
    let error = Command::new(program).args(arguments).exec();
    eprintln!("fsynctop: cannot run {}: {error}", program.to_string_lossy());
    // As shells do: 127 not found, 126 found but not to be run.
    Ok(ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }))
}

/// The status to pass on; a signal becomes 128 + its number, as in a shell.
pub(crate) fn passed_on(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
