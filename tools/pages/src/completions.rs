//! What a shell completes, in files of the names that bash-completion, zsh and fish look for.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::File;

pub fn files(command: &Command) -> Vec<File> {
    let shells = [("fsynctop.bash", Shell::Bash), ("_fsynctop", Shell::Zsh), ("fsynctop.fish", Shell::Fish)];
    let file = |(name, shell): (&str, Shell)| {
        let mut text = Vec::new();
        generate(shell, &mut command.clone(), "fsynctop", &mut text);
        (name.to_owned(), text)
    };
    shells.map(file).into()
}
