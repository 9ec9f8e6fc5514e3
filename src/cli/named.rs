//! What a word means that names servers without an option: an engine, processes, or one of them by its
//! number.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::exit::{BAD_USAGE, Exit, NOTHING_TO_TRACE};
use super::options::TargetArgs;
use super::{session, shell};
use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::model::Server;
use crate::server::what::describers::describe_all;
use crate::server::who::filter::{COMM_LENGTH, TargetFilter};
use crate::server::who::naming::GivenName;
use crate::server::who::{naming, selection};
use crate::text::escape_sentence;

/// How long describing the servers may take, to know their names.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Servers that are named where none has the name that was asked for.
const MOST_NAMED: usize = 20;

/// Puts it among the options. `actions`: what else a word may be. `typo`: the action that was probably meant
/// where nothing has this very name. `given`: names that the user gave to servers.
pub(super) fn resolve(
    targets: &mut TargetArgs,
    given: &[GivenName],
    engines: &Arc<Engines>,
    actions: &[&str],
    typo: impl FnOnce(&str) -> Option<clap::Error>,
) -> anyhow::Result<()> {
    if !targets.server.is_empty() {
        let names = std::mem::take(&mut targets.server);
        targets.pid = by_their_names(&names, given, targets, engines)?;
        return Ok(());
    }
    let Some(word) = targets.word.take() else { return Ok(()) };
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

/// The processes of the servers that are called so now.
fn by_their_names(
    names: &[String],
    given: &[GivenName],
    targets: &TargetArgs,
    engines: &Arc<Engines>,
) -> anyhow::Result<Vec<u32>> {
    let processes = session::selection(targets, engines)?.processes();
    let described = describe_all(&processes, session::rules(engines.clone(), None)?, DESCRIBE_TIMEOUT);
    let servers: Vec<&Server> = described.iter().map(|(server, _)| server).collect();
    let known = naming::names(&servers, given);
    let mut pids = Vec::new();
    for name in names {
        let of_name = servers.iter().zip(&known).filter(|(_, known)| *known == name);
        let before = pids.len();
        pids.extend(of_name.map(|(server, _)| server.id.pid));
        if pids.len() == before {
            let mut known: Vec<&str> = known.iter().map(String::as_str).take(MOST_NAMED).collect();
            known.sort_unstable();
            known.dedup();
            let there = match &known[..] {
                [] => "no server runs here".to_owned(),
                names => format!("there are {}", escape_sentence(&names.join(", "))),
            };
            let message = format!("no server is called {}: {there}", escape_sentence(name));
            return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
        }
    }
    Ok(pids)
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
        let mut targets = TargetArgs { word: Some(word.into()), ..TargetArgs::default() };
        resolve(&mut targets, &[], &Engines::builtin(), &["once", "explain"], |_| None)
            .map_err(|error| error.to_string())?;
        assert!(targets.word.is_none());
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
    fn a_name_that_no_server_has_is_an_error_with_those_that_there_are() {
        let server = vec!["no-such-server".to_owned()];
        let mut targets = TargetArgs { server, ..TargetArgs::default() };
        let engines = Engines::builtin();
        let error = resolve(&mut targets, &[], &engines, &[], |_| None).unwrap_err().to_string();
        assert!(error.starts_with("no server is called no-such-server: "), "{error}");
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
