//! `/status`: the verdicts of `fsynctop check` as they are now, without its attaching anew.

use serde_json::Value;

use super::privileges;
use crate::host::{self, Verdict};
use crate::live::{Live, State};
use crate::server::what::describe::in_words;

/// Checks whose results would differ after giving up rights; those of the start are shown.
const DECIDED_AT_START: [&str; 4] = ["capabilities", "tracefs", "perf events", "locked memory"];

/// The checks of the start, taken with all the rights that the exporter was given.
#[derive(Clone, Debug)]
pub(crate) struct AtStart {
    pub verdicts: Vec<Verdict>,
    /// The memory that the maps take.
    pub map_bytes: u64,
}

/// `live` is None while the probes are still being attached; `web` is what the process that serves says of
/// itself, and `recording` how the recording stands, if there is one.
pub(super) fn json(
    at_start: &AtStart,
    live: Option<&Live>,
    web: String,
    recording: Option<Result<String, String>>,
) -> Value {
    let mut verdicts = host::checks(at_start.map_bytes);
    for verdict in &mut verdicts {
        if DECIDED_AT_START.contains(&verdict.name)
            && let Some(earlier) = at_start.verdicts.iter().find(|earlier| earlier.name == verdict.name)
        {
            *verdict = earlier.clone();
        }
    }
    let is_new = |earlier: &&Verdict| !verdicts.iter().any(|verdict| verdict.name == earlier.name);
    let more: Vec<_> = at_start.verdicts.iter().filter(is_new).cloned().collect();
    verdicts.extend(more);
    verdicts.push(Verdict::ok("rights kept", privileges::in_words()));
    verdicts.push(Verdict::ok("web process", web));
    verdicts.extend(recording.map(|recording| match recording {
        Ok(how) => Verdict::ok("recording", how),
        Err(why) => Verdict::warn("recording", why),
    }));
    match live {
        Some(live) => verdicts.extend(of_live(live)),
        None => verdicts.push(Verdict::warn("attach", "attaching")),
    }
    host::json(&verdicts)
}

fn of_live(live: &Live) -> Vec<Verdict> {
    let snapshot = live.latest();
    let setup = &snapshot.setup;
    let why: Vec<_> = setup.not_chosen.iter().map(|(mode, why)| format!("{}: {why}", mode.name())).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    let mut verdicts = vec![Verdict::ok("attach", format!("{}{why}", setup.mode.name()))];
    let age = snapshot.taken.elapsed().as_secs_f64();
    let last = format!("the last snapshot is {age:.1} s old");
    verdicts.push(match live.state() {
        State::Running => Verdict::ok("tracing", last),
        State::Degraded { interval } => {
            let interval = crate::text::interval(interval);
            Verdict::warn(
                "tracing",
                format!("a snapshot each {interval} only, to save processor time; {last}"),
            )
        }
        State::Paused { why } | State::Failed { why } => Verdict::fail("tracing", format!("{why}; {last}")),
        State::Stopped => Verdict::fail("tracing", format!("it is being stopped; {last}")),
    });
    let servers: Vec<_> = snapshot.servers.iter().filter(|server| server.alive).collect();
    match servers.is_empty() {
        true => {
            verdicts.push(Verdict::warn("server", "none runs; one that starts is traced from its first sync"))
        }
        false => verdicts.extend(servers.iter().map(|server| Verdict::ok("server", in_words(server)))),
    }
    verdicts
}
