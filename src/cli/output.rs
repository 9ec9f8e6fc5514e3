//! Standard output.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use anyhow::Context;

/// A reader who has seen enough (`| head`) ends the program quietly.
pub(super) fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.context("cannot write to standard output"),
    }
}

/// Prints the last of the text. Whoever reads it to its end has that now, and not when the process ends:
/// until then the kernel may take a second to detach the programs.
pub(super) fn print_last(text: &[u8]) -> anyhow::Result<()> {
    print(text)?;
    end();
    Ok(())
}

/// Nothing more is printed.
pub(super) fn end() {
    // Where this fails, the reader waits a little longer.
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
