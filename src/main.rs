//! The program: arguments in, an exit status out. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser;
use fsynctop::cli::{self, Exit, FAILED};

fn main() -> ExitCode {
    let arguments = cli::args::Arguments::parse();
    match cli::run(arguments) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("fsynctop: {error:#}");
            ExitCode::from(error.downcast_ref::<Exit>().map_or(FAILED, |exit| exit.status))
        }
    }
}
