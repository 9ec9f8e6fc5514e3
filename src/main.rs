//! The program: arguments in, an exit status out. Everything else is in the library.

use std::process::ExitCode;

use fsynctop::cli;
use fsynctop::linux::descriptors;
use fsynctop::probe::allocator;

fn main() -> ExitCode {
    // Before there are threads, which would have heaps of their own, and make room for descriptors dear.
    allocator::limit();
    descriptors::make_room();
    cli::run()
}
