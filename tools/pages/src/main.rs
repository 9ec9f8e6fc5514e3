//! Writes the manual pages and the shell completions into a directory, from the command line itself: DIR/man
//! and DIR/completions.

mod completions;
mod configuration;
mod date;
mod manual;
mod visible;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;

/// Write fsynctop's manual pages (DIR/man) and shell completions (DIR/completions)
#[derive(Parser)]
struct Arguments {
    /// Where to; made if it is not there
    directory: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let command = visible::built(fsynctop::cli::command());
    let date = date::of_the_sources()?;
    let mut pages = manual::pages(&command, &date)?;
    pages.push(configuration::page(&command, &date)?);
    write(&arguments.directory.join("man"), &pages)?;
    // Where a server may stand, zsh would take the action for one and complete nothing behind it.
    let actions_first = fsynctop::cli::command().mut_arg("word", |word| word.hide(true));
    let completed = visible::built(actions_first);
    write(&arguments.directory.join("completions"), &completions::files(&completed))
}

/// A name, and what is in it.
type File = (String, Vec<u8>);

fn write(directory: &Path, files: &[File]) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, content) in files {
        let path = directory.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
