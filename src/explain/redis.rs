//! Of Redis and Valkey: what of their settings' promises is kept. Their throughput is not taken apart: with
//! `appendfsync=always` the one thread that answers also syncs, and how long it does so is in every view.

use super::audit::storage::{preloaded, with_storage};
use super::audit::{Finding, Log, Standing, syncs};
use super::commit_watch::Explained;
use super::commits::{Commits, Inputs};
use crate::model::Role;
use crate::server::redis::status::client::Client;
use crate::server::redis::status::reading::{
    AOF_BYTES, Between, CHANGES, DELAYED, PENDING_SYNCS, REWRITE_STATUS, REWRITES, Reading, SAVE_STATUS,
    SAVES, WRITE_STATUS,
};
use crate::text::{bytes, count, counted, escape_sentence};

pub(crate) const LOGS: &[Role] = &[Role::Aof];

pub type Evidence<'a> = super::audit::Evidence<'a, Reading>;

const ON_REWRITE: &str = "no-appendfsync-on-rewrite";

impl Explained for Client {
    const HAS_FACTORS: bool = false;
    const LOGS: &'static [Role] = LOGS;
    const DATA: &'static [Role] = &[Role::Rdb];

    fn with_rest_of(counters: Reading, rest: Reading) -> Reading {
        counters.with_settings_of(&rest)
    }

    fn explain<'a>(evidence: &Evidence<'a>, inputs: &Inputs<'a>) -> Commits {
        let refused = evidence.status.map_or(&[][..], |(_, to)| to.refused());
        Commits::of_settings(audit(evidence), refused, inputs)
    }
}

/// All findings, the most serious first.
pub fn audit(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(preloaded(evidence));
    if let Some((from, to)) = evidence.status {
        let between = Between { from, to };
        findings.extend(match to.setting("appendonly") {
            Some("no") => Some(saved_files_only(&between)),
            _ => appendfsync(evidence, &between),
        });
        findings.extend(on_rewrite(&between));
        findings.extend(failures(to));
    }
    with_storage(evidence, findings)
}

fn saved_files_only(between: &Between) -> Finding {
    let points = match between.to.setting("save") {
        Some("") => "; none is saved by itself (save is empty)".to_owned(),
        Some(points) => format!(" (save={})", escape_sentence(points)),
        None => String::new(),
    };
    let changes = between.to.count(CHANGES).unwrap_or_default();
    let seen = format!("{} changes since the last saved file{points}", count(changes));
    let promise = "a crash of the server or the host loses what was written since the last saved file";
    Finding::new("appendonly=no", Standing::Weak, promise, seen)
}

fn appendfsync(evidence: &Evidence, between: &Between) -> Option<Finding> {
    let value = between.to.setting("appendfsync")?;
    let made = evidence.syncs(Role::Aof);
    let is_usable = between.interrupted().is_none();
    let grown = |name| between.grown(name).filter(|_| is_usable).map(|counted| counted.count);
    // Saving a file sets this counter back. Of changes before a setting was changed, or while a first base is
    // written, nothing was promised; beside a child it may have been told not to sync; and a sync that has
    // not returned is none yet.
    let suspends = between.to.setting(ON_REWRITE) != Some("no") && between.had_children();
    let is_open = between.was_set() || between.is_rewritten() || suspends || syncs_now(evidence, between);
    let changes = grown(CHANGES).filter(|_| !is_open);
    let mut seen = match grown(AOF_BYTES).filter(|_| !between.is_rewritten()) {
        Some(appended) => format!("{} for {} appended", syncs(made), bytes(appended)),
        None => syncs(made),
    };
    if let Some(delayed) = grown(DELAYED).filter(|&delayed| delayed > 0) {
        let writes = if delayed == 1 { "write was" } else { "writes were" };
        seen.push_str(&format!("; {} {writes} made after waiting two seconds for a sync", count(delayed)));
    }
    let setting = format!("appendfsync={}", escape_sentence(value));
    if value == "always" {
        // One sync answers whatever the event loop had written since the one before.
        let log = Log {
            made_durable: made,
            commits: changes,
            grown: grown(AOF_BYTES),
            sessions: None,
            why_not: "",
        };
        return Some(evidence.of_waiting(setting, "a write is answered once it is synced", seen, &log));
    }
    let (standing, promise) = match value {
        "everysec" => (Standing::Usual, "a crash of the host loses the writes of the last second, or two"),
        _ => (Standing::Weak, "a crash of the host loses the writes that the kernel has not written yet"),
    };
    Some(Finding::new(setting, standing, promise, seen))
}

fn syncs_now(evidence: &Evidence, between: &Between) -> bool {
    let mut under_way = evidence.measurement.in_flight.iter();
    let waits = between.to.count(PENDING_SYNCS).is_some_and(|n| n > 0);
    waits || under_way.any(|sync| sync.server == evidence.server.id && sync.role == Role::Aof)
}

fn on_rewrite(between: &Between) -> Option<Finding> {
    let matters =
        between.to.setting("appendonly") != Some("no") && between.to.setting("appendfsync") != Some("no");
    if between.to.setting(ON_REWRITE)? != "yes" || !matters {
        return None;
    }
    let begun =
        |name, one, several| counted(between.grown(name).map_or(0, |counted| counted.count), one, several);
    let (bases, saved) =
        (begun(REWRITES, "new base", "new bases"), begun(SAVES, "saved file", "saved files"));
    let seen = format!("begun meanwhile: {bases}, {saved}");
    let promise = "nothing is synced while a child writes a new base or saves a file: a crash of the host loses what was \
                   written meanwhile";
    Some(Finding::new(format!("{ON_REWRITE}=yes"), Standing::Weak, promise, seen))
}

/// By its own account.
fn failures(to: &Reading) -> Vec<Finding> {
    let appends = to.setting("appendonly") != Some("no");
    let write =
        "the last write or sync of the append-only file failed: it may lack what was acknowledged since";
    let rewrite = "no new base could be written: the append-only file grows";
    let save = "the last file could not be saved: that on the disk is older than it should be";
    [
        (WRITE_STATUS, Standing::Broken, write, appends),
        (REWRITE_STATUS, Standing::Weak, rewrite, appends),
        (SAVE_STATUS, Standing::Weak, save, true),
    ]
    .into_iter()
    .filter(|&(status, _, _, matters)| matters && to.has_failed(status))
    .map(|(status, standing, promise, _)| {
        Finding::new(format!("{status}=err"), standing, promise, "by its own account".to_owned())
    })
    .collect()
}

#[cfg(test)]
#[path = "redis_tests.rs"]
mod tests;
