//! What is traced of MySQL and MariaDB, and what they count themselves.

pub mod compare;
mod redo_made;
mod written;

use super::edge::Counts;
use crate::server::mysql::durable_writes::DurableWrites;
use crate::server::mysql::status::reading::Reading;

type Edge = super::Edge<Reading>;

impl Counts for Reading {
    fn with_settings_of(self, other: &Reading) -> Reading {
        self.with_variables_of(other)
    }

    /// By how much the counters of what is compared grew from one reading to the next.
    fn moved(from: &Reading, to: &Reading) -> u64 {
        let writes = DurableWrites::by_settings(to).redo.map(|_| "innodb_log_writes");
        let numbers: u64 =
            ["innodb_data_fsyncs", "binlog_group_commits", "binlog_cache_use", "aria_transaction_log_syncs"]
                .into_iter()
                .chain(writes)
                .filter_map(|name| to.number(name)?.checked_sub(from.number(name)?))
                .sum();
        let sum =
            |reading: &Reading| reading.binlog_files.iter().flat_map(|files| files.values()).sum::<u64>();
        let written =
            |reading: &Reading| reading.written.iter().flat_map(|kinds| kinds.values()).sum::<u64>();
        numbers + sum(to).abs_diff(sum(from)) + written(to).abs_diff(written(from))
    }

    fn pending_syncs(&self) -> u64 {
        Reading::pending_syncs(self)
    }
}
