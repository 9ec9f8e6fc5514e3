//! `fsynctop export`: a recording for somebody else.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::exit::{BAD_USAGE, Exit};
use super::options::TargetArgs;
use super::output::print;
use super::replay::ReplayArgs;
use crate::engine::engines::Engines;
use crate::recording::redact::Redactor;
use crate::recording::writer::{LIMIT, Writer};
use crate::text::{bytes, counted};

#[derive(Args, Debug)]
#[command(next_help_heading = "What to export")]
pub struct Export {
    /// The folder that is made
    #[arg(short, long, value_name = "DIR", required = true)]
    pub output_directory: PathBuf,
    /// Replace names of hosts, servers, users, processes, files and devices
    ///
    /// By words with numbers, the same one wherever a name stood: server-1, name-7.ibd. Roles, operations,
    /// versions and all figures stay.
    #[arg(long)]
    pub redact: bool,
    #[command(flatten)]
    pub replay: ReplayArgs,
}

pub fn run(arguments: &Export) -> anyhow::Result<ExitCode> {
    let Some(history) = arguments.replay.history(&TargetArgs::default())? else {
        let message = "which recording? --replay DIR names it".to_owned();
        return Err(Exit { status: BAD_USAGE, message }.into());
    };
    let path = &arguments.output_directory;
    if path.exists() {
        let message = format!("{} is there already: a new folder is made", path.display());
        return Err(Exit { status: BAD_USAGE, message }.into());
    }
    let failed = || format!("cannot write {}", path.display());
    let mut writer = Writer::open(path, LIMIT).with_context(failed)?;
    let mut redactor = arguments.redact.then(|| {
        let engines = Engines::builtin();
        Redactor::new(engines.profiles().iter().map(|profile| profile.engine.clone()).collect())
    });
    for mut moment in history.moments() {
        if let Some(redactor) = &mut redactor {
            moment = redactor.interval(moment);
        }
        writer.push(&moment).with_context(failed)?;
    }
    writer.finish().with_context(failed)?;
    let written = writer.written();
    let length = crate::text::interval(history.length().max(Duration::from_millis(1)));
    let intervals = counted(written.intervals, "interval", "intervals");
    print(
        format!("{intervals}, {length} in all: {} in {}.\n", bytes(written.size), path.display()).as_bytes(),
    )?;
    Ok(ExitCode::SUCCESS)
}
