//! What a word means that names servers without an option: an engine, processes, or one of them by its
//! number.

use std::path::Path;

use super::exit::{BAD_USAGE, Exit};
use super::options::TargetArgs;
use super::shell;
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::server::who::filter::{COMM_LENGTH, TargetFilter};
use crate::server::who::selection;

/// Puts it among the options. `actions`: what else a word may be. `typo`: the action that was probably meant
/// where nothing has this very name.
pub(super) fn resolve(
    targets: &mut TargetArgs,
    engines: &Engines,
    actions: &[&str],
    typo: impl FnOnce(&str) -> Option<clap::Error>,
) -> anyhow::Result<()> {
    let Some(word) = targets.server.take() else { return Ok(()) };
    if let Ok(pid) = word.parse() {
        targets.pid.push(pid);
    } else if let Some(engine) = engines.called(&word) {
        targets.engine.push(engine.name.clone());
    } else if engines.by_command(&word).is_some() {
        targets.comm.push(word);
    } else if actions.contains(&word.as_str()) {
        return Err(wrong(format!("one action at a time: {word} stands alone, as in `fsynctop {word}`")));
    } else if let Some(error) = typo(&word) {
        error.exit();
    } else if let Some(name) = name_of_running(engines, &word) {
        targets.comm.push(name);
    } else {
        return Err(wrong(unknown(&word)));
    }
    Ok(())
}

fn wrong(message: String) -> anyhow::Error {
    Exit { status: BAD_USAGE, message }.into()
}

/// The name that the kernel keeps of it, if a process has that.
fn name_of_running(engines: &Engines, word: &str) -> Option<String> {
    let kept = word.get(..COMM_LENGTH).unwrap_or(word);
    let named = TargetFilter::comms(&[kept.to_owned()]).ok()?;
    let found = selection::list(Path::new(PROC), engines, &named);
    found.iter().any(|process| process.pid != std::process::id()).then(|| kept.to_owned())
}

fn unknown(word: &str) -> String {
    let typed = |words: &[&str]| shell::words(words.iter().map(Into::into));
    let command = typed(&["fsynctop", "once", "--", word]);
    if word.contains('/') || word.len() > COMM_LENGTH {
        return format!(
            "no engine and no process is called {}: `{command}` traces a command",
            typed(&[word])
        );
    }
    format!(
        "no engine is called {}, and no process here: `{}` waits for one, `{command}` traces a command",
        typed(&[word]),
        typed(&["fsynctop", "--comm", word])
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::child::Sleeper;

    fn resolved(word: &str) -> Result<TargetArgs, String> {
        let mut targets = TargetArgs { server: Some(word.into()), ..TargetArgs::default() };
        resolve(&mut targets, &Engines::builtin(), &["once", "explain"], |_| None)
            .map_err(|error| error.to_string())?;
        assert!(targets.server.is_none());
        Ok(targets)
    }

    #[test]
    fn a_word_is_a_number_an_engine_or_the_name_of_a_process() {
        assert_eq!(resolved("4711").unwrap().pid, [4711]);
        for (word, engine) in [("mysql", "mysql"), ("postgresql", "postgres"), ("Redis", "redis")] {
            assert_eq!(resolved(word).unwrap().engine, [engine]);
        }
        // Also where none runs.
        assert_eq!(resolved("valkey-server").unwrap().comm, ["valkey-server"]);
        let _running = Sleeper::start();
        assert_eq!(resolved("sleep").unwrap().comm, ["sleep"]);
    }

    #[test]
    fn a_word_that_is_none_of_these_says_what_could_be_meant_in_one_line() {
        assert_eq!(
            resolved("mongodd").unwrap_err(),
            "no engine is called mongodd, and no process here: `fsynctop --comm mongodd` waits for one, \
             `fsynctop once -- mongodd` traces a command"
        );
        assert_eq!(
            resolved("./load it.sh").unwrap_err(),
            "no engine and no process is called './load it.sh': `fsynctop once -- './load it.sh'` traces a \
             command"
        );
        assert_eq!(
            resolved("explain").unwrap_err(),
            "one action at a time: explain stands alone, as in `fsynctop explain`"
        );
    }
}
