//! The program: arguments in, an exit status out. Everything else is in the library.

use std::process::ExitCode;

use fsynctop::cli::{self, Exit, FAILED};
use fsynctop::probe::allocator;

fn main() -> ExitCode {
    // Before there are threads with heaps of their own.
    allocator::be_frugal();
    match cli::arguments().and_then(cli::run) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("fsynctop: {error:#}");
            ExitCode::from(error.downcast_ref::<Exit>().map_or(FAILED, |exit| exit.status))
        }
    }
}
