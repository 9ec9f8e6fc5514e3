//! What a server answered at one moment: counters and settings as text by name. A counter is there or it is
//! not; the version decides nothing. Which views there are is asked first, because a question for one that
//! is not would stand in the server's log as an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::client::{Error, Rows};
use crate::model::{Server, Texts};
use crate::server::asking::identity::same_directory;
use crate::server::asking::told::{Told, chosen};
use crate::server::asking::{Scope, StatusError};

/// A process hands in what it has counted at the end of a transaction, but once a second at most; what is
/// left over then, ten seconds later (PGSTAT_IDLE_INTERVAL in pgstat.c, from PostgreSQL 15 on). One more for
/// a busy host.
pub(crate) const HANDED_IN_SECONDS: u64 = 11;
/// Before this version, what an idle process had left over stayed so until it had something to do.
const HANDS_IN_WHEN_IDLE: u64 = 150_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub began: Instant,
    /// Halfway between the question and its answer.
    pub counted: Instant,
    pub ended: Instant,
    counters: BTreeMap<String, String>,
    settings: Arc<BTreeMap<String, String>>,
}

const VIEWS: &str = "SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace \
                     AND relname IN ('pg_stat_wal', 'pg_stat_io', 'pg_stat_checkpointer', 'pg_stat_bgwriter')";
/// Every column of the views with one row; of pg_stat_io, sums over the kinds of processes; then what tells
/// whether this server is the same and has counted on.
const WAL: &str =
    "SELECT 'pg_stat_wal.' || key, value FROM pg_stat_wal AS one, jsonb_each_text(to_jsonb(one))";
const IO: &str = "SELECT 'pg_stat_io.' || object || '.' || context || '.' || key, sum(value::numeric)::text \
                  FROM pg_stat_io AS many, jsonb_each_text(to_jsonb(many)) \
                  WHERE key IN ('writes', 'write_bytes', 'extends', 'fsyncs') AND value IS NOT NULL GROUP BY 1 \
                  UNION ALL SELECT 'pg_stat_io.stats_reset', max(stats_reset)::text FROM pg_stat_io";
/// Up to PostgreSQL 16 the one, from 17 on the other.
const BGWRITER: &str = "SELECT 'pg_stat_bgwriter.' || key, value FROM pg_stat_bgwriter AS bgwriter, \
                        jsonb_each_text(to_jsonb(bgwriter)) WHERE key LIKE 'checkpoints%'";
const CHECKPOINTER: &str = "SELECT 'pg_stat_checkpointer.' || key, value FROM pg_stat_checkpointer AS checkpointer, \
                            jsonb_each_text(to_jsonb(checkpointer)) WHERE key LIKE 'num%' OR key = 'restartpoints_done'";
/// `transactions`: a number is given to each that writes, and to subtransactions of those; one that has
/// completed is below it.
///
/// `at_work`: processes that were so within the time that it may take them to hand in what they counted. Of a
/// session that the role may not look at, no type is shown either: then it may be at work, and for long. The
/// server's own processes hand in theirs each time that they go round.
const ALWAYS: &str = "SELECT 'started', extract(epoch from pg_postmaster_start_time())::text \
     UNION ALL SELECT 'transactions', txid_snapshot_xmax(txid_current_snapshot())::text \
     UNION ALL SELECT 'in_recovery', pg_is_in_recovery()::text \
     UNION ALL SELECT 'clients', CASE WHEN bool_or(backend_type IS NULL) THEN NULL \
         ELSE (count(*) FILTER (WHERE backend_type = 'client backend'))::text END \
         FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
     UNION ALL SELECT 'sessions', sum((to_jsonb(one) ->> 'sessions')::bigint)::text FROM pg_stat_database AS one \
     UNION ALL SELECT 'at_work', count(*)::text FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
         AND (backend_type IS NULL OR backend_type NOT IN ('archiver', 'autovacuum launcher', 'background writer', \
                'checkpointer', 'io worker', 'logical replication launcher', 'slotsync worker', 'startup', 'walreceiver', \
                'walsender', 'walsummarizer', 'walwriter') \
              AND (coalesce(state, 'idle') <> 'idle' OR xact_start IS NOT NULL \
                   OR coalesce(state_change, backend_start) > clock_timestamp() - interval '11 s')) \
     UNION ALL SELECT 'oldest_transaction', CASE WHEN bool_or(backend_type IS NULL) THEN NULL \
         ELSE coalesce(max(ceil(extract(epoch from clock_timestamp() - xact_start))), 0)::text END \
         FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
/// How the log is made durable, and which server it is. Others may not be read by every role.
const SETTINGS: &str = "SELECT name, CASE name WHEN 'commit_delay' THEN setting ELSE current_setting(name) END \
     FROM pg_settings WHERE name IN ('commit_delay', 'commit_siblings', 'data_directory', 'data_sync_retry', 'fsync', \
     'full_page_writes', 'listen_addresses', 'port', 'server_version_num', 'synchronous_commit', \
     'synchronous_standby_names', 'wal_sync_method')";

/// Asks, by way of `query`. `views`: those that the server has, once that is known.
pub(super) fn ask(
    scope: Scope,
    views: &mut Option<BTreeSet<String>>,
    query: &mut dyn FnMut(&str) -> Result<Rows, Error>,
) -> Result<Reading, Error> {
    let began = Instant::now();
    let mut reading = Reading::empty(began);
    if scope == Scope::Nothing {
        query("SELECT 1")?;
        return Ok(reading);
    }
    let views = match views {
        Some(views) => views,
        unknown => unknown.insert(query(VIEWS)?.into_iter().flatten().collect()),
    };
    let optional = [
        ("pg_stat_wal", WAL),
        ("pg_stat_io", IO),
        ("pg_stat_bgwriter", BGWRITER),
        ("pg_stat_checkpointer", CHECKPOINTER),
    ];
    let there = optional.into_iter().filter(|(view, _)| views.contains(*view)).map(|(_, question)| question);
    let question = there.chain([ALWAYS]).collect::<Vec<_>>().join(" UNION ALL ");
    let asked = Instant::now();
    reading.counters = table(query(&question)?);
    reading.ended = Instant::now();
    reading.counted = asked + reading.ended.saturating_duration_since(asked) / 2;
    if scope == Scope::Everything {
        reading.settings = Arc::new(table(query(SETTINGS)?));
    }
    Ok(reading)
}

fn table(rows: Rows) -> BTreeMap<String, String> {
    let pair = |row: Vec<String>| <[String; 2]>::try_from(row).ok().map(|[name, value]| (name, value));
    rows.into_iter().filter_map(pair).collect()
}

impl Reading {
    fn empty(began: Instant) -> Reading {
        Reading { began, counted: began, ended: began, counters: BTreeMap::new(), settings: Arc::default() }
    }

    /// Out of pairs of names and values; for tests and recordings.
    pub fn from_pairs<'a>(
        counters: impl IntoIterator<Item = (&'a str, &'a str)>,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Reading {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Reading {
            counters: counters.into_iter().map(owned).collect(),
            settings: Arc::new(settings.into_iter().map(owned).collect()),
            ..Reading::empty(Instant::now())
        }
    }

    /// This reading's counters, with the settings of another one, which asked for them.
    pub(crate) fn with_settings_of(mut self, other: &Reading) -> Reading {
        self.settings = other.settings.clone();
        self
    }

    /// A counter as it is, by its view and its name: "pg_stat_wal.wal_sync".
    pub fn text(&self, name: &str) -> Option<&str> {
        self.counters.get(name).map(String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// A setting, with its unit where it has one.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// It replays what another server wrote.
    pub(crate) fn is_standby(&self) -> bool {
        self.text("in_recovery") == Some("true")
    }

    /// Client backends, without the one that asked.
    pub(crate) fn clients(&self) -> Option<u64> {
        self.number("clients")
    }

    /// No process still has anything to hand in of what it has counted.
    pub(crate) fn is_settled(&self) -> bool {
        self.number("at_work") == Some(0)
    }

    /// How long, in seconds, something may have been counted before it is to be seen here. None: nobody
    /// knows.
    pub(crate) fn hands_in_within(&self) -> Option<u64> {
        let version: u64 = self.setting("server_version_num")?.parse().ok()?;
        let oldest = self.number("oldest_transaction")?;
        // A transaction that begins just before puts it off until it ends.
        (version >= HANDS_IN_WHEN_IDLE).then(|| HANDED_IN_SECONDS.saturating_add(oldest))
    }

    /// Whether this is the server that is traced, as far as both sides say who they are. The reason if it is
    /// not. A local socket has been asked before. Looks into the server's root: not for a hot path.
    pub fn is_of(&self, server: &Server) -> Result<(), StatusError> {
        let other = |what: &str, theirs: &str, ours: String| {
            let text = format!("its {what} is {theirs}, that of process {} is {ours}", server.id.pid);
            Err(StatusError::OtherServer(crate::text::escape_sentence(&text)))
        };
        if let (Some(theirs), Some(ours)) = (self.setting("data_directory"), &server.datadir)
            && !same_directory(server, Path::new(theirs), ours)
        {
            return other("data directory", theirs, ours.display().to_string());
        }
        if let Some(theirs) = self.setting("port")
            && self.setting("listen_addresses") != Some("")
            && !server.ports.is_empty()
            && !server.ports.iter().any(|&ours| theirs.parse() == Ok(ours))
        {
            return other("port", theirs, format!("{:?}", server.ports));
        }
        Ok(())
    }
}

impl Told for Reading {
    const ASKS_FOR_ALL: bool = true;

    fn counters(&self) -> Texts {
        chosen(&self.counters, |_| true)
    }

    fn settings(&self) -> Texts {
        chosen(&*self.settings, |_| true)
    }

    fn of_told(counters: &Texts, settings: &Texts) -> Reading {
        Reading {
            counters: counters.clone(),
            settings: Arc::new(settings.clone()),
            ..Reading::empty(Instant::now())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServerId;

    /// Answers like a server that has these views.
    fn asked(scope: Scope, has: &[&str]) -> (Reading, Vec<String>) {
        let mut questions = Vec::new();
        let rows = |rows: &[[&str; 2]]| rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let mut query = |question: &str| {
            questions.push(question.to_owned());
            Ok(match question {
                VIEWS => has.iter().map(|&view| vec![view.to_owned()]).collect(),
                SETTINGS => rows(&[["fsync", "on"], ["server_version_num", "150014"]]),
                _ => rows(&[["pg_stat_wal.wal_sync", "7"], ["at_work", "0"], ["oldest_transaction", "40"]]),
            })
        };
        let mut views = None;
        ask(scope, &mut views, &mut query).unwrap();
        let reading = ask(scope, &mut views, &mut query).unwrap();
        (reading, questions)
    }

    #[test]
    fn only_views_that_are_there_are_asked_for_and_that_once() {
        let (reading, questions) = asked(Scope::Syncs, &["pg_stat_wal"]);
        assert_eq!(questions.iter().filter(|question| *question == VIEWS).count(), 1);
        let last = questions.last().unwrap();
        assert!(last.contains("FROM pg_stat_wal") && !last.contains("pg_stat_io"), "{last}");
        assert_eq!((reading.number("pg_stat_wal.wal_sync"), reading.setting("fsync")), (Some(7), None));
        let (reading, questions) = asked(Scope::Everything, &["pg_stat_wal", "pg_stat_io"]);
        assert!(questions[1].contains("FROM pg_stat_io"));
        assert_eq!(reading.setting("fsync"), Some("on"));
        assert!(reading.is_settled());
        assert_eq!(reading.hands_in_within(), Some(51), "and as long as the oldest transaction lasts");
    }

    #[test]
    fn before_version_15_nobody_knows_when_counters_are_handed_in() {
        let of = |version, oldest| {
            let reading =
                Reading::from_pairs([("oldest_transaction", oldest)], [("server_version_num", version)]);
            reading.hands_in_within()
        };
        assert_eq!(
            (of("140010", "0"), of("150000", "0"), of("170002", "3600")),
            (None, Some(11), Some(3611))
        );
        assert!(!Reading::from_pairs([("at_work", "1")], []).is_settled());
    }

    #[test]
    fn another_server_is_told_by_its_directory_or_its_port() {
        let mut server = Server::new(ServerId { pid: std::process::id(), start_ns: 1 }, "postgres".into());
        server.datadir = Some("/var/lib/postgresql".into());
        server.ports = vec![5433];
        let is_of = |settings: &[(&'static str, &'static str)]| {
            Reading::from_pairs([], settings.iter().copied())
                .is_of(&server)
                .map_err(|error| error.to_string())
        };
        assert_eq!(is_of(&[]), Ok(()));
        assert_eq!(is_of(&[("data_directory", "/var/lib/postgresql/"), ("port", "5433")]), Ok(()));
        assert!(is_of(&[("data_directory", "/elsewhere")]).unwrap_err().contains("/elsewhere"));
        assert!(is_of(&[("port", "5432")]).unwrap_err().contains("its port is 5432"));
        assert_eq!(is_of(&[("port", "5432"), ("listen_addresses", "")]), Ok(()));
    }
}
