//! The throughput of commits one at a time, and why the observed one is higher.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Naive {
    /// 1 / the sum of the mean latencies of the logs that a commit waits for.
    pub ceiling_transactions_per_second: f64,
    /// Observed / ceiling = transactions per group x groups at once.
    pub multiple: f64,
    pub transactions_per_group: f64,
    /// Mean number of groups in their syncs at once: at most 1 per log.
    pub groups_at_once: f64,
}

impl Naive {
    /// `observed` transactions and `groups` of them, per second; `each`: how long a commit waits for its
    /// logs, in seconds. None where one of them is zero.
    pub(in crate::explain) fn of(observed: f64, groups: f64, each: f64) -> Option<Naive> {
        (each > 0.0 && groups > 0.0 && observed > 0.0).then(|| Naive {
            ceiling_transactions_per_second: 1.0 / each,
            multiple: observed * each,
            transactions_per_group: observed / groups,
            groups_at_once: groups * each,
        })
    }

    /// A group has one commit of each session at most: with more, some did not wait, and the audit says so.
    pub(in crate::explain) fn all_may_wait(&self, sessions: Option<u64>) -> bool {
        sessions.is_none_or(|sessions| self.transactions_per_group <= sessions as f64)
    }
}
