//! `fsynctop ack`: tells the exporter that an operator knows of a server's failures.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::exit::{Exit, FAILED};
use super::output::print;
use crate::recording::remote;
use crate::text::{counted, escape_sentence};

#[derive(Args, Debug)]
pub(crate) struct Ack {
    /// The server, as `fsynctop status` and the metrics call it
    #[arg(value_name = "NAME")]
    server: String,
    /// The exporter's socket
    #[arg(long, value_name = "PATH", default_value = remote::SOCKET)]
    socket: PathBuf,
}

pub(crate) fn run(arguments: Ack) -> anyhow::Result<ExitCode> {
    let done = remote::acknowledge(&arguments.socket, arguments.server)
        .map_err(|error| Exit { status: FAILED, message: error.to_string() })?;
    let (name, files) = (escape_sentence(&done.server), done.acknowledged_files);
    let files = counted(files, "file", "files");
    print(
        format!("{name}: failures of {files} are acknowledged; whatever fails from now on counts again.\n")
            .as_bytes(),
    )?;
    Ok(ExitCode::SUCCESS)
}
