//! Whether a commit waits for the WAL, by the server's settings, and for what of it.

use serde::Serialize;

use crate::model::{Op, Server, durability};
use crate::server::postgres::status::counters::Between;
use crate::text::escape_sentence;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Form {
    /// Half a sentence: "a commit waits for ...".
    pub in_words: String,
    /// Why no commit waits for the WAL. None: one does, or the settings are unknown.
    pub why_not_wal: Option<String>,
    /// Why each write of the WAL is durable by itself, so that no sync follows.
    pub by_writes: Option<String>,
    /// A commit waits for such a write, and these are not watched: how long that takes is not seen.
    pub waits_unseen: bool,
    /// It also waits for others, by the settings in `notes`, and that is not measured.
    pub waits_for_more: bool,
    /// Caveats, each a sentence.
    pub notes: Vec<String>,
    /// False if the settings could not be read.
    pub known: bool,
}

impl Form {
    /// `watched`: the operations that are traced.
    pub fn of(server: &Server, status: Option<&Between>, watched: &[Op]) -> Form {
        let setting = |name: &str| status.and_then(|between| between.to.setting(name));
        // With fsync=off, it opens its files without O_SYNC and O_DSYNC all the same.
        let is_synced = setting("fsync") != Some("off");
        let by_setting = setting("wal_sync_method").filter(|method| is_synced && method.starts_with("open_"));
        let by_writes = match by_setting {
            Some(method) => Some(format!("wal_sync_method={}", escape_sentence(method))),
            None => durability::wal_is_durable_by_writes(server)
                .then(|| "its descriptors have O_DSYNC".to_owned()),
        };
        let unseen = by_writes.is_some() && !watched.contains(&Op::DsyncWrite);
        let Some(between) = status else {
            let in_words = "unknown without a connection".into();
            return Form { in_words, by_writes, waits_unseen: unseen, ..Form::default() };
        };
        let commit = setting("synchronous_commit");
        let why_not_wal = if between.to.is_standby() {
            Some("does not apply: a standby commits nothing of its own".to_owned())
        } else if !is_synced {
            Some("does not apply: fsync=off, so nothing is synced".to_owned())
        } else if commit == Some("off") {
            Some("does not apply: synchronous_commit=off, so no commit waits for the WAL".to_owned())
        } else {
            None
        };
        let notes = if between.to.is_standby() { Vec::new() } else { notes(&setting, is_synced) };
        let mut form = Form {
            waits_for_more: !notes.is_empty(),
            waits_unseen: unseen && why_not_wal.is_none(),
            known: true,
            notes,
            by_writes,
            why_not_wal,
            ..Form::default()
        };
        form.in_words = form.words(commit, between.to.is_standby());
        form
    }

    fn words(&self, commit: Option<&str>, is_standby: bool) -> String {
        let commit =
            commit.map_or(String::new(), |value| format!(" (synchronous_commit={})", escape_sentence(value)));
        match (&self.why_not_wal, &self.by_writes) {
            (Some(_), _) if is_standby => {
                "it commits nothing of its own; its primary's commits may wait for its syncs".to_owned()
            }
            (Some(_), _) => "no commit waits for a sync".to_owned(),
            (None, Some(why)) => {
                let unseen = if self.waits_unseen { "; not seen here" } else { "" };
                format!("a commit waits for a write of the WAL that is itself durable ({why}{unseen})")
            }
            (None, None) => format!("a commit waits until the WAL is synced up to its own record{commit}"),
        }
    }
}

/// What else a commit waits for.
fn notes<'a>(setting: &dyn Fn(&str) -> Option<&'a str>, is_synced: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let commit = setting("synchronous_commit");
    let delay: u64 = setting("commit_delay").and_then(|delay| delay.parse().ok()).unwrap_or(0);
    if delay > 0 && is_synced && commit != Some("off") {
        let siblings = setting("commit_siblings").map(escape_sentence).unwrap_or_default();
        notes.push(format!(
            "With commit_delay={delay}, a commit that is about to sync waits {delay} µs for others, if {siblings} more \
             transactions are open."
        ));
    }
    if setting("synchronous_standby_names").is_some_and(|names| !names.trim().is_empty())
        && !matches!(commit, Some("off" | "local"))
    {
        notes.push(
            "A commit also waits for standbys (synchronous_standby_names), which is not seen here."
                .to_owned(),
        );
    }
    notes
}
