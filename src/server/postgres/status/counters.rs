//! What happened between two readings of one server's counters. A counter that is not there gives nothing,
//! and one that went backwards (a restart, pg_stat_reset_shared) gives nothing either.

use std::time::Duration;

use super::reading::Reading;
use crate::server::asking::Counted;

/// Processes of the server's own that commit: workers of autovacuum and of subscriptions.
const OWN_PROCESSES: u64 = 8;

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

    /// How much a counter grew.
    pub fn grown(&self, name: &str) -> Option<u64> {
        self.to.number(name)?.checked_sub(self.from.number(name)?)
    }

    /// Why no counter of this interval can be used.
    pub fn interrupted(&self) -> Option<&'static str> {
        let changed = |name: &str| {
            let texts = self.from.text(name).zip(self.to.text(name));
            texts.is_some_and(|(from, to)| from != to)
        };
        if changed("started") {
            return Some("the server was restarted meanwhile");
        }
        let is_of_wal = self.to.text("pg_stat_wal.wal_sync").is_some();
        changed(if is_of_wal { "pg_stat_wal.stats_reset" } else { "pg_stat_io.stats_reset" })
            .then_some("pg_stat_reset_shared set the server's counters back meanwhile")
    }

    /// Transactions that wrote, those that were rolled back and subtransactions included.
    pub fn transactions(&self) -> Option<Counted> {
        let counted = self.grown("transactions").filter(|_| !self.is_of_standby());
        counted.map(|count| Counted { count, source: "transaction IDs", exact: false })
    }

    /// How many could commit at a time: those that were connected at the beginning, all that came since, and
    /// some of the server's own. None before PostgreSQL 14, which does not count who comes.
    pub(crate) fn sessions_at_most(&self) -> Option<u64> {
        let came = self.grown("sessions")?;
        // One that came just before may not be counted there yet.
        let clients = self.from.clients()?.checked_add(came)?.max(self.to.clients()?);
        clients.checked_add(OWN_PROCESSES)
    }

    /// At either end: it may have been promoted meanwhile.
    pub(crate) fn is_of_standby(&self) -> bool {
        self.from.is_standby() || self.to.is_standby()
    }

    /// On a standby, restartpoints. Those that were completed, or before PostgreSQL 18 those that were due:
    /// with them those that were skipped because nothing had been written.
    pub fn checkpoints(&self) -> Option<u64> {
        if self.to.text("pg_stat_checkpointer.restartpoints_done").is_some() && self.to.is_standby() {
            return self.grown("pg_stat_checkpointer.restartpoints_done");
        }
        let sum = |names: [&str; 2]| {
            let [timed, asked] = names.map(|name| self.grown(name));
            timed?.checked_add(asked?)
        };
        self.grown("pg_stat_checkpointer.num_done")
            .or_else(|| sum(["pg_stat_checkpointer.num_timed", "pg_stat_checkpointer.num_requested"]))
            .or_else(|| sum(["pg_stat_bgwriter.checkpoints_timed", "pg_stat_bgwriter.checkpoints_req"]))
    }

    /// The first of these counters that is there.
    fn first(&self, names: [&'static str; 2]) -> Option<Counted> {
        let counted = |name| self.grown(name).map(|count| Counted { count, source: name, exact: true });
        names.into_iter().find_map(counted)
    }

    /// Calls that synced the write-ahead log. From PostgreSQL 18 on they are counted with all other input and
    /// output; those that make a file of the log are in a context of their own there ("init"), and were not
    /// counted before.
    pub fn wal_syncs(&self) -> Option<Counted> {
        self.first(["pg_stat_wal.wal_sync", "pg_stat_io.wal.normal.fsyncs"])
    }

    /// Calls that wrote it.
    pub fn wal_writes(&self) -> Option<Counted> {
        self.first(["pg_stat_wal.wal_write", "pg_stat_io.wal.normal.writes"])
    }

    /// Syncs of tables and indexes, and of what belongs to them: from PostgreSQL 16 on.
    pub fn relation_syncs(&self) -> Option<Counted> {
        let counted = self.grown("pg_stat_io.relation.normal.fsyncs");
        counted.map(|count| Counted { count, source: "pg_stat_io.relation.normal.fsyncs", exact: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(counters: &[(&'static str, &'static str)]) -> Reading {
        Reading::from_pairs(counters.iter().copied(), [])
    }

    #[test]
    fn counters_that_were_set_back_are_noticed_where_the_version_has_them() {
        let of = |from: &[_], to: &[_]| {
            let (from, to) = (reading(from), reading(to));
            Between { from: &from, to: &to }.interrupted().is_some()
        };
        let (wal, io) = (("pg_stat_wal.wal_sync", "4"), ("pg_stat_io.wal.normal.fsyncs", "4"));
        let reset = |of: &'static str, at| (of, at);
        let (of_wal, of_io) = ("pg_stat_wal.stats_reset", "pg_stat_io.stats_reset");
        assert!(of(&[wal, reset(of_wal, "1")], &[wal, reset(of_wal, "2")]));
        assert!(of(&[io, reset(of_io, "1")], &[io, reset(of_io, "2")]));
        assert!(!of(&[wal, reset(of_io, "1")], &[wal, reset(of_io, "2")]), "they are counted elsewhere");
        assert!(!of(&[io, reset(of_io, "1")], &[io, reset(of_io, "1")]));
    }

    #[test]
    fn syncs_of_the_log_are_counted_where_the_version_has_them() {
        let of = |from: &[_], to: &[_]| {
            let (from, to) = (reading(from), reading(to));
            Between { from: &from, to: &to }.wal_syncs().map(|counted| (counted.count, counted.source))
        };
        assert_eq!(
            of(&[("pg_stat_wal.wal_sync", "4")], &[("pg_stat_wal.wal_sync", "9")]),
            Some((5, "pg_stat_wal.wal_sync"))
        );
        let new = "pg_stat_io.wal.normal.fsyncs";
        assert_eq!(of(&[(new, "4")], &[(new, "6"), ("pg_stat_io.wal.init.fsyncs", "9")]), Some((2, new)));
        assert_eq!(of(&[], &[]), None);
    }

    #[test]
    fn a_counter_that_was_set_back_gives_nothing() {
        let at = |started, reset, syncs| {
            reading(&[
                ("started", started),
                ("pg_stat_wal.stats_reset", reset),
                ("pg_stat_wal.wal_sync", syncs),
            ])
        };
        let interrupted = |from: &Reading, to: &Reading| Between { from, to }.interrupted();
        let (first, reset, restarted) = (at("1.5", "a", "50"), at("1.5", "b", "7"), at("2.5", "b", "60"));
        assert_eq!(Between { from: &first, to: &reset }.wal_syncs(), None);
        assert!(interrupted(&first, &reset).unwrap().contains("pg_stat_reset_shared"));
        assert_eq!(interrupted(&first, &restarted), Some("the server was restarted meanwhile"));
        assert_eq!(interrupted(&first, &first), None);
    }
}
