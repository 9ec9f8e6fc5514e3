//! `fsynctop --once --last 10m`: what an exporter on this host remembers, as a time line.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::args::Once;
use super::{Exit, FAILED, NOTHING_TO_TRACE, print};
use crate::history::series::Part;
use crate::history::{History, remote};
use crate::model::Measurement;
use crate::once::timeline;
use crate::render::{Options, Style};

pub fn run(arguments: &Once, length: Duration) -> anyhow::Result<ExitCode> {
    let history = remote::fetch(&arguments.socket)
        .map_err(|error| Exit { status: FAILED, message: error.to_string() })?;
    let step = arguments.interval.unwrap_or_else(|| timeline::step(length));
    let Some(all) = history.last(length) else {
        let message = "the exporter remembers nothing yet: it has only just begun".to_owned();
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    };
    let mut all = all.measurement;
    let mut parts = history.series(length, step);
    if !arguments.trace.targets.pid.is_empty() {
        let pids = &arguments.trace.targets.pid;
        restrict(&mut all, pids);
        parts.iter_mut().for_each(|part| restrict_part(part, pids));
        if all.servers.is_empty() {
            let message = format!("the exporter remembers no server with the pid {}", join(pids));
            return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
        }
    }
    let pids = &arguments.trace.targets.pid;
    let troubles = history.troubles(length, |server| pids.is_empty() || pids.contains(&server.pid));
    say_what_is_missing(&history, length, all.duration);

    let mut style = if arguments.output_file.is_some() { Style::default() } else { Style::for_stdout() };
    arguments.color.apply(&mut style);
    style.unicode &= !arguments.no_unicode;
    let options =
        Options { output: arguments.output, style, stuck_after: arguments.stuck_after, ..Options::default() };
    let mut text = Vec::new();
    timeline::write(&parts, &all, &troubles, &options, &mut text).context("cannot render")?;
    match &arguments.output_file {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// On standard error, so that it is in no one's way.
fn say_what_is_missing(history: &History, wanted: Duration, got: Duration) {
    // A moment more or less is no gap.
    if got + Duration::from_secs(2) < wanted {
        let why = match history.is_short_of_memory() {
            true => "there was more to remember than it has memory for",
            false => "it began then, or keeps no more (--history)",
        };
        eprintln!(
            "fsynctop: the exporter remembers {} of the {} that were asked for: {why}.",
            crate::text::interval(got),
            crate::text::interval(wanted)
        );
    }
}

fn join(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
}

fn restrict(m: &mut Measurement, pids: &[u32]) {
    m.retain_servers(|server| pids.contains(&server.pid));
}

fn restrict_part(part: &mut Part, pids: &[u32]) {
    restrict(&mut part.merged.measurement, pids);
    part.servers.retain(|server, _| pids.contains(&server.pid));
}
