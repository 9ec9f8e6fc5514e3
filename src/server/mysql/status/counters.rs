//! What happened between two readings of one server's counters. A counter that is not there gives nothing,
//! and one that went backwards (a restart, FLUSH STATUS) gives nothing either.

use std::time::Duration;

use super::reading::Reading;
use crate::server::asking::Counted;

/// Threads of the server's own that commit: events, statistics, what purges.
const OWN_THREADS: u64 = 8;

/// Two readings, the earlier one first.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    pub from: &'a Reading,
    pub to: &'a Reading,
}

impl Between<'_> {
    pub fn duration(&self) -> Duration {
        self.to.counted.saturating_duration_since(self.from.counted)
    }

    /// How much a status counter grew.
    pub fn grown(&self, name: &str) -> Option<u64> {
        self.to.number(name)?.checked_sub(self.from.number(name)?)
    }

    /// Why no counter of this interval can be used.
    pub fn interrupted(&self) -> Option<&'static str> {
        let fell = |name: &str| self.from.number(name) > self.to.number(name);
        if fell("uptime") {
            return Some("the server was restarted meanwhile");
        }
        fell("uptime_since_flush_status").then_some("FLUSH STATUS set the server's counters back meanwhile")
    }

    fn counted(&self, name: &'static str, exact: bool) -> Option<Counted> {
        self.grown(name).map(|count| Counted { count, source: name, exact })
    }

    pub(crate) fn has_binlog(&self) -> Option<bool> {
        self.to.is_on("log_bin")
    }

    /// Transactions committed, by the best counter that grew: one of the binary log stands still where its
    /// changes are not logged (sql_log_bin=0, a replica without log_slave_updates).
    pub fn transactions(&self) -> Option<Counted> {
        let counted = self.counted_transactions();
        let stands_still = counted.as_ref().is_some_and(|counted| counted.count == 0);
        if stands_still { self.unlogged_transactions().or(counted) } else { counted }
    }

    /// Each of them changes a row at least; most commits of a server may have changed none.
    fn unlogged_transactions(&self) -> Option<Counted> {
        let sum = |names: [&str; 3]| names.into_iter().map(|name| self.grown(name)).sum::<Option<u64>>();
        let of_innodb = sum(["innodb_rows_inserted", "innodb_rows_updated", "innodb_rows_deleted"]);
        // MariaDB does not have those from 10.6 on, and MySQL counts rows of internal tables in these.
        let rows = of_innodb.or_else(|| sum(["handler_write", "handler_update", "handler_delete"]))?;
        let count = self.grown("handler_commit")?.min(rows);
        let source = "handler_commit; the binary log took none of them";
        (count > 0).then_some(Counted { count, source, exact: false })
    }

    /// Without a binary log only the engine's handler calls tell, which count more than transactions.
    fn counted_transactions(&self) -> Option<Counted> {
        if let Some(counted) = self.counted("binlog_commits", true)
            && self.has_binlog() != Some(false)
        {
            return Some(counted);
        }
        // Without a binary log, a server's own transactions get no identifiers.
        let has_gtids = self.has_binlog() != Some(false)
            && self.to.variable("gtid_mode").is_some_and(|mode| mode.eq_ignore_ascii_case("ON"));
        if has_gtids && let (Some(to), Some(from)) = (self.to.gtids, self.from.gtids) {
            let count = to.checked_sub(from)?;
            return Some(Counted { count, source: "gtid_executed", exact: true });
        }
        if self.has_binlog() == Some(true) {
            let statements = self.grown("binlog_stmt_cache_use").unwrap_or(0);
            let count = self.grown("binlog_cache_use")?.checked_add(statements)?;
            let source = "binlog_cache_use + binlog_stmt_cache_use";
            return Some(Counted { count, source, exact: false });
        }
        // Also counts commits that changed nothing.
        self.counted("handler_commit", false)
    }

    /// How many could commit at a time: those that were connected at the beginning, all that came since, and
    /// the workers of replication.
    pub(crate) fn sessions_at_most(&self) -> Option<u64> {
        let workers = ["replica_parallel_workers", "slave_parallel_workers", "slave_parallel_threads"];
        let workers: u64 = workers.into_iter().filter_map(|name| self.to.setting(name)).max().unwrap_or(0);
        let clients = self.from.number("threads_connected")?.checked_add(self.grown("connections")?)?;
        clients.checked_add(workers)?.checked_add(OWN_THREADS)
    }

    /// Groups of transactions that went to the binary log together. Only MariaDB counts them.
    pub fn commit_groups(&self) -> Option<Counted> {
        self.counted("binlog_group_commits", true)
    }

    /// Sync calls on the redo log.
    pub(crate) fn redo_syncs(&self) -> Option<Counted> {
        self.counted("innodb_os_log_fsyncs", true)
    }

    /// Writes of the redo log. Those that record a checkpoint, and MySQL's to the header of a redo file, are
    /// not among them: measured on MySQL 9.7 and MariaDB 10.11, where the counter was short by one for each
    /// checkpoint.
    pub(crate) fn redo_writes(&self) -> Option<Counted> {
        self.counted("innodb_log_writes", self.is_same_checkpoint())
    }

    fn is_same_checkpoint(&self) -> bool {
        let at = |reading: &Reading| {
            let names = ["innodb_redo_log_checkpoint_lsn", "innodb_lsn_last_checkpoint"];
            names.into_iter().find_map(|name| reading.number(name))
        };
        at(self.to).is_some_and(|to| Some(to) == at(self.from))
    }

    /// Sync calls on files of InnoDB, those on the redo log included, those on directories not.
    pub(crate) fn innodb_syncs(&self) -> Option<Counted> {
        self.counted("innodb_data_fsyncs", true)
    }

    /// Statements that change no rows but definitions. Each is a write of the binary log of its own, and on
    /// MariaDB 10.11 no commit group.
    fn has_ddl(&self) -> bool {
        self.to.definitions() > self.from.definitions()
    }

    /// Sync calls on the binary log. Not exact where another file was begun meanwhile: what begins and ends a
    /// file is counted with its syncs, or not counted as a group.
    pub(crate) fn binlog_syncs(&self) -> Option<Counted> {
        if let Some(groups) = self.commit_groups() {
            let syncs_each = self.to.setting("sync_binlog") == Some(1);
            let same_file =
                self.from.status("binlog_snapshot_file") == self.to.status("binlog_snapshot_file");
            return syncs_each.then_some(Counted { exact: same_file && !self.has_ddl(), ..groups });
        }
        let (from, to) = (self.from.binlog_files.as_ref()?, self.to.binlog_files.as_ref()?);
        let sum = |files: &super::reading::BinlogFiles| {
            files.values().try_fold(0u64, |sum, count| sum.checked_add(*count))
        };
        let exact = from.keys().eq(to.keys());
        // Of a file that is closed, the count goes with it.
        let count = sum(to)?.checked_sub(sum(from)?)?;
        Some(Counted { count, source: "file_summary_by_instance.COUNT_MISC", exact })
    }

    /// Sync calls on Aria's log.
    pub(crate) fn aria_log_syncs(&self) -> Option<Counted> {
        self.counted("aria_transaction_log_syncs", false)
    }

    /// Bytes written to files of one of performance_schema's kinds. None: it counts none, or is off.
    pub(crate) fn written_bytes(&self, event: &str) -> Option<Counted> {
        let of = |reading: &Reading| Some(reading.written.as_ref()?.get(event).copied().unwrap_or(0));
        let count = of(self.to).filter(|&bytes| bytes > 0)?.checked_sub(of(self.from)?)?;
        let source = "file_summary_by_event_name.SUM_NUMBER_OF_BYTES_WRITE";
        Some(Counted { count, source, exact: true })
    }

    /// Bytes of redo log written.
    pub fn redo_bytes(&self) -> Option<u64> {
        self.to.lsn()?.checked_sub(self.from.lsn()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(
        status: &[(&'static str, &'static str)],
        variables: &[(&'static str, &'static str)],
    ) -> Reading {
        Reading::from_pairs(status.iter().copied(), variables.iter().copied())
    }

    fn transactions(from: &Reading, to: &Reading) -> Option<(u64, &'static str, bool)> {
        Between { from, to }.transactions().map(|counted| (counted.count, counted.source, counted.exact))
    }

    #[test]
    fn transactions_come_from_the_best_counter_that_is_there() {
        let mariadb = |n| reading(&[("Binlog_commits", n), ("Handler_commit", "9")], &[("log_bin", "ON")]);
        assert_eq!(transactions(&mariadb("5"), &mariadb("8")), Some((3, "binlog_commits", true)));

        let mysql = |gtids, mode| Reading {
            gtids: Some(gtids),
            ..reading(
                &[("Binlog_cache_use", "4"), ("Binlog_stmt_cache_use", "2")],
                &[("log_bin", "ON"), ("gtid_mode", mode)],
            )
        };
        assert_eq!(transactions(&mysql(10, "ON"), &mysql(17, "ON")), Some((7, "gtid_executed", true)));
        assert!(!transactions(&mysql(10, "OFF"), &mysql(10, "OFF")).unwrap().2);

        let off = |n| Reading {
            gtids: Some(7),
            ..reading(
                &[("Binlog_commits", "0"), ("Handler_commit", n)],
                &[("log_bin", "OFF"), ("gtid_mode", "ON")],
            )
        };
        assert_eq!(transactions(&off("4"), &off("10")), Some((6, "handler_commit", false)));
        assert_eq!(transactions(&reading(&[], &[]), &reading(&[], &[])), None);
    }

    #[test]
    fn changes_that_the_binary_log_does_not_take_are_counted_by_what_grew() {
        let applied = "handler_commit; the binary log took none of them";
        let at = |commits, rows| {
            let status = [
                ("Binlog_commits", "7"),
                ("Handler_commit", commits),
                ("Handler_write", rows),
                ("Handler_update", "5"),
                ("Handler_delete", "5"),
            ];
            reading(&status, &[("log_bin", "ON")])
        };
        assert_eq!(transactions(&at("10", "10"), &at("750", "750")), Some((740, applied, false)));
        // One that only reads commits as well, and several rows are one transaction.
        assert_eq!(transactions(&at("10", "10"), &at("750", "10")), Some((0, "binlog_commits", true)));
        assert_eq!(transactions(&at("10", "10"), &at("20", "990")), Some((10, applied, false)));
        assert_eq!(transactions(&at("10", "10"), &at("750", "12")), Some((2, applied, false)));
        let replica = |commits| Reading {
            gtids: Some(5),
            ..reading(
                &[
                    ("Handler_commit", commits),
                    ("Innodb_rows_inserted", "3"),
                    ("Innodb_rows_updated", commits),
                    ("Innodb_rows_deleted", "3"),
                    ("Handler_write", commits),
                ],
                &[("log_bin", "ON"), ("gtid_mode", "ON")],
            )
        };
        assert_eq!(transactions(&replica("4"), &replica("9")), Some((5, applied, false)));
    }

    #[test]
    fn a_counter_that_went_backwards_gives_nothing() {
        let at = |uptime, syncs| reading(&[("Uptime", uptime), ("Innodb_os_log_fsyncs", syncs)], &[]);
        let (from, to) = (at("100", "50"), at("3", "7"));
        let between = Between { from: &from, to: &to };
        assert_eq!(between.redo_syncs(), None);
        assert_eq!(between.interrupted(), Some("the server was restarted meanwhile"));
        let between = Between { from: &to, to: &from };
        assert_eq!((between.interrupted(), between.redo_syncs().unwrap().count), (None, 43));
    }

    #[test]
    fn a_checkpoint_makes_the_count_of_redo_writes_approximate() {
        for name in ["Innodb_redo_log_checkpoint_lsn", "Innodb_lsn_last_checkpoint"] {
            let at = |writes, lsn| reading(&[("Innodb_log_writes", writes), (name, lsn)], &[]);
            let writes =
                |from, to| Between { from: &from, to: &to }.redo_writes().map(|n| (n.count, n.exact));
            assert_eq!(writes(at("5", "1000"), at("9", "1000")), Some((4, true)));
            assert_eq!(writes(at("5", "1000"), at("9", "1001")), Some((4, false)));
        }
        // Where it is not known when there was one.
        let at = |writes| reading(&[("Innodb_log_writes", writes)], &[]);
        assert!(!Between { from: &at("5"), to: &at("9") }.redo_writes().unwrap().exact);
    }

    #[test]
    fn a_new_binary_log_makes_the_count_approximate() {
        let at = |files: &[(&str, u64)]| Reading {
            binlog_files: Some(files.iter().map(|&(name, n)| (name.to_owned(), n)).collect()),
            ..reading(&[], &[])
        };
        let (a, b, c) = (at(&[("/b.1", 5)]), at(&[("/b.1", 9)]), at(&[("/b.1", 9), ("/b.2", 4)]));
        let syncs =
            |from, to| Between { from, to }.binlog_syncs().map(|counted| (counted.count, counted.exact));
        assert_eq!(syncs(&a, &b), Some((4, true)));
        assert_eq!(syncs(&b, &c), Some((4, false)));

        let mariadb = |n, file| {
            reading(&[("Binlog_group_commits", n), ("Binlog_snapshot_file", file)], &[("sync_binlog", "1")])
        };
        let (a, b, c) = (mariadb("1", "x.1"), mariadb("4", "x.1"), mariadb("6", "x.2"));
        assert_eq!(syncs(&a, &b), Some((3, true)));
        assert_eq!(syncs(&b, &c), Some((2, false)));
        let ddl = |n, statements| {
            let status = [("Binlog_group_commits", n), ("Com_create_table", statements)];
            reading(&status, &[("sync_binlog", "1")])
        };
        let (a, b, c) = (ddl("1", "2"), ddl("5", "2"), ddl("9", "3"));
        assert_eq!(syncs(&a, &b), Some((4, true)));
        assert_eq!(syncs(&b, &c), Some((4, false)));
        let unsynced = |n| reading(&[("Binlog_group_commits", n)], &[("sync_binlog", "0")]);
        assert_eq!(syncs(&unsynced("1"), &unsynced("2")), None);
    }
}
