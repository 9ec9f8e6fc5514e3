//! The program: arguments in, an exit status out. Everything else is in the library.

use std::process::ExitCode;

use fsynctop::cli::{self, Exit, FAILED};
use fsynctop::linux::descriptors;
use fsynctop::probe::allocator;

fn main() -> ExitCode {
    // Before there are threads, which would have heaps of their own, and make room for descriptors dear.
    allocator::limit_arenas();
    descriptors::make_room();
    match cli::run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("fsynctop: {error:#}");
            ExitCode::from(error.downcast_ref::<Exit>().map_or(FAILED, |exit| exit.status))
        }
    }
}
