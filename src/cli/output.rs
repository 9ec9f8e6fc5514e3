//! Standard output.

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
