//! What a server answered at one moment: its status and its variables, as text by name, and what older ones
//! say only when asked apart. A counter is there or it is not; the version decides nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::client::{Error, Rows, ServerError};
use super::engine_status::EngineStatus;
use super::gtid;
use super::sessions::{self, Sessions};
use crate::model::Server;
use crate::server::asking::identity::same_directory;
use crate::server::asking::{Scope, StatusError};

/// The number of sync calls that performance_schema has for each binary log that is open.
pub(crate) type BinlogFiles = BTreeMap<String, u64>;

#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub began: Instant,
    /// Halfway between the question for the counter of transactions and its answer.
    pub counted: Instant,
    pub ended: Instant,
    pub(crate) status: BTreeMap<String, String>,
    pub(crate) variables: Arc<BTreeMap<String, String>>,
    /// How many transactions the server has ever executed, by their identifiers. MySQL only.
    pub gtids: Option<u64>,
    /// None: no such table, or no right to read it.
    pub binlog_files: Option<BinlogFiles>,
    /// Bytes written, by performance_schema's kind of file. None: as above, or not asked for.
    pub written: Option<BTreeMap<String, u64>>,
    pub engine: Option<EngineStatus>,
    /// Only where they were asked for.
    pub(crate) sessions: Option<Sessions>,
    /// Counters that the account has no privilege to read. Plain sentences.
    pub refused: Vec<String>,
}

const BINLOG_FILES: &str = "SELECT FILE_NAME, COUNT_MISC FROM performance_schema.file_summary_by_instance \
                            WHERE EVENT_NAME = 'wait/io/file/sql/binlog'";
const WRITTEN: &str = "SELECT EVENT_NAME, SUM_NUMBER_OF_BYTES_WRITE FROM performance_schema.file_summary_by_event_name \
                       WHERE SUM_NUMBER_OF_BYTES_WRITE > 0";
/// What asking for something unknown or forbidden is answered with: no right (1044, 1142, 1143, 1227), no
/// such database, table, column or variable (1049, 1146, 1054, 1193).
const NOT_TO_BE_HAD: [u16; 8] = [1044, 1142, 1143, 1227, 1049, 1146, 1054, 1193];
const FORBIDDEN: [u16; 4] = [1044, 1142, 1143, 1227];

impl Reading {
    /// Asks, by way of `query`.
    pub(super) fn ask(
        scope: Scope,
        query: &mut dyn FnMut(&str) -> Result<Rows, Error>,
    ) -> Result<Reading, Error> {
        let began = Instant::now();
        let mut reading = Reading::empty(began);
        if scope == Scope::Nothing {
            query("DO 0")?;
            return Ok(reading);
        }
        if scope == Scope::Sessions {
            reading.sessions = sessions::ask(query, |code| NOT_TO_BE_HAD.contains(&code))?;
            // Who it is.
            reading.variables = Arc::new(table(query("SHOW GLOBAL VARIABLES")?));
            return Ok(reading);
        }
        // Without GLOBAL, this connection's own figures would be mixed in.
        reading.status = table(query("SHOW GLOBAL STATUS")?);
        reading.counted = halfway(began, Instant::now());
        let mut refused = Vec::new();
        let mut allowed = |answer: Result<Rows, Error>, what: &str| match answer {
            Err(Error::Refused(ServerError { code, message, .. })) if NOT_TO_BE_HAD.contains(&code) => {
                if FORBIDDEN.contains(&code) {
                    refused.push(format!("{what}: {message}"));
                }
                Ok(None)
            }
            other => other.map(Some),
        };
        let asked = Instant::now();
        let set = allowed(query("SELECT @@GLOBAL.gtid_executed"), "transactions by identifier")?;
        reading.gtids = set.and_then(first).and_then(|set| gtid::count(&set));
        if reading.gtids.is_some() {
            reading.counted = halfway(asked, Instant::now());
        }
        // MariaDB counts groups, and its performance_schema is off.
        if reading.number("binlog_group_commits").is_none() {
            let what = "the binary log's syncs (SELECT on performance_schema.file_summary_by_instance)";
            let files = allowed(query(BINLOG_FILES), what)?;
            let pair = |row: Vec<String>| Some((row.first()?.clone(), row.get(1)?.parse().ok()?));
            reading.binlog_files = files.map(|rows| rows.into_iter().filter_map(pair).collect());
        }
        if scope == Scope::Writes {
            let what = "bytes written (SELECT on performance_schema.file_summary_by_event_name)";
            let rows = allowed(query(WRITTEN), what)?;
            let pair = |row: Vec<String>| Some((row.first()?.clone(), row.get(1)?.parse().ok()?));
            reading.written = rows.map(|rows| rows.into_iter().filter_map(pair).collect());
        }
        reading.ended = Instant::now();
        if scope == Scope::Everything {
            reading.variables = Arc::new(table(query("SHOW GLOBAL VARIABLES")?));
            if reading.lsn().is_none() || reading.checkpoint_age().is_none() {
                let rows = allowed(query("SHOW ENGINE INNODB STATUS"), "the checkpoint age (PROCESS)")?;
                let text = rows.and_then(|rows| rows.into_iter().next()?.into_iter().nth(2));
                reading.engine = text.map(|text| EngineStatus::parse(&text));
            }
        }
        reading.refused = refused;
        Ok(reading)
    }

    pub(super) fn empty(began: Instant) -> Reading {
        Reading {
            began,
            counted: began,
            ended: began,
            status: BTreeMap::new(),
            variables: Arc::default(),
            gtids: None,
            binlog_files: None,
            written: None,
            engine: None,
            sessions: None,
            refused: Vec::new(),
        }
    }

    /// Out of pairs of names and values; for tests and recordings.
    pub fn from_pairs<'a>(
        status: impl IntoIterator<Item = (&'a str, &'a str)>,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Reading {
        let rows = |pairs: Vec<(&str, &str)>| {
            table(pairs.into_iter().map(|(name, value)| vec![name.to_owned(), value.to_owned()]).collect())
        };
        Reading {
            status: rows(status.into_iter().collect()),
            variables: Arc::new(rows(variables.into_iter().collect())),
            ..Reading::empty(Instant::now())
        }
    }

    /// This reading's counters, with the variables of another one, which asked for them.
    pub(crate) fn with_variables_of(mut self, other: &Reading) -> Reading {
        self.variables = other.variables.clone();
        self
    }

    /// This reading's counters, with all that another one asked for beside counters.
    pub(crate) fn with_rest_of(mut self, other: Reading) -> Reading {
        self.variables = other.variables;
        self.engine = other.engine;
        self.refused = other.refused;
        self
    }

    /// A status value as it is, by its name in lower case.
    pub fn status(&self, name: &str) -> Option<&str> {
        self.status.get(name).map(String::as_str)
    }

    /// A status counter.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.status(name)?.parse().ok()
    }

    /// A system variable as it is, by its name in lower case.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub fn setting(&self, name: &str) -> Option<u64> {
        self.variable(name)?.parse().ok()
    }

    /// ON or OFF, in the several ways that servers write it.
    pub(crate) fn is_on(&self, name: &str) -> Option<bool> {
        on(self.variable(name)?)
    }

    /// The same of a status value.
    pub(crate) fn status_is_on(&self, name: &str) -> Option<bool> {
        on(self.status(name)?)
    }

    /// Statements that changed definitions.
    pub(crate) fn definitions(&self) -> u64 {
        let changes =
            ["alter", "create", "drop", "rename", "truncate", "grant", "revoke", "optimize", "analyze"];
        let is_one = |name: &str| {
            let what = name.strip_prefix("com_");
            what.is_some_and(|what| changes.iter().any(|change| what.starts_with(change)))
        };
        let counters = self.status.iter().filter(|(name, _)| is_one(name));
        counters.filter_map(|(_, value)| value.parse().ok()).fold(0, u64::saturating_add)
    }

    /// Syncs that InnoDB is in at this moment.
    pub(crate) fn pending_syncs(&self) -> u64 {
        let names = ["innodb_data_pending_fsyncs", "innodb_os_log_pending_fsyncs"];
        names.into_iter().filter_map(|name| self.number(name)).fold(0, u64::saturating_add)
    }

    /// Bytes of redo log ever written.
    pub(crate) fn lsn(&self) -> Option<u64> {
        ["innodb_redo_log_current_lsn", "innodb_lsn_current"]
            .into_iter()
            .find_map(|name| self.number(name))
            .or_else(|| self.engine?.lsn)
    }

    /// Bytes of redo log that a crash would have to be recovered from.
    pub fn checkpoint_age(&self) -> Option<u64> {
        if let Some(age) = self.number("innodb_checkpoint_age") {
            return Some(age);
        }
        let since = match self.number("innodb_redo_log_checkpoint_lsn") {
            Some(lsn) => lsn,
            None => self.engine?.checkpoint?,
        };
        self.lsn()?.checked_sub(since)
    }

    /// The server's limit of the checkpoint age, beyond which writers wait.
    pub(crate) fn max_checkpoint_age(&self) -> Option<u64> {
        self.number("innodb_checkpoint_max_age").or_else(|| self.engine?.max_checkpoint_age)
    }

    /// Bytes that the redo log has room for.
    pub fn redo_capacity(&self) -> Option<u64> {
        if let Some(capacity) = self.number("innodb_redo_log_capacity_resized").filter(|&bytes| bytes > 0) {
            return Some(capacity);
        }
        let files = self.setting("innodb_log_files_in_group").unwrap_or(1);
        self.setting("innodb_log_file_size")?.checked_mul(files)
    }

    /// Whether this is the server that is traced, as far as both sides say who they are. The reason if it is
    /// not. Looks into the server's root: not for a hot path.
    pub fn is_of(&self, server: &Server) -> Result<(), StatusError> {
        let other = |what: &str, theirs: &str, ours: String| {
            let text = format!("its {what} is {theirs}, that of process {} is {ours}", server.id.pid);
            Err(StatusError::OtherServer(crate::text::escape_sentence(&text)))
        };
        if let (Some(theirs), Some(ours)) = (self.variable("server_uuid"), &server.known_by.uuid)
            && !theirs.eq_ignore_ascii_case(ours)
        {
            return other("server_uuid", theirs, ours.clone());
        }
        if let (Some(theirs), Some(ours)) = (self.variable("datadir"), &server.datadir)
            && !same_directory(server, Path::new(theirs), ours)
        {
            return other("data directory", theirs, ours.display().to_string());
        }
        if let Some(theirs) = self.setting("port").filter(|_| self.is_on("skip_networking") == Some(false))
            && !server.ports.is_empty()
            && !server.ports.iter().any(|&ours| u64::from(ours) == theirs)
        {
            return other("port", &theirs.to_string(), format!("{:?}", server.ports));
        }
        Ok(())
    }
}

fn on(text: &str) -> Option<bool> {
    match text.to_ascii_uppercase().as_str() {
        "ON" | "1" | "YES" | "TRUE" => Some(true),
        "OFF" | "0" | "NO" | "FALSE" => Some(false),
        _ => None,
    }
}

fn halfway(from: Instant, to: Instant) -> Instant {
    from + to.saturating_duration_since(from) / 2
}

fn first(rows: Rows) -> Option<String> {
    rows.into_iter().next()?.into_iter().next()
}

/// Names in lower case: servers have changed their spelling.
fn table(rows: Rows) -> BTreeMap<String, String> {
    let pair = |row: Vec<String>| {
        let mut columns = row.into_iter();
        Some((columns.next()?.to_ascii_lowercase(), columns.next()?))
    };
    rows.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
