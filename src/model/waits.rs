//! What syncs waited for, where that is watched.

use std::sync::Arc;

use super::{Committer, Op, Phase, Role, Row, ServerId, Table};

/// Functions of the kernel, outermost first; none: not known.
pub type Stack = Arc<[String]>;

/// A stack has no more frames, and a function no longer name (bytes).
pub(crate) const MAX_FRAMES: usize = 64;
pub(crate) const MAX_NAME: usize = 128;

/// Time of one server's syncs of one role by one operation: of one phase at one stack, or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    pub server: ServerId,
    pub role: Role,
    pub op: Op,
    /// None: from begin to end of the calls, which is what the phases add up to.
    pub phase: Option<Phase>,
    pub stack: Stack,
    pub ns: u64,
    /// What the filesystem's committer did meanwhile, by its state; all zero: there is no second level.
    pub under: [u64; Committer::ALL.len()],
}

impl Row for WaitRow {
    type Key = (ServerId, Role, Op, Option<Phase>, Stack);

    fn key(&self) -> Self::Key {
        (self.server, self.role, self.op, self.phase, self.stack.clone())
    }

    fn add(&mut self, other: Self) {
        self.ns = self.ns.saturating_add(other.ns);
        for (sum, ns) in self.under.iter_mut().zip(other.under) {
            *sum = sum.saturating_add(ns);
        }
    }
}

/// The difference of two totals. A row that only `earlier` has became one of those that have ended.
pub(crate) fn waits_between(earlier: &Table<WaitRow>, later: &Table<WaitRow>) -> Table<WaitRow> {
    let is_there = |row: &&WaitRow| later.binary_search_by_key(&row.key(), Row::key).is_ok();
    let (same, gone): (Vec<_>, Vec<_>) = earlier.iter().partition(is_there);
    let inherited = gone.into_iter().map(|row| WaitRow { server: ServerId::ENDED, ..row.clone() });
    let before: Table<WaitRow> = same.into_iter().cloned().chain(inherited).collect();
    let since = |row: &WaitRow| {
        let mut row = row.clone();
        if let Ok(at) = before.binary_search_by_key(&row.key(), Row::key) {
            row.ns = row.ns.saturating_sub(before[at].ns);
            row.under = std::array::from_fn(|i| row.under[i].saturating_sub(before[at].under[i]));
        }
        row
    };
    later.iter().map(since).filter(|row| row.ns > 0 || row.under.iter().any(|ns| *ns > 0)).collect()
}

/// What of the waits could not be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitLosses {
    /// Waits whose stack is unknown.
    pub stacks: u64,
    /// Waits not attributed to a file: they are counted by operation.
    pub waits: u64,
    /// Waits that were not recorded at all.
    pub unplaced: u64,
    pub unplaced_ns: u64,
    /// jbd2 handles whose process is unknown (map full).
    pub writers: u64,
    /// Runs of the scheduler's hooks that the kernel skipped.
    pub skipped: u64,
    /// Syncs whose waits are unknown.
    pub syncs: u64,
}

impl WaitLosses {
    pub(super) fn since(&self, earlier: &WaitLosses) -> WaitLosses {
        self.with(earlier, u64::saturating_sub)
    }

    pub(super) fn plus(&self, other: &WaitLosses) -> WaitLosses {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &WaitLosses, f: fn(u64, u64) -> u64) -> WaitLosses {
        WaitLosses {
            stacks: f(self.stacks, other.stacks),
            waits: f(self.waits, other.waits),
            unplaced: f(self.unplaced, other.unplaced),
            unplaced_ns: f(self.unplaced_ns, other.unplaced_ns),
            writers: f(self.writers, other.writers),
            skipped: f(self.skipped, other.skipped),
            syncs: f(self.syncs, other.syncs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MARIADB, MYSQL};

    fn row(server: ServerId, frame: &str, ns: u64) -> WaitRow {
        let stack = [frame.to_owned()].into();
        let mut under = [0; Committer::ALL.len()];
        under[Committer::Flush as usize] = ns / 2;
        WaitRow {
            server,
            role: Role::Redo,
            op: Op::Fsync,
            phase: Some(Phase::JournalCommit),
            stack,
            ns,
            under,
        }
    }

    #[test]
    fn only_what_is_new_is_in_the_difference_also_where_a_server_was_forgotten() {
        let earlier = vec![row(MYSQL, "a", 100), row(MYSQL, "b", 40), row(MARIADB, "a", 10)].into();
        let later = vec![
            row(MYSQL, "a", 160),
            row(MYSQL, "b", 40),
            row(MYSQL, "c", 6),
            row(ServerId::ENDED, "a", 18),
        ];
        let new = waits_between(&earlier, &later.into());
        assert_eq!(new, [row(ServerId::ENDED, "a", 8), row(MYSQL, "a", 60), row(MYSQL, "c", 6)]);
        assert_eq!(waits_between(&earlier, &earlier), []);
    }
}
