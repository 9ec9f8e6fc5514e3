//! Which of the equations apply, given a server's settings.

use serde::Serialize;

use crate::model::{Op, Role, Server};
use crate::server::mysql::durable_writes::DurableWrites;
use crate::server::mysql::status::counters::Between;

/// How this server makes a commit durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Form {
    /// A sentence: "each commit group syncs the redo log, then the binary log".
    pub in_words: String,
    /// Why the binary log's equation does not apply. None: it does, or the settings are unknown.
    pub why_not_binlog: Option<String>,
    pub why_not_redo: Option<String>,
    /// Of which files each write is durable, so that no sync follows.
    pub durable_writes: DurableWrites,
    /// True if a commit waits for such a write of the redo log.
    pub waits_for_durable_write: bool,
    /// The same where durable writes are not watched: how long that takes is not seen.
    pub waits_unseen: bool,
    /// Caveats: a member of a Galera cluster, a binary log inside InnoDB.
    pub notes: Vec<String>,
    /// False if the settings could not be read.
    pub known: bool,
}

impl Form {
    /// `watched`: the operations that are traced.
    pub fn of(server: &Server, status: Option<&Between>, watched: &[Op]) -> Form {
        let durable_writes = DurableWrites::of(server, status.map(|between| between.to));
        let by_writes = durable_writes.redo.is_some();
        let unseen = durable_writes.redo.filter(|_| !watched.contains(&Op::DsyncWrite)).map(|why| {
            format!(
                "does not apply: each write of the redo log is itself durable ({why}), and not watched here"
            )
        });
        let Some(between) = status else {
            let in_words = "unknown without a connection".into();
            return Form { in_words, why_not_redo: unseen, durable_writes, ..Form::default() };
        };
        let reading = between.to;
        let mut form = Form { known: true, durable_writes, ..Form::default() };
        let in_innodb = reading
            .variable("binlog_storage_engine")
            .is_some_and(|engine| engine.eq_ignore_ascii_case("innodb"));
        form.why_not_binlog = match (reading.is_on("log_bin"), reading.setting("sync_binlog")) {
            (Some(false), _) => Some("does not apply: the binary log is off".into()),
            _ if in_innodb => Some(
                "does not apply: the binary log is stored in InnoDB and durable with the redo log".into(),
            ),
            (_, Some(0)) => {
                Some("does not apply: sync_binlog=0, so no commit waits for a sync of the binary log".into())
            }
            (Some(true), None) => Some("not measurable here: sync_binlog was not read".into()),
            (_, Some(n)) if n > 1 => Some(format!(
                "does not apply: sync_binlog={n}, so only one commit group in {n} waits for a sync of the binary log"
            )),
            _ => None,
        };
        // At 2 a commit waits for a write, which is enough where that is durable.
        let at_commit = reading.setting("innodb_flush_log_at_trx_commit");
        form.why_not_redo = match (at_commit, by_writes) {
            _ if reading.status_is_on("innodb_redo_log_enabled") == Some(false) => {
                Some("does not apply: the redo log is disabled".into())
            }
            (Some(n @ 0), _) | (Some(n @ 2), false) => Some(format!(
                "does not apply: innodb_flush_log_at_trx_commit={n}, so no commit waits for a sync of the redo log"
            )),
            _ => {
                form.waits_for_durable_write = by_writes;
                form.waits_unseen = unseen.is_some();
                unseen
            }
        };
        let is_galera = reading.is_on("wsrep_on") == Some(true)
            || reading.status("wsrep_cluster_status").is_some_and(|status| status == "Primary");
        if is_galera {
            form.notes.push(
                "This is a member of a Galera cluster: a commit also waits for certification, and commits lost in a \
                 crash of this member alone are recovered from the others."
                    .into(),
            );
        }
        form.in_words = form.words();
        form
    }

    fn words(&self) -> String {
        if let Some(why) = self.durable_writes.redo.filter(|_| self.waits_for_durable_write) {
            let unseen = if self.waits_unseen { "; not seen here" } else { "" };
            let write = format!("a write of the redo log that is itself durable ({why}{unseen})");
            return match &self.why_not_binlog {
                None => format!("a commit waits for {write}, then for the binary log's sync"),
                Some(_) => format!("a commit waits only for {write}"),
            };
        }
        match (&self.why_not_redo, &self.why_not_binlog) {
            (None, None) => "each commit group syncs the redo log, then the binary log",
            (None, Some(_)) => "a commit waits for the redo log alone",
            (Some(_), None) => "a commit waits for the binary log's sync alone",
            (Some(_), Some(_)) => "no commit waits for a sync",
        }
        .to_owned()
    }

    /// The log that a commit waits for last.
    pub(crate) fn commits_wait_for(&self) -> Option<Role> {
        if self.why_not_binlog.is_none() {
            return Some(Role::Binlog);
        }
        self.why_not_redo.is_none().then_some(Role::Redo)
    }
}
