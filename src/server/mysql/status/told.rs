//! Which of a MySQL's or MariaDB's many counters and settings a recording keeps: those that are compared with
//! what is traced, and those that say what its writing hangs on.

use std::sync::Arc;
use std::time::Instant;

use super::engine_status::EngineStatus;
use super::reading::Reading;
use crate::model::Texts;
use crate::server::asking::told::{Told, chosen};

/// Beginnings of names of status variables.
const COUNTERS: [&str; 29] = [
    "aria_transaction_log_syncs",
    "binlog_",
    "connections",
    "handler_commit",
    "handler_delete",
    "handler_update",
    "handler_write",
    "innodb_buffer_pool_bytes_",
    "innodb_buffer_pool_pages_",
    "innodb_buffer_pool_read",
    "innodb_buffer_pool_wait_free",
    "innodb_checkpoint_",
    "innodb_data_",
    "innodb_dblwr_",
    "innodb_log_",
    "innodb_lsn_",
    "innodb_os_log_",
    "innodb_page_size",
    "innodb_pages_",
    "innodb_redo_log_",
    "innodb_rows_deleted",
    "innodb_rows_inserted",
    "innodb_rows_read",
    "innodb_rows_updated",
    "questions",
    "slow_queries",
    "threads_connected",
    "threads_running",
    "uptime",
];
/// The same of system variables.
const SETTINGS: [&str; 14] = [
    "aria_",
    "binlog_",
    "datadir",
    "gtid_mode",
    "innodb_",
    "log_bin",
    "log_replica_updates",
    "log_slave_updates",
    "max_connections",
    "replica_parallel_",
    "slave_parallel_",
    "sync_",
    "transaction_isolation",
    "version",
];
/// Statements that change definitions have some sixty counters, of which only the sum is of use.
const DEFINITIONS: &str = "com_alter_and_other_definitions";
const GTIDS: &str = "gtid_executed";
const BINLOG_FILE: &str = "binlog_file:";
const WRITTEN: &str = "written:";
/// Binary logs that are open, or kinds of files.
const MAX_FILES: usize = 64;
const ENGINE: [&str; 3] = ["engine_lsn", "engine_checkpoint", "engine_max_checkpoint_age"];

fn has_one(names: &[&str], name: &str) -> bool {
    names.iter().any(|begin| name.starts_with(begin))
}

impl Told for Reading {
    const ASKS_FOR_ALL: bool = false;

    fn counters(&self) -> Texts {
        // It is a number that names the instance.
        let is_wanted = |name: &str| has_one(&COUNTERS, name) && name != "innodb_redo_log_uuid";
        let mut counters = chosen(&self.status, is_wanted);
        let mut add = |name: String, number: u64| drop(counters.insert(name, number.to_string()));
        add(DEFINITIONS.into(), self.definitions());
        self.gtids.into_iter().for_each(|number| add(GTIDS.into(), number));
        for (name, number) in self.binlog_files.iter().flatten().take(MAX_FILES) {
            add(format!("{BINLOG_FILE}{name}"), *number);
        }
        for (name, number) in self.written.iter().flatten().take(MAX_FILES) {
            add(format!("{WRITTEN}{name}"), *number);
        }
        let engine = self.engine.unwrap_or_default();
        let engine = [engine.lsn, engine.checkpoint, engine.max_checkpoint_age];
        for (name, number) in ENGINE.into_iter().zip(engine) {
            number.into_iter().for_each(|number| add(name.into(), number));
        }
        counters
    }

    fn settings(&self) -> Texts {
        chosen(&*self.variables, |name| has_one(&SETTINGS, name))
    }

    fn of_told(counters: &Texts, settings: &Texts) -> Reading {
        let number = |name: &str| counters.get(name)?.parse().ok();
        let by_name = |prefix: &str| {
            let named = counters.iter().filter_map(|(name, value)| {
                Some((name.strip_prefix(prefix)?.to_owned(), value.parse::<u64>().ok()?))
            });
            Some(named.collect()).filter(|all: &std::collections::BTreeMap<_, _>| !all.is_empty())
        };
        let [lsn, checkpoint, max_checkpoint_age] = ENGINE.map(number);
        let has_engine = [lsn, checkpoint, max_checkpoint_age].iter().any(Option::is_some);
        Reading {
            status: counters.clone(),
            variables: Arc::new(settings.clone()),
            gtids: number(GTIDS),
            binlog_files: by_name(BINLOG_FILE),
            written: by_name(WRITTEN),
            engine: has_engine.then_some(EngineStatus { lsn, checkpoint, max_checkpoint_age }),
            ..Reading::empty(Instant::now())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::mysql::status::counters::Between;

    #[test]
    fn a_reading_that_was_recorded_says_of_syncs_and_transactions_what_it_said() {
        let at = |n: &'static str, ddl: &'static str| Reading {
            gtids: Some(7),
            binlog_files: Some([("/b.1".to_owned(), 5)].into()),
            written: Some([("wait/io/file/innodb/innodb_data_file".to_owned(), 16_384)].into()),
            engine: Some(EngineStatus { lsn: Some(99), checkpoint: None, max_checkpoint_age: None }),
            ..Reading::from_pairs(
                [
                    ("Binlog_group_commits", n),
                    ("Innodb_os_log_fsyncs", n),
                    ("Innodb_data_fsyncs", n),
                    ("Com_create_table", ddl),
                    ("Com_select", "9"),
                    ("Binlog_snapshot_file", "b.1"),
                    ("Ssl_session_cache_mode", "NONE"),
                ],
                [("sync_binlog", "1"), ("log_bin", "ON"), ("general_log", "ON")],
            )
        };
        let again = |reading: &Reading| Reading::of_told(&reading.counters(), &reading.settings());
        for (ddl, exact) in [("3", true), ("4", false)] {
            let (from, to) = (at("10", "3"), at("25", ddl));
            let (from_told, to_told) = (again(&from), again(&to));
            let live = Between { from: &from, to: &to };
            let told = Between { from: &from_told, to: &to_told };
            assert_eq!(told.binlog_syncs(), live.binlog_syncs());
            assert_eq!(told.binlog_syncs().map(|counted| (counted.count, counted.exact)), Some((15, exact)));
            assert_eq!(told.redo_syncs(), live.redo_syncs());
            assert_eq!((to_told.gtids, to_told.lsn()), (to.gtids, to.lsn()));
            assert_eq!((&to_told.written, &to_told.binlog_files), (&to.written, &to.binlog_files));
        }
        let told = at("1", "1").counters();
        assert!(!told.contains_key("ssl_session_cache_mode") && !told.contains_key("com_select"), "{told:?}");
        assert_eq!(at("1", "1").settings().len(), 2);
    }
}
